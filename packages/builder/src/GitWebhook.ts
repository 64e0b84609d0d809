/**
 * Webhooks from Git hosts: checks signatures, and reads what happened. Pure.
 *
 * | host | signature | event |
 * |---|---|---|
 * | GitHub | `X-Hub-Signature-256: sha256=HMAC` of the body | `X-GitHub-Event` |
 * | Gitea, Forgejo | `X-Gitea-Signature: HMAC` of the body | `X-Gitea-Event` |
 * | GitLab | `X-Gitlab-Token`: the secret itself | `X-Gitlab-Event` |
 */
import type { BuildSettings } from "@stint/contract/Build"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { createHmac, timingSafeEqual } from "node:crypto"

/** The headers of a request, with names in lower case. */
type Headers = Readonly<Record<string, string | undefined>>

/** What happened in the repository. */
export type GitEvent =
  | {
    readonly _tag: "Push"
    readonly host: string
    readonly branch: string
    readonly isDefault: boolean
    readonly commit: string
  }
  | { readonly _tag: "Release"; readonly host: string; readonly tag: string }
  /** An event that starts no build. */
  | { readonly _tag: "Other"; readonly host: string; readonly reason: string }

const hostOf = (headers: Headers): "GitHub" | "Gitea" | "GitLab" | undefined =>
  // Gitea also sends the headers of GitHub.
  headers["x-gitea-event"] !== undefined
    ? "Gitea"
    : headers["x-gitlab-event"] !== undefined
    ? "GitLab"
    : headers["x-github-event"] !== undefined
    ? "GitHub"
    : undefined

/** Compares in constant time. */
const isSame = (given: string, expected: string): boolean => {
  const digest = (text: string) => createHmac("sha256", "compare").update(text).digest()
  return timingSafeEqual(digest(given), digest(expected))
}

/** Whether the request was sent by a host that knows the secret. */
export const isSigned = (headers: Headers, body: string, secret: string): boolean => {
  const hmac = () => createHmac("sha256", secret).update(body).digest("hex")
  switch (hostOf(headers)) {
    case "GitHub":
      return isSame(headers["x-hub-signature-256"] ?? "", `sha256=${hmac()}`)
    case "Gitea":
      return isSame(headers["x-gitea-signature"] ?? "", hmac())
    case "GitLab":
      return isSame(headers["x-gitlab-token"] ?? "", secret)
    case undefined:
      return false
  }
}

const decodePush = Schema.decodeUnknownOption(Schema.Struct({
  ref: Schema.String,
  after: Schema.String,
  deleted: Schema.optionalKey(Schema.Boolean),
  repository: Schema.optionalKey(Schema.Struct({ default_branch: Schema.optionalKey(Schema.String) })),
  project: Schema.optionalKey(Schema.Struct({ default_branch: Schema.optionalKey(Schema.String) }))
}))

const decodeRelease = Schema.decodeUnknownOption(Schema.Struct({
  action: Schema.String,
  release: Schema.Struct({ tag_name: Schema.String, draft: Schema.optionalKey(Schema.Boolean) })
}))

const decodeGitLabRelease = Schema.decodeUnknownOption(Schema.Struct({ action: Schema.String, tag: Schema.String }))

const BRANCH = "refs/heads/"

const isDeleted = (commit: string): boolean => /^0+$/.test(commit)

/** Reads the event. `body` is the parsed JSON. Undefined if the request is not from a known host. */
export const read = (headers: Headers, body: unknown): GitEvent | undefined => {
  const host = hostOf(headers)
  if (host === undefined) return undefined
  const event = (headers["x-gitea-event"] ?? headers["x-gitlab-event"] ?? headers["x-github-event"] ?? "").toLowerCase().replace(
    / hook$/,
    ""
  )
  const other = (reason: string): GitEvent => ({ _tag: "Other", host, reason })
  if (event === "push") {
    const push = Option.getOrUndefined(decodePush(body))
    if (push === undefined) return other("The push has no `ref` and `after`.")
    if (!push.ref.startsWith(BRANCH)) {
      return other(`${push.ref} is not a branch. Only pushes to branches and releases start builds.`)
    }
    const branch = push.ref.slice(BRANCH.length)
    if (push.deleted === true || isDeleted(push.after)) return other(`The branch ${branch} was deleted.`)
    const isDefault = branch === (push.repository?.default_branch ?? push.project?.default_branch)
    return { _tag: "Push", host, branch, isDefault, commit: push.after }
  }
  if (event === "release") {
    if (host === "GitLab") {
      const release = Option.getOrUndefined(decodeGitLabRelease(body))
      return release?.action === "create"
        ? { _tag: "Release", host, tag: release.tag }
        : other("Only the creation of a release starts a build.")
    }
    const release = Option.getOrUndefined(decodeRelease(body))
    return release !== undefined && release.action === "published" && release.release.draft !== true
      ? { _tag: "Release", host, tag: release.release.tag_name }
      : other("Only a published release starts a build.")
  }
  return other(`The event "${event}" starts no build: only pushes and releases do.`)
}

/** Whether an event starts a build, and of which ref (docs/operations/builds.md#webhooks). */
export type HookDecision = { readonly ref: string; readonly reason: string } | { readonly ref?: never; readonly reason: string }

/**
 * The rule: a release always starts a build; a push to the branch in the settings starts one until a build has succeeded, and then only with
 * `onPush`.
 */
export const decide = (event: GitEvent, { onPush = false, ref }: BuildSettings, hasSucceeded: boolean): HookDecision => {
  switch (event._tag) {
    case "Other":
      return { reason: event.reason }
    case "Release":
      return { ref: event.tag, reason: `Release ${event.tag}` }
    case "Push": {
      const { branch, commit, isDefault } = event
      if (ref === undefined ? !isDefault : ref !== branch) {
        return { reason: `The push was to ${branch}, and the build settings name ${ref ?? "the default branch"}.` }
      }
      if (hasSucceeded && !onPush) {
        return {
          reason:
            "A push starts no build, because the endpoint has a successful build and onPush is not set. Publish a release, or set it: stint builds settings ENDPOINT --on-push"
        }
      }
      return { ref: commit, reason: `Push to ${branch}` }
    }
  }
}

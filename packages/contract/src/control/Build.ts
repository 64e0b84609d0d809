/**
 * Builds: how a Git repository becomes an image, and the image a release (docs/operations/builds.md).
 *
 * ```
 *   queued ---> running --image built, pushed and deployed--> succeeded
 *      |           |----a step failed, or the platform stopped--> failed
 *      +-----------+----cancelled--> cancelled
 * ```
 *
 * A build has a copy of the endpoint's build settings from the moment it was created. Changed settings affect only later builds.
 */
import * as Schema from "effect/Schema"
import { EndpointId } from "../Ids.ts"
import { Canary } from "./Release.ts"
import { SecretName } from "./Secret.ts"

/** The number of a build: 1 for the first build of an endpoint. Never reused while the endpoint exists. */
const BuildNumber = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }))

/** Why a build was started, as its author describes it. */
const BuildMessage = Schema.String.check(Schema.isMaxLength(1_000))

/** `https://host/path`, `ssh://user@host/path`, `user@host:path`, `file:///path` or `/path`. */
const Repository = Schema.String.check(
  Schema.isMaxLength(2_000),
  Schema.isPattern(/^(?:(?:https?|ssh|file):\/\/|[\w.-]+@[\w.-]+:|\/)[^\s\0]+$/, {
    message: "Expected the address of a Git repository: https://HOST/PATH, ssh://git@HOST/PATH, git@HOST:PATH or file:///PATH"
  }),
  Schema.isPattern(/^(?!https?:\/\/[^/]*@)/, {
    message: "The address must not contain a user or password. Store the token as a secret, and name the secret in `credential`"
  })
)

/** A branch, a tag or a commit. */
const GitRef = Schema.String.check(
  Schema.isMaxLength(255),
  Schema.isPattern(/^(?!-)(?!.*\.\.)[^\s~^:?*[\\\p{Cc}]+$/u, { message: "Expected the name of a branch or tag, or a commit" })
)

/** A path in the repository. */
const RepositoryPath = Schema.String.check(
  Schema.isMaxLength(1_000),
  Schema.isPattern(/^(?!\/)(?!(?:.*\/)?\.\.(?:\/|$))[^\0\n\r]+$/, {
    message: "Expected a path relative to the repository's root, without .."
  })
)

const Name = Schema.String.check(
  Schema.isPattern(/^[A-Za-z_][\w.-]{0,99}$/, { message: "Expected a name of letters, digits, _ - or ." })
)

/** How an endpoint is built. The body of `PUT /api/v1/endpoints/{endpoint}/build-settings`. */
export const BuildSettings = Schema.Struct({
  repository: Repository,
  /** Default: the repository's default branch. */
  ref: Schema.optionalKey(GitRef),
  /** The Dockerfile, relative to the repository's root. Default: `Dockerfile`. */
  dockerfile: Schema.optionalKey(RepositoryPath),
  /** The folder whose files the Dockerfile copies, relative to the repository's root. Default: the root. */
  context: Schema.optionalKey(RepositoryPath),
  /** The handler's file, relative to the repository's root. Used to generate a Dockerfile for a repository that has none. */
  handler: Schema.optionalKey(RepositoryPath),
  /** The base image of a generated Dockerfile. Default: an official image of the handler's language. */
  baseImage: Schema.optionalKey(
    Schema.String.check(
      Schema.isPattern(/^[\w][\w.:/@-]*$/, { message: "Expected the name of an image, for example node:26-slim" })
    )
  ),
  /** The values of `ARG` in the Dockerfile. They are visible in the image. */
  args: Schema.optionalKey(Schema.Record(Name, Schema.String)),
  /** Secrets for `RUN --mount=type=secret,id=ID`, by their id. They are not part of the image. */
  secrets: Schema.optionalKey(Schema.Record(Name, SecretName)),
  /** The secret with the deploy key of an ssh address (a private key), or the token of an https address. */
  credential: Schema.optionalKey(SecretName),
  /** The secret that signs a Git host's webhooks. Default: webhooks are rejected. */
  webhookSecret: Schema.optionalKey(SecretName),
  /** Whether a push starts a build after the first successful build. Default: false; only a release does. */
  onPush: Schema.optionalKey(Schema.Boolean),
  /**
   * Deploys the image of each successful build as a canary, which gets a part of the jobs until it is promoted. Default: all jobs, once its
   * first worker is ready.
   */
  canary: Schema.optionalKey(Canary),
  /** How long a build may take, 10 s to 1 day. Default: 1 hour. */
  timeoutMs: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 10_000, maximum: 86_400_000 })))
})
export type BuildSettings = typeof BuildSettings.Type

const BuildState = Schema.Literals(["queued", "running", "succeeded", "failed", "cancelled"])

/** A build. */
export const Build = Schema.Struct({
  endpoint: EndpointId,
  number: BuildNumber,
  state: BuildState,
  /** Milliseconds since 1970, like all times here. */
  createdAt: Schema.Int,
  startedAt: Schema.optionalKey(Schema.Int),
  endedAt: Schema.optionalKey(Schema.Int),
  /** The key that started the build, or the Git host whose webhook did. */
  createdBy: Schema.String,
  /** `push` and `release`: a webhook started the build. */
  trigger: Schema.Literals(["manual", "push", "release"]),
  message: Schema.optionalKey(BuildMessage),
  /** The settings of this build, with the requested `ref`. */
  settings: BuildSettings,
  /** The commit that was built. */
  commit: Schema.optionalKey(Schema.String),
  /** The image, by digest. */
  image: Schema.optionalKey(Schema.String),
  /** The release that runs the image. */
  release: Schema.optionalKey(Schema.Int),
  /** Advice that did not stop the build. */
  warnings: Schema.Array(Schema.String),
  /** Why the build failed or was cancelled. */
  reason: Schema.optionalKey(Schema.String)
})
export type Build = typeof Build.Type

/** Whether the build has ended. */
export const hasEnded = ({ state }: Pick<Build, "state">): boolean => state !== "queued" && state !== "running"

/** The body of `POST /api/v1/endpoints/{endpoint}/builds`, which may be empty. */
export const BuildRequest = Schema.Struct({
  /** Default: the `ref` of the settings. */
  ref: Schema.optionalKey(GitRef),
  message: Schema.optionalKey(BuildMessage)
})
export type BuildRequest = typeof BuildRequest.Type

/** A line of a build's log. */
export const BuildLogLine = Schema.Struct({
  /** 1 for the first line. */
  number: Schema.Int,
  time: Schema.Int,
  text: Schema.String
})
export type BuildLogLine = typeof BuildLogLine.Type

/** An event in a build's log. */
export const BuildLogEvent = Schema.Union([
  /** `id`: the line's number. */
  Schema.Struct({ id: Schema.String, event: Schema.tag("line"), data: Schema.fromJsonString(BuildLogLine) }),
  /** The build has ended and has no more lines. */
  Schema.Struct({ id: Schema.String, event: Schema.tag("end"), data: Schema.fromJsonString(Build) })
])

/** The response to a webhook of a Git host. */
export const BuildHookResult = Schema.Struct({
  /** The number of the started build. Absent if none was started. */
  build: Schema.optionalKey(BuildNumber),
  /** Why a build was started or not. */
  reason: Schema.String
})
export type BuildHookResult = typeof BuildHookResult.Type

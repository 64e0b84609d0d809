/**
 * Clones a repository at a branch, tag or commit, with Git's own program.
 *
 * Credentials are passed in variables and files, never as arguments, which every user on the machine can read. The programs cannot prompt for a
 * password, and only the protocols in the settings are used, even for redirects.
 */
import * as Effect from "effect/Effect"
import { chmodSync, realpathSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { type BuildFailed, failed } from "./BuildError.ts"
import * as Program from "./Program.ts"

/** What to clone. */
export interface CloneRequest {
  readonly repository: string
  /** Default: the default branch. */
  readonly ref: string | undefined
  /** The private key of an ssh address, or the token of an https address. */
  readonly credential: string | undefined
  /** An empty folder for the files. */
  readonly folder: string
  /** A folder of this build for keys. */
  readonly keys: string
  /** The file with the keys of known ssh hosts. */
  readonly knownHosts: string
  /** The folders whose repositories may be cloned by path. */
  readonly localFolders: ReadonlyArray<string>
  readonly mask: (text: string) => string
  readonly log: (line: string) => void
}

/** A clone. */
export interface Clone {
  readonly commit: string
  /** All files, relative to the root. */
  readonly files: ReadonlyArray<string>
}

/** The path of a repository on this machine; undefined for the address of a host. */
const localPath = (repository: string): string | undefined =>
  repository.startsWith("/") ? repository : repository.startsWith("file://") ? repository.slice("file://".length) : undefined

const isHttp = (repository: string): boolean => /^https?:\/\//.test(repository)

const isSsh = (repository: string): boolean => repository.startsWith("ssh://") || !/^(?:[a-z]+:\/\/|\/)/.test(repository)

/** Fails for a repository on this machine, unless the operator allowed its folder: the caller may not be allowed to read it. */
const checkLocal = (path: string, folders: ReadonlyArray<string>): Effect.Effect<void, BuildFailed> => {
  const real = (one: string): string | undefined => {
    try {
      return realpathSync(one)
    } catch {
      return undefined
    }
  }
  const found = real(path)
  const isAllowed = found !== undefined && folders.some((folder) => {
    const root = real(folder)
    return root !== undefined && (found === root || found.startsWith(root.endsWith("/") ? root : `${root}/`))
  })
  if (isAllowed) return Effect.void
  return Effect.fail(
    folders.length === 0 || found !== undefined
      ? failed(
        `The repository ${path} is on the platform's machine, in a folder from which builds may not clone.`,
        "An operator can allow it: set STINT_BUILD_FOLDERS to a folder that contains it, and restart the platform."
      )
      : failed(`The repository ${path} does not exist on the platform's machine.`, "Correct `repository` in the build settings.")
  )
}

/** The command does not use the platform user's `~/.ssh` or agent, because builds must not have that user's access. */
const sshCommand = ({ keys, knownHosts }: Pick<CloneRequest, "keys" | "knownHosts">, hasKey: boolean): string =>
  [
    ...["ssh", "-F", "/dev/null", "-o", "IdentityAgent=none"],
    ...(hasKey
      ? ["-i", JSON.stringify(join(keys, "deploy-key")), "-o", "IdentitiesOnly=yes"]
      : ["-o", "PubkeyAuthentication=no"]),
    ...["-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=accept-new", "-o", JSON.stringify(`UserKnownHostsFile=${knownHosts}`)]
  ].join(" ")

const globalSettings = ({ keys }: Pick<CloneRequest, "keys">): string => join(keys, ".gitconfig")

/**
 * Lets Git read a repository of another user on this machine, whose folder the operator has allowed, and the clone itself, for file systems that
 * change owners. Written to a file, because Git does not forward settings from variables to the program that reads the repository.
 */
const writeSafeFolders = (request: CloneRequest, path: string | undefined): void => {
  const folders = new Set([request.folder, ...(path === undefined ? [] : [resolve(path), realpathSync(path)])])
  const lines = [...folders].flatMap((folder) => [folder, join(folder, ".git")])
    .map((folder) => `\tdirectory = ${JSON.stringify(folder)}\n`)
  writeFileSync(globalSettings(request), `[safe]\n${lines.join("")}`)
}

const TOKEN_VARIABLE = "GIT_BUILD_TOKEN"

/** A helper that passes the token to Git. Hosts accept any user name with a token. */
const CREDENTIAL_HELPER = `!f() { test "$1" = get && printf 'username=x-access-token\\npassword=%s\\n' "$${TOKEN_VARIABLE}"; }; f`

/** The environment variables for Git, with its settings for this clone. */
const environment = (request: CloneRequest): Readonly<Record<string, string>> => {
  const { credential, keys, repository } = request
  const settings: Array<readonly [string, string]> = [["advice.detachedHead", "false"], ["core.hooksPath", "/dev/null"]]
  const hasToken = credential !== undefined && isHttp(repository)
  if (hasToken) {
    // Git selects a credential for each host. A header in the settings would also be sent to the host of a redirect.
    settings.push(["credential.helper", ""], [`credential.${new URL(repository).origin}.helper`, CREDENTIAL_HELPER])
  }
  return {
    LC_ALL: "C",
    HOME: keys,
    GIT_CONFIG_GLOBAL: globalSettings(request),
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "",
    ...(hasToken ? { [TOKEN_VARIABLE]: credential.trim() } : {}),
    GIT_ALLOW_PROTOCOL: "http:https:ssh:file",
    GIT_SSH_COMMAND: sshCommand(request, credential !== undefined),
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], at) => [[`GIT_CONFIG_KEY_${at}`, key], [`GIT_CONFIG_VALUE_${at}`, value]])
    )
  }
}

/** Whether Git refused a redirect, or followed one to another host, which does not receive the token. */
const isRedirected = (repository: string, words: string): boolean => {
  if (!isHttp(repository)) return false
  const asked = /could not read (?:Username|Password) for '(https?:[^']+)'/.exec(words)?.[1]
  return /error: 30[1278]\b/.test(words) ||
    (asked !== undefined && URL.canParse(asked) && new URL(asked).origin !== new URL(repository).origin)
}

/** Explains why Git failed. */
const explain = ({ credential, ref, repository }: CloneRequest, { tail }: Program.ProgramEnd): BuildFailed => {
  const words = tail.filter((line) => !/^(?:remote: )?(?:Enumerating|Counting|Compressing|Receiving|Resolving) /.test(line))
    .slice(-4).join(" ")
  if (/couldn't find remote ref|not our ref|no such ref|unknown revision|Needed a single revision/i.test(words)) {
    return failed(
      `${repository} has no branch, tag or commit "${ref ?? "HEAD"}".`,
      "Push it, or correct `ref`. A repository without commits cannot be built."
    )
  }
  if (/No space left on device|disk full|cannot (?:mkdir|create|write)[^:]*: No space/i.test(words)) {
    return failed(`The platform's disk is full (${words}).`, "Free space on the disk of the data folder, and build again.")
  }
  if (/ssh: not found|cannot run ssh|ssh.*No such file/i.test(words)) {
    return failed(
      "The program ssh is not installed on the platform's machine.",
      "Install it (apt install openssh-client), or use an https address."
    )
  }
  if (isRedirected(repository, words)) {
    return failed(
      `${repository} redirects to another address (${words}).`,
      "Set `repository` in the build settings to that address. A token is sent to the host of `repository` only."
    )
  }
  if (
    /Permission denied|Authentication failed|could not read (?:Username|Password)|terminal prompts disabled|HTTP 40[13]|error: 40[13]|invalid credentials|Load key .*error/i
      .test(words)
  ) {
    const kind = isSsh(repository) ? "deploy key" : "token"
    return failed(
      credential === undefined
        ? `${repository} requires a ${kind} (${words}).`
        : `${repository} rejects the ${kind} of the settings' secret (${words}).`,
      credential === undefined
        ? `Store the ${kind} as a secret (stint secrets set NAME), and name the secret in the build settings: --credential NAME.`
        : `Check that the ${kind} is valid and may read the repository, and set the secret again.`
    )
  }
  if (/not found|does not exist|does not appear to be a git repository|HTTP 404|error: 404/i.test(words)) {
    return failed(
      `There is no repository at ${repository} (${words}).`,
      "Correct `repository` in the build settings. Hosts also report this for a private repository that is requested without a token."
    )
  }
  if (
    /Could not resolve host|Connection refused|timed out|unable to access|Connection reset|Network is unreachable/i.test(words)
  ) {
    return failed(
      `The platform cannot reach ${repository} (${words}).`,
      "Check the address, and the network of the platform's machine."
    )
  }
  return failed(`${repository} cannot be cloned (${words}).`, "The build's log has all of Git's output.")
}

/** Clones into `folder`. */
export const clone = Effect.fnUntraced(function*(request: CloneRequest): Effect.fn.Return<Clone, BuildFailed> {
  const { credential, folder, keys, localFolders, log, mask, ref, repository } = request
  const path = localPath(repository)
  if (path !== undefined) yield* checkLocal(path, localFolders)
  writeSafeFolders(request, path)
  if (credential !== undefined && isSsh(repository)) {
    const file = join(keys, "deploy-key")
    writeFileSync(file, `${credential.trimEnd()}\n`, { mode: 0o600 })
    chmodSync(file, 0o600)
  }
  const env = environment(request)
  const git = (...args: ReadonlyArray<string>) => Program.run({ command: "git", args, cwd: folder, env, mask, onLine: log })
  const required = (...args: ReadonlyArray<string>) =>
    Effect.flatMap(git(...args), (end) => end.code === 0 ? Effect.succeed(end.output) : Effect.fail(explain(request, end)))

  yield* required("init", "--quiet")
  const fetched = yield* git("fetch", "--quiet", "--depth", "1", "--no-tags", "--", repository, ref ?? "HEAD")
  if (fetched.code === 0) {
    yield* required("checkout", "--quiet", "--detach", "FETCH_HEAD")
  } else if (ref !== undefined && /^[0-9a-f]{7,64}$/.test(ref)) {
    // The host does not serve single commits, or the commit is abbreviated.
    log(`Fetching all branches and tags to find the commit ${ref}.`)
    yield* required("fetch", "--quiet", "--", repository, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
    const found = yield* required("rev-parse", "--verify", `${ref}^{commit}`)
    yield* required("checkout", "--quiet", "--detach", found.trim())
  } else {
    return yield* explain(request, fetched)
  }
  const commit = (yield* Program.run({ command: "git", args: ["rev-parse", "HEAD"], cwd: folder, env })).output.trim()
  const files = (yield* Program.run({ command: "git", args: ["ls-files", "-z"], cwd: folder, env })).output.split("\0")
  return { commit, files: files.filter((file) => file !== "") }
})

/**
 * Runs one build: from the repository to an image with a digest in the engine or a registry.
 *
 * ```
 *   clone at the ref -> checks -> docker|podman build -> check the platform -> push -> name@digest
 * ```
 *
 * Loaded by the first build.
 */
import type { Build } from "@stint/contract/Build"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, statSync, writeFileSync } from "node:fs"
import { rm } from "node:fs/promises"
import { join } from "node:path"
import type { BuildEngine } from "./BuildEngine.ts"
import { BuildFailed, failed } from "./BuildError.ts"
import * as BuildPlan from "./BuildPlan.ts"
import { parse } from "./Dockerfile.ts"
import { generate } from "./GeneratedDockerfile.ts"
import { type Clone, clone } from "./GitClone.ts"
import * as Program from "./Program.ts"

/** What a build needs in addition to its settings. */
export interface BuildInput {
  readonly build: Build
  readonly engine: BuildEngine["Service"]
  /** A folder for the builds of this platform. */
  readonly folder: string
  /** Where images are pushed, such as `registry.example.com/team`. Undefined: they stay in the engine. */
  readonly registry: string | undefined
  /** Options for the engine's `build`, such as `--network=host`. */
  readonly options: ReadonlyArray<string>
  /** The folders whose repositories may be cloned by path. */
  readonly localFolders: ReadonlyArray<string>
  readonly credential: string | undefined
  /** The values of `settings.secrets`, by id. */
  readonly secrets: Readonly<Record<string, string>>
  /** Hides secrets in what programs print. */
  readonly mask: (text: string) => string
  readonly log: (line: string) => void
  /** Called with the commit when the repository is cloned. */
  readonly cloned: (commit: string) => Effect.Effect<void>
}

/** The result of a build. */
export interface BuildOutput {
  readonly commit: string
  /** By digest, or the id of an image that exists only in the engine. */
  readonly image: string
  readonly warnings: ReadonlyArray<string>
}

/** A folder for this build, which is removed with the scope. Only the platform's user can read it: it contains keys and secrets. */
const workFolder = (parent: string): Effect.Effect<string, BuildFailed, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.try({
      try: () => {
        mkdirSync(parent, { recursive: true, mode: 0o700 })
        const folder = mkdtempSync(join(parent, "build-"))
        for (const name of ["source", "keys"]) mkdirSync(join(folder, name), { mode: 0o700 })
        return folder
      },
      catch: (cause) =>
        failed(
          `The folder ${parent} cannot be used (${cause instanceof Error ? cause.message : String(cause)}).`,
          "Check its permissions and free space."
        )
    }),
    // Runs in several steps. A repository may have a million files, and a single step would block all requests.
    (folder) => Effect.promise(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }))
  )

/**
 * The maximum size of a file that is read, in bytes, because the read blocks the platform. A handler that is bundled with its packages takes a
 * few MiB.
 */
const MAX_READ = 8 * 1024 * 1024

/** Reads a file in the repository. A link to a file outside the repository is not followed. */
const reader = (root: string) => {
  const real = realpathSync(root)
  return (file: string): string | undefined => {
    try {
      const path = realpathSync(join(real, file))
      return path.startsWith(`${real}/`) && isReadable(path) ? readFileSync(path, "utf8") : undefined
    } catch {
      return undefined
    }
  }
}

const isReadable = (path: string): boolean => {
  const stat = statSync(path)
  return stat.isFile() && stat.size <= MAX_READ
}

/** Fails when a path leaves the repository through a link, because the engine would then read files on the platform's machine. */
const checkInside = (root: string, path: string, what: string): Effect.Effect<string, BuildFailed> =>
  Effect.try({
    try: () => {
      const real = realpathSync(root)
      const found = realpathSync(join(real, path))
      return { found, isInside: found === real || found.startsWith(`${real}/`) }
    },
    catch: () => failed(`The ${what} ${path} is a link to a file that does not exist.`, "Commit the file itself.")
  }).pipe(Effect.flatMap(({ found, isInside }) =>
    isInside
      ? Effect.succeed(found)
      : Effect.fail(failed(`The ${what} ${path} is a link to ${found}, outside of the repository.`, "Commit the file itself."))
  ))

/** Explains why the engine did not build the image. */
const explain = (
  repository: BuildPlan.Repository,
  plan: BuildPlan.BuildPlan,
  { code, error, signal, tail }: Program.ProgramEnd,
  machine: string
) => {
  if (error !== undefined) return failed(`The engine's program cannot be started (${error}).`)
  const words = tail.slice(-12).join("\n")
  const last = tail.slice(-3).join(" ")
  if (/no space left on device/i.test(words)) {
    return failed(
      `The disk is full (${last}).`,
      "Free space in the engine's storage (docker system prune, or podman system prune) or on the disk of the data folder, and build again."
    )
  }
  if (/no such file or directory|not found|file does not exist/i.test(words)) {
    const copy = BuildPlan.explainCopy(repository, plan)
    if (copy !== undefined) return copy
    if (/\b(?:COPY|ADD)\b/.test(words) && repository.files.some((file) => file.endsWith(".dockerignore"))) {
      return failed(
        `A copied file was not found (${last}). The build context has all files that the Dockerfile copies.`,
        "Check that .dockerignore does not exclude it."
      )
    }
  }
  if (/exec format error/i.test(words)) {
    return failed(
      `A program of the base image is built for another architecture: this machine runs ${machine} (${last}).`,
      `Use a base image for ${machine}: remove --platform from FROM, or name another image.`
    )
  }
  if (/unauthorized|authentication required|access to the resource is denied|incorrect username or password/i.test(words)) {
    return failed(
      `A registry rejects the pull of a base image (${last}).`,
      "Add or correct the registry's credentials on the platform's machine: docker login, or the file in STINT_ENGINE_AUTH."
    )
  }
  // A shell or the engine reports a killed program as 128 + 9.
  if (signal === "SIGKILL" || code === 137) {
    return failed(
      `The engine's build was killed${
        last === "" ? "" : ` (${last})`
      }. Another program ended it, or memory ran out, which \`dmesg\` would show.`,
      "Free memory on the platform's machine, or raise the limit in STINT_BUILD_OPTIONS, and build again."
    )
  }
  return failed(
    `The engine's build failed with ${signal === undefined ? `exit code ${code}` : `signal ${signal}`}${
      last === "" ? "" : ` (${last})`
    }.`,
    "The build's log has all of its output."
  )
}

/** Advice about base images whose name can later refer to a different image, with the digest that this build used. */
const baseAdvice = Effect.fnUntraced(function*(engine: BuildEngine["Service"], dockerfile: string) {
  const warnings: Array<string> = []
  for (const base of parse(dockerfile).bases) {
    if (base.includes("@sha256:")) continue
    const found = yield* Effect.orElseSucceed(engine.image(base), () => undefined)
    const digest = found?.digests[0]
    warnings.push(
      `FROM ${base} is a name that can later refer to another image.${
        found === undefined ? "" : ` This build used ${digest ?? found.id}.`
      }${digest === undefined ? " Name it by digest for reproducible builds." : ` For reproducible builds: FROM ${digest}`}`
    )
  }
  return warnings
})

/** The name of the image, without its tag. Names in registries are in lower case. */
const imageName = (endpoint: string, registry: string | undefined): string =>
  `${registry ?? "localhost/stint"}/${endpoint.toLowerCase().replaceAll(/[_-]{2,}/g, "-").replace(/[_-]$/, "")}`

const inFolder = (folder: string, files: ReadonlyArray<string>): ReadonlyArray<string> =>
  folder === "" ? files : files.flatMap((file) => file.startsWith(`${folder}/`) ? [file.slice(folder.length + 1)] : [])

/** The Dockerfile that is built: its path and its text. */
const prepare = Effect.fnUntraced(function*(
  { build: { endpoint, settings }, log }: BuildInput,
  repository: BuildPlan.Repository,
  plan: BuildPlan.BuildPlan,
  folder: string
) {
  const source = join(folder, "source")
  const context = yield* checkInside(source, plan.context, "build context")
  if (plan.dockerfile !== undefined) {
    const path = yield* checkInside(source, plan.dockerfile, "Dockerfile")
    const text = repository.read(plan.dockerfile)
    if (text === undefined) {
      return yield* failed(
        `The Dockerfile ${plan.dockerfile} is not a file of at most 8 MiB.`,
        "Commit it as a file of the repository: submodules are not cloned."
      )
    }
    return { context, path, text }
  }
  const text = generate(plan.handler ?? "", inFolder(plan.context, repository.files), settings.baseImage)
  const path = join(folder, "Dockerfile")
  writeFileSync(path, text)
  log(`The repository of ${endpoint} has no Dockerfile. This one was generated for ${plan.handler}:`)
  for (const line of text.trimEnd().split("\n")) log(`  ${line}`)
  return { context, path, text }
})

/** Runs the engine's build. */
const buildImage = Effect.fnUntraced(function*(
  input: BuildInput,
  repository: BuildPlan.Repository,
  plan: BuildPlan.BuildPlan,
  folder: string,
  tag: string
) {
  const { build: { settings }, engine, log, mask, options, secrets } = input
  const { context, path, text } = yield* prepare(input, repository, plan, folder)
  const program = yield* engine.program
  const mounts = Object.entries(secrets).flatMap(([id, value]) => {
    const file = join(folder, "keys", `secret-${id}`)
    writeFileSync(file, value, { mode: 0o600 })
    return ["--secret", `id=${id},src=${file}`]
  })
  const args = Object.entries(settings.args ?? {}).flatMap(([name, value]) => ["--build-arg", `${name}=${value}`])
  log(
    `Building ${plan.dockerfile ?? "the generated Dockerfile"} in the context ${
      plan.context === "" ? "." : plan.context
    } with ${program.command}.`
  )
  const end = yield* Program.run({
    command: program.command,
    args: [...program.args, "build", ...program.buildArgs, "--file", path, "--tag", tag, ...args, ...mounts, ...options, context],
    cwd: folder,
    env: program.env,
    mask,
    onLine: log
  })
  if (end.code !== 0) return yield* explain(repository, plan, end, engine.machine)
  return text
})

const checkPlatform = (platform: string, machine: string) =>
  platform === machine || platform === "linux/" ? Effect.void : Effect.fail(failed(
    `The image is built for ${platform}, and the workers' machine runs ${machine}.`,
    `Build it for ${machine}: remove --platform from FROM, or use base images for ${machine}.`
  ))

/** Runs a build. Interruption stops its programs and removes its files. */
export const run = Effect.fnUntraced(function*(input: BuildInput): Effect.fn.Return<BuildOutput, BuildFailed, Scope.Scope> {
  const { build: { endpoint, number, settings }, credential, engine, localFolders, log, mask, registry } = input
  const folder = yield* workFolder(input.folder)
  const source = join(folder, "source")
  log(`Cloning ${settings.repository} at ${settings.ref ?? "its default branch"}.`)
  const { commit, files }: Clone = yield* clone({
    repository: settings.repository,
    ref: settings.ref,
    credential,
    folder: source,
    keys: join(folder, "keys"),
    knownHosts: join(input.folder, "known_hosts"),
    localFolders,
    mask,
    log
  })
  log(`Cloned the commit ${commit}.`)
  yield* input.cloned(commit)
  const repository: BuildPlan.Repository = { endpoint, settings, files, read: reader(source) }
  const plan = BuildPlan.make(repository)
  if (plan instanceof BuildFailed) return yield* plan
  const warnings: Array<string> = []
  const warn = (text: string) => {
    warnings.push(text)
    log(`Warning: ${text}`)
  }
  const advice = BuildPlan.startAdvice(repository, plan)
  if (advice !== undefined) warn(advice)

  const tag = `${imageName(endpoint, registry)}:build-${number}-${commit.slice(0, 10)}`
  const dockerfile = yield* buildImage(input, repository, plan, folder, tag)
  const built = yield* engine.image(tag)
  if (built === undefined) {
    return yield* failed(`The engine has no image ${tag} after the build.`, "The build's log has all of its output.")
  }
  yield* checkPlatform(built.platform, engine.machine)
  for (const text of yield* baseAdvice(engine, dockerfile)) warn(text)
  if (registry === undefined) {
    log(`Built ${built.id}.`)
    return { commit, image: built.id, warnings }
  }
  log(`Pushing ${tag}.`)
  const digest = yield* engine.push(tag)
  const image = `${imageName(endpoint, registry)}@${digest}`
  log(`Pushed ${image}.`)
  return { commit, image, warnings }
}, Effect.scoped)

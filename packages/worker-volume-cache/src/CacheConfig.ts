/**
 * Checks the options of a cache and finds its volume (docs/spec/volume-cache.md#volume).
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | `ENDPOINT_ID` | nothing is cached | the endpoint that owns the mirror; set by the platform |
 * | `VOLUME_PATH` | `/platform-volume`, then `/runpod-volume` | the mount point of the network volume |
 *
 * Each variable has the prefix `PLATFORM_` or, when that is unset or empty, `RUNPOD_`.
 */
import { ENV_PREFIXES, WorkerVariable } from "@stint/contract/WorkerProtocol"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { hash } from "node:crypto"
import { basename, normalize, resolve, sep } from "node:path"
import type { Settings } from "./CachedDirectory.ts"
import * as ExcludePatterns from "./ExcludePatterns.ts"
import { VolumeFiles } from "./VolumeFiles.ts"

/** Options for a cache. Only `dirs` is required. */
export interface Options {
  /**
   * The directories to cache, such as a model cache and a compile cache. A relative path starts at the working directory; its mirror does
   * not depend on the working directory. The directories need not exist. None may contain another. A string is a single directory.
   */
  readonly dirs: string | ReadonlyArray<string>
  /** The mount point of the network volume. Default: `PLATFORM_VOLUME_PATH`, then `/platform-volume`, then `/runpod-volume`. */
  readonly volume?: string
  /** The endpoint that owns the mirror. Default: `PLATFORM_ENDPOINT_ID`. Endpoints never share a mirror. */
  readonly endpoint?: string
  /** Another name for `endpoint`, as in the Python SDK. Cannot be combined with a different `endpoint`. */
  readonly namespace?: string
  /**
   * Patterns of files that are not mirrored, instead of {@link ExcludePatterns.defaultExcludes}: `*.log` for names at any depth, `tmp/**`
   * for paths from the directory. Mirrored locks or partial files would harm the next worker, so add to the defaults.
   */
  readonly exclude?: ReadonlyArray<string>
  /**
   * Files below this size are packed; larger ones are copied individually. Bytes. Default: 1 MiB. A network volume needs about as long to
   * create a file as to write a few hundred kB, and a pack costs that only once. A larger value makes it more expensive to rewrite a
   * changed file.
   */
  readonly packBelow?: number
  /**
   * The number of large files that are copied concurrently. Default: 3, which leaves one of the four threads of Node's pool for the rest
   * of the worker. With a larger `UV_THREADPOOL_SIZE`, a higher value can be faster on a network volume.
   */
  readonly concurrency?: number
  /**
   * The effect of deleting a mirrored file in this worker. Default: `"keep"`: the mirror keeps it, so no worker can delete the files of
   * another, and the mirror only grows. `"propagate"`: the mirror removes it unless another worker has changed it since; for caches with
   * eviction. A directory emptied by mistake then empties its mirror.
   */
  readonly deletions?: "keep" | "propagate"
  /**
   * Whether a sync skips the contents of directories whose modification time has not changed since the last sync. Default: false, every
   * file is checked. True makes a sync of a large directory several times faster. It is correct for caches that write a temporary file and
   * rename it, as model hubs and compilers do; a file modified in place is missed until its directory changes.
   */
  readonly trustDirectories?: boolean
  /** The maximum number of files in one directory's mirror. Default: 1,000,000. Further files are not added, and a larger mirror is rejected. */
  readonly maxFiles?: number
  /** The maximum size of one directory's mirror in bytes. Default: 1 TiB. Further files are not added, and a larger mirror is rejected. */
  readonly maxBytes?: number
  /** The time limit of hydration; the worker then starts with the files it has. Default: 10 minutes. It delays the start of a cold worker. */
  readonly hydrateLimit?: Duration.Input
  /** The time limit of a sync. Default: 5 minutes. The worker's own shutdown limit may be shorter and then applies. */
  readonly syncLimit?: Duration.Input
  /** The time limit for the first access to the volume. Default: 15 seconds. After that, nothing is cached. */
  readonly accessLimit?: Duration.Input
  /**
   * The time that unused files stay on the volume. Default: 1 hour. It must be at least `hydrateLimit` and `syncLimit`, because a slow
   * worker may still read the files. A longer time uses more space.
   */
  readonly grace?: Duration.Input
}

/** `dirs` is empty, or one of them is an empty string. */
export class DirectoriesMissing extends Schema.TaggedError<DirectoriesMissing>()("DirectoriesMissing", {}) {}

/** Two directories are the same, or one contains the other. */
export class DirectoriesOverlap extends Schema.TaggedError<DirectoriesOverlap>()("DirectoriesOverlap", {
  outer: Schema.String,
  inner: Schema.String
}) {}

/** An option has an invalid value. */
export class OptionInvalid extends Schema.TaggedError<OptionInvalid>()("OptionInvalid", {
  option: Schema.String,
  value: Schema.String,
  expected: Schema.String
}) {}

/** The options are invalid, which is a programming error. Failures at run time never raise an error. */
export class VolumeCacheError extends Schema.TaggedError<VolumeCacheError>()("VolumeCacheError", {
  reason: Schema.Union([DirectoriesMissing, DirectoriesOverlap, OptionInvalid])
}) {
  override get message(): string {
    const { reason } = this
    switch (reason._tag) {
      case "DirectoriesMissing":
        return "VolumeCache: dirs is empty or contains an empty path. Pass at least one directory: VolumeCache.layer({ dirs: [\"/root/.cache\"] })."
      case "DirectoriesOverlap":
        return `VolumeCache: dirs has ${reason.outer} and ${reason.inner}, which overlap. Pass only the outer one.`
      case "OptionInvalid":
        return `VolumeCache: ${reason.option} is ${reason.value}; it must be ${reason.expected}.`
    }
  }
}

/** A directory to cache. */
export interface Directory {
  /** Absolute. */
  readonly path: string
  /** The folder of its mirror. */
  readonly folder: string
}

/** Checked options. */
export interface Checked {
  readonly directories: ReadonlyArray<Directory>
  readonly settings: Settings
  readonly hydrateLimit: Duration.Duration
  readonly syncLimit: Duration.Duration
  readonly accessLimit: Duration.Duration
}

const fail = (reason: VolumeCacheError["reason"]) => Effect.fail(new VolumeCacheError({ reason }))

const invalid = (option: string, value: unknown, expected: string) =>
  fail(new OptionInvalid({ option, value: typeof value === "string" ? JSON.stringify(value) : String(value), expected }))

const integer = (option: string, value: number, minimum: number, maximum: number) =>
  Number.isSafeInteger(value) && value >= minimum && value <= maximum
    ? Effect.succeed(value)
    : invalid(option, value, `an integer from ${minimum} to ${maximum}`)

const oneOf = <A extends string>(option: string, value: A, values: ReadonlyArray<A>) =>
  values.includes(value)
    ? Effect.succeed(value)
    : invalid(option, value, values.map((allowed) => JSON.stringify(allowed)).join(" or "))

const duration = (option: string, value: Duration.Input) => {
  const found = Option.filter(Duration.fromInput(value), (candidate) => Duration.toMillis(candidate) > 0)
  return Option.isSome(found) ? Effect.succeed(found.value) : invalid(option, value, "a positive duration, such as \"5 minutes\"")
}

/** Whether the absolute path `inner` is `outer` or below it. */
export const contains = (outer: string, inner: string): boolean =>
  inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep)

/** The name of a directory's folder on the volume: readable, and unique for each directory. */
const folderOf = (given: string): string => {
  const path = normalize(given).replace(/(?<=.)[/\\]+$/, "")
  const name = basename(path).replaceAll(/[^A-Za-z0-9._-]/g, "_").replace(/^\.+/, "").slice(0, 40)
  return `${name === "" ? "directory" : name}-${hash("sha256", path).slice(0, 16)}`
}

const MIB = 1024 * 1024

/** Checks the options and fills in the defaults. */
export const check = Effect.fnUntraced(function*(options: Options) {
  const dirs = typeof options.dirs === "string" ? [options.dirs] : options.dirs
  if (dirs.length === 0 || dirs.some((dir) => dir.trim() === "")) return yield* fail(new DirectoriesMissing())
  const { endpoint, namespace } = options
  if (namespace !== undefined && endpoint !== undefined && namespace !== endpoint) {
    return yield* invalid("namespace", namespace, `the same as endpoint (${JSON.stringify(endpoint)}), or absent`)
  }
  const directories: ReadonlyArray<Directory> = dirs.map((dir) => ({ path: resolve(dir), folder: folderOf(dir) }))
  for (const [index, outer] of directories.entries()) {
    const inner = directories.find((candidate, position) => position !== index && contains(outer.path, candidate.path))
    if (inner !== undefined) return yield* fail(new DirectoriesOverlap({ outer: outer.path, inner: inner.path }))
  }
  const checked: Checked = {
    directories,
    settings: {
      exclude: ExcludePatterns.make(options.exclude ?? ExcludePatterns.defaultExcludes),
      limits: {
        maxFiles: yield* integer("maxFiles", options.maxFiles ?? 1_000_000, 1, 5_000_000),
        maxBytes: yield* integer("maxBytes", options.maxBytes ?? 1024 * 1024 * MIB, 1, Number.MAX_SAFE_INTEGER)
      },
      packBelow: yield* integer("packBelow", options.packBelow ?? MIB, 0, 8 * MIB),
      concurrency: yield* integer("concurrency", options.concurrency ?? 3, 1, 64),
      deletions: yield* oneOf("deletions", options.deletions ?? "keep", ["keep", "propagate"]),
      trustDirectories: options.trustDirectories ?? false,
      grace: Duration.toMillis(yield* duration("grace", options.grace ?? "1 hour"))
    },
    hydrateLimit: yield* duration("hydrateLimit", options.hydrateLimit ?? "10 minutes"),
    syncLimit: yield* duration("syncLimit", options.syncLimit ?? "5 minutes"),
    accessLimit: yield* duration("accessLimit", options.accessLimit ?? "15 seconds")
  }
  const longest = Math.max(Duration.toMillis(checked.hydrateLimit), Duration.toMillis(checked.syncLimit))
  if (checked.settings.grace < longest) {
    const value = `${checked.settings.grace} ms`
    return yield* fail(
      new OptionInvalid({ option: "grace", value, expected: `at least hydrateLimit and syncLimit, ${longest} ms` })
    )
  }
  return checked
})

/** The location of this worker's mirrors. */
export interface Location {
  readonly volume: string
  readonly folders: ReadonlyArray<string>
}

/** The reason why there is no volume. */
export interface NoVolume {
  readonly why: string
  /** Whether the configuration names a volume or endpoint, so that this is an error and not the normal case. */
  readonly unexpected: boolean
}

const ROOTS = ["/platform-volume", "/runpod-volume"]
const VOLUME_PATH = "VOLUME_PATH"
const FOLDER = "volume-cache"
const ENDPOINT = /^(?!\.{1,2}$)[A-Za-z0-9._-]{1,128}$/

const variable = Effect.fnUntraced(function*(name: string) {
  for (const prefix of ENV_PREFIXES) {
    const value = yield* Config.option(Config.String(prefix + name)).pipe(Effect.orElseSucceed(() => Option.none<string>()))
    if (Option.isSome(value) && value.value.trim() !== "") return { name: prefix + name, value: value.value.trim() }
  }
  return undefined
})

const isDirectory = Effect.fnUntraced(function*(path: string) {
  const files = yield* VolumeFiles
  const stat = yield* Effect.flatMap(files.realPath(path), files.stat).pipe(Effect.orElseSucceed(() => undefined))
  return stat?.kind === "directory"
})

/** Finds the volume and the endpoint's folders on it. */
export const locate = Effect.fnUntraced(function*(options: Options) {
  const noVolume = (why: string, unexpected: boolean): NoVolume => ({ why, unexpected })
  const endpoint = options.endpoint ?? options.namespace ?? (yield* variable(WorkerVariable.endpointId))?.value
  if (endpoint === undefined) return noVolume("no endpoint: neither PLATFORM_ENDPOINT_ID nor RUNPOD_ENDPOINT_ID is set", false)
  if (!ENDPOINT.test(endpoint)) {
    return noVolume(`the endpoint's id ${JSON.stringify(endpoint)} is not a folder name (letters, digits, ".", "_", "-")`, true)
  }
  const named = options.volume === undefined ? yield* variable(VOLUME_PATH) : { name: "the option volume", value: options.volume }
  for (const root of named === undefined ? ROOTS : [named.value]) {
    if (yield* isDirectory(root)) {
      const location: Location = { volume: resolve(root), folders: [FOLDER, endpoint] }
      return location
    }
  }
  return named === undefined
    ? noVolume(`no network volume: neither ${ROOTS.join(" nor ")} exists`, false)
    : noVolume(`no network volume: ${named.name} is ${JSON.stringify(named.value)}, which is not a directory`, true)
})

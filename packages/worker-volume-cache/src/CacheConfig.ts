/**
 * The options of a cache, checked, and where its volume is.
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | `ENDPOINT_ID` | nothing is cached | whose mirror it is; set by the platform |
 * | `VOLUME_PATH` | `/platform-volume`, then `/runpod-volume` | where the network volume is mounted |
 *
 * Each is read under `PLATFORM_` and, where unset or empty, under `RUNPOD_`.
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

/** How a cache differs from its defaults. Only `dirs` is needed. */
export interface Options {
  /**
   * The directories to keep, such as a model cache and a compile cache. A relative one is taken from the working directory, and belongs
   * to the same mirror wherever that is. They need not exist. None may be inside of another.
   */
  readonly dirs: ReadonlyArray<string>
  /** Where the network volume is mounted. Default: `PLATFORM_VOLUME_PATH`, then `/platform-volume`, then `/runpod-volume`. */
  readonly volume?: string
  /** Whose mirror it is. Default: `PLATFORM_ENDPOINT_ID`. Two endpoints never share one. */
  readonly endpoint?: string
  /**
   * What is not mirrored, in place of {@link Exclude.defaultExcludes}: `*.log` for names at any depth, `tmp/**` for paths from the
   * directory. Mirroring locks or half files would harm the next worker, so add to the defaults rather than replace them.
   */
  readonly exclude?: ReadonlyArray<string>
  /**
   * Files below this size are packed, larger ones copied one by one. Default: 1 MiB. A network volume takes about as long to create a
   * file as to write some hundred kB; a pack pays that once. Larger values make a changed file cost more to write again.
   */
  readonly packBelow?: number
  /**
   * How many large files are copied at a time. Default: 3, which keeps one of the four threads of Node's pool for the rest of the
   * worker. With a larger `UV_THREADPOOL_SIZE` more may be faster on a network volume.
   */
  readonly concurrency?: number
  /**
   * What happens to the mirror when a file that came from it is deleted here. Default: `"keep"`: nothing is ever deleted, so no worker
   * can take anything from another, and the mirror only grows. `"propagate"`: it is taken out, if no other worker has changed it since;
   * for caches that are evicted on purpose. A directory that was emptied by mistake then empties its mirror.
   */
  readonly deletions?: "keep" | "propagate"
  /**
   * Whether a directory whose own modification time has not changed since the last sync is taken to have nothing new in it. Default: false,
   * every file is looked at. True makes a sync of a large directory several times faster, and right for caches that write a file beside
   * its place and rename it, as model hubs and compilers do; a file that is written to in place is missed until its directory changes.
   */
  readonly trustDirectories?: boolean
  /** The most files of one directory's mirror. Default: 1,000,000. More are not added, and a mirror with more is not believed. */
  readonly maxFiles?: number
  /** The most bytes of one directory's mirror. Default: 1 TiB. More are not added, and a mirror with more is not believed. */
  readonly maxBytes?: number
  /** How long filling may take before the worker goes on with what it has. Default: 10 minutes. A cold worker starts that much later. */
  readonly hydrateLimit?: Duration.Input
  /** How long a sync may take. Default: 5 minutes. What ends the worker may have less patience; then that counts. */
  readonly syncLimit?: Duration.Input
  /** How long the volume may take to answer at all. Default: 15 seconds. After that it counts as broken, and nothing is cached. */
  readonly accessLimit?: Duration.Input
  /**
   * How long files that are out of use stay on the volume. Default: 1 hour. It has to be longer than any hydration or sync, since a slow
   * worker may still read them; longer than needed costs space.
   */
  readonly grace?: Duration.Input
}

/** `dirs` is empty, or one of them is an empty string. */
export class DirectoriesMissing extends Schema.TaggedError<DirectoriesMissing>()("DirectoriesMissing", {}) {}

/** Two directories are the same, or one is inside of the other. */
export class DirectoriesOverlap extends Schema.TaggedError<DirectoriesOverlap>()("DirectoriesOverlap", {
  outer: Schema.String,
  inner: Schema.String
}) {}

/** An option has a value that it cannot have. */
export class OptionInvalid extends Schema.TaggedError<OptionInvalid>()("OptionInvalid", {
  option: Schema.String,
  value: Schema.String,
  expected: Schema.String
}) {}

/** The options are wrong: a mistake in the program. Nothing that happens at run time is an error of the cache. */
export class VolumeCacheError extends Schema.TaggedError<VolumeCacheError>()("VolumeCacheError", {
  reason: Schema.Union([DirectoriesMissing, DirectoriesOverlap, OptionInvalid])
}) {
  override get message(): string {
    const { reason } = this
    switch (reason._tag) {
      case "DirectoriesMissing":
        return "VolumeCache: dirs names no directory. Give it at least one: VolumeCache.layer({ dirs: [\"/root/.cache\"] })."
      case "DirectoriesOverlap":
        return `VolumeCache: dirs has ${reason.outer} and ${reason.inner}, which overlap. Name the outer one only.`
      case "OptionInvalid":
        return `VolumeCache: ${reason.option} is ${reason.value}; it must be ${reason.expected}.`
    }
  }
}

/** A directory to keep. */
export interface Directory {
  /** Absolute. */
  readonly path: string
  /** The folder of its mirror. */
  readonly folder: string
}

/** Options that were checked. */
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

const whole = (option: string, value: number, minimum: number, maximum: number) =>
  Number.isSafeInteger(value) && value >= minimum && value <= maximum
    ? Effect.succeed(value)
    : invalid(option, value, `a whole number from ${minimum} to ${maximum}`)

const oneOf = <A extends string>(option: string, value: A, values: ReadonlyArray<A>) =>
  values.includes(value) ? Effect.succeed(value) : invalid(option, value, values.map((one) => JSON.stringify(one)).join(" or "))

const duration = (option: string, value: Duration.Input) => {
  const found = Option.filter(Duration.fromInput(value), (one) => Duration.toMillis(one) > 0)
  return Option.isSome(found) ? Effect.succeed(found.value) : invalid(option, value, "a duration, such as \"5 minutes\"")
}

/** Whether one absolute path is the other, or in it. */
export const contains = (outer: string, inner: string): boolean =>
  inner === outer || inner.startsWith(outer.endsWith(sep) ? outer : outer + sep)

/** The folder of a directory's mirror: readable, and different for different directories, however they are spelled. */
const folderOf = (given: string): string => {
  const spelled = normalize(given).replace(/(?<=.)[/\\]+$/, "")
  const name = basename(spelled).replaceAll(/[^A-Za-z0-9._-]/g, "_").replace(/^\.+/, "").slice(0, 40)
  return `${name === "" ? "directory" : name}-${hash("sha256", spelled).slice(0, 16)}`
}

const MIB = 1024 * 1024

/** The options as they are used, or what is wrong with them. */
export const check = Effect.fnUntraced(function*(options: Options) {
  const { dirs } = options
  if (dirs.length === 0 || dirs.some((one) => one.trim() === "")) return yield* fail(new DirectoriesMissing())
  const directories: ReadonlyArray<Directory> = dirs.map((one) => ({ path: resolve(one), folder: folderOf(one) }))
  for (const [index, outer] of directories.entries()) {
    const inner = directories.find((one, other) => other !== index && contains(outer.path, one.path))
    if (inner !== undefined) return yield* fail(new DirectoriesOverlap({ outer: outer.path, inner: inner.path }))
  }
  const checked: Checked = {
    directories,
    settings: {
      exclude: ExcludePatterns.make(options.exclude ?? ExcludePatterns.defaultExcludes),
      limits: {
        maxFiles: yield* whole("maxFiles", options.maxFiles ?? 1_000_000, 1, 5_000_000),
        maxBytes: yield* whole("maxBytes", options.maxBytes ?? 1024 * 1024 * MIB, 1, Number.MAX_SAFE_INTEGER)
      },
      packBelow: yield* whole("packBelow", options.packBelow ?? MIB, 0, 8 * MIB),
      concurrency: yield* whole("concurrency", options.concurrency ?? 3, 1, 64),
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

/** Where the mirrors of this worker are. */
export interface Location {
  readonly volume: string
  readonly folders: ReadonlyArray<string>
}

/** Why there is none. */
export interface NoVolume {
  readonly why: string
  /** Somebody meant it to be there. */
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

/** Finds the volume and the endpoint's place on it. */
export const locate = Effect.fnUntraced(function*(options: Options) {
  const nowhere = (why: string, unexpected: boolean): NoVolume => ({ why, unexpected })
  const endpoint = options.endpoint ?? (yield* variable(WorkerVariable.endpointId))?.value
  if (endpoint === undefined) return nowhere("no endpoint: neither PLATFORM_ENDPOINT_ID nor RUNPOD_ENDPOINT_ID is set", false)
  if (!ENDPOINT.test(endpoint)) {
    return nowhere(`the endpoint's id ${JSON.stringify(endpoint)} is no name of a folder (letters, digits, ".", "_", "-")`, true)
  }
  const named = options.volume === undefined ? yield* variable(VOLUME_PATH) : { name: "the option volume", value: options.volume }
  for (const root of named === undefined ? ROOTS : [named.value]) {
    if (yield* isDirectory(root)) {
      const location: Location = { volume: resolve(root), folders: [FOLDER, endpoint] }
      return location
    }
  }
  return named === undefined
    ? nowhere(`no network volume: there is neither ${ROOTS.join(" nor ")}`, false)
    : nowhere(`no network volume: ${named.name} says ${JSON.stringify(named.value)}, where no directory is`, true)
})

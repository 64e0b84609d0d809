/**
 * Keeps directories of a worker on a network volume between workers (docs/spec/volume-cache.md#using-a-cache).
 *
 * ```
 *   layer is built               the worker takes jobs                 the layer's scope closes
 *   (before the first take)                                            (after the last result)
 *        |                                                                    |
 *     hydrate:  mirror -> directories     sync, on demand or after jobs    sync:  directories -> mirror
 *        |                                                                    |
 *     no volume, no endpoint id: nothing happens, with one DEBUG line ---------+
 * ```
 *
 * It is best effort: with a broken, full, slow or hostile volume the worker starts cold and logs a WARN line with the remedy. The only errors
 * are invalid options, when the layer is built.
 *
 * @example
 * ```ts
 * Worker.layer(Thumbnail).pipe(
 *   Layer.provide(VolumeCache.layer({ dirs: ["/root/.cache/models"] })),
 *   Worker.launch
 * )
 * ```
 */
import * as JobMiddleware from "@stint/worker/JobMiddleware"
import * as Logger from "@stint/worker/Logger"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as CacheConfig from "./CacheConfig.ts"
import type { CachedDirectory } from "./CachedDirectory.ts"
import * as CacheReport from "./CacheReport.ts"
import * as Hydrate from "./Hydrate.ts"
import { LocalFiles } from "./LocalFiles.ts"
import * as Mirror from "./Mirror.ts"
import * as Sync from "./Sync.ts"
import { VolumeFiles } from "./VolumeFiles.ts"

export { VolumeCacheError } from "./CacheConfig.ts"
export type { Options } from "./CacheConfig.ts"
export type {
  /** @public */
  Hydrated,
  /** @public */
  Synced
} from "./CacheReport.ts"
export { defaultExcludes } from "./ExcludePatterns.ts"

/** A cache. */
export interface Cache {
  /** False if there is no volume or no endpoint id, so that nothing is cached. */
  readonly active: boolean
  /** One report per directory of the files that came from the volume; empty when not active. */
  readonly hydrated: ReadonlyArray<CacheReport.Hydrated>
  /** Copies new files to the volume. It never fails and returns one report per directory. One sync runs at a time. */
  readonly sync: Effect.Effect<ReadonlyArray<CacheReport.Synced>>
}

/** The cache of this worker. */
export class VolumeCache extends Context.Service<VolumeCache, Cache>()("@stint/worker-volume-cache/VolumeCache") {}

/** Copies new files to the volume: {@link Cache.sync} of the cache in the context. */
export const sync: Effect.Effect<ReadonlyArray<CacheReport.Synced>, never, VolumeCache> = Effect.flatMap(
  VolumeCache,
  (cache) => cache.sync
)

/** The cache that is used without a volume: it does nothing. */
const inactive: Cache = { active: false, hydrated: [], sync: Effect.succeed([]) }

const messageOf = (cause: Cause.Cause<unknown>): string => {
  const error = Cause.squash(cause)
  return error instanceof Error ? error.message : String(error)
}

interface Ended {
  readonly milliseconds: number
  readonly complete: boolean
  readonly firstError: string | undefined
}

/** Runs an effect with a time limit and returns failures as text. Interruptions are passed on. */
const bounded = Effect.fnUntraced(function*<A, E, R>(run: Effect.Effect<A, E, R>, limit: Duration.Duration) {
  const started = performance.now()
  // Finalizers of scopes are uninterruptible, but the time limit needs interruption.
  const exit = yield* Effect.exit(Effect.timeoutOption(Effect.interruptible(run), limit))
  const milliseconds = performance.now() - started
  if (Exit.isFailure(exit)) {
    if (Cause.hasInterruptsOnly(exit.cause)) return yield* Effect.interrupt
    const ended: Ended = { milliseconds, complete: false, firstError: messageOf(exit.cause) }
    return ended
  }
  const timedOut = Option.isNone(exit.value)
  const ended: Ended = {
    milliseconds,
    complete: !timedOut,
    firstError: timedOut ? `it was not finished after ${Duration.format(limit)}` : undefined
  }
  return ended
})

/** Combines the counters of an operation with its end. */
const report = <P extends { readonly firstError: string | undefined }>(directory: string, counts: P, ended: Ended) => ({
  ...counts,
  directory,
  milliseconds: Math.round(ended.milliseconds),
  complete: ended.complete,
  firstError: ended.firstError ?? counts.firstError
})

/**
 * Kills the process at its exit if volume operations are pending. A volume that does not respond blocks a thread of Node's pool, and
 * `process.exit` waits for these threads forever. At that point no work is left, so SIGKILL loses nothing.
 */
const exitDespitePendingIo = (files: VolumeFiles): void => {
  process.once("exit", () => {
    if (files.pending() > 0) process.kill(process.pid, "SIGKILL")
  })
}

const hydrateOne = Effect.fnUntraced(function*(directory: CachedDirectory, limit: Duration.Duration) {
  const counts = Hydrate.progress()
  const ended = yield* bounded(Hydrate.hydrate(directory, counts), limit)
  const done: CacheReport.Hydrated = report(directory.root, counts, ended)
  const { bytes, damaged, differing, files, milliseconds, present, skipped, firstError } = done
  const amount = `${CacheReport.files(files)} (${CacheReport.bytes(bytes)}) in ${CacheReport.time(milliseconds)}`
  if (firstError !== undefined) {
    yield* Effect.logWarning(
      `Volume cache: ${directory.root} was filled with ${amount}, but without ${
        CacheReport.files(damaged + skipped)
      }: ${firstError}. ` +
        `The worker continues without them. ${CacheReport.advice(firstError)} The mirror is ${directory.mirror.directory}.`
    )
  } else if (files > 0) {
    yield* Effect.logInfo(`Volume cache: ${directory.root} was filled with ${amount}.`)
  } else {
    yield* Effect.logDebug(
      `Volume cache: no files to copy to ${directory.root}; ${present} files exist already, ${differing} differ.`
    )
  }
  return done
})

const syncOne = Effect.fnUntraced(function*(directory: CachedDirectory, limit: Duration.Duration) {
  const counts = Sync.progress()
  const ended = yield* bounded(Sync.sync(directory, counts), limit)
  const done: CacheReport.Synced = {
    ...report(directory.root, counts, ended),
    generation: directory.lastSnapshot?.generation ?? 0
  }
  const { bytes, changing, files, milliseconds, removed, skipped, firstError, unchanged } = done
  const amount = `${CacheReport.files(files)} (${CacheReport.bytes(bytes)}) of ${directory.root}`
  if (firstError !== undefined) {
    yield* Effect.logWarning(
      `Volume cache: ${amount} copied to the volume, but not all files: ${firstError}. ` +
        `${skipped === 0 ? "" : `${CacheReport.files(skipped)} skipped. `}${
          CacheReport.advice(firstError)
        } The mirror is ${directory.mirror.directory}.`
    )
  } else if (files + removed > 0) {
    yield* Effect.logInfo(
      `Volume cache: ${amount} copied to the volume, ${unchanged} unchanged` +
        `${removed > 0 ? `, ${removed} removed` : ""}, in ${CacheReport.time(milliseconds)}.`
    )
  } else {
    yield* Effect.logDebug(`Volume cache: nothing new in ${directory.root}; ${changing} files are being modified.`)
  }
  return done
})

/**
 * Fills the directories, and syncs them when the scope closes. For programs other than workers, and for {@link layer}.
 *
 * It fails only for invalid options.
 */
export const scoped = Effect.fn("VolumeCache.scoped")(function*(options: CacheConfig.Options) {
  const checked = yield* CacheConfig.check(options)
  const files = yield* VolumeFiles
  const local = yield* LocalFiles
  const open = Effect.gen(function*() {
    const location = yield* CacheConfig.locate(options)
    if ("why" in location) return location
    const directories: Array<CachedDirectory> = []
    for (const { folder, path } of checked.directories) {
      if (CacheConfig.contains(path, location.volume) || CacheConfig.contains(location.volume, path)) {
        yield* Effect.logWarning(
          `Volume cache: ${path} and the volume ${location.volume} overlap, so it is not cached. Choose a directory outside the volume.`
        )
        continue
      }
      const mirror = yield* Mirror.make({
        volume: location.volume,
        folders: [...location.folders, folder],
        limits: checked.settings.limits,
        grace: checked.settings.grace
      })
      directories.push({
        root: path,
        mirror,
        settings: checked.settings,
        known: new Map(),
        damaged: new Map(),
        scanCache: new Map(),
        lastSnapshot: undefined
      })
    }
    return directories
  })
  const opened = yield* Effect.exit(Effect.timeoutOption(open, checked.accessLimit))
  const found = Exit.isFailure(opened)
    ? { why: `the volume cannot be used: ${messageOf(opened.cause)}`, unexpected: true }
    : Option.getOrElse(opened.value, () => ({
      why: `the volume did not answer within ${Duration.format(checked.accessLimit)}. Check its mount`,
      unexpected: true
    }))
  if ("why" in found) {
    if (files.pending() > 0) exitDespitePendingIo(files)
    const line = `Volume cache: nothing is cached: ${found.why}.`
    yield* found.unexpected ? Effect.logWarning(line) : Effect.logDebug(line)
    return inactive
  }

  const onFiles = <A, E>(effect: Effect.Effect<A, E>) =>
    effect.pipe(
      Effect.provideService(VolumeFiles, files),
      Effect.provideService(LocalFiles, local),
      Effect.tap(() => Effect.sync(() => files.pending() > 0 && exitDespitePendingIo(files)))
    )
  const syncLock = yield* Semaphore.make(1)
  const run = onFiles(syncLock.withPermits(1)(Effect.forEach(found, (directory) => syncOne(directory, checked.syncLimit))))
  const hydrated = yield* onFiles(Effect.forEach(found, (directory) => hydrateOne(directory, checked.hydrateLimit)))
  yield* Effect.addFinalizer(() => run)
  const cache: Cache = { active: true, hydrated, sync: run }
  return cache
})

/**
 * The cache as a layer: it fills the directories while it is built, and syncs them when it is closed.
 *
 * When it is provided to `Worker.layer(handler)`, this happens before the first take and after the last result.
 */
export const layer = (options: CacheConfig.Options): Layer.Layer<VolumeCache, CacheConfig.VolumeCacheError> =>
  Layer.effect(VolumeCache, scoped(options))

/**
 * Middleware that syncs the cache after every job, concurrently with the next one, so that a killed worker loses little. Each sync scans
 * the directories. Requests during a sync are combined into one.
 */
export const syncAfterJobs: JobMiddleware.JobMiddleware<never, never, VolumeCache | Scope.Scope> = JobMiddleware.unwrap(
  Effect.gen(function*() {
    const cache = yield* VolumeCache
    if (!cache.active) return JobMiddleware.none
    const requests = yield* Queue.sliding<void>(1)
    yield* Effect.forkScoped(Effect.forever(Effect.andThen(Queue.take(requests), cache.sync)))
    return JobMiddleware.make((next, job) => Effect.ensuring(next(job), Queue.offer(requests, undefined)))
  })
)

/**
 * A cache that caches nothing, for programs that require the service but have no volume.
 *
 * @public
 */
export const layerNoop: Layer.Layer<VolumeCache> = Layer.succeed(VolumeCache, inactive)

/** A cache for plain code. `await using` syncs it at the end of the block. */
export interface Handle extends AsyncDisposable {
  readonly active: boolean
  readonly hydrated: ReadonlyArray<CacheReport.Hydrated>
  /** Copies new files to the volume. Never rejects. */
  readonly sync: () => Promise<ReadonlyArray<CacheReport.Synced>>
  /** Runs the final sync. Further calls return the same promise. Never rejects. */
  readonly close: () => Promise<void>
}

/**
 * The cache for plain code. Resolves when the directories are filled. Invalid options reject with a `TypeError`.
 *
 * A process that ends with `process.exit` or by a signal does not reach the end of the block. Workers should use {@link layer}, because their
 * shutdown waits for it.
 *
 * @example
 * ```ts
 * await using cache = await VolumeCache.open({ dirs: ["/root/.cache/models"] })
 * ```
 */
export const open = async (options: CacheConfig.Options): Promise<Handle> => {
  const scope = Scope.makeUnsafe()
  const provided = <A, E>(effect: Effect.Effect<A, E>) => Effect.provide(effect, Logger.layerPlain)
  const exit = await Effect.runPromiseExit(provided(Effect.provideService(scoped(options), Scope.Scope, scope)))
  if (Exit.isFailure(exit)) {
    const error = Cause.squash(exit.cause)
    throw error instanceof CacheConfig.VolumeCacheError ? new TypeError(error.message) : error
  }
  const cache = exit.value
  let closed: Promise<void> | undefined
  const close = () => closed ??= Effect.runPromise(provided(Scope.close(scope, Exit.void)))
  return {
    active: cache.active,
    hydrated: cache.hydrated,
    sync: () => Effect.runPromise(provided(cache.sync)).then((reports) => [...reports]),
    close,
    [Symbol.asyncDispose]: close
  }
}

/**
 * The cache of models on this machine: downloads each model once, however many workers wait for it.
 *
 * ```
 *   prepare --in the cache?--> Ready
 *      |  no
 *      +--> hub: commit, files --> change lock --> room (CacheSpace) --> files (FileDownload) --> published (CacheLayout) --> Ready
 *                                                                                      any of it fails: Failed, until `retryAt`
 * ```
 *
 * Downloads belong to the layer's scope, not to their callers. An unfinished download of a killed platform continues where it stopped.
 */
import { type ModelDownload, type ModelId, modelParts, type ModelReference } from "@stint/contract/Model"
import type { SecretName } from "@stint/contract/Secret"
import type { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import { Secrets } from "@stint/secrets/Secrets"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { utimes } from "node:fs/promises"
import { relative } from "node:path"
import { attempt, type CacheError } from "./CacheError.ts"
import * as CacheLayout from "./CacheLayout.ts"
import { cacheBytes, lastUsedAt, makeRoom, type SpaceLimits } from "./CacheSpace.ts"
import { download, isPresent } from "./FileDownload.ts"
import { lock, tryLock } from "./FileLock.ts"
import * as Hub from "./Hub.ts"
import { ModelError } from "./ModelError.ts"
import { ModelsRefused, type ModelsService, type ModelState, type UsingModel } from "./Models.ts"
import { bytesText, progressText } from "./ProgressText.ts"

/** The settings of the cache. */
export interface Options {
  /** The parent of the folder `hub`. */
  readonly home: string
  /** The hub's address. */
  readonly hubUrl: string
  /** The largest size of the cache in bytes. Default: only the disk limits it. Models that were used least recently are removed to stay below it. */
  readonly maxBytes?: number | undefined
  /** The free space that a download must leave on the disk. Bytes. Default: 1 GiB. */
  readonly minFreeBytes?: number
  /** The first wait before a failed request is repeated. Milliseconds. Default: 1 s. */
  readonly retryMs?: number
}

/**
 * The number of files of a model that are downloaded at once. More would hardly be faster, because the hub's storage is fast, and each download needs
 * memory.
 */
const CONCURRENCY = 4

/** How often the list of files is requested before a download fails. */
const LIST_TRIES = 5

/** The wait after a failed download, while an endpoint needs the model. Longer when only a change by the operator can help. Milliseconds. */
const RETRY_AFTER = { transient: 30_000, permanent: 60_000 } as const

/** A failed download is listed for this long after the time at which it could be repeated. Milliseconds. */
const FORGET_AFTER = 3_600_000

const PROGRESS_INTERVAL = "10 seconds"

interface Progress {
  readonly _tag: "Downloading"
  received: number
  total: number | undefined
  receivedBefore: number
  since: number
  problem: string | undefined
}

/** The state of a model with a token in this process. */
interface Entry {
  readonly model: ModelReference
  state: Exclude<ModelState, { readonly _tag: "Downloading" }> | Progress
  /** Completes once the cache has been checked: the model is ready, or its download has begun. */
  readonly looked: Deferred.Deferred<void>
  readonly ended: Deferred.Deferred<void>
}

/** A download that was allowed, and the bytes that it will still write. */
interface Reservation {
  bytes: number
}

const uniqueFiles = (files: ReadonlyArray<CacheLayout.ModelFile>): ReadonlyArray<CacheLayout.ModelFile> => [
  ...new Map(files.map((file) => [file.blob, file])).values()
]

/** The service. Downloads run in its scope. */
export const make = Effect.fnUntraced(function*(
  options: Options
): Effect.fn.Return<ModelsService, never, GuardedHttp | Scope.Scope> {
  const scope = yield* Scope.Scope
  const secrets = yield* Secrets
  const hub = yield* Hub.make(options.hubUrl)
  const cache = CacheLayout.cacheAt(options.home)
  const limits: SpaceLimits = { maxBytes: options.maxBytes, minFreeBytes: options.minFreeBytes ?? 1024 ** 3 }
  const retryMs = options.retryMs ?? 1_000
  const entries = new Map<string, Entry>()
  const reservations = new Set<Reservation>()
  const reserving = Semaphore.makeUnsafe(1)
  /** The number of holders of each commit, by `id commit`. */
  const held = new Map<string, number>()

  const keyOf = (model: ModelReference, token: SecretName | undefined, kind: "needed" | "refresh" = "needed") =>
    JSON.stringify([model, token ?? null, token === undefined ? null : secrets.versionOf(token) ?? null, kind])

  const toError = (model: string) => (error: ModelError | CacheError): ModelError =>
    error._tag === "ModelError" ? error : new ModelError({
      model,
      problem: error.isFull ? `the disk is full (${error.detail})` : `the cache ${error.message}`,
      hint: error.isFull
        ? `Free space on the disk of ${cache.home}.`
        : "Make the folder writable for the platform, or set another one: STINT_MODELS_DIR.",
      isTransient: false
    })

  /** The commits of the model may have changed. A download in progress checks this itself. */
  const forget = (id: ModelId) => {
    for (const [key, { model, state }] of entries) {
      if (state._tag === "Ready" && modelParts(model).id === id) entries.delete(key)
    }
  }

  const touch = (id: ModelId, commit: string) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const file = CacheLayout.useLockOf(cache, id, commit)
      return attempt(file, () => utimes(file, now / 1_000, now / 1_000))
    })

  const wishOf = Effect.fnUntraced(function*(model: ModelReference, token: SecretName | undefined) {
    const wish: Hub.DownloadRequest = { model, token: undefined }
    if (token === undefined) return wish
    const value = secrets.valueOf(token)
    if (value !== undefined) return { ...wish, token: { secret: token, value } }
    return yield* new ModelError({
      model,
      problem: `its token is in the secret "${token}", which does not exist`,
      hint: `Set it: stint secrets set ${token}`,
      isTransient: false
    })
  })

  /** Reserves the space of a download until the scope closes. */
  const reserve = (model: ModelReference, id: ModelId, files: ReadonlyArray<CacheLayout.ModelFile>, bytes: number) =>
    reserving.withPermit(Effect.gen(function*() {
      const size = files.reduce((sum, file) => sum + file.size, 0)
      const others = [...reservations].reduce((sum, other) => sum + other.bytes, 0)
      const tooLarge = (problem: string, hint: string) => new ModelError({ model, problem, hint, isTransient: false })
      if (limits.maxBytes !== undefined && size > limits.maxBytes) {
        return yield* tooLarge(
          `it has ${bytesText(size)}, and the cache may have ${bytesText(limits.maxBytes)}`,
          "Raise STINT_MODELS_SIZE and restart the platform, or use a smaller model."
        )
      }
      const need = { id, bytes: bytes + others, blobs: new Set(files.map(({ blob }) => blob)) }
      const missing = yield* makeRoom(cache, limits, need, forget)
      if (missing > 0) {
        return yield* tooLarge(
          `${bytesText(bytes)} must be downloaded, and ${
            bytesText(missing)
          } would be missing after the removal of all unused models`,
          `Free space on the disk of ${cache.home}, raise STINT_MODELS_SIZE if it is set, or stop endpoints that use other models.`
        )
      }
      const reservation: Reservation = { bytes }
      reservations.add(reservation)
      yield* Effect.addFinalizer(() => Effect.sync(() => reservations.delete(reservation)))
      return reservation
    }))

  const fetch = Effect.fnUntraced(
    function*(wish: Hub.DownloadRequest, progress: Progress) {
      const { id, revision } = modelParts(wish.model)
      const retrying = ({ problem }: ModelError) =>
        Effect.sync(() => {
          progress.problem = problem
        })
      const contents = yield* hub.contents(wish).pipe(
        Effect.tapError(retrying),
        Effect.retry({
          while: (error: ModelError) => error.isTransient,
          times: LIST_TRIES - 1,
          schedule: Schedule.exponential(retryMs)
        })
      )
      progress.problem = undefined
      yield* lock(CacheLayout.changeLockOf(cache, id), "exclusive")
      const snapshot: CacheLayout.Snapshot = { id, ...contents }
      yield* CacheLayout.makeFolders(cache, id)
      const files = uniqueFiles(contents.files)
      const missing: Array<CacheLayout.ModelFile> = []
      let present = 0
      for (const file of files) {
        if (yield* isPresent(cache, id, file)) present += file.size
        else {
          missing.push(file)
          present += Math.min(file.size, (yield* CacheLayout.sizeOf(CacheLayout.partOf(cache, id, file.blob))) ?? 0)
        }
      }
      const total = files.reduce((sum, file) => sum + file.size, 0)
      const reservation = yield* reserve(wish.model, id, files, total - present)
      progress.received = present
      progress.receivedBefore = present
      progress.total = total
      progress.since = yield* Clock.currentTimeMillis
      yield* Effect.logInfo(
        `Downloading the model ${wish.model} from ${hub.url}: ${files.length} files, ${bytesText(total - present)} of ${
          bytesText(total)
        }.`
      )
      const advance = (bytes: number) => {
        progress.received += bytes
        if (bytes > 0) progress.problem = undefined
        reservation.bytes -= bytes
      }
      yield* Effect.forEach(
        missing,
        (file) => download({ cache, hub, wish, id, commit: contents.commit, retryMs, advance, retrying }, file),
        { concurrency: CONCURRENCY, discard: true }
      )
      yield* CacheLayout.publish(cache, snapshot, revision)
      // Creates the file whose modification time is the time of the last use.
      yield* Effect.scoped(tryLock(CacheLayout.useLockOf(cache, id, contents.commit), "shared"))
      yield* touch(id, contents.commit)
      const seconds = Math.round(((yield* Clock.currentTimeMillis) - progress.since) / 100) / 10
      yield* Effect.logInfo(`Downloaded the model ${wish.model} (commit ${contents.commit.slice(0, 12)}) in ${seconds} s.`)
    },
    Effect.scoped
  )

  const reporting = (entry: Entry) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      entry.state._tag === "Downloading"
        ? Effect.logInfo(`Downloading the model ${entry.model}: ${progressText(entry.state, now)}.`)
        : Effect.void).pipe(
        Effect.delay(PROGRESS_INTERVAL),
        Effect.forever
      )

  const run = Effect.fnUntraced(function*(entry: Entry, progress: Progress, token: SecretName | undefined, isRefresh: boolean) {
    const { id, revision } = modelParts(entry.model)
    if (!isRefresh && (yield* CacheLayout.find(cache, id, revision)) !== undefined) {
      entry.state = { _tag: "Ready" }
      return
    }
    yield* Deferred.succeed(entry.looked, undefined)
    const failure = yield* Effect.flatMap(wishOf(entry.model, token), (wish) => fetch(wish, progress)).pipe(
      Effect.mapError(toError(entry.model)),
      Effect.as(undefined),
      Effect.catch((error) => Effect.succeed(error)),
      Effect.raceFirst(reporting(entry))
    )
    if (failure === undefined) {
      entry.state = { _tag: "Ready" }
      for (const [key, other] of entries) if (other.model === entry.model && other.state._tag === "Failed") entries.delete(key)
      return
    }
    const wait = RETRY_AFTER[failure.isTransient ? "transient" : "permanent"] * (0.9 + 0.2 * (yield* Random.next))
    const retryAt = Math.round((yield* Clock.currentTimeMillis) + wait)
    entry.state = { _tag: "Failed", reason: failure.message, retryAt }
    yield* Effect.logWarning(failure.message)
  })

  /**
   * Looks for the model, and starts its download if it is absent. A refresh checks the hub even if the model exists. A refresh does not change
   * the state of the model: workers start during the refresh, and after it has failed.
   */
  const begin = Effect.fnUntraced(function*(model: ModelReference, token: SecretName | undefined, kind: "needed" | "refresh") {
    const now = yield* Clock.currentTimeMillis
    for (const [key, { state }] of entries) if (state._tag === "Failed" && state.retryAt + FORGET_AFTER < now) entries.delete(key)
    const progress: Progress = {
      _tag: "Downloading",
      received: 0,
      total: undefined,
      receivedBefore: 0,
      since: now,
      problem: undefined
    }
    const entry: Entry = { model, state: progress, looked: Deferred.makeUnsafe(), ended: Deferred.makeUnsafe() }
    entries.set(keyOf(model, token, kind), entry)
    yield* run(entry, progress, token, kind === "refresh").pipe(
      Effect.onExit((exit) =>
        Effect.gen(function*() {
          if (entry.state._tag === "Downloading") {
            if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
              yield* Effect.logError(`The download of the model ${model} failed in an unexpected way.`, exit.cause)
            }
            const reason =
              `The model ${model} cannot be downloaded: its download was stopped. The platform's log may contain the reason.`
            entry.state = { _tag: "Failed", reason, retryAt: now + RETRY_AFTER.transient }
          }
          yield* Deferred.succeed(entry.looked, undefined)
          yield* Deferred.succeed(entry.ended, undefined)
        })
      ),
      Effect.forkIn(scope)
    )
    return entry
  })

  const entryOf = ({ model, modelToken }: UsingModel) =>
    model === undefined ? undefined : entries.get(keyOf(model, modelToken?.secret))

  const prepare: ModelsService["prepare"] = Effect.fnUntraced(function*(endpoint, again) {
    const { model, modelToken } = endpoint
    if (model === undefined) return { _tag: "Ready" }
    const known = entryOf(endpoint)
    if (known !== undefined && known.state._tag !== "Failed") {
      yield* Deferred.await(known.looked)
      return known.state
    }
    if (known?.state._tag === "Failed" && again === undefined && (yield* Clock.currentTimeMillis) < known.state.retryAt) {
      return known.state
    }
    const entry = yield* begin(model, modelToken?.secret, "needed")
    yield* Deferred.await(entry.looked)
    return entry.state
  })

  const settled: ModelsService["settled"] = (endpoint) =>
    Effect.suspend(() => {
      const entry = entryOf(endpoint)
      return entry === undefined ? Effect.void : Deferred.await(entry.ended)
    })

  const hold: ModelsService["hold"] = Effect.fnUntraced(function*(endpoint) {
    const { model } = endpoint
    if (model === undefined) return undefined
    const { id, revision } = modelParts(model)
    const gone = new ModelError({
      model,
      problem: "it was removed from the cache meanwhile",
      hint: "It is downloaded again.",
      isTransient: true
    })
    const snapshot = yield* CacheLayout.find(cache, id, revision)
    if (snapshot === undefined) {
      forget(id)
      return yield* gone
    }
    const { commit } = snapshot
    const isHeld = yield* Effect.mapError(tryLock(CacheLayout.useLockOf(cache, id, commit), "shared"), toError(model))
    // It was removed between the two steps, or is being removed.
    if (!isHeld || (yield* CacheLayout.find(cache, id, revision)) === undefined) {
      forget(id)
      return yield* gone
    }
    const key = `${id} ${commit}`
    held.set(key, (held.get(key) ?? 0) + 1)
    yield* Effect.addFinalizer(() =>
      Effect.andThen(
        Effect.sync(() => {
          const left = (held.get(key) ?? 1) - 1
          if (left === 0) held.delete(key)
          else held.set(key, left)
        }),
        Effect.ignore(touch(id, commit))
      )
    )
    yield* Effect.ignore(touch(id, commit))
    return { model, home: cache.home, snapshot: relative(cache.home, CacheLayout.snapshotOf(cache, id, commit)) }
  })

  const downloadOf = ({ model, state }: Entry): ReadonlyArray<ModelDownload> => {
    switch (state._tag) {
      case "Ready":
        return []
      case "Downloading":
        return [{
          model,
          state: "downloading",
          receivedBytes: state.received,
          ...(state.total === undefined ? {} : { totalBytes: state.total })
        }]
      case "Failed":
        return [{ model, state: "failed", receivedBytes: 0, reason: state.reason, retryAt: state.retryAt }]
    }
  }

  const modelsOf = Effect.fnUntraced(function*(id: ModelId) {
    const refs = yield* CacheLayout.listRefs(cache, id)
    return yield* Effect.forEach(
      yield* CacheLayout.listSnapshots(cache, id),
      Effect.fnUntraced(function*({ commit, files }) {
        return {
          model: id,
          commit,
          revisions: refs.get(commit) ?? [],
          files: files.length,
          bytes: uniqueFiles(files).reduce((sum, { size }) => sum + size, 0),
          lastUsedAt: yield* lastUsedAt(cache, id, commit),
          workers: held.get(`${id} ${commit}`) ?? 0
        }
      })
    )
  })

  const list: ModelsService["list"] = Effect.gen(function*() {
    // Read first: a model without a download in this list is then complete.
    const downloads = [...entries.values()].flatMap(downloadOf)
    const models = yield* Effect.forEach(yield* CacheLayout.listModels(cache), modelsOf)
    return {
      folder: cache.hub,
      hub: hub.url,
      bytes: yield* cacheBytes(cache),
      ...(limits.maxBytes === undefined ? {} : { limitBytes: limits.maxBytes }),
      models: models.flat(),
      downloads
    }
  })

  const pull: ModelsService["pull"] = Effect.fnUntraced(function*(model, token) {
    const { id, revision } = modelParts(model)
    // Workers that wait for an absent model share its download.
    const kind = (yield* CacheLayout.find(cache, id, revision)) === undefined ? "needed" : "refresh"
    const known = entries.get(keyOf(model, token, kind))
    const entry = known?.state._tag === "Downloading" ? known : yield* begin(model, token, kind)
    const [started] = downloadOf(entry)
    return started ?? { model, state: "downloading", receivedBytes: 0 }
  })

  const busy = (id: ModelId, why: string) =>
    new ModelsRefused({ kind: "busy", message: `The model ${id} cannot be removed: ${why}.`, hint: "Try again later." })

  const remove: ModelsService["remove"] = Effect.fnUntraced(
    function*(id) {
      if (!(yield* CacheLayout.listModels(cache)).includes(id)) {
        return yield* new ModelsRefused({
          kind: "missing",
          message: `The model ${id} is not in the cache.`,
          hint: "List the models: stint models list"
        })
      }
      const before = yield* CacheLayout.storedBytes(cache, id)
      if (!(yield* tryLock(CacheLayout.changeLockOf(cache, id), "exclusive"))) return yield* busy(id, "it is being downloaded")
      const snapshots = yield* CacheLayout.listSnapshots(cache, id)
      for (const { commit } of snapshots) {
        if (!(yield* tryLock(CacheLayout.useLockOf(cache, id, commit), "exclusive"))) {
          const workers = held.get(`${id} ${commit}`)
          return yield* busy(
            id,
            workers === undefined ? "another process uses it" : workers === 1 ? "1 worker uses it" : `${workers} workers use it`
          )
        }
      }
      for (const { commit } of snapshots) yield* CacheLayout.removeSnapshot(cache, id, commit)
      yield* CacheLayout.removeAll(cache, id)
      forget(id)
      return before
    },
    Effect.scoped,
    Effect.catchTag("CacheError", (error) =>
      Effect.fail(
        new ModelsRefused({ kind: "none", message: `The model cannot be removed: ${error.message}.`, hint: "Check the folder." })
      ))
  )

  return { prepare, stateOf: (endpoint) => entryOf(endpoint)?.state, settled, hold, list, pull, remove }
})

/**
 * Counts what runs on this node, and adds it to the `UsageStore` (docs/operations/usage.md).
 *
 * ```
 *   attempt ends (JobNotifier) --------> execution time, by the job's key    \
 *   worker is ready ... has ended -----> time of the worker and its GPUs      > sums in memory --every 10 s--> UsageStore.add
 *   CPU time that a pool reports ------> the difference from the last report /
 *   memory that a pool reports --------> WorkerRegistry
 * ```
 *
 * An attempt only adds to a map in memory. A platform that is killed loses what it has counted since the last write: at most {@link INTERVAL_MILLIS}
 * plus the time of one write. Nothing is counted twice: a change to a job passes through the notifier once, and the store ignores a repeated addition
 * with the same number.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { JobHead } from "@stint/store/JobRecord"
import * as OutageLog from "@stint/store/OutageLog"
import { type UsageKey, usageKeyText, type UsageRecord, UsageStore } from "@stint/store/UsageStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { randomUUID } from "node:crypto"
import { monotonicMillis } from "../ClockWatch.ts"
import { WorkerRegistry } from "../workers/WorkerRegistry.ts"
import { eachHour, hourOf } from "./UsageHours.ts"

/** A worker that a pool has started. */
export interface MeteredWorker {
  readonly endpoint: EndpointId
  readonly worker: string
  readonly gpus: number
  /** Its CPU time so far and its memory; undefined when they are unknown. */
  readonly resources: Effect.Effect<
    { readonly cpuMillis: number | undefined; readonly memoryBytes: number | undefined } | undefined
  >
  /** Whether an earlier process of the platform started the worker. */
  readonly isReady: boolean
}

/** Counts usage. Default: counts nothing. */
export const UsageMeter = Context.Reference<{
  /** `before` ran, `after` does not. */
  readonly attemptEnded: (before: JobHead, after: JobHead) => void
  /** Counts the time of a worker until the scope closes. */
  readonly watch: (worker: MeteredWorker) => Effect.Effect<void, never, Scope.Scope>
}>("@stint/queue/UsageMeter", {
  defaultValue: () => ({ attemptEnded: () => {}, watch: () => Effect.void })
})

/** How often the sums are stored. */
export const INTERVAL_MILLIS = 10_000

/** How long stored usage is kept, and how many records. */
export interface UsageSettings {
  readonly keep: Duration.Duration
  readonly records: number
  /** How often the counts are stored. Default: {@link INTERVAL_MILLIS}. */
  readonly interval?: Duration.Input
}

/** The default bounds. A record takes about 100 bytes. */
export const defaults: UsageSettings = { keep: Duration.days(400), records: 500_000 }

/** The maximum number of sums in memory. Beyond it, usage is counted under release 0 and the key {@link OTHER_KEYS}. */
const MAX_SUMS = 2_000

/** The key under which usage is counted when there are too many sums. No access key has this id. */
const OTHER_KEYS = "*"

const TRIM_INTERVAL = "1 hour"

/** The maximum number of records that one write removes. */
const TRIM_LIMIT = 500

/** How many workers are measured at once. */
const MEASURE_CONCURRENCY = 8

/** How long the engines may take to report on all workers. Missing CPU time is counted later. */
const MEASURE_LIMIT = "5 seconds"

type Amounts = Omit<UsageRecord, keyof UsageKey>
type Sum = { -readonly [Name in keyof UsageRecord]: UsageRecord[Name] }

const NOTHING: Amounts = { attempts: 0, executionMs: 0, workerMs: 0, cpuMs: 0, gpuMs: 0 }

/** The sums since the last addition. */
const makeSums = () => {
  let sums = new Map<string, Sum>()
  /** Consecutive attempts mostly have the same key, and comparing the fields is faster than building its text. */
  let last: Sum | undefined
  const find = (hour: number, endpoint: string, release: number, key: string): Sum => {
    if (last?.hour === hour && last.endpoint === endpoint && last.release === release && last.key === key) return last
    const id = usageKeyText({ hour, endpoint, release, key })
    const known = sums.get(id)
    if (known === undefined && sums.size >= MAX_SUMS && key !== OTHER_KEYS) return find(hour, endpoint, 0, OTHER_KEYS)
    last = known ?? { hour, endpoint, release, key, ...NOTHING }
    if (known === undefined) sums.set(id, last)
    return last
  }
  return {
    find,
    take: (): ReadonlyArray<UsageRecord> => {
      const taken = [...sums.values()]
      sums = new Map()
      last = undefined
      return taken
    }
  }
}

interface Watched extends MeteredWorker {
  /** Monotonic. */
  readonly watchedAt: number
  /** The time up to which it was counted. Monotonic; null before it is ready. */
  countedAt: number | null
  /** The CPU time that was counted; null while the part that an earlier platform counted is unknown. */
  cpuMs: number | null
  /** The last known release: at the worker's exit, the registry may no longer contain it. */
  release: number
}

const make = Effect.fnUntraced(function*({ interval = INTERVAL_MILLIS, keep, records }: UsageSettings) {
  const store = yield* UsageStore
  const registry = yield* WorkerRegistry
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const elapsed = () => Math.floor(monotonicMillis(clock))
  const sums = makeSums()
  const workers = new Set<Watched>()
  const outage = OutageLog.make({
    onFailure: (problem) => Effect.logWarning(`Usage cannot be stored and is kept in memory: ${problem}`),
    onRecovery: Effect.logInfo("Usage is stored again.")
  })
  const source = randomUUID()
  let sequence = 0
  let unsent: ReadonlyArray<UsageRecord> = []

  const sumOfWorker = (watched: Watched, hour: number) => {
    watched.release = registry.releaseOf(watched.endpoint, watched.worker) ?? watched.release
    return sums.find(hour, watched.endpoint, watched.release, "")
  }

  /** Counts the time of a worker until now. */
  const measure = (worker: Watched) => {
    const [at, wall] = [elapsed(), now()]
    if (worker.countedAt === null) {
      const readyAt = registry.startOf(worker.endpoint, worker.worker)?.readyAt ?? null
      if (readyAt === null) return
      // The registry has a wall-clock time, and the clock may have been set since.
      worker.countedAt = at - Math.min(Math.max(0, wall - readyAt), at - worker.watchedAt)
    }
    eachHour(wall - (at - worker.countedAt), wall, (hour, millis) => {
      const sum = sumOfWorker(worker, hour)
      sum.workerMs += millis
      sum.gpuMs += millis * worker.gpus
    })
    worker.countedAt = at
  }

  const measureResources = Effect.fnUntraced(function*(worker: Watched) {
    const found = yield* worker.resources
    registry.measured(worker.endpoint, worker.worker, found?.memoryBytes)
    if (found?.cpuMillis === undefined) return
    const total = Math.floor(found.cpuMillis)
    const counted = worker.cpuMs ?? total
    // The time decreases when a child process outlives its parent.
    if (total > counted) sumOfWorker(worker, hourOf(now())).cpuMs += total - counted
    worker.cpuMs = Math.max(counted, total)
  })

  /** Stores the counts. Repeats an addition whose result is unknown before it adds more. */
  const flush = Effect.gen(function*() {
    if (unsent.length === 0) {
      unsent = sums.take()
      if (unsent.length === 0) return
      sequence += 1
    }
    yield* store.add({ source, sequence, at: now(), records: unsent })
    unsent = []
  })

  const one = Semaphore.makeUnsafe(1)
  const tick = Effect.gen(function*() {
    yield* Effect.forEach([...workers], measureResources, { concurrency: MEASURE_CONCURRENCY, discard: true }).pipe(
      Effect.timeoutOption(MEASURE_LIMIT)
    )
    workers.forEach(measure)
    yield* outage.watch(flush)
  }).pipe(one.withPermits(1))

  const trim = Effect.gen(function*() {
    const bounds = { before: now() - Duration.toMillis(keep), records }
    while ((yield* store.trim(bounds, TRIM_LIMIT)) === TRIM_LIMIT) yield* Effect.yieldNow
  }).pipe(Effect.catchCause((cause) => Effect.logError("Old usage cannot be removed; retrying within an hour.", cause)))

  // Runs twice, because the first addition may repeat an earlier one.
  yield* Effect.addFinalizer(() => Effect.andThen(tick, outage.watch(flush)))
  yield* Effect.forkScoped(Effect.repeat(tick, Schedule.spaced(Duration.fromInputUnsafe(interval))))
  yield* Effect.forkScoped(Effect.repeat(trim, Schedule.spaced(TRIM_INTERVAL)))

  return {
    attemptEnded: ({ endpoint, owner, release, startedAt }: JobHead, after: JobHead) => {
      // For a job that returned to the queue, this is the time of its return.
      const at = after.finishedAt ?? (after.status === "IN_QUEUE" ? after.queuedAt : now())
      const sumOf = (hour: number) => sums.find(hour, endpoint, release ?? 0, owner)
      sumOf(hourOf(at)).attempts += 1
      if (startedAt !== null) eachHour(startedAt, at, (hour, millis) => void (sumOf(hour).executionMs += millis))
    },
    watch: (worker: MeteredWorker) =>
      Effect.asVoid(Effect.acquireRelease(
        Effect.sync(() => {
          const watchedAt = elapsed()
          const watched: Watched = worker.isReady
            ? { ...worker, watchedAt, countedAt: watchedAt, cpuMs: null, release: 0 }
            : {
              ...worker,
              watchedAt,
              countedAt: null,
              cpuMs: 0,
              release: registry.releaseOf(worker.endpoint, worker.worker) ?? 0
            }
          workers.add(watched)
          return watched
        }),
        (watched) =>
          Effect.sync(() => {
            measure(watched)
            workers.delete(watched)
          })
      ))
  }
})

/** The meter of a node. */
export const layer = (settings: UsageSettings = defaults): Layer.Layer<never, never, UsageStore | WorkerRegistry> =>
  Layer.effect(UsageMeter, make(settings))

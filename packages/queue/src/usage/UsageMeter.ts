/**
 * Counts what runs on this node, and adds it to the `UsageStore` (docs/operations/usage.md).
 *
 * ```
 *   attempt ends (JobNotifier) --------> execution time, by the job's key    \
 *   worker is ready ... has ended -----> time of the worker and its GPUs      > sums in memory --every 10 s--> UsageStore.add
 *   processor time that a pool reports > the difference to the last report   /
 * ```
 *
 * The path of a job only adds to a map: nothing is written for a single attempt. A platform that is killed loses what it has counted since
 * the last addition: at most {@link INTERVAL_MILLIS} and the time of one write. Nothing is ever counted twice: a change of a job passes the notifier once, and an
 * addition whose result is unknown is repeated with the same number, which the store adds once.
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
  /** Its processor time so far; undefined when it is unknown. */
  readonly cpuMillis: Effect.Effect<number | undefined>
  /** Whether it was ready before: a worker of an earlier platform. */
  readonly isReady: boolean
}

/** Counts. Default: nothing is counted. */
export const UsageMeter = Context.Reference<{
  /** `before` ran, `after` does not. */
  readonly attemptEnded: (before: JobHead, after: JobHead) => void
  /** Counts a worker until the scope closes. */
  readonly watch: (worker: MeteredWorker) => Effect.Effect<void, never, Scope.Scope>
}>("@stint/queue/UsageMeter", {
  defaultValue: () => ({ attemptEnded: () => {}, watch: () => Effect.void })
})

/** How often sums are stored. */
export const INTERVAL_MILLIS = 10_000

/** How long stored usage is kept, and how many records. */
export interface UsageSettings {
  readonly keep: Duration.Duration
  readonly records: number
  /** How often what was counted is stored. Default: {@link INTERVAL_MILLIS}. */
  readonly interval?: Duration.Input
}

/** The default bounds. A record takes about 100 bytes. */
export const defaults: UsageSettings = { keep: Duration.days(400), records: 500_000 }

/** The number of sums in memory. What exceeds it is counted with the release 0 and the key {@link OTHER_KEYS}. */
const MAX_SUMS = 2_000

/** The key of usage that was counted while there were too many different sums. It is no id of a key. */
const OTHER_KEYS = "*"

const TRIM_INTERVAL = "1 hour"

/** The maximum number of records that one write removes. */
const TRIM_LIMIT = 500

/** How many workers are asked for their processor time at once. */
const CPU_CONCURRENCY = 8

/** How long the engines may take to report all processor times. What is missing is counted later. */
const CPU_LIMIT = "5 seconds"

type Amounts = Omit<UsageRecord, keyof UsageKey>
type Sum = { -readonly [Name in keyof UsageRecord]: UsageRecord[Name] }

const NOTHING: Amounts = { attempts: 0, executionMs: 0, workerMs: 0, cpuMs: 0, gpuMs: 0 }

/** The sums since the last addition. */
const makeSums = () => {
  let sums = new Map<string, Sum>()
  /** Most attempts that end after one another have the same key, which a comparison finds faster than its text. */
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
  /** Until this time it is counted. Monotonic; null before it is ready. */
  countedAt: number | null
  /** What is counted of its processor time; null when the part that an earlier platform counted is not known yet. */
  cpuMs: number | null
  /** The last one that is known: at its exit, the registry may have forgotten the worker. */
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
    onFailure: (problem) => Effect.logWarning(`Usage cannot be stored, and is counted in memory meanwhile: ${problem}`),
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
      // The registry has the time of the wall clock, which may have been set since.
      worker.countedAt = at - Math.min(Math.max(0, wall - readyAt), at - worker.watchedAt)
    }
    eachHour(wall - (at - worker.countedAt), wall, (hour, millis) => {
      const sum = sumOfWorker(worker, hour)
      sum.workerMs += millis
      sum.gpuMs += millis * worker.gpus
    })
    worker.countedAt = at
  }

  const measureCpu = Effect.fnUntraced(function*(worker: Watched) {
    const found = yield* worker.cpuMillis
    if (found === undefined) return
    const total = Math.floor(found)
    const counted = worker.cpuMs ?? total
    // Less than before when a child process was left behind by its parent.
    if (total > counted) sumOfWorker(worker, hourOf(now())).cpuMs += total - counted
    worker.cpuMs = Math.max(counted, total)
  })

  /** Stores what was counted. Repeats an addition whose result is unknown before it adds more. */
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
    yield* Effect.forEach([...workers], measureCpu, { concurrency: CPU_CONCURRENCY, discard: true }).pipe(
      Effect.timeoutOption(CPU_LIMIT)
    )
    workers.forEach(measure)
    yield* outage.watch(flush)
  }).pipe(one.withPermits(1))

  const trim = Effect.gen(function*() {
    const bounds = { before: now() - Duration.toMillis(keep), records }
    while ((yield* store.trim(bounds, TRIM_LIMIT)) === TRIM_LIMIT) yield* Effect.yieldNow
  }).pipe(Effect.catchCause((cause) => Effect.logError("Old usage cannot be removed; retrying within an hour.", cause)))

  // Twice: the first addition may be the repetition of an earlier one.
  yield* Effect.addFinalizer(() => Effect.andThen(tick, outage.watch(flush)))
  yield* Effect.forkScoped(Effect.repeat(tick, Schedule.spaced(Duration.fromInputUnsafe(interval))))
  yield* Effect.forkScoped(Effect.repeat(trim, Schedule.spaced(TRIM_INTERVAL)))

  return {
    attemptEnded: ({ endpoint, owner, release, startedAt }: JobHead, after: JobHead) => {
      // A job that returned to the queue has the time of its return.
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

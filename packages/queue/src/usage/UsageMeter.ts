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
export const OTHER_KEYS = "*"

const TRIM_INTERVAL = "1 hour"

/** The maximum number of records that one write removes. */
const TRIM_LIMIT = 500

/** How many workers are asked for their processor time at once. */
const CPU_CONCURRENCY = 8

/** How long an engine may take to report the processor time of a container. */
const CPU_LIMIT = "5 seconds"

type Amounts = Omit<UsageRecord, keyof UsageKey>
type Sum = { -readonly [Name in keyof UsageRecord]: UsageRecord[Name] }

const NOTHING: Amounts = { attempts: 0, executionMs: 0, workerMs: 0, cpuMs: 0, gpuMs: 0 }

/** The sums since the last addition. */
const makeSums = () => {
  let sums = new Map<string, Sum>()
  const find = (key: UsageKey): Sum => {
    const id = usageKeyText(key)
    const known = sums.get(id)
    if (known !== undefined) return known
    if (sums.size >= MAX_SUMS && key.key !== OTHER_KEYS) return find({ ...key, release: 0, key: OTHER_KEYS })
    const sum = { ...key, ...NOTHING }
    sums.set(id, sum)
    return sum
  }
  return {
    find,
    take: (): ReadonlyArray<UsageRecord> => {
      const taken = [...sums.values()]
      sums = new Map()
      return taken
    }
  }
}

interface Watched extends MeteredWorker {
  /** Until this time it is counted. Monotonic; null before it is ready. */
  countedAt: number | null
  cpuMs: number
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

  const sumOfWorker = ({ endpoint, worker }: Watched, hour: number) =>
    sums.find({ hour, endpoint, release: registry.releaseOf(endpoint, worker) ?? 0, key: "" })

  /** Counts the time of a worker until now. */
  const measure = (worker: Watched) => {
    const [at, wall] = [elapsed(), now()]
    if (worker.countedAt === null) {
      const readyAt = registry.startOf(worker.endpoint, worker.worker)?.readyAt ?? null
      if (readyAt === null) return
      // The registry has the time of the wall clock, which may have been set since.
      worker.countedAt = at - Math.min(Math.max(0, wall - readyAt), INTERVAL_MILLIS * 2)
    }
    eachHour(wall - (at - worker.countedAt), wall, (hour, millis) => {
      const sum = sumOfWorker(worker, hour)
      sum.workerMs += millis
      sum.gpuMs += millis * worker.gpus
    })
    worker.countedAt = at
  }

  const measureCpu = Effect.fnUntraced(function*(worker: Watched) {
    const found = yield* Effect.timeoutOption(worker.cpuMillis, CPU_LIMIT)
    const total = Math.floor(found._tag === "Some" ? found.value ?? 0 : 0)
    // Less than before when a child process was left behind by its parent.
    if (total > worker.cpuMs) sumOfWorker(worker, hourOf(now())).cpuMs += total - worker.cpuMs
    worker.cpuMs = Math.max(worker.cpuMs, total)
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
    yield* Effect.forEach([...workers], measureCpu, { concurrency: CPU_CONCURRENCY, discard: true })
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
      const key = { endpoint, release: release ?? 0, key: owner }
      sums.find({ ...key, hour: hourOf(at) }).attempts += 1
      if (startedAt !== null) eachHour(startedAt, at, (hour, millis) => void (sums.find({ ...key, hour }).executionMs += millis))
    },
    watch: (worker: MeteredWorker) =>
      Effect.asVoid(Effect.acquireRelease(
        Effect.sync(() => {
          const watched: Watched = { ...worker, countedAt: worker.isReady ? elapsed() : null, cpuMs: 0 }
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

/**
 * The workers of one endpoint, from their start to their end.
 *
 * ```
 *                      pool.start              first call
 *   decide: start ---> [ starting ] ---------> [ ready ]
 *                          |  never calls          |  idle too long, outdated, stuck, silent, it says goodbye
 *                          |  (initLimit)          v
 *                          |                   [ leaving ]   drainWorker: no more jobs; its own are finished
 *                          |                       |  holds none: SIGTERM;  still there after stopGrace: SIGKILL
 *                          v                       v
 *                        gone: workerGone(cause) -> its jobs go back, or fail with the true cause
 * ```
 *
 * SIGTERM is sent only to a worker that holds no job: nothing is known of the program behind a `command`, and one that does not handle the
 * signal would die of it in the middle of a job, as would whatever a handler has started for its job in the same process group.
 *
 * The loop looks when demand changes, when a worker ends, when a time comes that the last look has named, and every `interval` in any case (five of them while all is quiet).
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { WorkerId } from "@stint/contract/Ids"
import { pingIntervalOf, workerEnvironment } from "@stint/contract/WorkerProtocol"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import { WorkerPool } from "@stint/pool/WorkerPool"
import { JobQueue } from "@stint/queue/JobQueue"
import { WorkerRegistry, type WorkerStatus } from "@stint/queue/WorkerRegistry"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as EndpointFailures from "./EndpointFailures.ts"
import { classifyExit } from "./ExitClassification.ts"
import { decide, type ExternalWorkers, type PolicyWorker } from "./ScalingPolicy.ts"
import { WorkerConnection } from "./WorkerConnection.ts"
import { assessHealth, type HealthLimits } from "./WorkerHealth.ts"
import * as WorkerLifecycle from "./WorkerLifecycle.ts"

/** Times of the loop, milliseconds. */
export interface Settings extends HealthLimits {
  readonly intervalMs: number
  readonly throttleMs: number
}

export interface EndpointWorkers {
  /** New settings; undefined: the endpoint is gone, so that all workers leave and `run` ends when the last one has. */
  readonly update: (endpoint: Endpoint | undefined) => void
  /** Serves the endpoint until it is gone. Run it once. */
  readonly run: Effect.Effect<void>
  /** Kills whatever is still there. `because` goes on after "Worker w-1 ". */
  readonly killAll: (reason: string) => Effect.Effect<void>
}

/** A look that comes this much late means that the machine slept, or that the store did: silence meanwhile is nobody's fault. Milliseconds. */
const CLOCK_JUMP_MILLIS = 5_000

/** An endpoint where nothing waits, starts or leaves is looked at this much less often: whatever ends that wakes the loop. */
const QUIET_INTERVALS = 5

/** A guest that has not been heard of for this long, or for its lease where that is longer, is not counted. Milliseconds. */
const EXTERNAL_WORKER_SILENT_MILLIS = 30_000

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

const newWorkerId = Effect.map(
  Effect.all(Array.from({ length: 10 }, () => Random.nextIntBetween(0, ALPHABET.length, { halfOpen: true }))),
  (digits) => WorkerId.make(`w-${digits.map((digit) => ALPHABET.charAt(digit)).join("")}`)
)

/** What a worker carries for life. When it changes, the endpoint's workers are outdated. */
const fingerprintOf = (endpoint: Endpoint): string =>
  JSON.stringify([
    endpoint.source,
    Object.entries(endpoint.env).sort(([a], [b]) => (a < b ? -1 : 1)),
    pingIntervalOf(endpoint.leaseMs)
  ])

const isReady = (status: WorkerStatus | undefined): boolean =>
  status?.state === "idle" || status?.state === "running" || status?.state === "draining"

/** `fibers` keeps the workers: they are killed when its scope closes. */
export const make = Effect.fnUntraced(function*(
  initial: Endpoint,
  settings: Settings,
  fibers: FiberSet.FiberSet<void, never>
): Effect.fn.Return<EndpointWorkers, never, JobQueue | WorkerRegistry | WorkerPool | WorkerConnection> {
  const { id } = initial
  const queue = yield* JobQueue
  const registry = yield* WorkerRegistry
  const pool = yield* WorkerPool
  const address = yield* WorkerConnection
  const failures = yield* EndpointFailures.make(id)
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  let endpoint: Endpoint | undefined = initial
  const lifecycles = new Map<string, WorkerLifecycle.WorkerLifecycle>()
  /** Opened by whatever must be looked at without delay. */
  const wakeUp = yield* Latch.make()
  let lastStartAt: number | null = null
  /** When the next look was to be. */
  let plannedAt = now()
  /** Nobody could call before: the machine slept, or the store was away. */
  let unreachableUntil = 0
  let storeUnavailable = false

  const statuses = Effect.map(registry.list(id), (list) => new Map(list.map((status) => [status.id, status])))

  /** Tells the queue, again and again while the store is away: until it knows, the jobs wait for their lease. */
  const reportWorkerGone = (worker: string, cause: string | undefined) =>
    queue.workerGone(id, worker, cause).pipe(
      Effect.tapError((error) =>
        Effect.logWarning(`The jobs of worker ${worker} of endpoint ${id} cannot be given back yet: ${error.message}.`)
      ),
      Effect.retry(Schedule.spaced("1 second")),
      Effect.ignore
    )

  const onExit = Effect.fnUntraced(function*(life: WorkerLifecycle.WorkerLifecycle, exit: WorkerExit) {
    const status = (yield* statuses).get(life.id)
    const ready = life.ready || isReady(status)
    const { cause, kind, reason } = classifyExit({
      worker: life.id,
      exit,
      ready,
      jobsHeld: status?.jobs.length ?? 0,
      exitExpected: life.draining !== undefined || status?.state === "draining",
      killReason: life.killReason(),
      unhealthy: status?.state === "unhealthy" ? status.reason ?? "it gave no reason" : undefined
    })
    if (ready && !life.ready) yield* failures.ready
    yield* reportWorkerGone(life.id, cause)
    if (kind === "crashed") return yield* failures.crashed(life, reason)
    if (kind === "failedStart") return yield* failures.startFailed(life, "unhealthy", reason)
    yield* failures.exited
    if (cause !== undefined) yield* Effect.logWarning(`Endpoint ${id} lost a worker that was leaving. ${reason}`)
    else yield* Effect.logInfo(`Worker ${life.id} of endpoint ${id} has left.`)
  })

  /** One worker, until it is gone and everybody knows. */
  const runWorker = Effect.fnUntraced(function*(life: WorkerLifecycle.WorkerLifecycle) {
    const end = yield* life.run
    lifecycles.delete(life.id)
    if (end._tag === "Ended") yield* onExit(life, end.exit)
    else {
      yield* registry.removed(id, life.id)
      if (life.draining === undefined) yield* failures.startFailed(life, end.state, end.reason)
    }
    yield* wakeUp.open
  })

  const start = Effect.fnUntraced(function*(from: Endpoint) {
    const worker = yield* newWorkerId
    const variables = workerEnvironment({
      baseUrl: address.baseUrl,
      endpoint: id,
      worker,
      key: Redacted.value(address.keyFor(id)),
      pingIntervalMs: pingIntervalOf(from.leaseMs)
    })
    const life = WorkerLifecycle.make(pool, { endpoint: from, worker, variables }, now(), fingerprintOf(from))
    lifecycles.set(worker, life)
    lastStartAt = life.startedAt
    yield* registry.starting(id, worker)
    yield* Effect.logInfo(`Starting worker ${worker} of endpoint ${id}.`)
    yield* FiberSet.run(fibers, runWorker(life))
  })

  const beginDrain = Effect.fnUntraced(function*(life: WorkerLifecycle.WorkerLifecycle, requestExitAt: number) {
    life.draining = { requestExitAt, exitRequestedAt: undefined }
    yield* queue.drainWorker(id, life.id)
  })

  /** Looks after a worker that is there. Returns when to look again. */
  const superviseWorker = Effect.fnUntraced(function*(
    life: WorkerLifecycle.WorkerLifecycle,
    status: WorkerStatus | undefined,
    oldestQueuedAt: number | null
  ) {
    if (!life.ready && isReady(status)) {
      life.ready = true
      yield* failures.ready
    }
    if (life.draining === undefined) {
      const { id: worker, ready, startedAt } = life
      const assessment = assessHealth(
        { worker, startedAt, ready, status, oldestQueuedAt, unreachableUntil, now: now() },
        settings
      )
      if (assessment._tag === "Fine") return assessment.checkAt
      if (assessment._tag === "End") {
        yield* life.end(assessment.reason)
        return undefined
      }
      yield* Effect.logInfo(`Worker ${worker} of endpoint ${id} leaves: ${assessment.reason}.`)
      yield* beginDrain(life, assessment.requestExitAt)
    }
    return yield* finishDrain(life, status)
  })

  /** Makes a leaving worker go. Returns when to look again. */
  const finishDrain = Effect.fnUntraced(function*(life: WorkerLifecycle.WorkerLifecycle, status: WorkerStatus | undefined) {
    const draining = life.draining
    if (draining === undefined || (status?.jobs.length ?? 0) > 0) return undefined
    if (draining.exitRequestedAt === undefined) {
      if (now() < draining.requestExitAt) return draining.requestExitAt
      draining.exitRequestedAt = now()
      yield* life.requestExit
    }
    const until = draining.exitRequestedAt + settings.stopGraceMs
    if (now() < until) return until
    yield* life.end(`Worker ${life.id} did not leave within ${settings.stopGraceMs / 1_000} s of being asked and was killed.`)
    return undefined
  })

  const depth = queue.depth(id).pipe(
    Effect.tap(() => {
      if (!storeUnavailable) return Effect.void
      storeUnavailable = false
      return Effect.logInfo(`The queue of endpoint ${id} can be read again.`)
    }),
    Effect.catch((error) => {
      const first = !storeUnavailable
      storeUnavailable = true
      unreachableUntil = now()
      return Effect.as(
        first ? Effect.logError(`The workers of endpoint ${id} cannot be scaled: ${error.message}. Trying again.`) : Effect.void,
        undefined
      )
    })
  )

  const policyWorker = (
    life: WorkerLifecycle.WorkerLifecycle,
    status: WorkerStatus | undefined,
    fingerprint: string
  ): PolicyWorker => {
    const holds = (status?.jobs.length ?? 0) > 0
    const state = life.draining !== undefined || life.killReason() !== undefined
      ? "leaving"
      : !life.ready
      ? "starting"
      : holds
      ? "running"
      : "idle"
    return {
      id: life.id,
      state,
      idleSince: state === "idle" ? status?.idleSince ?? now() : null,
      outdated: life.fingerprint !== fingerprint
    }
  }

  const countExternalWorkers = (all: Iterable<WorkerStatus>, leaseMs: number): ExternalWorkers => {
    const heardSince = now() - Math.max(leaseMs, EXTERNAL_WORKER_SILENT_MILLIS)
    const externalWorkers = { idle: 0, running: 0 }
    for (const { id: worker, lastSeenAt, state } of all) {
      if (lifecycles.has(worker) || lastSeenAt < heardSince) continue
      if (state === "idle" || state === "running") externalWorkers[state] += 1
    }
    return externalWorkers
  }

  /** Looks at everything and acts. Returns how long time alone will change nothing, and whether there is nothing to look after. */
  const reconcile = Effect.gen(function*() {
    if (lifecycles.size === 0 && (endpoint === undefined || !pool.supports.includes(endpoint.source.type))) {
      return { wakeIn: Infinity, resting: true }
    }
    const jobs = yield* depth
    const time = now()
    if (time > plannedAt + CLOCK_JUMP_MILLIS) unreachableUntil = time
    // Read together, after the only thing above that may take its time.
    const from = endpoint
    const known = yield* statuses
    const times: Array<number | undefined> = []
    for (const life of lifecycles.values()) {
      times.push(yield* superviseWorker(life, known.get(life.id), jobs?.oldestQueuedAt ?? null))
    }
    if (from === undefined) {
      for (const life of lifecycles.values()) {
        if (life.draining !== undefined) continue
        yield* beginDrain(life, time)
        times.push(yield* finishDrain(life, known.get(life.id)))
      }
    } else if (jobs !== undefined) {
      const fingerprint = fingerprintOf(from)
      const workers = [...lifecycles.values()].map((life) => policyWorker(life, known.get(life.id), fingerprint))
      const decision = decide({
        limits: from.workers,
        scaler: from.scaler,
        startable: pool.supports.includes(from.source.type),
        depth: jobs,
        workers,
        externalWorkers: countExternalWorkers(known.values(), from.leaseMs),
        lastStartAt,
        now: time
      })
      times.push(decision.wakeAt ?? undefined)
      for (const worker of [...decision.drain, ...decision.retire]) {
        const life = lifecycles.get(worker)
        if (life === undefined) continue
        yield* beginDrain(life, time)
        times.push(yield* finishDrain(life, known.get(worker)))
      }
      const starting = workers.filter((worker) => worker.state === "starting").length
      const allowed = failures.allowedStarts(decision.start, starting)
      for (let count = 0; count < allowed; count++) yield* start(from)
      if (allowed < decision.start && failures.notBefore() > time) times.push(failures.notBefore())
    }
    const quiet = jobs?.waiting === 0 && [...lifecycles.values()].every((life) => life.ready && life.draining === undefined)
    const latest = time + settings.intervalMs * (quiet ? QUIET_INTERVALS : 1)
    plannedAt = Math.max(time + 1, Math.min(latest, ...times.map((at) => at ?? Infinity)))
    return { wakeIn: plannedAt - time, resting: quiet && lifecycles.size === 0 && jobs.running === 0 }
  })

  const again = { wakeIn: settings.intervalMs, resting: false }
  const safeReconcile = reconcile.pipe(
    Effect.catchDefect((defect) =>
      Effect.as(Effect.logError(`The workers of endpoint ${id} were not looked after; trying again.`, defect), again)
    )
  )

  const run = Effect.gen(function*() {
    while (true) {
      yield* wakeUp.close
      // In line before the look, so that what comes in meanwhile is not missed.
      const demand = yield* Effect.forkChild(queue.awaitDemand(id, settings.intervalMs * QUIET_INTERVALS), {
        startImmediately: true
      })
      const { resting, wakeIn } = yield* safeReconcile
      if (endpoint === undefined && lifecycles.size === 0) {
        yield* Fiber.interrupt(demand)
        return yield* failures.clear
      }
      // A job that ends a rest is looked at on the instant; of a stream of them, all that come within `settle` are looked at once.
      if (!resting) yield* Effect.raceFirst(wakeUp.await, Effect.sleep(settings.throttleMs))
      const time = wakeIn === Infinity ? Effect.never : Effect.sleep(wakeIn)
      yield* Effect.raceFirst(wakeUp.await, wakeIn === Infinity ? time : Effect.raceFirst(Fiber.await(demand), time))
      yield* Fiber.interrupt(demand)
    }
  })

  return {
    update: (next) => {
      endpoint = next
      wakeUp.openUnsafe()
    },
    run,
    killAll: (reason) =>
      Effect.forEach([...lifecycles.values()], (life) => life.end(`Worker ${life.id} ${reason}`), {
        concurrency: "unbounded",
        discard: true
      })
  }
})

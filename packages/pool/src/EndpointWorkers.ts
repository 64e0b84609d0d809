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
import { farewell } from "./Farewell.ts"
import { decide, type Guests, type PolicyWorker } from "./ScalingPolicy.ts"
import { WorkerAddress } from "./WorkerAddress.ts"
import type { WorkerExit } from "./WorkerExit.ts"
import { judge, type Limits } from "./WorkerHealth.ts"
import * as WorkerLife from "./WorkerLife.ts"
import { WorkerPool } from "./WorkerPool.ts"

/** Times of the loop, milliseconds. */
export interface Settings extends Limits {
  readonly intervalMs: number
  readonly settleMs: number
}

export interface EndpointWorkers {
  /** New settings; undefined: the endpoint is gone, so that all workers leave and `run` ends when the last one has. */
  readonly update: (endpoint: Endpoint | undefined) => void
  /** Serves the endpoint until it is gone. Run it once. */
  readonly run: Effect.Effect<void>
  /** Kills whatever is still there. `because` goes on after "Worker w-1 ". */
  readonly endAll: (because: string) => Effect.Effect<void>
}

/** A look that comes this much late means that the machine slept, or that the store did: silence meanwhile is nobody's fault. Milliseconds. */
const SLEPT_MILLIS = 5_000

/** An endpoint where nothing waits, starts or leaves is looked at this much less often: whatever ends that wakes the loop. */
const QUIET_INTERVALS = 5

/** A guest that has not been heard of for this long, or for its lease where that is longer, is not counted. Milliseconds. */
const GUEST_SILENT_MILLIS = 30_000

const ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"

const newWorkerId = Effect.map(
  Effect.all(Array.from({ length: 10 }, () => Random.nextIntBetween(0, ALPHABET.length, { halfOpen: true }))),
  (digits) => WorkerId.make(`w-${digits.map((digit) => ALPHABET.charAt(digit)).join("")}`)
)

/** What a worker carries for life. When it changes, the endpoint's workers are outdated. */
const originOf = (endpoint: Endpoint): string =>
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
): Effect.fn.Return<EndpointWorkers, never, JobQueue | WorkerRegistry | WorkerPool | WorkerAddress> {
  const { id } = initial
  const queue = yield* JobQueue
  const registry = yield* WorkerRegistry
  const pool = yield* WorkerPool
  const address = yield* WorkerAddress
  const failures = yield* EndpointFailures.make(id)
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  let endpoint: Endpoint | undefined = initial
  const lives = new Map<string, WorkerLife.WorkerLife>()
  /** Opened by whatever must be looked at without delay. */
  const poke = yield* Latch.make()
  let lastStartAt: number | null = null
  /** When the next look was to be. */
  let plannedAt = now()
  /** Nobody could call before: the machine slept, or the store was away. */
  let deafUntil = 0
  let storeAway = false

  const statuses = Effect.map(registry.list(id), (list) => new Map(list.map((status) => [status.id, status])))

  /** Tells the queue, again and again while the store is away: until it knows, the jobs wait for their lease. */
  const tellGone = (worker: string, cause: string | undefined) =>
    queue.workerGone(id, worker, cause).pipe(
      Effect.tapError((error) =>
        Effect.logWarning(`The jobs of worker ${worker} of endpoint ${id} cannot be given back yet: ${error.message}.`)
      ),
      Effect.retry(Schedule.spaced("1 second")),
      Effect.ignore
    )

  const onExit = Effect.fnUntraced(function*(life: WorkerLife.WorkerLife, exit: WorkerExit) {
    const status = (yield* statuses).get(life.id)
    const ready = life.ready || isReady(status)
    const { cause, kind, reason } = farewell({
      worker: life.id,
      exit,
      ready,
      holding: status?.jobs.length ?? 0,
      asked: life.leaving !== undefined || status?.state === "draining",
      endedBecause: life.endedBecause(),
      unhealthy: status?.state === "unhealthy" ? status.reason ?? "it gave no reason" : undefined
    })
    if (ready && !life.ready) yield* failures.ready
    yield* tellGone(life.id, cause)
    if (kind === "crashed") return yield* failures.crashed(life, reason)
    if (kind === "failedStart") return yield* failures.notStarted(life, "unhealthy", reason)
    yield* failures.left
    if (cause !== undefined) yield* Effect.logWarning(`Endpoint ${id} lost a worker that was leaving. ${reason}`)
    else yield* Effect.logInfo(`Worker ${life.id} of endpoint ${id} has left.`)
  })

  /** One worker, until it is gone and everybody knows. */
  const keep = Effect.fnUntraced(function*(life: WorkerLife.WorkerLife) {
    const end = yield* life.run
    lives.delete(life.id)
    if (end._tag === "Ended") yield* onExit(life, end.exit)
    else {
      yield* registry.gone(id, life.id)
      if (life.leaving === undefined) yield* failures.notStarted(life, end.state, end.reason)
    }
    yield* poke.open
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
    const life = WorkerLife.make(pool, { endpoint: from, worker, variables }, now(), originOf(from))
    lives.set(worker, life)
    lastStartAt = life.startedAt
    yield* registry.starting(id, worker)
    yield* Effect.logInfo(`Starting worker ${worker} of endpoint ${id}.`)
    yield* FiberSet.run(fibers, keep(life))
  })

  const leave = Effect.fnUntraced(function*(life: WorkerLife.WorkerLife, askAt: number) {
    life.leaving = { askAt, askedAt: undefined }
    yield* queue.drainWorker(id, life.id)
  })

  /** Looks after a worker that is there. Returns when to look again. */
  const attend = Effect.fnUntraced(function*(
    life: WorkerLife.WorkerLife,
    status: WorkerStatus | undefined,
    oldestQueuedAt: number | null
  ) {
    if (!life.ready && isReady(status)) {
      life.ready = true
      yield* failures.ready
    }
    if (life.leaving === undefined) {
      const { id: worker, ready, startedAt } = life
      const verdict = judge({ worker, startedAt, ready, status, oldestQueuedAt, deafUntil, now: now() }, settings)
      if (verdict._tag === "Fine") return verdict.checkAt
      if (verdict._tag === "End") {
        yield* life.end(verdict.because)
        return undefined
      }
      yield* Effect.logInfo(`Worker ${worker} of endpoint ${id} leaves: ${verdict.because}.`)
      yield* leave(life, verdict.askAt)
    }
    return yield* seeOff(life, status)
  })

  /** Makes a leaving worker go. Returns when to look again. */
  const seeOff = Effect.fnUntraced(function*(life: WorkerLife.WorkerLife, status: WorkerStatus | undefined) {
    const leaving = life.leaving
    if (leaving === undefined || (status?.jobs.length ?? 0) > 0) return undefined
    if (leaving.askedAt === undefined) {
      if (now() < leaving.askAt) return leaving.askAt
      leaving.askedAt = now()
      yield* life.ask
    }
    const until = leaving.askedAt + settings.stopGraceMs
    if (now() < until) return until
    yield* life.end(`Worker ${life.id} did not leave within ${settings.stopGraceMs / 1_000} s of being asked and was killed.`)
    return undefined
  })

  const depth = queue.depth(id).pipe(
    Effect.tap(() => {
      if (!storeAway) return Effect.void
      storeAway = false
      return Effect.logInfo(`The queue of endpoint ${id} can be read again.`)
    }),
    Effect.catch((error) => {
      const first = !storeAway
      storeAway = true
      deafUntil = now()
      return Effect.as(
        first ? Effect.logError(`The workers of endpoint ${id} cannot be scaled: ${error.message}. Trying again.`) : Effect.void,
        undefined
      )
    })
  )

  const policyWorker = (life: WorkerLife.WorkerLife, status: WorkerStatus | undefined, origin: string): PolicyWorker => {
    const holds = (status?.jobs.length ?? 0) > 0
    const state = life.leaving !== undefined || life.endedBecause() !== undefined
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
      outdated: life.origin !== origin
    }
  }

  const guestsOf = (all: Iterable<WorkerStatus>, leaseMs: number): Guests => {
    const heardSince = now() - Math.max(leaseMs, GUEST_SILENT_MILLIS)
    const guests = { idle: 0, running: 0 }
    for (const { id: worker, lastSeenAt, state } of all) {
      if (lives.has(worker) || lastSeenAt < heardSince) continue
      if (state === "idle" || state === "running") guests[state] += 1
    }
    return guests
  }

  /** Looks at everything and acts. Returns how long time alone will change nothing, and whether there is nothing to look after. */
  const look = Effect.gen(function*() {
    if (lives.size === 0 && (endpoint === undefined || !pool.supports.includes(endpoint.source.type))) {
      return { wakeIn: Infinity, resting: true }
    }
    const jobs = yield* depth
    const time = now()
    if (time > plannedAt + SLEPT_MILLIS) deafUntil = time
    // Read together, after the only thing above that may take its time.
    const from = endpoint
    const known = yield* statuses
    const times: Array<number | undefined> = []
    for (const life of lives.values()) {
      times.push(yield* attend(life, known.get(life.id), jobs?.oldestQueuedAt ?? null))
    }
    if (from === undefined) {
      for (const life of lives.values()) {
        if (life.leaving !== undefined) continue
        yield* leave(life, time)
        times.push(yield* seeOff(life, known.get(life.id)))
      }
    } else if (jobs !== undefined) {
      const origin = originOf(from)
      const workers = [...lives.values()].map((life) => policyWorker(life, known.get(life.id), origin))
      const decision = decide({
        limits: from.workers,
        scaler: from.scaler,
        startable: pool.supports.includes(from.source.type),
        depth: jobs,
        workers,
        guests: guestsOf(known.values(), from.leaseMs),
        lastStartAt,
        now: time
      })
      times.push(decision.wakeAt ?? undefined)
      for (const worker of [...decision.drain, ...decision.retire]) {
        const life = lives.get(worker)
        if (life === undefined) continue
        yield* leave(life, time)
        times.push(yield* seeOff(life, known.get(worker)))
      }
      const starting = workers.filter((worker) => worker.state === "starting").length
      const allowed = failures.allow(decision.start, starting)
      for (let count = 0; count < allowed; count++) yield* start(from)
      if (allowed < decision.start && failures.notBefore() > time) times.push(failures.notBefore())
    }
    const quiet = jobs?.waiting === 0 && [...lives.values()].every((life) => life.ready && life.leaving === undefined)
    const latest = time + settings.intervalMs * (quiet ? QUIET_INTERVALS : 1)
    plannedAt = Math.max(time + 1, Math.min(latest, ...times.map((at) => at ?? Infinity)))
    return { wakeIn: plannedAt - time, resting: quiet && lives.size === 0 && jobs.running === 0 }
  })

  const again = { wakeIn: settings.intervalMs, resting: false }
  const safeLook = look.pipe(
    Effect.catchDefect((defect) =>
      Effect.as(Effect.logError(`The workers of endpoint ${id} were not looked after; trying again.`, defect), again)
    )
  )

  const run = Effect.gen(function*() {
    while (true) {
      yield* poke.close
      // In line before the look, so that what comes in meanwhile is not missed.
      const demand = yield* Effect.forkChild(queue.awaitDemand(id, settings.intervalMs * QUIET_INTERVALS), {
        startImmediately: true
      })
      const { resting, wakeIn } = yield* safeLook
      if (endpoint === undefined && lives.size === 0) {
        yield* Fiber.interrupt(demand)
        return yield* failures.hide
      }
      // A job that ends a rest is looked at on the instant; of a stream of them, all that come within `settle` are looked at once.
      if (!resting) yield* Effect.raceFirst(poke.await, Effect.sleep(settings.settleMs))
      const time = wakeIn === Infinity ? Effect.never : Effect.sleep(wakeIn)
      yield* Effect.raceFirst(poke.await, wakeIn === Infinity ? time : Effect.raceFirst(Fiber.await(demand), time))
      yield* Fiber.interrupt(demand)
    }
  })

  return {
    update: (next) => {
      endpoint = next
      poke.openUnsafe()
    },
    run,
    endAll: (because) =>
      Effect.forEach([...lives.values()], (life) => life.end(`Worker ${life.id} ${because}`), {
        concurrency: "unbounded",
        discard: true
      })
  }
})

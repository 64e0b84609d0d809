/**
 * Starts, watches and stops the workers of one endpoint.
 *
 * ```
 *                      pool.start              first call
 *   decide: start ---> [ starting ] ---------> [ ready ]
 *                          |  never calls          |  idle too long, outdated, stuck, silent, announces its exit
 *                          |  (initLimit)          v
 *                          |                   [ draining ]  drainWorker: takes no more jobs, finishes those it holds
 *                          |                       |  holds none: SIGTERM;  still running after stopGrace: SIGKILL
 *                          v                       v
 *                        gone: workerGone(cause) -> its jobs return to the queue, or fail with the true cause
 * ```
 *
 * SIGTERM is sent only to a worker that holds no jobs. The program of a `command` endpoint might not handle the signal, and would then die in
 * the middle of a job, together with every process that the handler has started in its process group.
 *
 * The loop runs a check when demand changes, when a worker exits, at the time that the previous check scheduled, and at least every
 * `interval` (every five intervals while the endpoint is quiet).
 */
// Some generators return the rest of their work as an effect, which the caller runs later.
// @effect-diagnostics returnEffectInGen:off
import type { Endpoint } from "@stint/contract/Endpoint"
import type { WorkerId } from "@stint/contract/Ids"
import { pingIntervalOf, workerEnvironment } from "@stint/contract/WorkerProtocol"
import { PoolError, SecretMissing } from "@stint/pool/PoolError"
import { withLastOutput, type WorkerExit } from "@stint/pool/WorkerExit"
import { type OrphanedWorker, WorkerPool } from "@stint/pool/WorkerPool"
import { monotonicMillis } from "@stint/queue/ClockWatch"
import { JobQueue } from "@stint/queue/JobQueue"
import { WorkerRegistry, type WorkerStatus } from "@stint/queue/WorkerRegistry"
import { TimeWindows } from "@stint/schedule"
import { Secrets } from "@stint/secrets/Secrets"
import * as AlignedSleep from "@stint/store/AlignedSleep"
import * as OutageLog from "@stint/store/OutageLog"
import type { ReleaseStore } from "@stint/store/ReleaseStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberSet from "effect/FiberSet"
import * as Latch from "effect/Latch"
import * as Redacted from "effect/Redacted"
import { decideCanary } from "./CanaryPolicy.ts"
import * as CanarySupervisor from "./CanarySupervisor.ts"
import * as EndpointFailures from "./EndpointFailures.ts"
import * as EndpointModel from "./EndpointModel.ts"
import { classifyExit } from "./ExitClassification.ts"
import * as JobsOfGoneWorkers from "./JobsOfGoneWorkers.ts"
import { monotonicStatus } from "./MonotonicStatus.ts"
import { policyWorkerOf } from "./PolicyWorkers.ts"
import * as Roll from "./Roll.ts"
import { decideRoll } from "./RollPolicy.ts"
import type { Observation } from "./ScalingPolicy.ts"
import { WorkerConnection } from "./WorkerConnection.ts"
import { assessHealth, countExternalWorkers, type HealthLimits, IDLE_WORKER_HINT, isReady, isWorking } from "./WorkerHealth.ts"
import { newWorkerId } from "./WorkerIds.ts"
import * as WorkerLifecycle from "./WorkerLifecycle.ts"
import * as WorkerMetering from "./WorkerMetering.ts"
import { type EndpointTarget, memoryLimitOf, type WorkerTemplate } from "./WorkerTemplate.ts"

/** The loop's times. Milliseconds. */
export interface Settings extends HealthLimits {
  readonly intervalMs: number
  readonly throttleMs: number
}

export interface EndpointWorkers {
  /**
   * Applies new settings. Undefined means that the endpoint was deleted: all workers drain, and `run` returns after the last worker has
   * exited.
   */
  readonly update: (target: EndpointTarget | undefined) => void
  /**
   * Takes over a worker of an earlier platform. It counts towards the maximum, finishes its jobs and exits. If it is no longer running, its
   * jobs return to the queue.
   */
  readonly adopt: (orphan: OrphanedWorker) => Effect.Effect<void>
  /** Runs the endpoint's workers until the endpoint is deleted. Call it once. */
  readonly run: Effect.Effect<void>
  /** The pool has room again, so a start no longer waits for capacity. */
  readonly hasRoom: Effect.Effect<void>
  /** Kills the remaining workers. `reason` completes a sentence that starts with "Worker w-1 ". */
  readonly killAll: (reason: string) => Effect.Effect<void>
}

/**
 * A check that is at least this late means that the machine or the store was suspended, and the delay does not count as silence of the workers.
 * Milliseconds.
 */
const CLOCK_JUMP_MILLIS = 5_000

/**
 * A quiet endpoint (no waiting jobs, and no workers that are starting or draining) is checked this many times less often. Every change
 * wakes the loop.
 */
const QUIET_INTERVALS = 5

/** `fibers` owns the workers: closing its scope kills them. */
export const make = Effect.fnUntraced(function*(
  initial: EndpointTarget,
  settings: Settings,
  fibers: FiberSet.FiberSet<void, never>
): Effect.fn.Return<EndpointWorkers, never, JobQueue | WorkerRegistry | WorkerPool | WorkerConnection | ReleaseStore> {
  const { id } = initial.endpoint
  const queue = yield* JobQueue
  const registry = yield* WorkerRegistry
  const pool = yield* WorkerPool
  const address = yield* WorkerConnection
  const secrets = yield* Secrets
  const metered = yield* WorkerMetering.make(id)
  const failures = yield* EndpointFailures.make(id)
  const clock = yield* Clock.Clock
  /** Monotonic time: setting the wall clock must not delay starts, restarts and exits, or stop workers. */
  const now = () => monotonicMillis(clock)
  /** Converts a wall-clock time, as the registry and the store report it. */
  const toMonotonic = (at: number) => at + now() - clock.currentTimeMillisUnsafe()

  let target: EndpointTarget | undefined = initial
  let warmTimes = TimeWindows.make(initial.endpoint.workers.warm ?? [])
  const roll = yield* Roll.make(id)
  const canaries = yield* CanarySupervisor.make(id)
  const lifecycles = new Map<string, WorkerLifecycle.WorkerLifecycle>()
  /** Opened to request an immediate check. */
  const wakeUp = yield* Latch.make()
  const model = yield* EndpointModel.make(wakeUp.open)
  let lastStartAt: number | null = null
  /** When the last worker of a release that is being verified was started. Another start is needed only after a lack of capacity. */
  let triedAt = -Infinity
  /** The release whose first worker waits for the place of a worker that drains. Meanwhile, no worker of the previous release may take that place. */
  let makingRoomFor: string | undefined
  /** Scheduled time of the next check. */
  let plannedAt = now()
  /** Until this time, workers could not call the platform, because the machine was suspended or the store was unavailable. */
  let unreachableUntil = 0

  const statuses = Effect.map(
    registry.list(id),
    (list) => new Map(list.map((status) => [status.id, monotonicStatus(status, toMonotonic)]))
  )

  const jobsOf = yield* JobsOfGoneWorkers.make(id)

  /** Counts the exit for the restart backoff. Returns the remaining work: the worker's jobs return to the queue, and the exit is reported. */
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
      unhealthy: status?.state === "unhealthy" ? status.reason ?? "no reason was reported" : undefined,
      memoryBytes: memoryLimitOf(target, life.fingerprint)
    })
    if (ready && !life.ready && !roll.isTrying(target, life.fingerprint)) yield* failures.ready
    countResults(life, status)
    if (exit._tag === "Lost" && exit.mayRun === true) {
      return status?.leaving === "stop" ? jobsOf.requeueStopped(life.id, reason) : jobsOf.awaitExpiry(life.id, reason)
    }
    const returned = jobsOf.requeue(life, cause)
    if (life.failure !== undefined) {
      // Counts like a crash right after the start, however long the worker was idle before.
      const failed = { id: life.id, fingerprint: life.fingerprint, startedAt: now() }
      return Effect.andThen(returned, yield* failures.crashed(failed, [], withLastOutput(life.failure, exit.log)))
    }
    if (kind !== "left" && roll.isTrying(target, life.fingerprint)) {
      // The lost jobs of a canary's worker count towards its error rate.
      if (kind === "crashed" && target?.canary !== undefined && (status?.jobs.length ?? 0) > 0) {
        return Effect.andThen(returned, Effect.logWarning(`Endpoint ${id} lost a worker of its canary. ${reason}`))
      }
      return Effect.andThen(returned, yield* stopRoll(reason))
    }
    if (kind === "crashed") return Effect.andThen(returned, yield* failures.crashed(life, status?.jobs ?? [], reason))
    if (kind === "failedStart") return Effect.andThen(returned, yield* failures.startFailed(life, "unhealthy", reason))
    failures.succeeded(life.fingerprint)
    return Effect.andThen(
      returned,
      cause !== undefined
        ? Effect.logWarning(`Endpoint ${id} lost a worker that was draining. ${reason}`)
        : Effect.logInfo(`Worker ${life.id} of endpoint ${id} has exited.`)
    )
  })

  /** The new release does not work, so the previous one keeps serving. Returns the remaining work, which stores the end of the rollout. */
  const stopRoll = (reason: string) =>
    Effect.sync(() => target === undefined ? Effect.void : Effect.andThen(failures.clear, roll.failed(target, reason)))

  /**
   * Drains the outdated workers that occupy the room of a current one, on a machine that is too small for both releases. If it is the first worker of a
   * release and fails, workers of the previous release start again.
   */
  const makeRoom = Effect.fnUntraced(function*(current: string, blockedBy: ReadonlyArray<string>) {
    for (const worker of blockedBy) {
      const life = lifecycles.get(worker)
      if (life === undefined || life.draining !== undefined || life.fingerprint === current) continue
      yield* Effect.logInfo(`Worker ${worker} of endpoint ${id} leaves: a worker of the new release needs its place.`)
      makingRoomFor = current
      yield* beginDrain(life, now())
    }
  })

  /** Returns the remaining work for a worker that never ran. */
  const onFailedStart = Effect.fnUntraced(function*(
    life: WorkerLifecycle.WorkerLifecycle,
    { blockedBy, reason, state }: Extract<WorkerLifecycle.WorkerOutcome, { readonly _tag: "NotStarted" }>
  ) {
    const removed = registry.removed(id, life.id)
    if (state === "throttled" && life.draining === undefined && life.fingerprint === target?.current.fingerprint) {
      yield* makeRoom(life.fingerprint, blockedBy)
    }
    if (life.draining === undefined && roll.isTrying(target, life.fingerprint)) {
      return Effect.andThen(
        removed,
        state === "unhealthy" ? yield* stopRoll(reason) : failures.awaitsRoom(life, reason, now() + settings.intervalMs)
      )
    }
    return life.draining === undefined ? Effect.andThen(removed, yield* failures.startFailed(life, state, reason)) : removed
  })

  /** Runs one worker until it has exited and its exit has been processed. */
  const runWorker = Effect.fnUntraced(function*(life: WorkerLifecycle.WorkerLifecycle) {
    const end = yield* life.run
    const report = yield* (end._tag === "Ended" ? onExit(life, end.exit) : onFailedStart(life, end))
    // The worker counts towards the endpoint's maximum until here. Otherwise, a check before its failure was counted would start the next worker
    // without a wait.
    lifecycles.delete(life.id)
    yield* Effect.andThen(report, wakeUp.open)
    yield* life.forget
  })

  const variablesOf = (worker: WorkerId, { leaseMs }: Endpoint) =>
    workerEnvironment({
      baseUrl: address.baseUrl,
      endpoint: id,
      worker,
      key: Redacted.value(address.keyFor(id, worker)),
      pingIntervalMs: pingIntervalOf(leaseMs)
    })

  const start = Effect.fnUntraced(function*({ code, endpoint: from, fingerprint }: WorkerTemplate) {
    const worker = yield* newWorkerId
    // The values are at least as new as the fingerprint, so a worker with an earlier value is always outdated.
    const resolved = secrets.variablesOf(from)
    const starting = resolved._tag === "Missing"
      ? Effect.fail(new PoolError({ reason: new SecretMissing({ variable: resolved.variable, secret: resolved.secret }) }))
      : model.hold(from).pipe(
        Effect.flatMap((held) =>
          pool.start({
            endpoint: { ...from, env: resolved.env },
            worker,
            variables: variablesOf(worker, from),
            mask: secrets.maskOf(from),
            pull: WorkerLifecycle.pullListener(registry, from, worker),
            ...(code === undefined ? {} : { code }),
            ...(held === undefined ? {} : { model: held })
          })
        ),
        Effect.tap((handle) => {
          if (makingRoomFor === fingerprint) makingRoomFor = undefined
          return Effect.andThen(registry.created(id, worker, handle.standby), metered(handle, from))
        })
      )
    const life = WorkerLifecycle.make(starting, worker, now(), fingerprint)
    lifecycles.set(worker, life)
    lastStartAt = life.startedAt
    yield* registry.starting(id, worker, from.release)
    yield* Effect.logInfo(`Starting worker ${worker} of endpoint ${id}.`)
    yield* FiberSet.run(fibers, runWorker(life))
  })

  const adopt: EndpointWorkers["adopt"] = Effect.fnUntraced(function*(orphan) {
    if (orphan.isRunning) {
      yield* Effect.logInfo(
        `Worker ${orphan.id} of endpoint ${id} outlived an earlier run of the platform. It finishes its jobs and then exits.`
      )
    }
    // The worker is already running, so its model may have changed or been removed. If the platform stops meanwhile, it must end this worker, too.
    const adopting = orphan.adopt(variablesOf(orphan.id, initial.endpoint), secrets.maskOf(initial.endpoint))
    const life = WorkerLifecycle.make(
      Effect.andThen(Effect.forkScoped(Effect.ignore(model.hold(initial.endpoint))), adopting).pipe(
        // An exited worker was counted by the platform that started it, or not at all.
        Effect.tap((handle) => orphan.isRunning ? metered(handle, initial.endpoint, true) : Effect.void)
      ),
      orphan.id,
      now(),
      WorkerLifecycle.ADOPTED
    )
    life.ready = true
    // Probably the machine ended both the earlier platform and this worker, so none of the worker's jobs is to blame.
    life.blameless = !orphan.isRunning
    life.draining = { requestExitAt: now(), exitRequestedAt: undefined }
    lifecycles.set(orphan.id, life)
    yield* FiberSet.run(fibers, runWorker(life))
  })

  const beginDrain = Effect.fnUntraced(function*(life: WorkerLifecycle.WorkerLifecycle, requestExitAt: number) {
    life.draining = { requestExitAt, exitRequestedAt: undefined }
    yield* queue.drainWorker(id, life.id)
  })

  /** A delivered result shows that the worker's release works. */
  const countResults = (life: WorkerLifecycle.WorkerLifecycle, status: WorkerStatus | undefined) => {
    const results = status?.results ?? 0
    if (results > 0 || (status?.jobs.length ?? 0) > 0) life.tookJob = true
    if (results > life.results) failures.succeeded(life.fingerprint)
    life.results = Math.max(results, life.results)
  }

  /** Checks the health of a running worker. Returns the time of the next check. */
  const superviseWorker = Effect.fnUntraced(function*(
    life: WorkerLifecycle.WorkerLifecycle,
    status: WorkerStatus | undefined,
    oldestQueuedAt: number | null
  ) {
    if (!life.ready && isReady(status)) {
      life.ready = true
      if (!roll.isTrying(target, life.fingerprint)) yield* failures.ready
    }
    countResults(life, status)
    if (status?.leaving === "stop") return yield* life.stop(now())
    if (life.draining === undefined) {
      const { id: worker, ready, tookJob } = life
      const progressedAt = life.observePull(status?.pull, now())
      // A canary's worker may be idle while jobs wait for the other workers.
      const oldest = life.fingerprint === target?.canary?.fingerprint ? null : oldestQueuedAt
      const assessment = assessHealth(
        { worker, progressedAt, ready, tookJob, status, oldestQueuedAt: oldest, unreachableUntil, now: now() },
        settings
      )
      if (assessment._tag === "Healthy") return assessment.checkAt
      if (assessment._tag === "Kill") {
        yield* life.end(assessment.reason)
        return undefined
      }
      if (assessment.failed === true) {
        life.failure = `Worker ${worker} was replaced because ${assessment.reason}. ${IDLE_WORKER_HINT}`
      }
      yield* Effect.logInfo(`Worker ${worker} of endpoint ${id} leaves: ${assessment.reason}.`)
      yield* beginDrain(life, assessment.requestExitAt)
    }
    return yield* finishDrain(life, status)
  })

  /** Stops a draining worker. Returns the time of the next check. */
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
    yield* life.end(`Worker ${life.id} did not exit within ${settings.stopGraceMs / 1_000} s of the request and was killed.`)
    return undefined
  })

  const outage = OutageLog.make({
    onFailure: (problem) => Effect.logError(`The workers of endpoint ${id} cannot be scaled: ${problem}. Trying again.`),
    onRecovery: Effect.logInfo(`The queue of endpoint ${id} was read again.`)
  })
  const depth = queue.depth(id).pipe(
    Effect.tap(outage.succeeded),
    Effect.map((jobs) => ({ ...jobs, oldestQueuedAt: jobs.oldestQueuedAt === null ? null : toMonotonic(jobs.oldestQueuedAt) })),
    Effect.catch((error) => {
      unreachableUntil = now()
      return Effect.as(outage.failed(error.message), undefined)
    })
  )

  /** Limits the canary to its share of the jobs, and rolls it back when they fail. */
  const superviseCanary = Effect.fnUntraced(function*(known: ReadonlyMap<string, WorkerStatus>) {
    const canary = target === undefined ? undefined : roll.canaryOf(target)
    const active = target?.endpoint.release
    const reason = yield* canaries.check(
      canary === undefined || active === undefined ? undefined : {
        canary,
        active,
        isWorking: [...lifecycles.values()].some((life) =>
          life.fingerprint === canary.fingerprint && isWorking(known.get(life.id))
        )
      }
    )
    if (reason === undefined) return
    yield* FiberSet.run(fibers, yield* stopRoll(reason))
    yield* canaries.check(undefined)
  })

  /**
   * Checks the endpoint and starts or stops workers. Returns the time until the next scheduled change, and whether the endpoint is quiet.
   */
  const reconcile = Effect.gen(function*() {
    if (lifecycles.size === 0 && (target === undefined || !pool.supports.includes(target.endpoint.source.type))) {
      return { wakeIn: Infinity, resting: true }
    }
    const jobs = yield* depth
    const time = now()
    if (time > plannedAt + CLOCK_JUMP_MILLIS) unreachableUntil = time
    // All values are read at the same moment, after the only slow step above.
    const known = yield* statuses
    const times: Array<number | undefined> = []
    for (const life of lifecycles.values()) {
      times.push(yield* superviseWorker(life, known.get(life.id), jobs?.oldestQueuedAt ?? null))
    }
    if (target?.previous !== undefined) {
      const { current } = target
      const isProven = [...lifecycles.values()].some((life) =>
        life.fingerprint === current.fingerprint && life.draining === undefined && isWorking(known.get(life.id))
      )
      if (isProven) target = yield* roll.proven(target)
    }
    yield* superviseCanary(known)
    const from = target
    if (from === undefined) {
      for (const life of lifecycles.values()) {
        if (life.draining !== undefined) continue
        yield* beginDrain(life, time)
        times.push(yield* finishDrain(life, known.get(life.id)))
      }
    } else if (jobs !== undefined) {
      const { current, endpoint, previous } = from
      yield* failures.released((previous ?? current).fingerprint)
      const canary = roll.canaryOf(from)
      const isOfCanary = (life: WorkerLifecycle.WorkerLifecycle) => life.fingerprint === canary?.fingerprint
      const lives = [...lifecycles.values()]
      const workers = lives.filter((life) => !isOfCanary(life)).map((life) =>
        policyWorkerOf(life, known.get(life.id), from, time)
      )
      const { changesAt, open } = warmTimes(clock.currentTimeMillisUnsafe())
      if (changesAt !== undefined) times.push(toMonotonic(changesAt))
      const observation: Observation = {
        limits: { ...endpoint.workers, min: Math.max(endpoint.workers.min, ...open.map((warm) => warm.min)) },
        scaler: endpoint.scaler,
        startable: pool.supports.includes(endpoint.source.type),
        depth: jobs,
        workers,
        roll: endpoint.release === undefined ? undefined : previous === undefined ? "replacing" : "proving",
        externalWorkers: countExternalWorkers(known.values(), lifecycles, endpoint.leaseMs, now()),
        lastStartAt,
        now: time
      }
      const decision = canary === undefined ? { ...decideRoll(observation), startCanary: 0 } : decideCanary({
        ...observation,
        canary: {
          percent: canary.rule.percent,
          workers: lives.filter(isOfCanary).map((life) => policyWorkerOf(life, known.get(life.id), from, time)),
          isProven: canaries.isProven(canary)
        }
      })
      times.push(decision.wakeAt ?? undefined)
      for (const worker of [...decision.drain, ...decision.retire]) {
        const life = lifecycles.get(worker)
        if (life === undefined) continue
        yield* beginDrain(life, time)
        times.push(yield* finishDrain(life, known.get(worker)))
      }
      // Failures of a release that is being verified end its rollout, so they do not delay starts.
      const tried = canary !== undefined && decision.startCanary > 0
        ? canary
        : previous !== undefined && decision.start > 0 && !roll.hasFailed(from)
        ? current
        : undefined
      if (tried !== undefined) {
        const tryAt = triedAt + settings.intervalMs
        const state = yield* model.state(tried)
        if (state._tag === "Failed") yield* FiberSet.run(fibers, yield* stopRoll(state.reason))
        else if (state._tag === "Ready" && time < tryAt) times.push(tryAt)
        else if (state._tag === "Ready") {
          triedAt = time
          yield* start(tried)
        }
      }
      const serving = previous ?? current
      const isMakingRoom = makingRoomFor !== undefined && roll.isTrying(from, makingRoomFor)
      const wanted = previous === undefined ? decision.start : isMakingRoom ? 0 : decision.startPrevious ?? 0
      const starting = workers.filter((worker) =>
        worker.state === "starting" && worker.outdated === (previous !== undefined)
      ).length
      const state = wanted === 0 ? undefined : yield* model.state(serving)
      if (state?._tag === "Failed") times.push(toMonotonic(state.retryAt))
      const allowed = state?._tag === "Ready" ? failures.allowedStarts(wanted, starting) : 0
      for (let count = 0; count < allowed; count++) yield* start(serving)
      if (allowed < wanted && failures.notBefore() > time) times.push(failures.notBefore())
    }
    const quiet = jobs?.waiting === 0 && [...lifecycles.values()].every((life) => life.ready && life.draining === undefined)
    const latest = time + AlignedSleep.alignedMillis(time, settings.intervalMs * (quiet ? QUIET_INTERVALS : 1))
    plannedAt = Math.max(time + 1, Math.min(latest, ...times.map((at) => at ?? Infinity)))
    return { wakeIn: plannedAt - time, resting: quiet && lifecycles.size === 0 && jobs.running === 0 }
  })

  const again = { wakeIn: settings.intervalMs, resting: false }
  const safeReconcile = reconcile.pipe(
    Effect.catchDefect((defect) =>
      Effect.as(Effect.logError(`The workers of endpoint ${id} could not be checked; trying again.`, defect), again)
    )
  )

  const run = Effect.gen(function*() {
    while (true) {
      yield* wakeUp.close
      // Subscribe before the check, so that a change during the check is not missed.
      const demand = yield* Effect.forkChild(queue.awaitDemand(id, settings.intervalMs * QUIET_INTERVALS * 2), {
        startImmediately: true
      })
      const checkedAt = now()
      const { resting, wakeIn } = yield* safeReconcile
      if (target === undefined && lifecycles.size === 0) {
        yield* Fiber.interrupt(demand)
        return yield* failures.clear
      }
      // The first job after a quiet period triggers a check at once; further jobs within `throttle` share the next check.
      if (!resting) yield* Effect.raceFirst(wakeUp.await, Effect.sleep(settings.throttleMs))
      const time = wakeIn === Infinity ? Effect.never : Effect.sleep(Math.max(1, wakeIn - (now() - checkedAt)))
      yield* Effect.raceFirst(wakeUp.await, wakeIn === Infinity ? time : Effect.raceFirst(Fiber.await(demand), time))
      yield* Fiber.interrupt(demand)
    }
  })

  /**
   * The first release of an endpoint that ran from its files contains the same files, so its workers are not outdated.
   */
  const relabel = (before: EndpointTarget, next: EndpointTarget) => {
    if (before.endpoint.release !== undefined || next.endpoint.release !== 1) return
    if (before.current.fingerprint !== next.current.filesFingerprint) return
    for (const life of lifecycles.values()) {
      if (life.fingerprint === before.current.fingerprint) life.fingerprint = next.current.fingerprint
    }
  }

  /** A release with the same fingerprint as the previous one replaces no worker: the current workers run it. */
  const label = ({ canary, current, previous }: EndpointTarget) => {
    for (const template of [previous, canary, current]) {
      if (template === undefined) continue
      const { endpoint: { release }, fingerprint } = template
      if (release === undefined) continue
      for (const life of lifecycles.values()) if (life.fingerprint === fingerprint) registry.labelled(id, life.id, release)
    }
  }

  return {
    update: (next) => {
      if (target !== undefined && next !== undefined) relabel(target, next)
      if (next !== undefined) label(next)
      target = next
      warmTimes = TimeWindows.make(next?.endpoint.workers.warm ?? [])
      wakeUp.openUnsafe()
    },
    adopt,
    run,
    hasRoom: Effect.suspend(() => failures.hasRoom() ? wakeUp.open : Effect.void),
    killAll: (reason) =>
      Effect.forEach([...lifecycles.values()], (life) => life.end(`Worker ${life.id} ${reason}`), {
        concurrency: "unbounded",
        discard: true
      })
  }
})

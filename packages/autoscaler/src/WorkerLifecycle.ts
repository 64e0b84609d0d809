/**
 * One worker, from its start to its exit.
 *
 * ```
 *   run: starting ------> handle.exit ----> Ended
 *           |  end, or the pool cannot         ^
 *           +----> NotStarted                  | end: killed
 * ```
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { WorkerId } from "@stint/contract/Ids"
import type { PoolError } from "@stint/pool/PoolError"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import type { PullListener, WorkerHandle } from "@stint/pool/WorkerPool"
import type { WorkerRegistry, WorkerStatus } from "@stint/queue/WorkerRegistry"
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"

/** The result of running a worker. */
export type WorkerOutcome =
  /**
   * The worker never ran. `throttled` means that there was no capacity (docs/spec/endpoints.md#worker-states); `blockedBy` are then workers of the
   * same endpoint, without which there would be some. `reason` is a sentence.
   */
  | {
    readonly _tag: "NotStarted"
    readonly state: "unhealthy" | "throttled"
    readonly reason: string
    readonly blockedBy: ReadonlyArray<string>
  }
  | { readonly _tag: "Ended"; readonly exit: WorkerExit }

/** The fingerprint of workers that an earlier platform started. They only finish their jobs. */
export const ADOPTED = ""

export interface WorkerLifecycle {
  readonly id: WorkerId
  readonly startedAt: number
  /**
   * The settings with which the worker was started. The worker is outdated when they change. Updated when a release is made from what the worker
   * already runs.
   */
  fingerprint: string
  /** Whether the worker has called the platform. */
  ready: boolean
  /** Whether the worker has taken a job. */
  tookJob: boolean
  /** Whether none of its jobs can have caused its end. */
  blameless: boolean
  /** Why it is replaced although it did not exit by itself, as a sentence; undefined when the replacement is not due to a failure. */
  failure: string | undefined
  /** The number of its results that were counted for the restart backoff. */
  results: number
  /**
   * Set when the worker receives no more jobs. Its exit is not requested before `requestExitAt`, because a worker that announced its exit
   * needs no request.
   */
  draining: { readonly requestExitAt: number; exitRequestedAt: number | undefined } | undefined
  /** Why the platform killed the worker, as a sentence; undefined when the platform did not kill it. */
  readonly killReason: () => string | undefined
  /** Requests that the worker exit. Kills the worker when it is not running yet. */
  readonly requestExit: Effect.Effect<void>
  /**
   * Notes how far the pull of its image is; undefined if none runs. Returns when the platform last saw its start make progress: at its start, or when
   * the pull had come further or ended.
   */
  readonly observePull: (pull: WorkerStatus["pull"], now: number) => number
  /** Kills the worker, or cancels its start. If called more than once, the first reason (a sentence) is recorded. */
  readonly end: (reason: string) => Effect.Effect<void>
  /** Ends the worker for an operator, who requested it at the time `at`: the exit is expected, and no job is to blame. */
  readonly stop: (at: number) => Effect.Effect<undefined>
  /** Its exit has been processed, so its pool removes its record of the worker. */
  readonly forget: Effect.Effect<void>
  /** Starts the worker and waits for its exit. Call it once; interruption kills the worker. */
  readonly run: Effect.Effect<WorkerOutcome>
}

/** Passes the pull of a worker's image to the registry. Undefined for a worker without an image. */
export const pullListener = (
  registry: WorkerRegistry["Service"],
  { id, source }: Endpoint,
  worker: WorkerId
): PullListener | undefined =>
  source.type !== "container" ? undefined : {
    began: (progress) => registry.pulling(id, worker, source.image, progress),
    ended: () => registry.pulled(id, worker)
  }

/** `starting` starts the worker, or takes it over. */
export const make = (
  starting: Effect.Effect<WorkerHandle, PoolError, Scope.Scope>,
  id: WorkerId,
  startedAt: number,
  fingerprint: string
): WorkerLifecycle => {
  const ending = Deferred.makeUnsafe<string>()
  let pulled: string | undefined
  let progressedAt = startedAt
  let killReason: string | undefined
  let handle: WorkerHandle | undefined

  const end = (reason: string) =>
    Effect.suspend(() => {
      if (killReason !== undefined) return Effect.void
      killReason = reason
      Deferred.doneUnsafe(ending, Effect.succeed(reason))
      return handle === undefined ? Effect.void : handle.kill
    })

  const notStarted = (
    state: "unhealthy" | "throttled",
    reason: string,
    blockedBy: ReadonlyArray<string> = []
  ): WorkerOutcome => ({ _tag: "NotStarted", state, reason, blockedBy })

  const start = starting.pipe(
    Effect.map((started): WorkerOutcome | WorkerHandle => started),
    Effect.catch((error) =>
      Effect.succeed(
        error.reason._tag === "NoCapacity"
          ? notStarted("throttled", error.message, error.reason.blockedBy)
          : notStarted("unhealthy", error.message)
      )
    ),
    Effect.raceFirst(Effect.map(Deferred.await(ending), (reason) => notStarted("unhealthy", reason)))
  )

  const run = Effect.gen(function*() {
    const started = yield* start
    if ("_tag" in started) return started
    handle = started
    if (killReason !== undefined) yield* started.kill
    const ended: WorkerOutcome = { _tag: "Ended", exit: yield* started.exit }
    return ended
  }).pipe(
    Effect.scoped,
    Effect.catchDefect((defect) =>
      Effect.as(
        Effect.logError(`The pool failed while it ran worker ${id}.`, Cause.die(defect)),
        notStarted("unhealthy", `The pool failed: ${defect instanceof Error ? defect.message : String(defect)}.`)
      )
    )
  )

  const life: WorkerLifecycle = {
    id,
    startedAt,
    fingerprint,
    ready: false,
    tookJob: false,
    blameless: false,
    failure: undefined,
    results: 0,
    draining: undefined,
    killReason: () => killReason,
    forget: Effect.suspend(() => handle?.forget ?? Effect.void),
    requestExit: Effect.suspend(() => handle === undefined ? end(`Worker ${id} was no longer needed.`) : handle.drain),
    observePull: (pull, now) => {
      const progress = pull === undefined ? undefined : JSON.stringify(pull.progress)
      if (progress !== pulled) progressedAt = now
      pulled = progress
      return progressedAt
    },
    end,
    stop: (at) =>
      Effect.suspend(() => {
        life.draining ??= { requestExitAt: at, exitRequestedAt: at }
        life.blameless = true
        return Effect.as(end(`Worker ${id} was stopped by an operator.`), undefined)
      }),
    run
  }
  return life
}

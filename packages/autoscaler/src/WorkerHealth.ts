/**
 * Whether a worker that is there still does its work. Pure.
 *
 * A worker is only ever judged by what it does towards the platform. In order:
 *
 * - *never called*: started `initLimit` ago and not heard of. Killed (docs/spec/endpoints.md#worker-supervision).
 * - *unhealthy*: it reported a failed fitness check and is about to exit; helped along when it does not.
 * - *says goodbye*: it takes no more jobs (`refresh_worker`, or its own signal); helped along when it stays.
 * - *stuck*: it holds no job, a job waits, and it does not take it, for `stuckAfter`. That is what a frozen worker looks like once its
 *   lease is over, and one whose handler still runs a job that was cancelled or timed out and cannot be interrupted
 * (docs/spec/worker-lifecycle.md#cancelled-jobs): its
 *   heartbeat goes on, but it takes nothing.
 * - *silent*: holds no job and has not called for `silentAfter`, waiting jobs or not.
 *
 * A worker that holds a job is never judged here: its lease and the job's execution timeout do that.
 */
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"

/** The patience of the judge, milliseconds. Defaults and trade-offs: see `Autoscaler`. */
export interface HealthLimits {
  readonly initLimitMs: number
  readonly stuckAfterMs: number
  readonly silentAfterMs: number
  /** How long a worker that leaves by itself is left alone. */
  readonly stopGraceMs: number
}

/** What a verdict is made from. Times are milliseconds of one clock. */
export interface WorkerObservation {
  readonly worker: string
  readonly startedAt: number
  readonly ready: boolean
  /** What the registry knows of it. */
  readonly status: WorkerStatus | undefined
  /** When the job that has waited longest began to; null when none waits, or when it is not known. */
  readonly oldestQueuedAt: number | null
  /** Nobody could have called before this time: the machine slept, or the store was away. */
  readonly unreachableUntil: number
  readonly now: number
}

/** What is to become of the worker. `because` says why, in words. */
export type HealthAssessment =
  /** `checkAt`: when time alone may change that. */
  | { readonly _tag: "Fine"; readonly checkAt: number | undefined }
  /** It gets no more jobs and is asked to leave, not before `requestExitAt`. */
  | { readonly _tag: "Leave"; readonly requestExitAt: number; readonly reason: string }
  | { readonly _tag: "End"; readonly reason: string }

const seconds = (millis: number): string => `${Math.round(millis / 100) / 10} s`

const fine = (checkAt?: number): HealthAssessment => ({ _tag: "Fine", checkAt })

/** Judges one worker that is not leaving yet. */
export const assessHealth = (observation: WorkerObservation, limits: HealthLimits): HealthAssessment => {
  const { now, status, worker } = observation
  if (!observation.ready && status?.state !== "unhealthy") {
    const until = Math.max(observation.startedAt, observation.unreachableUntil) + limits.initLimitMs
    if (now < until) return fine(until)
    const reason =
      `Worker ${worker} did not call the platform within ${seconds(limits.initLimitMs)} of its start and was ended. ` +
      `See its last output, and whether it reaches the platform's address.`
    return { _tag: "End", reason }
  }
  if (status === undefined) return fine()
  if (status.state === "unhealthy") return { _tag: "Leave", requestExitAt: now + limits.stopGraceMs, reason: "it is unhealthy" }
  if (status.state === "draining") {
    return { _tag: "Leave", requestExitAt: now + limits.stopGraceMs, reason: "it said that it leaves" }
  }
  if (status.jobs.length > 0) return fine()

  const silentAt = Math.max(status.lastSeenAt, observation.unreachableUntil) + limits.silentAfterMs
  if (now >= silentAt) return { _tag: "Leave", requestExitAt: now, reason: `it was silent for ${seconds(limits.silentAfterMs)}` }

  if (status.idleSince === null || observation.oldestQueuedAt === null) return fine(silentAt)
  const stuckAt = Math.max(status.idleSince, observation.oldestQueuedAt, observation.unreachableUntil) + limits.stuckAfterMs
  if (now < stuckAt) return fine(Math.min(silentAt, stuckAt))
  return { _tag: "Leave", requestExitAt: now, reason: `it took no job for ${seconds(limits.stuckAfterMs)} although jobs waited` }
}

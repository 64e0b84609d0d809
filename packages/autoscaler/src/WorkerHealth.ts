/**
 * Decides whether a running worker still works. Pure.
 *
 * Only the worker's calls to the platform count. In this order:
 *
 * - *never called*: started `initLimit` ago and has not called. Killed (docs/spec/endpoints.md#worker-supervision).
 * - *unhealthy*: it reported a failed fitness check and should exit; drained when it does not.
 * - *announced its exit*: it takes no more jobs (`refresh_worker`, or its own signal); drained when it stays.
 * - *stuck*: it holds no job and has not taken a waiting job for `stuckAfter`. A frozen worker looks like this once its
 *   lease has expired. So does a worker whose handler still runs a cancelled or timed-out job and cannot be interrupted
 *   (docs/spec/worker-lifecycle.md#cancelled-jobs): it sends heartbeats but takes no job.
 * - *silent*: holds no job and has not called for `silentAfter`, waiting jobs or not.
 *
 * Workers that hold a job are not checked here: their lease and the job's execution timeout cover them.
 */
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"

/** Time limits, milliseconds. Defaults and trade-offs: see `Autoscaler`. */
export interface HealthLimits {
  readonly initLimitMs: number
  readonly stuckAfterMs: number
  readonly silentAfterMs: number
  /** Time for a worker to complete an exit that it announced. */
  readonly stopGraceMs: number
}

/** The input of a check. Times are milliseconds of one clock. */
export interface WorkerObservation {
  readonly worker: string
  readonly startedAt: number
  readonly ready: boolean
  /** Its entry in the registry. */
  readonly status: WorkerStatus | undefined
  /** Start of the longest wait of a waiting job; null when no job waits, or when unknown. */
  readonly oldestQueuedAt: number | null
  /** Workers could not call before this time: the machine was suspended, or the store was unavailable. */
  readonly unreachableUntil: number
  readonly now: number
}

/** The result. `because` gives the reason as text. */
export type HealthAssessment =
  /** `checkAt`: earliest time at which the result may change without an event. */
  | { readonly _tag: "Healthy"; readonly checkAt: number | undefined }
  /** It gets no more jobs, and is asked to exit, not before `requestExitAt`. */
  | { readonly _tag: "Drain"; readonly requestExitAt: number; readonly reason: string }
  | { readonly _tag: "Kill"; readonly reason: string }

const seconds = (millis: number): string => `${Math.round(millis / 100) / 10} s`

const healthy = (checkAt?: number): HealthAssessment => ({ _tag: "Healthy", checkAt })

/** Checks one worker that is not draining. */
export const assessHealth = (observation: WorkerObservation, limits: HealthLimits): HealthAssessment => {
  const { now, status, worker } = observation
  if (!observation.ready && status?.state !== "unhealthy") {
    const until = Math.max(observation.startedAt, observation.unreachableUntil) + limits.initLimitMs
    if (now < until) return healthy(until)
    const reason =
      `Worker ${worker} did not call the platform within ${seconds(limits.initLimitMs)} of its start and was killed. ` +
      `Check its last output, and whether it can reach the platform's address.`
    return { _tag: "Kill", reason }
  }
  if (status === undefined) return healthy()
  if (status.state === "unhealthy") return { _tag: "Drain", requestExitAt: now + limits.stopGraceMs, reason: "it is unhealthy" }
  if (status.state === "draining") {
    return { _tag: "Drain", requestExitAt: now + limits.stopGraceMs, reason: "it announced its exit" }
  }
  if (status.jobs.length > 0) return healthy()

  const silentAt = Math.max(status.lastSeenAt, observation.unreachableUntil) + limits.silentAfterMs
  if (now >= silentAt) return { _tag: "Drain", requestExitAt: now, reason: `it was silent for ${seconds(limits.silentAfterMs)}` }

  if (status.idleSince === null || observation.oldestQueuedAt === null) return healthy(silentAt)
  const stuckAt = Math.max(status.idleSince, observation.oldestQueuedAt, observation.unreachableUntil) + limits.stuckAfterMs
  if (now < stuckAt) return healthy(Math.min(silentAt, stuckAt))
  return { _tag: "Drain", requestExitAt: now, reason: `it took no job for ${seconds(limits.stuckAfterMs)} although jobs waited` }
}

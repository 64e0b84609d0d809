/**
 * Decides whether a running worker is still healthy. Pure.
 *
 * The decision depends only on the worker's calls to the platform. These cases are checked in this order:
 *
 * - *drained by an operator*: it takes no more jobs, and its exit is requested once it holds none, even while it starts.
 * - *never called*: its start has made no progress for `initLimit`, and it has not called the platform. It is killed
 *   (docs/spec/endpoints.md#worker-supervision). A pull of its image that comes further, or ends, is progress: a large image may take hours.
 * - *setup*: it reported that its setup began, and how long it may take. It ends itself after that time. A setup that blocks its thread
 *   cannot, so the worker is killed `stopGrace` later.
 * - *unhealthy*: it reported a failed fitness check and should exit. It is drained when it does not.
 * - *announced its exit*: it takes no more jobs because it received a signal. Its exit is requested if it does not exit.
 * - *asked to be replaced*: one of its results had `stopPod`. Its exit is requested at once: the RunPod SDK does not exit on its own when a
 *   handler returns `refresh_worker` (docs/spec/worker-lifecycle.md#refreshing-a-worker).
 * - *stuck*: it holds no jobs and has not taken a waiting job for `stuckAfter`. A frozen worker is in this state once its lease has
 *   expired.
 *   So is a worker whose handler is still running a cancelled or timed-out job and cannot be interrupted
 *   (docs/spec/worker-lifecycle.md#cancelled-jobs): it sends heartbeats but takes no jobs. A stuck worker that never took a job counts as a
 *   failure.
 * - *silent*: it holds no jobs and has not called the platform for `silentAfter`, whether or not jobs are waiting.
 *
 * Workers that hold a job are not checked here, because their lease and the job's execution timeout cover them.
 */
import { pullText } from "@stint/contract/ImagePull"
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"
import type { ExternalWorkers } from "./ScalingPolicy.ts"

/** Time limits in milliseconds. See `Autoscaler` for defaults and trade-offs. */
export interface HealthLimits {
  readonly initLimitMs: number
  readonly stuckAfterMs: number
  readonly silentAfterMs: number
  /** Time for a worker to complete an exit that it announced. */
  readonly stopGraceMs: number
}

/** The input of a check. All times are in milliseconds and from the same clock. */
export interface WorkerObservation {
  readonly worker: string
  /** When it was started, or when its start last made progress. */
  readonly progressedAt: number
  readonly ready: boolean
  /** Whether it has ever taken a job. */
  readonly tookJob: boolean
  /** Its entry in the registry. */
  readonly status: WorkerStatus | undefined
  /** When the job that has waited longest was queued; null when no jobs are waiting, or when the time is unknown. */
  readonly oldestQueuedAt: number | null
  /** Until this time, workers could not call the platform, because the machine was suspended or the store was unavailable. */
  readonly unreachableUntil: number
  readonly now: number
}

/** The result. `reason` is text. */
export type HealthAssessment =
  /** `checkAt`: earliest time at which the result may change without an event. */
  | { readonly _tag: "Healthy"; readonly checkAt: number | undefined }
  /**
   * The worker receives no more jobs. Its exit is requested, but not before `requestExitAt`. `failed` is true when the replacement would
   * probably behave in the same way, so the exit counts as a failure.
   */
  | { readonly _tag: "Drain"; readonly requestExitAt: number; readonly reason: string; readonly failed?: boolean }
  | { readonly _tag: "Kill"; readonly reason: string }

/** Whether the worker takes jobs. */
export const isWorking = (status: WorkerStatus | undefined): boolean => status?.state === "idle" || status?.state === "running"

/** Whether the worker has called the platform and has not failed. A worker that an operator has drained may never have called. */
export const isReady = (status: WorkerStatus | undefined): boolean =>
  isWorking(status) ||
  (status?.state === "draining" && (status.leaving === undefined || status.idleSince !== null || status.jobs.length > 0))

const seconds = (millis: number): string => `${Math.round(millis / 100) / 10} s`

const healthy = (checkAt?: number): HealthAssessment => ({ _tag: "Healthy", checkAt })

/** Checks one worker that is not draining. */
export const assessHealth = (observation: WorkerObservation, limits: HealthLimits): HealthAssessment => {
  const { now, status, worker } = observation
  if (status?.leaving !== undefined) return { _tag: "Drain", requestExitAt: now, reason: "an operator drained it" }
  if (!observation.ready && status?.setup !== undefined) {
    const { limitAt, startedAt } = status.setup
    const until = Math.max(limitAt, observation.unreachableUntil) + limits.stopGraceMs
    if (now < until) return healthy(until)
    return {
      _tag: "Kill",
      reason:
        `The setup of worker ${worker} did not end within ${
          seconds(limitAt - startedAt)
        }, and it was killed. Give it more time with ` +
        `PLATFORM_SETUP_TIMEOUT, or see in its last output why it hangs.`
    }
  }
  if (!observation.ready && status?.state !== "unhealthy") {
    const until = Math.max(observation.progressedAt, observation.unreachableUntil) + limits.initLimitMs
    if (now < until) return healthy(until)
    const reason = status?.pull !== undefined
      ? `Worker ${worker} was given up: the pull of its image ${status.pull.image} has come no further for ${
        seconds(limits.initLimitMs)
      } (` +
        `${pullText(status.pull.progress)}). Check whether this machine reaches the registry, and the engine's log.`
      : `Worker ${worker} did not call the platform within ${seconds(limits.initLimitMs)} of its start and was killed. ` +
        `Check its last output, and whether it can reach the platform's address.`
    return { _tag: "Kill", reason }
  }
  if (status === undefined) return healthy()
  if (status.state === "unhealthy") return { _tag: "Drain", requestExitAt: now + limits.stopGraceMs, reason: "it is unhealthy" }
  if (status.state === "draining") {
    return status.exitAnnounced
      ? { _tag: "Drain", requestExitAt: now + limits.stopGraceMs, reason: "it announced its exit" }
      : { _tag: "Drain", requestExitAt: now, reason: "it asked to be replaced" }
  }
  if (status.jobs.length > 0) return healthy()

  const silentAt = Math.max(status.lastSeenAt, observation.unreachableUntil) + limits.silentAfterMs
  if (now >= silentAt) return { _tag: "Drain", requestExitAt: now, reason: `it was silent for ${seconds(limits.silentAfterMs)}` }

  if (status.idleSince === null || observation.oldestQueuedAt === null) return healthy(silentAt)
  const stuckAt = Math.max(status.idleSince, observation.oldestQueuedAt, observation.unreachableUntil) + limits.stuckAfterMs
  if (now < stuckAt) return healthy(Math.min(silentAt, stuckAt))
  const reason = `it took no job for ${seconds(limits.stuckAfterMs)} although jobs waited`
  return { _tag: "Drain", requestExitAt: now, reason, failed: !observation.tookJob }
}

/** What to do about a worker that is idle but takes no jobs. */
export const IDLE_WORKER_HINT =
  "Check its last output. If it uses RunPod's Python SDK 1.7 to 1.9, a file .runpod_jobs.pkl in its working directory stops it: delete the " +
  "file, and remove the endpoint's cwd setting, so that each worker has a folder of its own."

/** An external worker that has been silent for this long, or for its lease if that is longer, is not counted. Milliseconds. */
const EXTERNAL_WORKER_SILENT_MILLIS = 30_000

/** Counts the workers that the platform did not start, except silent ones. `now`: monotonic, like the times of the workers. */
export const countExternalWorkers = (
  all: Iterable<WorkerStatus>,
  own: ReadonlyMap<string, unknown>,
  leaseMs: number,
  now: number
): ExternalWorkers => {
  const heardSince = now - Math.max(leaseMs, EXTERNAL_WORKER_SILENT_MILLIS)
  const externalWorkers = { idle: 0, running: 0 }
  for (const { id: worker, lastSeenAt, state } of all) {
    if (own.has(worker) || lastSeenAt < heardSince) continue
    if (state === "idle" || state === "running") externalWorkers[state] += 1
  }
  return externalWorkers
}

/**
 * Decides the number of workers of an endpoint. Pure: maps an observation to a decision (docs/spec/endpoints.md#scaling).
 *
 * Workers are counted as follows:
 *
 * ```
 *   starting   idle   running                      draining
 *   |------- serving: take jobs --------|          take none, still running
 *   |--------------------- alive: count to `max` ----------------|
 * ```
 *
 * Rules, all of which the property tests check:
 *
 * - Never more than `max` workers are alive. Draining workers count, because `max` limits the load on the machine, and a draining worker
 *   uses memory until it exits. Outdated workers (started with older settings) count for the same reason.
 * - Never fewer than `min` workers are serving, as far as `max` permits.
 * - The first waiting job of an endpoint that has no serving workers starts a worker immediately.
 * - `lowPriority` jobs never start a worker, not even the first one, because they use only spare capacity. They run when `min` or another
 *   job starts a worker, or they expire.
 * - QUEUE_DELAY: starts one more worker when a job has waited for `value` seconds, but at most one every `value` seconds. Starts no worker
 *   while enough workers for all waiting jobs are starting, so that a slow cold start does not cause a second worker for a single job.
 * - REQUEST_COUNT: `ceil((waiting + running) / value)` workers.
 * - Scaling down stops only idle workers, longest idle first. It happens after the idle timeout and while no jobs
 *   are waiting, and never goes below the number of workers that the scaler would start again.
 * - No workers are started for an endpoint with the source `external`.
 *
 * Changed settings are handled separately from scaling down: `retire` lists workers, idle or busy, that receive no more jobs because they
 * are outdated or exceed a lowered `max`. A retired worker finishes the jobs that it holds.
 */
import type { Scaler, WorkerLimits } from "@stint/contract/Endpoint"
import type { Depth } from "@stint/store/JobStore"

/** One worker of the endpoint. */
export interface PolicyWorker {
  readonly id: string
  /**
   * `starting`: has not called the platform yet. `idle`: holds no jobs. `running`: holds a job. `draining`: receives no more jobs.
   */
  readonly state: "starting" | "idle" | "running" | "draining"
  /** When the worker became idle, in milliseconds; null unless it is idle. */
  readonly idleSince: number | null
  /** Started with older settings. During a rollout: runs the release that served before. */
  readonly outdated: boolean
  /** During a rollout: runs neither the new nor the previous release. */
  readonly abandoned?: boolean
}

/** External workers (`stint worker-env`) that have called the platform recently. They count as capacity, but not towards `max`. */
export interface ExternalWorkers {
  readonly idle: number
  readonly running: number
}

/** The input of a decision. */
export interface Observation {
  readonly limits: WorkerLimits
  readonly scaler: Scaler
  /** Whether a pool can start this endpoint's workers. */
  readonly startable: boolean
  readonly depth: Pick<Depth, "waiting" | "waitingLow" | "running" | "oldestQueuedAt">
  readonly workers: ReadonlyArray<PolicyWorker>
  /** How outdated workers are replaced (see `RollPolicy`). Absent: all at once, before their replacements start. */
  readonly roll?: "proving" | "replacing" | undefined
  readonly externalWorkers: ExternalWorkers
  /** Time of the last worker start; null when there was none. */
  readonly lastStartAt: number | null
  /** The current time in milliseconds, from the same clock as all other times here. */
  readonly now: number
}

/** A decision. `RestartBackoff` may reduce the number of starts. */
export interface Decision {
  /** Number of workers to start. */
  readonly start: number
  /** Number of workers of the previous release to start, during a rollout that has not proven the new release. */
  readonly startPrevious?: number
  /** Idle workers to stop. */
  readonly drain: ReadonlyArray<string>
  /** Outdated or surplus workers to drain; they may be busy. */
  readonly retire: ReadonlyArray<string>
  /** The earliest time at which the decision may change without an event; null when it cannot change without one. */
  readonly wakeAt: number | null
}

/**
 * How long an idle external worker counts as capacity for a waiting job. A live worker takes the job immediately; a dead worker is detected
 * only later, and no job should wait for that. Milliseconds.
 */
const EXTERNAL_WORKER_GRACE_MILLIS = 1_000

const RETIRE_ORDER = { idle: 0, starting: 1, running: 2, draining: 3 } as const

/** Makes a decision; deterministic. */
export const decide = (
  { depth, externalWorkers, lastStartAt, limits, now, scaler, startable, workers }: Observation
): Decision => {
  const present = workers.filter((worker) => worker.state !== "draining")
  const max = startable ? limits.max : 0
  const min = Math.min(limits.min, max)

  const outdated = present.filter((worker) => worker.outdated)
  const current = present.filter((worker) => !worker.outdated)
  const tooMany = [...current]
    .sort((a, b) => RETIRE_ORDER[a.state] - RETIRE_ORDER[b.state] || (a.idleSince ?? 0) - (b.idleSince ?? 0))
    .slice(0, Math.max(0, current.length - max))
  const retire = [...outdated, ...tooMany].map((worker) => worker.id)
  const serving = current.filter((worker) => !tooMany.includes(worker))

  const wakeTimes: Array<number> = []
  const due = (at: number): boolean => {
    if (now >= at) return true
    wakeTimes.push(at)
    return false
  }

  const demand = Math.max(0, depth.waiting - depth.waitingLow)
  const oldest = demand > 0 ? depth.oldestQueuedAt : null
  const trusted = externalWorkers.idle > 0 && oldest !== null && !due(oldest + EXTERNAL_WORKER_GRACE_MILLIS)
    ? externalWorkers.idle
    : 0

  let wanted = 0
  switch (scaler.type) {
    case "REQUEST_COUNT": {
      wanted = Math.ceil((demand + depth.running) / scaler.value) - externalWorkers.running - trusted
      break
    }
    case "QUEUE_DELAY": {
      const starting = serving.filter((worker) => worker.state === "starting").length
      const wait = scaler.value * 1_000
      wanted = serving.length
      if (
        oldest !== null && serving.length > 0 && serving.length < max && demand > starting &&
        due(Math.max(oldest, lastStartAt ?? -Infinity) + wait)
      ) {
        wanted += 1
      }
    }
  }
  if (serving.length === 0 && demand > 0 && trusted === 0) wanted = Math.max(wanted, 1)
  const target = Math.min(Math.max(wanted, min), max)
  const start = Math.max(0, Math.min(target - serving.length, max - workers.length))

  // An idle worker takes waiting jobs of any priority.
  const drain: Array<string> = []
  if (depth.waiting === 0) {
    const needed = scaler.type === "REQUEST_COUNT" ? target : min
    const idle = serving
      .filter((worker) => worker.state === "idle")
      .sort((a, b) => (a.idleSince ?? now) - (b.idleSince ?? now))
    for (const worker of idle.slice(0, Math.max(0, serving.length - needed))) {
      if (due((worker.idleSince ?? now) + limits.idleTimeoutMs)) drain.push(worker.id)
    }
  }

  return { start, drain, retire, wakeAt: wakeTimes.length === 0 ? null : Math.min(...wakeTimes) }
}

/**
 * Decides the number of workers of an endpoint. Pure: an observation in, a decision out (docs/spec/endpoints.md#scaling).
 *
 * How workers count:
 *
 * ```
 *   starting   idle   running                      draining
 *   |------- serving: take jobs --------|          take none, still running
 *   |--------------------- alive: count to `max` ----------------|
 * ```
 *
 * Rules, all of which the property tests check:
 *
 * - Never more than `max` alive. Draining workers count: `max` limits the load of the machine, and a draining worker uses its memory until it
 *   exits. Outdated workers (started with older settings) count for the same reason.
 * - Never fewer than `min` serving, as far as `max` has room.
 * - The first waiting job of an endpoint without serving workers starts one immediately.
 * - `lowPriority` jobs never start a worker, not even the first: they use spare capacity. They run when `min` or another job starts a worker, or
 *   expire.
 * - QUEUE_DELAY: one more while a job has waited `value` seconds, at most one every `value` seconds, and none while enough workers for all
 *   waiting jobs are starting: a slow cold start must not start a second worker for a single job.
 * - REQUEST_COUNT: `ceil((waiting + running) / value)` workers.
 * - Scaling down stops idle workers only, longest idle first, after the idle timeout, while no job waits, and never below the number that the
 *   scaler would start again.
 * - An endpoint with the source `external` gets no workers.
 *
 * Changed settings are separate from scaling down: `retire` lists workers that get no more jobs, busy or not, because they are outdated or
 * exceed a lowered `max`. A retired worker finishes the jobs it holds.
 */
import type { Scaler, WorkerLimits } from "@stint/contract/Endpoint"
import type { Depth } from "@stint/store/JobStore"

/** One worker of the endpoint. */
export interface PolicyWorker {
  readonly id: string
  /**
   * `starting`: has not called yet. `idle`: holds no job. `running`: holds a job. `draining`: gets no more jobs.
   */
  readonly state: "starting" | "idle" | "running" | "draining"
  /** Start of its idle time, milliseconds; null unless idle. */
  readonly idleSince: number | null
  /** Started with older settings. */
  readonly outdated: boolean
}

/** External workers (`stint worker-env`) that called recently. They count as capacity, but not towards `max`. */
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
  readonly externalWorkers: ExternalWorkers
  /** Time of the last worker start; null when there was none. */
  readonly lastStartAt: number | null
  /** Current time, milliseconds, from the clock of all times here. */
  readonly now: number
}

/** A decision. `RestartBackoff` may reduce the number of starts. */
export interface Decision {
  /** Number of workers to start. */
  readonly start: number
  /** Idle workers to stop. */
  readonly drain: ReadonlyArray<string>
  /** Outdated or surplus workers to drain; they may be busy. */
  readonly retire: ReadonlyArray<string>
  /** Earliest time at which the decision may change without an event; null when it cannot. */
  readonly wakeAt: number | null
}

/**
 * How long a waiting job may rely on an idle external worker, milliseconds. A live worker takes the job immediately; a dead one is detected
 * later, and no job should wait for it.
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

  // An idle worker takes waiting jobs of every priority.
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

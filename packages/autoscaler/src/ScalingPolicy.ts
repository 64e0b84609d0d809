/**
 * How many workers an endpoint should have. Pure: what is seen goes in, what to do comes out (docs/spec/endpoints.md#scaling).
 *
 * Workers of the endpoint, by what they count for:
 *
 * ```
 *   starting   idle   running                      leaving
 *   |------- serving: take jobs --------|          take none, still there
 *   |--------------------- alive: count to `max` ----------------|
 * ```
 *
 * Rules, all of which the property tests check:
 *
 * - Never more than `max` alive. Leaving workers count: `max` is what the machine is asked to bear, and a leaving one still holds its
 *   memory until it is gone. Outdated workers (started from settings that have changed since) count for the same reason.
 * - Never fewer than `min` serving, as far as `max` has room.
 * - The first waiting job of an endpoint without serving workers starts one at once.
 * - `lowPriority` jobs start nothing, not even the first worker: a caller who asks for low priority asks for leftover capacity. They run when
 *   `min` or another job brings a worker, or reach their time to live.
 * - QUEUE_DELAY: one more while a job has waited `value` seconds, at most one every `value` seconds, and none while workers are starting for
 *   all that wait: a slow cold start of the one worker that a single job needs must not start a second.
 * - REQUEST_COUNT: `ceil((waiting + running) / value)` workers.
 * - Scaling down takes idle workers only, those idle longest first, when they have been idle for the idle timeout and nothing waits, and never
 *   below what the scaler would start again.
 * - An endpoint that nobody can start workers for (`external`) gets none.
 *
 * Changed settings are something else than scaling down, so they have their own list: `retire` names workers that are to take no more jobs
 * whatever they do now, because they are outdated or above a lowered `max`. A retired worker finishes the jobs it holds.
 */
import type { Scaler, WorkerLimits } from "@stint/contract/Endpoint"
import type { Depth } from "@stint/store/JobStore"

/** One worker of the endpoint, as the policy sees it. */
export interface PolicyWorker {
  readonly id: string
  /**
   * `starting`: has not called yet. `idle`: holds no job. `running`: holds one. `leaving`: takes no more.
   */
  readonly state: "starting" | "idle" | "running" | "leaving"
  /** Since when it is idle, milliseconds; null unless idle. */
  readonly idleSince: number | null
  /** Started from settings that have changed since. */
  readonly outdated: boolean
}

/** Workers that joined by themselves (`stint worker-env`), as far as they were heard of lately. They count as capacity, not to `max`. */
export interface ExternalWorkers {
  readonly idle: number
  readonly running: number
}

/** Everything that a decision is made from. */
export interface Observation {
  readonly limits: WorkerLimits
  readonly scaler: Scaler
  /** Whether a pool can start this endpoint's workers. */
  readonly startable: boolean
  readonly depth: Pick<Depth, "waiting" | "waitingLow" | "running" | "oldestQueuedAt">
  readonly workers: ReadonlyArray<PolicyWorker>
  readonly externalWorkers: ExternalWorkers
  /** When a worker of the endpoint was last started; null when none was. */
  readonly lastStartAt: number | null
  /** Milliseconds, of the same clock as all times here. */
  readonly now: number
}

/** What to do now. Whoever carries it out may start fewer: see `RestartBackoff`. */
export interface Decision {
  /** How many workers to start. */
  readonly start: number
  /** Idle workers that are no longer needed. */
  readonly drain: ReadonlyArray<string>
  /** Workers that settings have made wrong or too many; they may be busy. */
  readonly retire: ReadonlyArray<string>
  /** When time alone, without any event, may change the decision; null when it cannot. */
  readonly wakeAt: number | null
}

/**
 * How long an idle guest is trusted to take a waiting job, milliseconds. One that takes takes within a moment; one that is gone is noticed
 * only later, and no job should wait for it.
 */
export const EXTERNAL_WORKER_GRACE_MILLIS = 1_000

const RETIRE_ORDER = { idle: 0, starting: 1, running: 2, leaving: 3 } as const

/** Decides. The same observation always gives the same decision. */
export const decide = (
  { depth, externalWorkers, lastStartAt, limits, now, scaler, startable, workers }: Observation
): Decision => {
  const present = workers.filter((worker) => worker.state !== "leaving")
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

  // What waits, whatever its priority, is what an idle worker is about to take.
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

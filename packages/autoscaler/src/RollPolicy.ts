/**
 * Decides how the workers of one release replace those of another. Pure.
 *
 * ```
 *   proving     old  old  old  + new starting         the old ones take the jobs; nothing is replaced
 *   replacing   old  old  new  + new starting         each ready new worker replaces one old worker
 *   done        new  new  new
 * ```
 *
 * Rules, all of which the property tests check:
 *
 * - While the new release is being verified, exactly one worker of it is started, even if no job waits. The workers of the previous release are
 *   scaled as if there were no rollout, and none of them is retired for being outdated.
 * - Afterwards, an outdated worker is retired only when a ready new worker takes its place, or when it is not needed.
 * - While outdated workers are alive, there are at most `max` + 1 workers.
 * - Workers of a release that a later deployment replaced before it was verified are retired.
 * - Without workers of the previous release, none are started: the first worker of the new release takes the waiting jobs.
 */
import { decide, type Decision, type Observation, type PolicyWorker } from "./ScalingPolicy.ts"

/** The number of workers beyond `max` during a rollout. */
const SURGE = 1

const isPresent = (worker: PolicyWorker): boolean => worker.state !== "draining"
const isReady = (worker: PolicyWorker): boolean => worker.state === "idle" || worker.state === "running"

/** Idle workers first, longest idle first; busy workers last. */
const RETIRE_ORDER = { idle: 0, starting: 1, running: 2, draining: 3 } as const
const byCost = (a: PolicyWorker, b: PolicyWorker): number =>
  RETIRE_ORDER[a.state] - RETIRE_ORDER[b.state] || (a.idleSince ?? 0) - (b.idleSince ?? 0)

/** The number of workers that may start. */
const roomOf = ({ limits, startable, workers }: Observation): number =>
  startable && limits.max > 0 ? Math.max(0, limits.max + SURGE - workers.length) : 0

const proving = (observation: Observation): Decision => {
  const abandoned = observation.workers.filter((worker) => isPresent(worker) && worker.abandoned === true).map(({ id }) => id)
  const workers = observation.workers.map((worker) =>
    abandoned.includes(worker.id) ? { ...worker, state: "draining" as const } : worker
  )
  const previous = workers.filter((worker) => worker.outdated || !isPresent(worker))
  const serving = previous.filter(isPresent)
  const decision = decide({
    ...observation,
    roll: undefined,
    workers: previous.map((worker) => ({ ...worker, outdated: false }))
  })
  const isStarting = workers.some((worker) => isPresent(worker) && !worker.outdated)
  const room = roomOf(observation)
  const start = isStarting ? 0 : Math.min(1, room)
  const startPrevious = serving.length === 0 ? 0 : Math.max(0, Math.min(decision.start, room - start))
  return { ...decision, start, startPrevious, retire: [...abandoned, ...decision.retire] }
}

const replacing = (observation: Observation): Decision => {
  const { depth, limits, startable, workers } = observation
  const outdated = workers.filter((worker) => isPresent(worker) && worker.outdated)
  const current = workers.filter((worker) => isPresent(worker) && !worker.outdated)
  const decision = decide({ ...observation, roll: undefined, workers: workers.filter((worker) => !outdated.includes(worker)) })
  if (outdated.length === 0 && workers.every((worker) => !worker.outdated)) return decision

  const max = startable ? limits.max : 0
  const busy = [...outdated, ...current].filter(({ state }) => state === "running").length
  const hasDemand = depth.waiting > depth.waitingLow
  const needed = Math.min(max, Math.max(limits.min, busy, hasDemand ? 1 : 0))
  const leaving = new Set([...decision.drain, ...decision.retire])
  const kept = Math.max(0, needed - current.filter((worker) => isReady(worker) && !leaving.has(worker.id)).length)
  const retired = [...outdated].sort(byCost).slice(0, Math.max(0, outdated.length - kept)).map(({ id }) => id)
  const start = Math.min(Math.max(decision.start, needed - current.length), max - current.length, roomOf(observation))
  return { ...decision, start: Math.max(0, start), retire: [...retired, ...decision.retire] }
}

/** Makes a decision during a rollout; otherwise, the decision of `decide`. Deterministic. */
export const decideRoll = (observation: Observation): Decision => {
  switch (observation.roll) {
    case "proving":
      return proving(observation)
    case "replacing":
      return replacing(observation)
    case undefined:
      return decide(observation)
  }
}

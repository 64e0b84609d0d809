/**
 * Decides how many workers a canary gets, in addition to those of the active release. Pure.
 *
 * Rules, all of which the property tests check:
 *
 * - The workers of the active release are scaled as if there were no canary, but leave room for its workers: the total is at most `max` plus one.
 * - Until the first worker of the canary has been ready, one is started even if no job waits, so that a release that does not start is detected at
 *   once.
 * - Afterwards, the canary has its share of the active release's number of workers, rounded up.
 */
import { decideRoll } from "./RollPolicy.ts"
import type { Decision, Observation, PolicyWorker } from "./ScalingPolicy.ts"

/** The input of a decision. `workers` does not contain those of the canary. */
export interface CanaryObservation extends Observation {
  readonly canary: {
    readonly percent: number
    readonly workers: ReadonlyArray<PolicyWorker>
    /** Whether a worker of the canary has been ready. */
    readonly isProven: boolean
  }
}

/** A decision. */
export interface CanaryDecision extends Decision {
  /** The number of workers of the canary to start. */
  readonly startCanary: number
}

const isPresent = ({ state }: PolicyWorker): boolean => state !== "draining"

/** Makes a decision. Deterministic. */
export const decideCanary = (observation: CanaryObservation): CanaryDecision => {
  const { canary, depth, limits, now, startable, workers } = observation
  const own = canary.workers.filter(isPresent)
  const most = Math.max(1, Math.floor((limits.max * canary.percent) / 100))
  // One worker more than `max`, as in a rollout. Otherwise, an endpoint with one worker could not have a canary.
  const max = Math.max(0, Math.min(limits.max, limits.max + 1 - Math.max(most, canary.workers.length)))
  const decision = decideRoll({ ...observation, limits: { ...limits, max, min: Math.min(limits.min, max) } })

  const leaving = new Set([...decision.drain, ...decision.retire])
  const serving = workers.filter((worker) => isPresent(worker) && !leaving.has(worker.id)).length + decision.start
  const wanted = !startable || limits.max === 0
    ? 0
    : Math.max(canary.isProven ? 0 : 1, Math.min(most, Math.ceil((serving * canary.percent) / 100)))
  const room = limits.max + 1 - workers.length - canary.workers.length - decision.start
  const startCanary = Math.max(0, Math.min(wanted - own.length, room))

  const times: Array<number> = decision.wakeAt === null ? [] : [decision.wakeAt]
  const idle = own.filter(({ state }) => state === "idle").sort((a, b) => (a.idleSince ?? now) - (b.idleSince ?? now))
  const drain: Array<string> = []
  for (const { id, idleSince } of depth.waiting > 0 ? [] : idle.slice(0, Math.max(0, own.length - wanted))) {
    const due = (idleSince ?? now) + limits.idleTimeoutMs
    if (due <= now) drain.push(id)
    else times.push(due)
  }
  return {
    ...decision,
    startCanary,
    drain: [...decision.drain, ...drain],
    wakeAt: times.length === 0 ? null : Math.min(...times)
  }
}

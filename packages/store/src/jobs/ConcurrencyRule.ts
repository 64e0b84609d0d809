/**
 * Limits how many jobs of an endpoint with the same concurrency key run at the same time (docs/spec/endpoints.md#concurrency-keys). Pure.
 *
 * ```
 *                                 the key has a free slot
 *   submitted, retried, ------------------------------------> [ ready ] --claim--> [ running ]
 *   end of a backoff    \                                      has a slot           has a slot
 *                        \ none                                   ^                     |
 *                         +--------> [ held ] -- a slot is free --+                     v
 *                                    by priority, then submission          ended, or waits for its next attempt
 * ```
 *
 * - The limit of a key is its number of slots. Each ready or running job has a slot. So ready jobs are claimed without counting, and an endpoint without the setting has no extra cost.
 * - A held job is not ready: the autoscaler starts no worker for it, because that worker would find no job.
 * - Fair between keys: within a priority, jobs are claimed in the order in which they received their slots. When a job receives a slot, at most `limit` jobs of each other key are ahead of it, however many were submitted before.
 * - While a job is held, another job of its key has a slot and will end, so no held job waits forever.
 * - The endpoint's current limit applies. A changed limit takes effect for a key when one of its jobs is submitted or ends.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { JobHead } from "./JobRecord.ts"

/** The jobs of one key that have not ended. */
export interface KeyUsage {
  /** Running jobs. */
  readonly running: number
  /** Jobs that can be claimed. */
  readonly ready: number
  /** Held jobs. A store may stop counting at 1, except for an explanation. */
  readonly held: number
}

/** The maximum number of jobs that one event releases, after a limit was raised. Bounds the duration of a transaction. */
export const RELEASE_LIMIT = 100

type Slotted = Pick<JobHead, "concurrency" | "status" | "notBefore">

/** Whether the job runs or could run now. A parked run is IN_PROGRESS and has a `notBefore`. It needs a new slot when it wakes. */
const isActive = ({ notBefore, status }: Slotted): boolean =>
  notBefore === null && (status === "IN_PROGRESS" || status === "IN_QUEUE")

/** Whether the job has a slot of its key. */
export const hasSlot = (job: Slotted): boolean => job.concurrency !== null && !job.concurrency.held && isActive(job)

/** Whether the job needs a slot and had none before its change. `before` is undefined for a new job. */
export const asksForSlot = (before: Slotted | undefined, after: Slotted): boolean =>
  after.concurrency !== null && isActive(after) && (before === undefined || !hasSlot(before))

/** Whether the change to a job frees its slot. */
export const freesSlot = (before: Slotted, after: Slotted): boolean => hasSlot(before) && !isActive(after)

/** Whether a job that needs a slot receives one. Held jobs of the key come first. */
export const isAdmitted = ({ held, ready, running }: KeyUsage, limit: number): boolean => held === 0 && running + ready < limit

/** The number of held jobs that receive a slot. */
export const releasable = ({ ready, running }: Omit<KeyUsage, "held">, limit: number): number =>
  Math.max(0, Math.min(limit - running - ready, RELEASE_LIMIT))

/** The job, held or not. */
export const withHeld = <A extends JobHead>(job: A, held: boolean): A =>
  job.concurrency === null || job.concurrency.held === held ? job : { ...job, concurrency: { ...job.concurrency, held } }

/** The limits of endpoints, as of their last claim or submission, for stores in memory. */
export interface KeyLimits {
  /** Records the limit that a claim or a submission states. Undefined: the endpoint has none. */
  readonly set: (endpoint: EndpointId, limit: number | undefined) => void
  /** The limit for each key of an endpoint. */
  readonly of: (endpoint: EndpointId) => number
}

/** No limits. */
export const makeLimits = (): KeyLimits => {
  const limits = new Map<EndpointId, number>()
  return {
    set: (endpoint, limit) => {
      if (limit !== undefined) limits.set(endpoint, limit)
      // The setting was removed. Endpoints that never had one are not stored.
      else if (limits.size > 0 && limits.has(endpoint)) limits.set(endpoint, Infinity)
    },
    of: (endpoint) => limits.get(endpoint) ?? Infinity
  }
}

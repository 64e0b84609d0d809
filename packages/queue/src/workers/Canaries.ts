/**
 * The share of the jobs that a canary's workers may take, and how the attempts on its release and on the active release ended.
 *
 * Each claimed job of the endpoint adds `percent / 100` to the canary's credit, and each job that a worker of the canary claims subtracts 1.
 * Such a worker may claim while the credit is at least 1. Workers of the active release can always claim, so a canary cannot delay a job. When its
 * workers are busy, the other workers claim the jobs, and the share is smaller.
 *
 * The counts are in memory and restart with the platform. While no endpoint has a canary, every call returns at once.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import type { JobHead } from "@stint/store/JobRecord"

/** The attempts that ended with a result or an error. Cancelled and returned attempts do not count. */
export interface ReleaseResults {
  readonly jobs: number
  /** Errors (including retried ones), lost workers and timeouts. */
  readonly failed: number
}

/** The results since the canary began. */
export interface CanaryResults {
  readonly canary: ReleaseResults
  readonly active: ReleaseResults
}

/** A canary of an endpoint. */
export interface CanaryShare {
  readonly release: number
  /** The active release. */
  readonly active: number
  readonly percent: number
}

export interface Canaries {
  /** Begins, changes or ends (undefined) the canary of an endpoint. A canary of another release starts without results. */
  readonly set: (endpoint: EndpointId, share: CanaryShare | undefined) => void
  /** The number of jobs that a worker of this release may claim now; undefined: any number. */
  readonly allowance: (endpoint: EndpointId, release: number | undefined) => number | undefined
  /** A worker of this release has claimed jobs. Returns true if the canary's workers may now claim again and could not before. */
  readonly claimed: (endpoint: EndpointId, release: number | undefined, jobs: number) => boolean
  /** The state of a job has changed. */
  readonly changed: (before: JobHead, after: JobHead) => void
  readonly shareOf: (endpoint: EndpointId) => CanaryShare | undefined
  /** Undefined without a canary. */
  readonly resultsOf: (endpoint: EndpointId) => CanaryResults | undefined
}

/**
 * The maximum credit that a canary collects while its workers are busy or starting. With more, all jobs would go to the canary for a while
 * afterwards.
 */
const MAX_CREDIT = 5

interface Counted {
  jobs: number
  failed: number
}

interface Entry {
  share: CanaryShare
  credit: number
  readonly canary: Counted
  readonly active: Counted
}

/** Whether an attempt failed; undefined if it does not count. */
const hasFailed = (before: JobHead, after: JobHead): boolean | undefined => {
  switch (after.status) {
    case "COMPLETED":
      return false
    case "FAILED":
    case "TIMED_OUT":
      return true
    case "IN_QUEUE":
      return after.retries > before.retries ? true : undefined
    default:
      return undefined
  }
}

/** No endpoint has a canary at first. */
export const make = (): Canaries => {
  const entries = new Map<EndpointId, Entry>()
  return {
    set: (endpoint, share) => {
      const known = entries.get(endpoint)
      if (share === undefined) entries.delete(endpoint)
      else if (known?.share.release === share.release && known.share.active === share.active) known.share = share
      else entries.set(endpoint, { share, credit: 0, canary: { jobs: 0, failed: 0 }, active: { jobs: 0, failed: 0 } })
    },
    allowance: (endpoint, release) => {
      if (entries.size === 0) return undefined
      const entry = entries.get(endpoint)
      return entry === undefined || entry.share.release !== release ? undefined : Math.floor(entry.credit)
    },
    claimed: (endpoint, release, jobs) => {
      if (entries.size === 0) return false
      const entry = entries.get(endpoint)
      if (entry === undefined) return false
      const before = entry.credit
      const taken = entry.share.release === release ? jobs : 0
      // Counted in whole percent, because sums of fractions such as 0.1 are rarely exactly 1.
      entry.credit = Math.min(MAX_CREDIT, Math.round(before * 100 + jobs * entry.share.percent - taken * 100) / 100)
      return before < 1 && entry.credit >= 1
    },
    changed: (before, after) => {
      if (entries.size === 0 || before.status !== "IN_PROGRESS" || before.release === null) return
      if (!isTerminal(after.status) && after.status !== "IN_QUEUE") return
      const entry = entries.get(before.endpoint)
      const failed = hasFailed(before, after)
      if (entry === undefined || failed === undefined) return
      const { active, release } = entry.share
      const counted = before.release === release ? entry.canary : before.release === active ? entry.active : undefined
      if (counted === undefined) return
      counted.jobs += 1
      if (failed) counted.failed += 1
    },
    shareOf: (endpoint) => entries.get(endpoint)?.share,
    resultsOf: (endpoint) => {
      const entry = entries.get(endpoint)
      return entry === undefined ? undefined : { canary: { ...entry.canary }, active: { ...entry.active } }
    }
  }
}

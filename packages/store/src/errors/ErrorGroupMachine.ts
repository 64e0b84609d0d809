/**
 * How failures change an error group. Pure, so that every store does the same.
 *
 * ```
 *   failure ---> open <---------------------- a failure of a later release, or of an unknown one
 *                  |                            |
 *                  +--resolved by an operator---+---> resolved --failure of the resolved release or an earlier one--> resolved
 * ```
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JobHead } from "../jobs/JobRecord.ts"
import { identify } from "./ErrorFingerprint.ts"
import { type ErrorGroupRecord, type ReleaseFailures, RELEASES_KEPT, type Resolution, SAMPLE_JOBS } from "./ErrorGroupStore.ts"

/** A job that has failed. */
export interface JobFailure {
  readonly endpoint: EndpointId
  readonly job: JobId
  readonly at: number
  readonly release: number | null
  readonly worker: string | null
  readonly error: string
}

/** The failure, if this change to a job is one; otherwise undefined. A job that does not fail costs only this call. */
export const failureOf = (before: JobHead, after: JobHead, error: string | null | undefined): JobFailure | undefined =>
  (after.status !== "FAILED" && after.status !== "TIMED_OUT") || before.finishedAt !== null || after.finishedAt === null
    ? undefined
    : {
      endpoint: after.endpoint,
      job: after.id,
      at: after.finishedAt,
      release: after.release,
      worker: after.worker,
      error: error ?? ""
    }

/** Adds a failure to the counts of the releases. */
const counted = (releases: ReadonlyArray<ReleaseFailures>, { at, release }: JobFailure): ReadonlyArray<ReleaseFailures> => {
  const known = releases.find((one) => one.release === release)
  const changed = known === undefined
    ? { release, count: 1, firstSeen: at, lastSeen: at }
    : {
      release,
      count: known.count + 1,
      firstSeen: Math.min(known.firstSeen, at),
      lastSeen: Math.max(known.lastSeen, at)
    }
  return [changed, ...releases.filter((one) => one !== known)]
    .sort((a, b) => b.lastSeen - a.lastSeen || (b.release ?? 0) - (a.release ?? 0))
    .slice(0, RELEASES_KEPT)
}

/** Whether a failure shows that the fault is not resolved. Failures on workers that still run an earlier release do not count. */
const reopens = ({ release: through }: Resolution, release: number | null): boolean =>
  through === null || release === null || release > through

/** Identifies a failure. */
export const identifyFailure = ({ error, job, worker }: JobFailure) => identify(error, { job, worker })

/** The group after a failure. `group`: undefined for the first failure. */
export const withFailure = (
  group: ErrorGroupRecord | undefined,
  failure: JobFailure,
  identity: ReturnType<typeof identifyFailure>
): ErrorGroupRecord => {
  const { at, job, release } = failure
  if (group === undefined) {
    return {
      ...identity,
      count: 1,
      firstSeen: at,
      lastSeen: at,
      firstRelease: release,
      releases: counted([], failure),
      jobs: [job],
      resolved: null,
      reopenedAt: null
    }
  }
  const isReopened = group.resolved !== null && reopens(group.resolved, release)
  return {
    ...group,
    count: group.count + 1,
    firstSeen: Math.min(group.firstSeen, at),
    lastSeen: Math.max(group.lastSeen, at),
    firstRelease: group.firstRelease ?? release,
    releases: counted(group.releases, failure),
    jobs: [job, ...group.jobs.filter((one) => one !== job)].slice(0, SAMPLE_JOBS),
    resolved: isReopened ? null : group.resolved,
    reopenedAt: isReopened ? at : group.reopenedAt
  }
}

/** The group after an operator has resolved or reopened it. */
export const withResolution = (group: ErrorGroupRecord, resolved: Resolution | null): ErrorGroupRecord => ({
  ...group,
  resolved,
  reopenedAt: resolved === null ? group.reopenedAt : null
})

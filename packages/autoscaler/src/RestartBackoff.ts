/**
 * Delays the next worker of a release whose workers fail. A release is one version of an endpoint's program and variables. Pure.
 *
 * ```
 *                 failed start                     a worker becomes ready
 *   [ working ] ---------------> [ backing off ] ---------------------------> [ working ]
 *       |                          |   ^   one trial at a time                    ^
 *       | too many quick crashes   +---+   fails: the wait doubles                |
 *       +------------------------------^------ a worker delivers a result --------+
 * ```
 *
 * It counts three kinds of failure:
 *
 * - A *failed start*: the worker could not be started, or exited before it was ready. The first failed start already causes a wait, because
 *   an immediate retry would fail in the same way.
 * - A *quick crash without a job*: the worker was ready, held no job, and exited without a request soon after its start. It is replaced at
 *   once the first two times.
 * - A *quick crash with a job*: the job may be the cause, and its attempts are limited separately. The worker is replaced at once until
 *   {@link IMMEDIATE_JOB_CRASHES} different jobs have crashed a worker and no worker of the release has delivered a result in between. A
 *   release that crashes on every job would otherwise use up the attempts of the whole queue within seconds.
 *
 * A delivered result shows that the release works, so it ends the wait and resets both crash counts. It does not reset failed starts: a
 * second worker may never start (because the first one holds the only GPU, for example) while the first one delivers results.
 */

/** The wait after the first failed start. It doubles with each further failure, up to {@link MAX_DELAY_MILLIS}. Milliseconds. */
export const INITIAL_DELAY_MILLIS = 1_000

/** The longest wait. A repaired endpoint recovers within this time. Milliseconds. */
export const MAX_DELAY_MILLIS = 30_000

/** An unrequested exit within this time of the start is a quick crash. Milliseconds. */
const QUICK_CRASH_MILLIS = 10_000

/** The number of consecutive quick crashes without a job after which the worker is still replaced without a wait. */
const IMMEDIATE_RESTARTS = 2

/** The number of different jobs that may crash a worker, without a result in between, before the next worker waits. */
const IMMEDIATE_JOB_CRASHES = 5

/** The maximum number of remembered jobs. Only a release that crashes for hours reaches it. */
const CRASHED_JOBS_LIMIT = 1_000

export interface RestartBackoff {
  /** Consecutive failed starts. */
  readonly failedStarts: number
  /** Consecutive quick crashes without a job. */
  readonly quickCrashes: number
  /** Consecutive quick crashes with a job, not counting those with a job in `crashedJobs`. */
  readonly jobCrashes: number
  /** The jobs of the crashed workers. Workers that share a job count once, because that job may be the cause. */
  readonly crashedJobs: ReadonlySet<string>
  /** No worker may start before this time. */
  readonly notBefore: number
  /** Time of the last failure. */
  readonly failedAt: number
}

/** The state without failures. */
export const empty: RestartBackoff = {
  failedStarts: 0,
  quickCrashes: 0,
  jobCrashes: 0,
  crashedJobs: new Set(),
  notBefore: 0,
  failedAt: -Infinity
}

/**
 * The wait after the `count`th failure. `random` in [0, 1) varies it by up to a fifth, so that endpoints do not all retry at the same time.
 */
export const delayOf = (count: number, random: number): number => {
  const wait = Math.min(MAX_DELAY_MILLIS, INITIAL_DELAY_MILLIS * 2 ** (count - 1))
  return Math.round(Math.min(MAX_DELAY_MILLIS, Math.max(INITIAL_DELAY_MILLIS, wait * (0.8 + 0.4 * random))))
}

/**
 * Records a failed start. Workers that are started together fail together, so starts that happened before the previous failure was known
 * count only once.
 */
export const failedStart = (
  backoff: RestartBackoff,
  { now, random, startedAt }: { readonly now: number; readonly startedAt: number; readonly random: number }
): RestartBackoff => {
  if (backoff.failedStarts > 0 && startedAt <= backoff.failedAt) return backoff
  const failedStarts = backoff.failedStarts + 1
  return { ...backoff, failedStarts, failedAt: now, notBefore: now + delayOf(failedStarts, random) }
}

/** A failure of a ready worker. */
export interface Crash {
  readonly now: number
  readonly startedAt: number
  readonly random: number
  /** The ids of the jobs that the worker held. */
  readonly jobs: ReadonlyArray<string>
}

const withoutCrashes = { quickCrashes: 0, jobCrashes: 0, crashedJobs: empty.crashedJobs } as const

/** Records that a ready worker exited without a request. */
export const crashed = (backoff: RestartBackoff, { jobs, now, random, startedAt }: Crash): RestartBackoff => {
  if (now - startedAt >= QUICK_CRASH_MILLIS) return succeeded(backoff)
  // Workers that started before the last wait began cannot show whether the wait helped.
  if (startedAt <= backoff.failedAt || jobs.some((job) => backoff.crashedJobs.has(job))) return backoff
  const counted = jobs.length === 0
    ? { ...backoff, quickCrashes: backoff.quickCrashes + 1 }
    : {
      ...backoff,
      jobCrashes: backoff.jobCrashes + 1,
      crashedJobs: new Set([...backoff.crashedJobs, ...jobs].slice(-CRASHED_JOBS_LIMIT))
    }
  const excess = jobs.length === 0 ? counted.quickCrashes - IMMEDIATE_RESTARTS : counted.jobCrashes - IMMEDIATE_JOB_CRASHES
  return excess <= 0 ? counted : { ...counted, failedAt: now, notBefore: now + delayOf(excess, random) }
}

/** Records that a worker became ready, so starting works again. */
export const ready = (backoff: RestartBackoff): RestartBackoff =>
  backoff.failedStarts === 0 ? backoff : { ...backoff, failedStarts: 0, notBefore: 0 }

/** Records that a worker delivered a result, lived long, or exited as requested. */
export const succeeded = (backoff: RestartBackoff): RestartBackoff => {
  if (backoff.quickCrashes === 0 && backoff.jobCrashes === 0) return backoff
  return { ...backoff, ...withoutCrashes, notBefore: backoff.failedStarts === 0 ? 0 : backoff.notBefore }
}

/** How many of `wanted` workers may start now, given `starting` workers that are not ready yet. */
export const allowedStarts = (backoff: RestartBackoff, wanted: number, starting: number, now: number): number => {
  if (now < backoff.notBefore) return 0
  if (backoff.failedStarts === 0 && backoff.notBefore === 0) return wanted
  return Math.min(wanted, Math.max(0, 1 - starting))
}

/**
 * Delays the next worker of an endpoint whose workers fail. Pure.
 *
 * ```
 *                 failed start                     a worker becomes ready
 *   [ working ] ---------------> [ backing off ] ---------------------------> [ working ]
 *       |                          |   ^   one trial at a time
 *       | third quick crash        +---+   fails: the wait doubles
 *       +------------------------------^
 * ```
 *
 * It counts two kinds of failure. A *failed start*: the worker could not be started, or exited before it was ready. The first failed start
 * already causes a wait, because an immediate retry would fail in the same way. A *quick crash*: the worker was ready but exited without a
 * request soon after its start. After each of the first two quick crashes, the worker is replaced at once, because a job may be the cause,
 * and the attempts of each job are limited separately.
 */

/** The wait after the first failed start. It doubles with each further failure, up to {@link MAX_DELAY_MILLIS}. Milliseconds. */
export const INITIAL_DELAY_MILLIS = 1_000

/** The longest wait. A repaired endpoint recovers within this time. Milliseconds. */
export const MAX_DELAY_MILLIS = 30_000

/** An unrequested exit within this time of the start is a quick crash. Milliseconds. */
const QUICK_CRASH_MILLIS = 10_000

/** The number of consecutive quick crashes after which the worker is still replaced without a wait. */
const IMMEDIATE_RESTARTS = 2

export interface RestartBackoff {
  /** Consecutive failed starts. */
  readonly failedStarts: number
  /** Consecutive quick crashes. */
  readonly quickCrashes: number
  /** No worker may start before this time. */
  readonly notBefore: number
  /** Time of the last failure. */
  readonly failedAt: number
}

/** The state without failures. */
export const empty: RestartBackoff = { failedStarts: 0, quickCrashes: 0, notBefore: 0, failedAt: -Infinity }

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

/** Records that a ready worker exited without a request. */
export const crashed = (
  backoff: RestartBackoff,
  { now, random, startedAt }: { readonly now: number; readonly startedAt: number; readonly random: number }
): RestartBackoff => {
  if (now - startedAt >= QUICK_CRASH_MILLIS) return { ...backoff, quickCrashes: 0 }
  const quickCrashes = backoff.quickCrashes + 1
  if (quickCrashes <= IMMEDIATE_RESTARTS) return { ...backoff, quickCrashes }
  return { ...backoff, quickCrashes, failedAt: now, notBefore: now + delayOf(quickCrashes - IMMEDIATE_RESTARTS, random) }
}

/** Records that a worker became ready, so starting works again. */
export const ready = (backoff: RestartBackoff): RestartBackoff =>
  backoff.failedStarts === 0 ? backoff : { ...backoff, failedStarts: 0, notBefore: 0 }

/** Records that a ready worker exited as requested. */
export const exited = (backoff: RestartBackoff): RestartBackoff =>
  backoff.quickCrashes === 0 ? backoff : { ...backoff, quickCrashes: 0 }

/** How many of `wanted` workers may start now, given `starting` workers that are not ready yet. */
export const allowedStarts = (backoff: RestartBackoff, wanted: number, starting: number, now: number): number => {
  if (now < backoff.notBefore) return 0
  if (backoff.failedStarts === 0) return wanted
  return Math.min(wanted, Math.max(0, 1 - starting))
}

/**
 * When an endpoint whose workers fail may have the next one. Pure.
 *
 * ```
 *                 failed start                     its worker is seen ready
 *   [ working ] ---------------> [ backing off ] ---------------------------> [ working ]
 *       |                          |   ^   one trial at a time
 *       | third quick crash        +---+   fails: the wait doubles
 *       +------------------------------^
 * ```
 *
 * Two things count. A *failed start*: the worker could not be started, or ended before it was ever seen ready; the first one already waits,
 * because nothing but time or a person will mend it. A *quick crash*: the worker was ready and ended, unasked, soon after; the first two are
 * replaced at once, because a job may be to blame, and jobs have their own limit of attempts.
 */

/** The first wait after a failed start, milliseconds. It doubles with each, up to {@link MAX_DELAY_MILLIS}. */
export const INITIAL_DELAY_MILLIS = 1_000

/** The longest wait, milliseconds: how long a mended endpoint may take to be noticed. */
export const MAX_DELAY_MILLIS = 30_000

/** A worker that ends this soon after its start has crashed quickly, milliseconds. */
export const QUICK_CRASH_MILLIS = 10_000

/** How many quick crashes in a row are replaced at once. */
export const IMMEDIATE_RESTARTS = 2

export interface RestartBackoff {
  /** Failed starts in a row. */
  readonly failedStarts: number
  /** Quick crashes in a row. */
  readonly quickCrashes: number
  /** No worker may be started before this time. */
  readonly notBefore: number
  /** When the last failure happened. */
  readonly failedAt: number
}

/** Nothing has gone wrong. */
export const empty: RestartBackoff = { failedStarts: 0, quickCrashes: 0, notBefore: 0, failedAt: -Infinity }

/** How long to wait after the `count`th failure. `random` is in [0, 1): up to a fifth more or less, so that endpoints do not beat in step. */
export const delayOf = (count: number, random: number): number => {
  const wait = Math.min(MAX_DELAY_MILLIS, INITIAL_DELAY_MILLIS * 2 ** Math.min(count - 1, 30))
  return Math.round(Math.min(MAX_DELAY_MILLIS, Math.max(INITIAL_DELAY_MILLIS, wait * (0.8 + 0.4 * random))))
}

/**
 * A start failed. Workers that were started together fail together: those that were started before the last failure was known count once.
 */
export const failedStart = (
  backoff: RestartBackoff,
  { now, random, startedAt }: { readonly now: number; readonly startedAt: number; readonly random: number }
): RestartBackoff => {
  if (backoff.failedStarts > 0 && startedAt <= backoff.failedAt) return backoff
  const failedStarts = backoff.failedStarts + 1
  return { ...backoff, failedStarts, failedAt: now, notBefore: now + delayOf(failedStarts, random) }
}

/** A worker that had been ready ended unasked. */
export const crashed = (
  backoff: RestartBackoff,
  { now, random, startedAt }: { readonly now: number; readonly startedAt: number; readonly random: number }
): RestartBackoff => {
  if (now - startedAt >= QUICK_CRASH_MILLIS) return { ...backoff, quickCrashes: 0 }
  const quickCrashes = backoff.quickCrashes + 1
  if (quickCrashes <= IMMEDIATE_RESTARTS) return { ...backoff, quickCrashes }
  return { ...backoff, quickCrashes, failedAt: now, notBefore: now + delayOf(quickCrashes - IMMEDIATE_RESTARTS, random) }
}

/** A worker was seen ready for the first time: starting works. */
export const ready = (backoff: RestartBackoff): RestartBackoff =>
  backoff.failedStarts === 0 ? backoff : { ...backoff, failedStarts: 0, notBefore: 0 }

/** A ready worker left in order: working works too. */
export const exited = (backoff: RestartBackoff): RestartBackoff =>
  backoff.quickCrashes === 0 ? backoff : { ...backoff, quickCrashes: 0 }

/** How many of `wanted` workers may be started now, while `starting` others have not been seen ready. */
export const allowedStarts = (backoff: RestartBackoff, wanted: number, starting: number, now: number): number => {
  if (now < backoff.notBefore) return 0
  if (backoff.failedStarts === 0) return wanted
  return Math.min(wanted, Math.max(0, 1 - starting))
}

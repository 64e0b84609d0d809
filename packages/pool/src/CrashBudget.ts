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

/** The first wait after a failed start, milliseconds. It doubles with each, up to {@link LONGEST_WAIT_MILLIS}. */
export const FIRST_WAIT_MILLIS = 1_000

/** The longest wait, milliseconds: how long a mended endpoint may take to be noticed. */
export const LONGEST_WAIT_MILLIS = 30_000

/** A worker that ends this soon after its start has crashed quickly, milliseconds. */
export const QUICK_MILLIS = 10_000

/** How many quick crashes in a row are replaced at once. */
export const FREE_CRASHES = 2

export interface CrashBudget {
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
export const empty: CrashBudget = { failedStarts: 0, quickCrashes: 0, notBefore: 0, failedAt: -Infinity }

/** How long to wait after the `count`th failure. `random` is in [0, 1): up to a fifth more or less, so that endpoints do not beat in step. */
export const waitOf = (count: number, random: number): number => {
  const wait = Math.min(LONGEST_WAIT_MILLIS, FIRST_WAIT_MILLIS * 2 ** Math.min(count - 1, 30))
  return Math.round(Math.min(LONGEST_WAIT_MILLIS, Math.max(FIRST_WAIT_MILLIS, wait * (0.8 + 0.4 * random))))
}

/**
 * A start failed. Workers that were started together fail together: those that were started before the last failure was known count once.
 */
export const failedStart = (
  budget: CrashBudget,
  { now, random, startedAt }: { readonly now: number; readonly startedAt: number; readonly random: number }
): CrashBudget => {
  if (budget.failedStarts > 0 && startedAt <= budget.failedAt) return budget
  const failedStarts = budget.failedStarts + 1
  return { ...budget, failedStarts, failedAt: now, notBefore: now + waitOf(failedStarts, random) }
}

/** A worker that had been ready ended unasked. */
export const crashed = (
  budget: CrashBudget,
  { now, random, startedAt }: { readonly now: number; readonly startedAt: number; readonly random: number }
): CrashBudget => {
  if (now - startedAt >= QUICK_MILLIS) return { ...budget, quickCrashes: 0 }
  const quickCrashes = budget.quickCrashes + 1
  if (quickCrashes <= FREE_CRASHES) return { ...budget, quickCrashes }
  return { ...budget, quickCrashes, failedAt: now, notBefore: now + waitOf(quickCrashes - FREE_CRASHES, random) }
}

/** A worker was seen ready for the first time: starting works. */
export const ready = (budget: CrashBudget): CrashBudget =>
  budget.failedStarts === 0 ? budget : { ...budget, failedStarts: 0, notBefore: 0 }

/** A ready worker left in order: working works too. */
export const left = (budget: CrashBudget): CrashBudget => budget.quickCrashes === 0 ? budget : { ...budget, quickCrashes: 0 }

/** How many of `wanted` workers may be started now, while `starting` others have not been seen ready. */
export const allow = (budget: CrashBudget, wanted: number, starting: number, now: number): number => {
  if (now < budget.notBefore) return 0
  if (budget.failedStarts === 0) return wanted
  return Math.min(wanted, Math.max(0, 1 - starting))
}

/**
 * Decides whether a canary's release is rolled back, from the attempts that have ended on its workers and on those of the active release
 * since the canary began. Pure.
 *
 * A release is rolled back when all of this is true:
 *
 * - at least `minJobs` attempts have ended on its workers;
 * - its error rate exceeds that of the active release by more than `maxPoints` percentage points;
 * - the difference is not explained by chance: it is at least {@link MIN_DEVIATIONS} standard deviations of two samples with the same error rate.
 *
 * The third condition prevents false alarms. The check runs after every job. If both releases fail one job in five, most canaries are more than five
 * points worse at some moment (docs/decisions/0043-canaries.md).
 */
import type { Canary } from "@stint/contract/Release"
import type { CanaryResults } from "@stint/queue/Canaries"

/**
 * How many standard deviations the difference must have. A single check exceeds 3 by chance in one of 700 cases, but a canary is checked hundreds of
 * times. A release that fails half of its jobs exceeds the value long before 50 jobs.
 */
const MIN_DEVIATIONS = 3.5

/** The error rates, in percent. */
export interface CanaryRates {
  readonly canary: number
  readonly active: number
}

const rateOf = ({ failed, jobs }: CanaryResults["canary"]): number => jobs === 0 ? 0 : failed / jobs

/** The difference between two error rates in standard deviations; Infinity when the deviation is 0 and the rates differ. */
const deviations = ({ active, canary }: CanaryResults): number => {
  // Adds one success and one failure to each sample. Otherwise, the deviation of samples without failures would be 0.
  const pooled = (active.failed + canary.failed + 2) / (active.jobs + canary.jobs + 4)
  return (rateOf(canary) - rateOf(active)) / Math.sqrt(pooled * (1 - pooled) * (1 / (active.jobs + 2) + 1 / (canary.jobs + 2)))
}

/** The error rates if they justify a rollback; otherwise undefined. */
export const reasonToRollBack = (
  { maxPoints, minJobs }: Pick<Canary, "minJobs" | "maxPoints">,
  results: CanaryResults
): CanaryRates | undefined => {
  const [canary, active] = [rateOf(results.canary) * 100, rateOf(results.active) * 100]
  // Rounds, because 5.000000000000004 points must not count as more than 5.
  const isWorse = canary - active > maxPoints + 1e-9
  return results.canary.jobs >= minJobs && isWorse && deviations(results) >= MIN_DEVIATIONS ? { canary, active } : undefined
}

const percent = (rate: number): string => `${Math.round(rate * 10) / 10} %`

/** The reason that is stored with the rolled-back release. */
export const rollbackReason = (
  { maxPoints }: Pick<Canary, "maxPoints">,
  { active, canary }: CanaryResults,
  rates: CanaryRates,
  serving: number
): string =>
  `As a canary, it failed ${canary.failed} of ${canary.jobs} attempts (${
    percent(rates.canary)
  }). In the same time, release ${serving} failed ` +
  `${active.failed} of ${active.jobs} (${
    percent(rates.active)
  }). More than ${maxPoints} percentage points of difference are not permitted.`

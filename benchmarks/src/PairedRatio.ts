/**
 * The ratio of two subjects that were measured alternately, with a confidence interval.
 *
 * Each round gives one ratio of two adjacent measurements. A change in the machine's speed affects both alike, so the ratios vary less than
 * the measurements. The interval is Student's t-interval of the logarithms, so that 2x and 0.5x are equally far from 1x.
 */

/** Two-sided 95 % quantiles of Student's t-distribution, by degrees of freedom, starting at 1. */
const T_95 = [
  12.706,
  4.303,
  3.182,
  2.776,
  2.571,
  2.447,
  2.365,
  2.306,
  2.262,
  2.228,
  2.201,
  2.179,
  2.16,
  2.145,
  2.131,
  2.12,
  2.11,
  2.101,
  2.093,
  2.086
]

/** Approximates quantiles beyond the table, with an error below 0.005. */
const tQuantile = (degrees: number): number => T_95[degrees - 1] ?? 1.96 + 2.45 / degrees

/** A ratio, and the interval that contains it with 95 % confidence. */
export interface RatioEstimate {
  readonly ratio: number
  readonly low: number
  readonly high: number
}

/**
 * The ratio of `candidate` to `base`, both with one positive figure per round. The interval is infinite for a single round: one ratio says
 * nothing about how much ratios vary.
 */
export const estimateRatio = (base: ReadonlyArray<number>, candidate: ReadonlyArray<number>): RatioEstimate => {
  if (base.length === 0 || base.length !== candidate.length) {
    throw new Error(`${base.length} rounds of the base cannot be compared with ${candidate.length} rounds of the candidate`)
  }
  const logs = candidate.map((figure, round) => Math.log(figure / (base[round] ?? Number.NaN)))
  if (!logs.every(Number.isFinite)) throw new Error("every figure must be positive")
  const rounds = logs.length
  const mean = logs.reduce((sum, log) => sum + log, 0) / rounds
  if (rounds === 1) return { ratio: Math.exp(mean), low: 0, high: Infinity }
  const variance = logs.reduce((sum, log) => sum + (log - mean) ** 2, 0) / (rounds - 1)
  const margin = tQuantile(rounds - 1) * Math.sqrt(variance / rounds)
  return { ratio: Math.exp(mean), low: Math.exp(mean - margin), high: Math.exp(mean + margin) }
}

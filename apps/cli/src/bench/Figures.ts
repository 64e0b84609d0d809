/**
 * Figures of repeated measurements: the median, and between which values they are.
 */

/** Milliseconds. */
export interface Figure {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** Milliseconds with one digit, which is more than the noise of a machine allows to read. */
const rounded = (value: number): number => Math.round(value * 10) / 10

/** The figure of some measurements; undefined without any. */
export const figureOf = (values: ReadonlyArray<number>): Figure | undefined => {
  const sorted = values.toSorted((a, b) => a - b)
  const [min] = sorted
  const max = sorted.at(-1)
  const upper = sorted[Math.floor(sorted.length / 2)]
  const lower = sorted[Math.ceil(sorted.length / 2) - 1]
  if (min === undefined || max === undefined || upper === undefined || lower === undefined) return undefined
  return { median: rounded((lower + upper) / 2), min: rounded(min), max: rounded(max) }
}

/**
 * Summarizes repeated measurements: the median and the range.
 */

/** Milliseconds. */
export interface Figure {
  readonly median: number
  readonly min: number
  readonly max: number
}

/** Milliseconds with one decimal, which is already finer than the noise of a machine. */
const rounded = (value: number): number => Math.round(value * 10) / 10

/** The summary of some measurements; undefined if there are none. */
export const figureOf = (values: ReadonlyArray<number>): Figure | undefined => {
  const sorted = values.toSorted((a, b) => a - b)
  const [min] = sorted
  const max = sorted.at(-1)
  const upper = sorted[Math.floor(sorted.length / 2)]
  const lower = sorted[Math.ceil(sorted.length / 2) - 1]
  if (min === undefined || max === undefined || upper === undefined || lower === undefined) return undefined
  return { median: rounded((lower + upper) / 2), min: rounded(min), max: rounded(max) }
}

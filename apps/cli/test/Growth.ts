/**
 * Whether something grows: the trend of samples over time.
 */

/** A sample. `at`: in milliseconds. */
export interface Sample {
  readonly at: number
  readonly value: number
}

const medianOf = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((one, other) => one - other)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? sorted[middle] ?? 0 : ((sorted[middle - 1] ?? 0) + (sorted[middle] ?? 0)) / 2
}

/**
 * The slope of the samples per millisecond: the median of the slopes of all pairs (Theil and Sen). Unlike a regression line, it does not follow a few
 * high samples. 0 with fewer than two samples.
 */
export const slopeOf = (samples: ReadonlyArray<Sample>): number => {
  const slopes = samples.flatMap((one, index) =>
    samples.slice(index + 1).map((other) => (other.value - one.value) / (other.at - one.at))
  )
  return slopes.length === 0 ? 0 : medianOf(slopes)
}

/** How much the value grew from the first to the last sample, by its slope. */
export const growthOf = (samples: ReadonlyArray<Sample>): number =>
  slopeOf(samples) * ((samples.at(-1)?.at ?? 0) - (samples[0]?.at ?? 0))

/** The median value. */
export const levelOf = (samples: ReadonlyArray<Sample>): number => medianOf(samples.map(({ value }) => value))

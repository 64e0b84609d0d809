/**
 * The values at a chart's grid lines.
 */

/** The lines from zero to the top of a chart, and the size of the unit in their labels. */
export interface Axis {
  readonly top: number
  readonly ticks: ReadonlyArray<number>
}

/** Lines at round multiples of a unit, up to or above the largest value. `whole`: no fractions of the unit. `lines`: about how many. */
export const axisOf = (largest: number, unit = 1, whole = false, lines = 4): Axis => {
  const rough = Math.max(largest, 0) / lines / unit
  const power = rough === 0 ? 1 : 10 ** Math.floor(Math.log10(rough))
  const factor = [1, 2, 5, 10].find((one) => one * power >= rough) ?? 10
  const distance = Math.max(factor * power, whole ? 1 : 0) * unit
  const count = Math.max(1, Math.ceil(largest / distance - 1e-9))
  return { top: count * distance, ticks: Array.from({ length: count + 1 }, (_, index) => index * distance) }
}

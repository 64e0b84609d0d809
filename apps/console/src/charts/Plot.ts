/**
 * The shapes of a chart over time, as SVG paths. Pure.
 *
 * ```
 *   lines   one path for each series; a value without neighbours is a dot
 *   stack   one path of rectangles for each series, above the previous one
 * ```
 *
 * X is 0 to {@link WIDTH}, Y is 0 (top) to {@link HEIGHT}. The browser stretches the drawing to its place.
 */

/** The width of the drawing. */
export const WIDTH = 1_000
/** The height of the drawing. */
export const HEIGHT = 100

/** A series of values, one for each sample. Null: nothing was measured. */
export interface Series {
  readonly name: string
  /** Its colour, and the dashes of its line: 0 to 4. For lines, 2 is for failures. */
  readonly tone: number
  readonly values: ReadonlyArray<number | null>
}

/** The time span of a chart. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** The narrowest rectangle that is visible. */
const LEAST_WIDTH = 5

const short = (value: number): string => String(Math.round(value * 100) / 100)

/** The X of a time. */
export const xOf = (time: number, { from, to }: Span): number => ((time - from) / Math.max(1, to - from)) * WIDTH

/** The path of a line. */
export const linePath = (at: ReadonlyArray<number>, values: Series["values"], span: Span, top: number): string => {
  let isOpen = false
  return values.flatMap((value, index) => {
    const time = at[index]
    if (value === null || time === undefined) {
      isOpen = false
      return []
    }
    const point = `${short(xOf(time, span))} ${short(HEIGHT * (1 - value / top))}`
    // A line to its own beginning draws a dot.
    const text = isOpen ? `L${point}` : `M${point}L${point}`
    isOpen = true
    return [text]
  }).join("")
}

/** The paths of stacked series, the first one at the bottom. Equal neighbours are one rectangle. */
export const stackPaths = (
  at: ReadonlyArray<number>,
  all: ReadonlyArray<Series>,
  span: Span,
  top: number
): ReadonlyArray<string> => {
  const below = at.map(() => 0)
  return all.map(({ values }) => {
    let path = ""
    let open: { readonly left: number; right: number; readonly base: number; readonly value: number } | undefined
    const close = () => {
      if (open === undefined) return
      const y = short(HEIGHT * (1 - (open.base + open.value) / top))
      const height = short(HEIGHT * (open.value / top))
      path += `M${short(open.left)} ${y}h${short(Math.max(LEAST_WIDTH, open.right - open.left))}v${height}H${short(open.left)}Z`
      open = undefined
    }
    for (const [index, time] of at.entries()) {
      const value = values[index] ?? 0
      const base = below[index] ?? 0
      const right = xOf(time, span)
      const left = index === 0 ? right - LEAST_WIDTH : xOf(at[index - 1] ?? time, span)
      if (open !== undefined && open.value === value && open.base === base) open.right = right
      else {
        close()
        if (value > 0) open = { left: Math.max(0, left), right, base, value }
      }
      below[index] = base + value
    }
    close()
    return path
  })
}

/** The largest value of the chart. */
export const largestOf = (all: ReadonlyArray<Series>, isStacked: boolean): number =>
  isStacked
    ? Math.max(0, ...(all[0]?.values ?? []).map((_, index) => all.reduce((sum, { values }) => sum + (values[index] ?? 0), 0)))
    : Math.max(0, ...all.flatMap(({ values }) => values.map((value) => value ?? 0)))

/** The series that have a value other than 0, and the first one. */
export const withValues = (all: ReadonlyArray<Series>): ReadonlyArray<Series> =>
  all.filter(({ values }, index) => index === 0 || values.some((value) => value !== null && value !== 0))

/** The sample at or after a time; the last one when there is none. */
export const sampleAt = (at: ReadonlyArray<number>, time: number): number => {
  const found = at.findIndex((one) => one >= time)
  return found === -1 ? at.length - 1 : found
}

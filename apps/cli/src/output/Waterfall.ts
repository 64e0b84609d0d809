/**
 * Draws consecutive parts as bars on a common time line.
 *
 * ```
 *   wait                  0 ms    812 ms  ████████
 *   attempt 1           812 ms    608 ms          ██████
 * ```
 */
import { inline } from "./Output.ts"

/** A part of the time line. Times are in milliseconds since 1970. */
export interface Part {
  readonly name: string
  readonly start: number
  readonly end: number
  /** Whether the part has not ended: `end` is the current time. */
  readonly isOpen: boolean
}

const BAR = "█"
/** Drawn at the end of a part that has not ended yet. */
const OPEN = "▶"

/** The narrowest bar area that still shows an order. Characters. */
const MIN_WIDTH = 10

/** `350 ms`, `4.20 s`, `12.0 min`, `3.5 h`. */
const span = (millis: number): string => {
  if (millis < 1_000) return `${Math.round(millis)} ms`
  if (millis < 120_000) return `${(millis / 1_000).toFixed(2)} s`
  if (millis < 7_200_000) return `${(millis / 60_000).toFixed(1)} min`
  return `${(millis / 3_600_000).toFixed(1)} h`
}

/** Draws the parts from the start of the first one to the end of the last one. `width`: the characters of a line. */
export const draw = (parts: ReadonlyArray<Part>, width: number): string => {
  if (parts.length === 0) return ""
  const from = Math.min(...parts.map(({ start }) => start))
  const total = Math.max(1, Math.max(...parts.map(({ end }) => end)) - from)
  const texts = parts.map(({ end, name, start }) => [inline(name), span(start - from), span(end - start)] as const)
  const widest = (column: 0 | 1 | 2) => Math.max(...texts.map((text) => text[column].length))
  const [nameWidth, startWidth, lengthWidth] = [widest(0), widest(1), widest(2)]
  const area = Math.max(MIN_WIDTH, width - nameWidth - startWidth - lengthWidth - 7)
  return parts.map(({ end, isOpen, start }, row) => {
    const [name = "", after = "", length = ""] = texts[row] ?? []
    const left = Math.min(area - 1, Math.floor((start - from) / total * area))
    const right = Math.max(left + 1, Math.min(area, Math.round((end - from) / total * area)))
    const bar = `${BAR.repeat(right - left - 1)}${isOpen ? OPEN : BAR}`
    return `${name.padEnd(nameWidth)}  ${after.padStart(startWidth)}  ${length.padStart(lengthWidth)}  ${" ".repeat(left)}${bar}`
  }).join("\n")
}

/**
 * Divides a time span between the hours (UTC) in which it lies.
 */
import { HOUR_MILLIS } from "@stint/store/UsageStore"

/** A longer span means that the wall clock was set. Its first part is counted in one hour. */
const MAX_HOURS = 31 * 24

/** The beginning of the hour that contains a time. */
export const hourOf = (at: number): number => Math.floor(at / HOUR_MILLIS) * HOUR_MILLIS

/** Calls `add` with each hour of the span and the part of the span within it. Does nothing if the span ends before it begins. */
export const eachHour = (from: number, to: number, add: (hour: number, millis: number) => void): void => {
  if (to <= from) return
  const last = hourOf(to - 1)
  if (hourOf(from) === last) return add(last, to - from)
  const first = Math.max(hourOf(from), last - (MAX_HOURS - 1) * HOUR_MILLIS)
  add(first, first + HOUR_MILLIS - from)
  for (let hour = first + HOUR_MILLIS; hour < last; hour += HOUR_MILLIS) add(hour, HOUR_MILLIS)
  add(last, to - last)
}

/**
 * Formats times, durations and numbers for reading.
 */
import { preferences } from "../live/Preferences.ts"

/** `350 ms`, `4.2 s`, `12 min`, `3.5 h`, `4 d`. */
export const duration = (millis: number): string => {
  const left = Math.max(0, millis)
  if (left < 1_000) return `${Math.round(left)} ms`
  if (left < 9_950) return `${(left / 1_000).toFixed(1)} s`
  if (left < 119_500) return `${Math.round(left / 1_000)} s`
  if (left < 7_200_000) return `${Math.round(left / 60_000)} min`
  if (left < 48 * 3_600_000) return `${(left / 3_600_000).toFixed(1).replace(".0", "")} h`
  return `${Math.round(left / 86_400_000)} d`
}

/** `just now`, `4 s ago`, `in 12 min`. Whole seconds, so that the text does not flicker. */
export const relative = (time: number, now: number): string => {
  const seconds = Math.round((now - time) / 1_000)
  if (Math.abs(seconds) < 2) return "just now"
  const text = duration(Math.abs(seconds) * 1_000).replace(".0 s", " s")
  return seconds > 0 ? `${text} ago` : `in ${text}`
}

const formats = new Map<string | undefined, Intl.DateTimeFormat>()

/** Creating a format takes far longer than using it. */
const formatIn = (zone: string | undefined): Intl.DateTimeFormat => {
  const known = formats.get(zone)
  if (known !== undefined) return known
  const format = new Intl.DateTimeFormat("en-GB", {
    year: "numeric",
    month: "2-digit",
    day: "2-digit",
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    fractionalSecondDigits: 3,
    hourCycle: "h23",
    timeZoneName: "short",
    timeZone: zone
  })
  formats.set(zone, format)
  return format
}

/** `2026-11-21 08:00:00.123 GMT+1`, in the zone that the reader has chosen. */
export const absolute = (time: number, zone = preferences().zone): string => {
  const parts = new Map(formatIn(zone).formatToParts(time).map(({ type, value }) => [type, value] as const))
  const at = (type: Intl.DateTimeFormatPartTypes | "fractionalSecond") => parts.get(type) ?? ""
  return `${at("year")}-${at("month")}-${at("day")} ${at("hour")}:${at("minute")}:${at("second")}.${at("fractionalSecond")} ${
    at("timeZoneName")
  }`.trim()
}

/** `08:00:00.123`, for log lines. */
export const clockTime = (time: number): string => absolute(time).slice(11, 23)

/** `1,234` and `12.3k`: exact up to 9,999. */
export const count = (value: number): string => value < 10_000 ? value.toLocaleString("en") : `${(value / 1_000).toFixed(1)}k`

/** `98 B`, `640 KB`, `48 MB`, `1.2 GB`: multiples of 1,000. */
export const bytes = (value: number): string => {
  if (value < 1e3) return `${value} B`
  if (value < 1e6) return `${Math.round(value / 1e3)} KB`
  return value < 1e9 ? `${Math.round(value / 1e6)} MB` : `${(value / 1e9).toFixed(1)} GB`
}

/** `1 job`, `12 jobs`. */
export const counted = (value: number, one: string, many = `${one}s`): string => `${count(value)} ${value === 1 ? one : many}`

/** `12 %`; `< 1 %` below one percent, so that a few failures do not look like none. */
export const percent = (part: number, whole: number): string => {
  if (part === 0 || whole === 0) return "0 %"
  const share = (part / whole) * 100
  return share < 1 ? "< 1 %" : `${Math.round(share)} %`
}

/** The start and the end of a long id: `0f8fad5b..950e`. */
export const shortId = (id: string): string => id.length <= 16 ? id : `${id.slice(0, 8)}..${id.slice(-4)}`

/** The name of a key: `ops` of `the key "ops"`, as the platform names the author of a change. */
export const keyName = (author: string): string => author.replace(/^the key "(.*)"$/, "$1")

/**
 * Parses `Retry-After` (RFC 9110, 10.2.3).
 */

/** Milliseconds from `now`, never negative. Undefined if the header is absent or cannot be parsed. */
export const retryAfter = (header: string | undefined, now: number): number | undefined => {
  const text = header?.trim() ?? ""
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  // A date contains letters; `Date.parse` alone would read "-5" as a year.
  const at = /[a-z]/i.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

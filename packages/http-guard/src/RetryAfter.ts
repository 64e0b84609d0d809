/**
 * When a server wants to be asked again (RFC 9110, 10.2.3).
 */

/** Milliseconds from `now`, never negative; undefined when the header is absent or says nothing that can be read. */
export const retryAfter = (header: string | undefined, now: number): number | undefined => {
  const text = header?.trim() ?? ""
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1000
  // A date has letters; `Date.parse` alone would take "-5" for a year.
  const at = /[a-z]/i.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(at) ? undefined : Math.max(0, at - now)
}

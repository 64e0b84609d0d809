/**
 * Durations in explanations.
 */

/** `350 ms`, `4.2 s`, `12 min`, `3.5 h`, `7 days`: rounded for reading. */
export const span = (millis: number): string => {
  const left = Math.max(0, Math.round(millis))
  if (left < 1_000) return `${left} ms`
  if (left < 120_000) return `${Math.round(left / 100) / 10} s`
  if (left < 7_200_000) return `${Math.round(left / 60_000)} min`
  if (left < 172_800_000) return `${Math.round(left / 360_000) / 10} h`
  return `${Math.round(left / 8_640_000) / 10} days`
}

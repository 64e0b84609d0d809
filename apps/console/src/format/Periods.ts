/**
 * The last hours or days, as a filter.
 */

/** The periods that end now, in the order in which they are offered. */
export const RECENT = [
  ["1h", "Last hour"],
  ["24h", "Last 24 hours"],
  ["7d", "Last 7 days"]
] as const

/** A choice of {@link RECENT}. */
export type Recent = (typeof RECENT)[number][0]

/** The lengths of the periods, in milliseconds. */
export const RECENT_MILLIS: Readonly<Record<Recent, number>> = { "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 }

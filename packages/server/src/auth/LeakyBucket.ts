/**
 * The arithmetic of a rate limit: a leaky bucket used as a meter (the generic cell rate algorithm), pure and exact.
 *
 * ```
 *   debt
 *    ^                  each admitted call adds `perMs`; each millisecond removes `limit`
 *    |- - - - - - - -   capacity = limit * perMs: a call that would exceed it is rejected and adds nothing
 *    |   /|  /|
 *    |  / |\/ |\___
 *    +------------------> time
 * ```
 *
 * An idle meter admits `limit` calls at once, then one every `perMs / limit` milliseconds: at most `limit + d * limit / perMs` in any
 * period `d`. All values in these units are whole numbers below 2^53, so rounding never admits an extra call, and never rejects a caller
 * who has waited for the announced time.
 */

/** `limit` calls in `perMs` milliseconds. Both are whole numbers; their product must be below 2^53. */
export interface Rate {
  readonly limit: number
  readonly perMs: number
}

/** The debt at a time in milliseconds. Undefined means no debt. */
export interface Meter {
  readonly debt: number
  readonly at: number
}

/** The result of metering one call. */
export interface Reading {
  readonly admitted: boolean
  readonly meter: Meter
  /** Number of further calls that would be admitted now. */
  readonly remaining: number
  /** Time until the whole limit is available again, in milliseconds. */
  readonly resetMs: number
  /** Time until the next call is admitted, in milliseconds, assuming no other calls. 0 when one is admitted now. */
  readonly waitMs: number
}

/** The debt left at `now`. If the clock was set back, the debt does not shrink. */
const debtAt = (rate: Rate, meter: Meter | undefined, now: number): number =>
  meter === undefined ? 0 : Math.max(0, meter.debt - Math.max(0, now - meter.at) * rate.limit)

const reading = (rate: Rate, debt: number, now: number, admitted: boolean): Reading => {
  const free = rate.limit * rate.perMs - debt
  return {
    admitted,
    meter: { debt, at: now },
    remaining: Math.max(0, Math.floor(free / rate.perMs)),
    resetMs: Math.ceil(debt / rate.limit),
    waitMs: Math.max(0, Math.ceil((rate.perMs - free) / rate.limit))
  }
}

/** Meters one call: adds its cost if it is admitted. */
export const consume = (rate: Rate, meter: Meter | undefined, now: number): Reading => {
  const debt = debtAt(rate, meter, now)
  const admitted = debt + rate.perMs <= rate.limit * rate.perMs
  return reading(rate, admitted ? debt + rate.perMs : debt, now, admitted)
}

/**
 * Adds calls that were admitted elsewhere, also beyond the capacity: then calls are rejected until the excess has drained. Otherwise, meters that
 * each admit the whole rate would admit a multiple of it forever.
 */
export const add = (rate: Rate, meter: Meter | undefined, calls: number, now: number): Meter => ({
  debt: Math.min(Number.MAX_SAFE_INTEGER, debtAt(rate, meter, now) + calls * rate.perMs),
  at: now
})

/** Reads the meter without a call. */
export const peek = (rate: Rate, meter: Meter | undefined, now: number): Reading => {
  const debt = debtAt(rate, meter, now)
  return reading(rate, debt, now, debt + rate.perMs <= rate.limit * rate.perMs)
}

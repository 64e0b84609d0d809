/**
 * The arithmetic of a rate limit: a leaky bucket used as a meter (the generic cell rate algorithm), pure and exact.
 *
 * ```
 *   debt
 *    ^                  each admitted call adds `perMs`; each millisecond takes `limit` away
 *    |- - - - - - - -   capacity = limit * perMs: a call that would go above is refused, and adds nothing
 *    |   /|  /|
 *    |  / |\/ |\___
 *    +------------------> time
 * ```
 *
 * From rest `limit` calls are admitted at once, then one every `perMs / limit` milliseconds: at most `limit + d * limit / perMs` in any time
 * `d`. In these units everything is a whole number below 2^53, so that no rounding ever admits one too many, or refuses somebody who
 * waited as long as was said.
 */

/** `limit` calls in `perMs` milliseconds. Whole numbers, of which the product stays below 2^53. */
export interface Rate {
  readonly limit: number
  readonly perMs: number
}

/** What was used, as of a time in milliseconds. Undefined stands for nothing. */
export interface Meter {
  readonly debt: number
  readonly at: number
}

/** What the meter says to one more call. */
export interface Reading {
  readonly admitted: boolean
  readonly meter: Meter
  /** How many more calls would be admitted now. */
  readonly remaining: number
  /** How long until all of the limit is free again, in milliseconds. */
  readonly resetMs: number
  /** How long until one call is admitted, if nobody else calls meanwhile, in milliseconds. 0 where one is now. */
  readonly waitMs: number
}

/** What is left of the debt. A clock that was set back takes nothing away. */
const debtAt = (rate: Rate, meter: Meter | undefined, now: number): number =>
  meter === undefined ? 0 : Math.max(0, meter.debt - Math.max(0, now - meter.at) * rate.limit)

const reading = (rate: Rate, debt: number, now: number, admitted: boolean): Reading => {
  const free = rate.limit * rate.perMs - debt
  return {
    admitted,
    meter: { debt, at: now },
    remaining: Math.floor(free / rate.perMs),
    resetMs: Math.ceil(debt / rate.limit),
    waitMs: Math.max(0, Math.ceil((rate.perMs - free) / rate.limit))
  }
}

/** One call: admitted and counted, or refused and not. */
export const consume = (rate: Rate, meter: Meter | undefined, now: number): Reading => {
  const debt = debtAt(rate, meter, now)
  const admitted = debt + rate.perMs <= rate.limit * rate.perMs
  return reading(rate, admitted ? debt + rate.perMs : debt, now, admitted)
}

/** How things stand, without a call. */
export const peek = (rate: Rate, meter: Meter | undefined, now: number): Reading => {
  const debt = debtAt(rate, meter, now)
  return reading(rate, debt, now, debt + rate.perMs <= rate.limit * rate.perMs)
}

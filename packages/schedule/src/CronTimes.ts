/**
 * The occurrences of a cron expression in a time zone.
 *
 * Daylight saving time follows cron(8). When the clock goes forward, an occurrence at a time that does not exist happens once, after the
 * skipped hour. When the clock goes back, an expression that names a single hour happens once, and any other expression (`0 * * * *`,
 * `0 1,2 * * *`) happens in both hours.
 */
import { Cron } from "croner"

/** The occurrences of one expression. */
export interface CronTimes {
  /** The first occurrence after `after`; undefined when there is none. Both are Unix times in milliseconds. */
  readonly next: (after: number) => number | undefined
  /** The last occurrence at or before `at`; undefined when there is none. */
  readonly latest: (at: number) => number | undefined
}

/** Both arguments must be valid: decode them with `CronExpression` and `TimeZone` from `@stint/contract`. */
export const make = (expression: string, timeZone: string): CronTimes => {
  const cron = new Cron(expression, { mode: "5-part", timezone: timeZone, paused: true })
  const before = (time: number) => cron.previousRuns(1, new Date(time)).at(0)?.getTime()
  return {
    next: (after) => cron.nextRun(new Date(after))?.getTime(),
    latest: (at) => {
      // croner ignores milliseconds, so the occurrence may be up to a second after `at`.
      const found = before(at + 1_000)
      return found === undefined || found <= at ? found : before(found)
    }
  }
}

/**
 * Cron expressions and time zones (docs/spec/endpoints.md#warm-times).
 */
import { Cron } from "croner"
import * as Schema from "effect/Schema"

/** How many characters an expression may have. The longest useful ones list single minutes. */
const MAX_LENGTH = 200

const problemOf = (expression: string): string | undefined => {
  const fields = expression.trim().split(/\s+/).length
  if (fields !== 5 && !expression.startsWith("@")) return `it has ${expression.trim() === "" ? 0 : fields} fields`
  try {
    const cron = new Cron(expression, { mode: "5-part", timezone: "Etc/UTC", paused: true })
    return cron.nextRun() === null ? "it never occurs" : undefined
  } catch (error) {
    return error instanceof Error ? error.message.replace(/^CronPattern: /, "") : String(error)
  }
}

/**
 * A cron expression: either five fields (minute, hour, day of the month, month, day of the week) or a name such as `@daily`. Names of months
 * and days, `L` (last) and `#` (nth day of the week) are allowed; seconds are not. When the day of the month and the day of the week are both
 * restricted, a day that matches either one matches, as in cron(8).
 */
export const CronExpression = Schema.String.check(
  Schema.isMaxLength(MAX_LENGTH),
  Schema.makeFilter((expression) => {
    // Longer expressions are never parsed.
    const problem = expression.length > MAX_LENGTH ? undefined : problemOf(expression)
    return problem === undefined || `is not a cron expression of five fields, such as "0 8 * * 1-5": ${problem}`
  })
)

const isTimeZone = (name: string): boolean => {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== ""
  } catch {
    return false
  }
}

/** A time zone of the IANA database, such as `Europe/Berlin`. */
export const TimeZone = Schema.String.check(
  Schema.isMaxLength(64),
  Schema.makeFilter((name) =>
    name.length > 64 || isTimeZone(name) || "is not a time zone of the IANA database, such as \"Europe/Berlin\" or \"UTC\""
  )
)

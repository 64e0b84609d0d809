/**
 * Settings for alerts. If a value is invalid, the platform does not start, and the error names the variable.
 *
 * | variable | default | meaning and trade-off |
 * |---|---|---|
 * | `STINT_ALERT_URL` | none: no alerts | where to send them: one or several addresses, comma-separated. Private addresses must be in
 * `STINT_WEBHOOKS_ALLOW` |
 * | `STINT_ALERT_SECRET` | none | signs the messages; required with `STINT_ALERT_URL` |
 * | `STINT_ALERT_FAILED_PERCENT` | 50 | the share of an endpoint's jobs that failed |
 * | `STINT_ALERT_FAILED_JOBS` | 10 | the minimum number of failed jobs; a lower number reports quiet endpoints and single mistakes by callers, too |
 * | `STINT_ALERT_WINDOW` | 10 minutes | the time over which jobs are counted |
 * | `STINT_ALERT_QUEUE_AGE` | 15 minutes | how long the oldest job may wait; longer than the longest cold start |
 * | `STINT_ALERT_REPEAT` | 4 hours | a firing alert is repeated after this time |
 */
import { defaults, type Thresholds } from "@stint/alerts/AlertRules"
import * as Config from "effect/Config"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { CliFailure } from "../CliFailure.ts"
import { commaSeparated, secretSetting, setting } from "./Setting.ts"
import type { SettingName } from "./SettingNames.ts"

/** Where alerts go, and when they fire. */
export interface AlertSettings {
  readonly urls: ReadonlyArray<string>
  readonly secret: Redacted.Redacted
  readonly thresholds: Thresholds
  readonly repeat: Duration.Duration
}

/** The variables as they are set. */
export interface AlertVariables extends Omit<AlertSettings, "urls" | "secret"> {
  readonly urls: Option.Option<AlertSettings["urls"]>
  readonly secret: Option.Option<AlertSettings["secret"]>
}

const MAX_RECEIVERS = 10

const isWebAddress = (text: string): boolean => {
  const protocol = URL.parse(text)?.protocol
  return protocol === "http:" || protocol === "https:"
}

const Addresses = Schema.String.check(Schema.makeFilter((text) => {
  const urls = commaSeparated(text)
  return (urls.length > 0 && urls.length <= MAX_RECEIVERS && urls.every(isWebAddress)) ||
    `1 to ${MAX_RECEIVERS} http or https addresses`
}))

/** The shortest and the longest key that Standard Webhooks allows. Bytes. */
const KEY_BYTES = { min: 24, max: 64 }

const AlertSecret = Schema.Redacted(Schema.String.check(Schema.makeFilter((text) => {
  const base64 = text.startsWith("whsec_") ? text.slice("whsec_".length) : ""
  const { length } = Buffer.from(base64, "base64")
  return (/^[A-Za-z0-9+/]+={0,2}$/.test(base64) && length >= KEY_BYTES.min && length <= KEY_BYTES.max) ||
    "whsec_ and 24 to 64 bytes in base64"
})))

const range = (minimum: number, maximum: number) =>
  Schema.FiniteFromString.check(Schema.isInt(), Schema.isBetween({ minimum, maximum }))

const durationOf = (shortest: Duration.Duration, longest: Duration.Duration, words: string) =>
  Schema.DurationFromString.check(
    Schema.makeFilter((duration) => Duration.between(duration, { minimum: shortest, maximum: longest }) || words)
  )

/** A threshold in milliseconds. `words`: the allowed range. */
const millisSetting = (name: SettingName, schema: ReturnType<typeof durationOf>, words: string, fallback: number) =>
  setting(
    name,
    words,
    Config.schema(schema, name).pipe(Config.map((duration) => Duration.toMillis(duration)), Config.withDefault(fallback))
  )

const Window = durationOf(Duration.seconds(10), Duration.days(1), "10 seconds to 1 day")
const Age = durationOf(Duration.seconds(1), Duration.days(30), "1 second to 30 days")
const Repeat = durationOf(Duration.minutes(1), Duration.days(30), "1 minute to 30 days")

/** Reads the variables. Fails on the first invalid one. */
export const load: Effect.Effect<AlertVariables, CliFailure> = Effect.all({
  urls: secretSetting(
    "STINT_ALERT_URL",
    "one or several http or https addresses, comma-separated",
    Config.option(Config.map(Config.schema(Addresses, "STINT_ALERT_URL"), commaSeparated))
  ),
  secret: secretSetting(
    "STINT_ALERT_SECRET",
    "whsec_ and 24 to 64 random bytes in base64, for example the output of: echo whsec_$(openssl rand -base64 32)",
    Config.option(Config.schema(AlertSecret, "STINT_ALERT_SECRET"))
  ),
  thresholds: Effect.all({
    failedPercent: setting(
      "STINT_ALERT_FAILED_PERCENT",
      "a number from 1 to 100, for example 50",
      Config.schema(range(1, 100), "STINT_ALERT_FAILED_PERCENT").pipe(Config.withDefault(defaults.failedPercent))
    ),
    failedJobs: setting(
      "STINT_ALERT_FAILED_JOBS",
      "a number from 1 to 1000000, for example 10",
      Config.schema(range(1, 1_000_000), "STINT_ALERT_FAILED_JOBS").pipe(Config.withDefault(defaults.failedJobs))
    ),
    windowMs: millisSetting("STINT_ALERT_WINDOW", Window, "a duration from \"10 seconds\" to \"1 day\"", defaults.windowMs),
    queueAgeMs: millisSetting("STINT_ALERT_QUEUE_AGE", Age, "a duration from \"1 second\" to \"30 days\"", defaults.queueAgeMs)
  }),
  repeat: setting(
    "STINT_ALERT_REPEAT",
    "a duration from \"1 minute\" to \"30 days\"",
    Config.schema(Repeat, "STINT_ALERT_REPEAT").pipe(Config.withDefault(Duration.hours(4)))
  )
})

/**
 * A platform's settings; none without receivers. Fails if only the addresses or only the secret is set. Commands that call a platform do not need
 * both, because the secret may be in the environment of a receiver.
 */
export const complete = ({ secret, urls, ...rest }: AlertVariables): Effect.Effect<Option.Option<AlertSettings>, CliFailure> => {
  if (Option.isNone(urls) && Option.isNone(secret)) return Effect.succeedNone
  if (Option.isSome(urls) && Option.isSome(secret)) {
    return Effect.succeedSome({ ...rest, urls: urls.value, secret: secret.value })
  }
  const [present, missing] = Option.isSome(urls)
    ? ["STINT_ALERT_URL", "STINT_ALERT_SECRET"]
    : ["STINT_ALERT_SECRET", "STINT_ALERT_URL"]
  return Effect.fail(
    new CliFailure({
      message: `The variable ${present} is set, but ${missing} is not.`,
      hint: "Alerts need both: the addresses of the receivers, and the secret that signs the messages. " +
        "To generate a secret: echo whsec_$(openssl rand -base64 32)"
    })
  )
}

/**
 * Flags and arguments shared by several commands.
 */
import type { Labels } from "@stint/contract/Placement"
import { Argument, CliError, Flag } from "effect/cli"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as LabelText from "../config/LabelText.ts"
import { bytesOf } from "../config/SizeText.ts"

/** `--json`: prints one JSON document on standard output. */
export const json = Flag.Boolean("json").pipe(
  Flag.withDescription("Print JSON instead of text; errors are also JSON, on standard error"),
  Flag.withDefault(false)
)

/** `--yes`: confirms a change in advance. */
export const yes = Flag.Boolean("yes").pipe(
  Flag.withAlias("y"),
  Flag.withDescription("Change without confirmation; required without a terminal, for example in CI"),
  Flag.withDefault(false)
)

/** `--message`: why a release is made. */
export const message = Flag.String("message").pipe(
  Flag.withAlias("m"),
  Flag.withDescription("The reason for the release, for the list of releases; at most 1,000 characters"),
  Flag.optional
)

/** The endpoint argument. */
export const endpoint = Argument.String("endpoint").pipe(Argument.withDescription("Name of the endpoint"))

/** The job argument. */
export const jobId = Argument.String("job").pipe(Argument.withDescription("Id of the job"))

const UNITS: Readonly<Record<string, string>> = {
  ms: "millis",
  s: "seconds",
  m: "minutes",
  min: "minutes",
  h: "hours",
  d: "days"
}

const decodeDuration = Schema.decodeUnknownEffect(Schema.DurationFromString)

const invalid = (option: string, value: string, expected: string) =>
  new CliError.InvalidValue({ option, value, expected, kind: "flag" })

const parseDuration = (text: string) => {
  const [, amount, unit = ""] = /^(\d+(?:\.\d+)?)([a-z]+)$/.exec(text) ?? []
  return decodeDuration(amount === undefined ? text : `${amount} ${UNITS[unit] ?? unit}`)
}

/** A flag with a duration: `10m`, `90s`, `"5 seconds"`. */
export const duration = (name: string): Flag.Flag<Duration.Duration> =>
  Flag.String(name).pipe(
    Flag.withMetavar("duration"),
    Flag.mapEffect((text) =>
      Effect.mapError(
        parseDuration(text),
        () => invalid(name, text, "a duration, for example 90s, 10m, 2h, 1d or \"5 seconds\"")
      )
    )
  )

/** A duration in whole milliseconds, as the API receives it. */
export const toMillis = (duration: Duration.Duration): number => Math.ceil(Duration.toMillis(duration))

/** A flag with a size in bytes: `5GB`, `500 MiB`, `1000000`. */
export const size = (name: string): Flag.Flag<number> =>
  Flag.String(name).pipe(
    Flag.withMetavar("size"),
    Flag.mapEffect((text) => {
      const bytes = bytesOf(text)
      return bytes === undefined
        ? Effect.fail(invalid(name, text, "a size, for example 5GB, \"500 MiB\" or a number of bytes"))
        : Effect.succeed(bytes)
    })
  )

/** A repeatable flag with labels: `gpu=a100`. */
export const labels = (name: string, description: string): Flag.Flag<Labels> =>
  Flag.String(name).pipe(
    Flag.withMetavar("name=value"),
    Flag.withDescription(description),
    Flag.atLeast(0),
    Flag.mapEffect((texts) =>
      Option.match(LabelText.parse(texts), {
        onNone: () => Effect.fail(invalid(name, texts.join(" "), LabelText.SHAPE)),
        onSome: (parsed) => Effect.succeed(parsed)
      })
    )
  )

const TIME = /^\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2})?)?$/

/** `2026-11-22`. */
const DATE_LENGTH = 10

const parseTime = (text: string): number | undefined => {
  // JavaScript reads a date without a time as UTC.
  const millis = TIME.test(text) ? Date.parse(text.length === DATE_LENGTH ? `${text}T00:00` : text) : Number.NaN
  return Number.isNaN(millis) ? undefined : millis
}

/** A flag with a time, in milliseconds since 1970: ISO 8601. Without a time zone, it is this machine's local time. */
export const time = (name: string): Flag.Flag<number> =>
  Flag.String(name).pipe(
    Flag.withMetavar("time"),
    Flag.mapEffect((text) => {
      const millis = parseTime(text)
      return millis === undefined
        ? Effect.fail(invalid(name, text, "a time, for example 2026-11-22T14:00:00Z, or \"2026-11-22 14:00\" in local time"))
        : Effect.succeed(millis)
    })
  )

/** A flag with the start of a period, in milliseconds since 1970: a duration before now, or a time as for {@link time}. */
export const since = (name: string): Flag.Flag<number> =>
  Flag.mapEffect(Flag.String(name).pipe(Flag.withMetavar("time")), (text) => {
    const millis = parseTime(text)
    if (millis !== undefined) return Effect.succeed(millis)
    return Effect.mapError(
      Effect.flatMap(parseDuration(text), (duration) => Effect.map(Clock.currentTimeMillis, (now) => now - toMillis(duration))),
      () => invalid(name, text, "a duration before now, for example 90s, 2h or 7d, or a time, for example 2026-11-22T14:00:00Z")
    )
  })

/** The flags that are set, as members of a query. */
export const queryOf = <A>(flags: { readonly [name in keyof A]: Option.Option<A[name]> }): Partial<A> => {
  const query: Partial<A> = {}
  for (const name in flags) {
    const flag = flags[name]
    if (Option.isSome(flag)) query[name] = flag.value
  }
  return query
}

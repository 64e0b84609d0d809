/**
 * Where traces go, by OpenTelemetry's own variables, so that what its documentation and every vendor's says holds here, too.
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | `OTEL_EXPORTER_OTLP_ENDPOINT` | none: nothing is traced | the collector; `/v1/traces` is added to it |
 * | `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | the one above | the collector's address for traces, used as it is |
 * | `OTEL_EXPORTER_OTLP_HEADERS`, `..._TRACES_HEADERS` | none | `key=value,key=value`, percent-encoded; for keys |
 * | `OTEL_EXPORTER_OTLP_PROTOCOL`, `..._TRACES_PROTOCOL` | `http/protobuf` | or `http/json`: readable, and half again as much to send |
 * | `OTEL_EXPORTER_OTLP_COMPRESSION`, `..._TRACES_COMPRESSION` | `none` | or `gzip`: less to send, more to compute |
 * | `OTEL_EXPORTER_OTLP_TIMEOUT`, `..._TRACES_TIMEOUT` | 10000 | milliseconds for one batch, tries included |
 * | `OTEL_TRACES_EXPORTER` | `otlp` with an endpoint, else `none` | `otlp` without an endpoint means `http://localhost:4318` |
 * | `OTEL_SDK_DISABLED` | false | true: nothing is traced, whatever the others say |
 * | `OTEL_TRACES_SAMPLER` | `parentbased_always_on` | which traces are recorded: see {@link SAMPLERS} |
 * | `OTEL_TRACES_SAMPLER_ARG` | 1 | the part that a `traceidratio` records, 0 to 1. Less costs less and misses more |
 * | `OTEL_SERVICE_NAME` | the endpoint's id, or `stint-worker` | what the backend files the spans under |
 * | `OTEL_RESOURCE_ATTRIBUTES` | none | `key=value,key=value`: more about this process, on every span |
 * | `OTEL_BSP_SCHEDULE_DELAY` | 1000 | milliseconds that a span waits for others to go with |
 * | `OTEL_BSP_MAX_QUEUE_SIZE` | 8192 | spans that wait at most; what comes then is lost. More costs memory, 1 to 2 KB each |
 * | `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` | 512 | spans in one request |
 *
 * The last three differ from OpenTelemetry's defaults (5000 and 2048): a worker may run thousands of jobs a second, and people look for
 * their trace at once. Compression is left to the exporter, which reads it from the process's environment. An empty variable counts as unset, as the standard says.
 */
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"

/** Which traces are recorded. `parentbased_`: as the caller does and, where there is none, by the rest of the name. */
export const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio"
] as const
/** One of {@link SAMPLERS}. */
export type SamplerName = (typeof SAMPLERS)[number]

const PROTOCOLS = ["http/protobuf", "http/json"] as const

/** Everything about a trace's way out of this process, checked. Times are milliseconds. */
export interface Settings {
  readonly url: string
  readonly protocol: (typeof PROTOCOLS)[number]
  readonly headers: Redacted.Redacted<Readonly<Record<string, string>>>
  readonly timeout: number
  readonly sampler: SamplerName
  /** The part that a `traceidratio` records, 0 to 1. */
  readonly ratio: number
  /** Undefined: whoever sends them has a better name for itself. */
  readonly serviceName: string | undefined
  readonly resource: Readonly<Record<string, string>>
  readonly scheduleDelay: number
  readonly maxQueueSize: number
  readonly maxBatchSize: number
}

const refuse = (message: string) => Effect.fail(new Config.ConfigError(new ConfigProvider.SourceError({ message })))

/** A variable's text; undefined where it is unset or empty. */
const text = (name: string): Config.Config<string | undefined> =>
  Config.map(Config.option(Config.String(name)), (value) => {
    const given = Option.getOrElse(value, () => "").trim()
    return given === "" ? undefined : given
  })

/** Of two spellings of a setting, the one for traces counts. */
const forTraces = Effect.fnUntraced(function*(name: string) {
  const own = `OTEL_EXPORTER_OTLP_TRACES_${name}`
  const given = yield* text(own)
  if (given !== undefined) return { name: own, value: given }
  const general = `OTEL_EXPORTER_OTLP_${name}`
  return { name: general, value: yield* text(general) }
})

const oneOf = <const Words extends ReadonlyArray<string>>(
  { name, value }: { readonly name: string; readonly value: string | undefined },
  words: Words,
  fallback: Words[number],
  hint = ""
): Effect.Effect<Words[number], Config.ConfigError> => {
  if (value === undefined) return Effect.succeed(fallback)
  const found = words.find((word) => word === value.toLowerCase())
  return found === undefined
    ? refuse(`${name} is ${JSON.stringify(value)}; it must be one of ${words.join(", ")}.${hint}`)
    : Effect.succeed(found)
}

const whole = Effect.fnUntraced(function*(
  { name, value }: { readonly name: string; readonly value: string | undefined },
  fallback: number
) {
  if (value === undefined) return fallback
  const number = Number(value)
  return Number.isSafeInteger(number) && number > 0
    ? number
    : yield* refuse(`${name} is ${JSON.stringify(value)}; it must be a whole number, 1 or more.`)
})

const named = (name: string) => Effect.map(text(name), (value) => ({ name, value }))

/** `key=value,key=value`, percent-encoded. Values may be secrets, so a message never shows them. */
const pairs = Effect.fnUntraced(function*({ name, value = "" }: { readonly name: string; readonly value: string | undefined }) {
  const entries: Array<[string, string]> = []
  for (const [index, pair] of value.split(",").entries()) {
    if (pair.trim() === "") continue
    const cut = pair.indexOf("=")
    const key = pair.slice(0, cut).trim()
    const wrong = `Entry ${index + 1} of ${name}`
    if (cut < 1 || key === "") return yield* refuse(`${wrong} is no key=value. Entries are separated by commas.`)
    const decoded = yield* Effect.try({
      try: () => decodeURIComponent(pair.slice(cut + 1).trim()),
      catch: () =>
        new Config.ConfigError(
          new ConfigProvider.SourceError({ message: `${wrong} (${key}) is not percent-encoded: write % as %25.` })
        )
    })
    entries.push([key, decoded])
  }
  return Object.fromEntries(entries)
})

/** The collector's address for traces; undefined where none was named. */
const address = Effect.gen(function*() {
  const own = yield* named("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
  const given = own.value === undefined ? yield* named("OTEL_EXPORTER_OTLP_ENDPOINT") : own
  if (given.value === undefined) return undefined
  const url = URL.canParse(given.value) ? new URL(given.value) : undefined
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    return yield* refuse(
      `${given.name} is ${JSON.stringify(given.value)}; it must be an http or https address, like http://localhost:4318.`
    )
  }
  if (own.value === undefined) url.pathname += `${url.pathname.endsWith("/") ? "" : "/"}v1/traces`
  return url.href
})

/** The collector that every vendor's agent is by default. */
const LOCAL_COLLECTOR = "http://localhost:4318/v1/traces"

/** Whether the variables forbid all telemetry. */
export const disabled: Effect.Effect<boolean, Config.ConfigError> = Effect.map(
  text("OTEL_SDK_DISABLED"),
  (value) => value?.toLowerCase() === "true"
)

/** The settings that the variables make; undefined where they ask for no traces. */
export const settings: Effect.Effect<Settings | undefined, Config.ConfigError> = Effect.gen(function*() {
  if (yield* disabled) return undefined
  const exporter = yield* named("OTEL_TRACES_EXPORTER")
  const endpoint = yield* address
  if (endpoint === undefined && exporter.value === undefined) return undefined
  const exporters = ["otlp", "none"] as const
  if ((yield* oneOf(exporter, exporters, "otlp", " Others come with an SDK of your own.")) === "none") return undefined

  const hint = " For grpc, send to the collector's port for HTTP instead, which is 4318 as a rule."
  const ratio = yield* named("OTEL_TRACES_SAMPLER_ARG")
  const part = Number(ratio.value ?? 1)
  if (!(part >= 0 && part <= 1)) {
    return yield* refuse(`${ratio.name} is ${JSON.stringify(ratio.value)}; it must be a number from 0 to 1.`)
  }
  const resource = yield* pairs(yield* named("OTEL_RESOURCE_ATTRIBUTES"))
  const read: Settings = {
    url: endpoint ?? LOCAL_COLLECTOR,
    protocol: yield* oneOf(yield* forTraces("PROTOCOL"), PROTOCOLS, "http/protobuf", hint),
    headers: Redacted.make(yield* pairs(yield* forTraces("HEADERS"))),
    timeout: yield* whole(yield* forTraces("TIMEOUT"), 10_000),
    sampler: yield* oneOf(yield* named("OTEL_TRACES_SAMPLER"), SAMPLERS, "parentbased_always_on"),
    ratio: part,
    serviceName: (yield* text("OTEL_SERVICE_NAME")) ?? resource["service.name"],
    resource,
    scheduleDelay: yield* whole(yield* named("OTEL_BSP_SCHEDULE_DELAY"), 1_000),
    maxQueueSize: yield* whole(yield* named("OTEL_BSP_MAX_QUEUE_SIZE"), 8_192),
    maxBatchSize: yield* whole(yield* named("OTEL_BSP_MAX_EXPORT_BATCH_SIZE"), 512)
  }
  return read
})

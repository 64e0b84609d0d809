/**
 * Reads the configuration of traces and metrics from OpenTelemetry's standard variables, so that the documentation of OpenTelemetry and of
 * vendors applies.
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | `OTEL_EXPORTER_OTLP_ENDPOINT` | none: no traces | the address of the collector; `/v1/traces` is appended |
 * | `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | derived from the variable above | the address for traces, used unchanged |
 * | `OTEL_EXPORTER_OTLP_HEADERS`, `..._TRACES_HEADERS` | none | `key=value,key=value`, percent-encoded; for API keys |
 * | `OTEL_EXPORTER_OTLP_PROTOCOL`, `..._TRACES_PROTOCOL` | `http/protobuf` | or `http/json`: readable, and about 50 % larger |
 * | `OTEL_EXPORTER_OTLP_COMPRESSION`, `..._TRACES_COMPRESSION` | `none` | or `gzip`: smaller requests, more CPU time |
 * | `OTEL_EXPORTER_OTLP_TIMEOUT`, `..._TRACES_TIMEOUT` | 10000 | milliseconds to export one batch, retries included |
 * | `OTEL_TRACES_EXPORTER` | `otlp` with an endpoint, else `none` | `otlp` without an endpoint means `http://localhost:4318` |
 * | `OTEL_SDK_DISABLED` | false | true: no traces; overrides all other variables |
 * | `OTEL_TRACES_SAMPLER` | `parentbased_always_on` | which traces are recorded: see {@link SAMPLERS} |
 * | `OTEL_TRACES_SAMPLER_ARG` | 1 | the share of traces that `traceidratio` records, 0 to 1. A lower share costs less and misses more |
 * | `OTEL_SERVICE_NAME` | the endpoint's id or `stint-worker`; `stint` for the platform | the service name of all spans |
 * | `OTEL_RESOURCE_ATTRIBUTES` | none | `key=value,key=value`: resource attributes of all spans |
 * | `OTEL_BSP_SCHEDULE_DELAY` | 1000 | milliseconds between exports |
 * | `OTEL_BSP_MAX_QUEUE_SIZE` | 8192 | the maximum number of queued spans; further spans are lost. Each span takes 1 to 2 KB |
 * | `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` | 512 | the maximum number of spans in one request |
 *
 * The defaults for the delay and the queue differ from OpenTelemetry's (5000 and 2048): a worker may run thousands of jobs a second, and
 * developers look for a trace right after the job. An empty variable counts as unset, as the standard requires.
 *
 * For metrics, which only the platform exports, the same variables have `METRICS` in place of `TRACES`, and:
 *
 * | variable | default | meaning |
 * |---|---|---|
 * | `OTEL_METRIC_EXPORT_INTERVAL` | 60000 | milliseconds between exports |
 *
 * For the log lines of jobs, which only the platform exports, the same variables have `LOGS` in place of `TRACES` and `BLRP` in place of `BSP`. They are
 * exported only with `OTEL_LOGS_EXPORTER=otlp` or `OTEL_EXPORTER_OTLP_LOGS_ENDPOINT`.
 */
import * as Config from "effect/Config"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"

/** The samplers. `parentbased_` follows the caller's decision. If a job has no trace from its caller, the rest of the name applies. */
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

const COMPRESSIONS = ["none", "gzip"] as const

/** Where and how to export. Times are in milliseconds. */
export interface ExportSettings {
  readonly url: string
  readonly protocol: (typeof PROTOCOLS)[number]
  readonly headers: Redacted.Redacted<Readonly<Record<string, string>>>
  readonly compression: (typeof COMPRESSIONS)[number]
  readonly timeout: number
  /** Undefined when the variables do not set it; the program then uses its own default. */
  readonly serviceName: string | undefined
  readonly resource: Readonly<Record<string, string>>
}

/** The validated settings of metrics. */
export interface MetricSettings extends ExportSettings {
  readonly interval: number
}

/** The validated settings of a signal that is sent in batches. */
export interface BatchSettings extends ExportSettings {
  readonly scheduleDelay: number
  readonly maxQueueSize: number
  readonly maxBatchSize: number
}

/** The validated settings of traces. */
export interface Settings extends BatchSettings {
  readonly sampler: SamplerName
  /** The share of traces that `traceidratio` records, 0 to 1. */
  readonly ratio: number
}

/** The validated settings of logs. */
export type LogSettings = BatchSettings

const configError = (message: string) => Effect.fail(new Config.ConfigError(new ConfigProvider.SourceError({ message })))

/** The value of a variable; undefined if unset or empty. */
const text = (name: string): Config.Config<string | undefined> =>
  Config.map(Config.option(Config.String(name)), (value) => {
    const given = Option.getOrElse(value, () => "").trim()
    return given === "" ? undefined : given
  })

/** What is exported. */
type Signal = "TRACES" | "METRICS" | "LOGS"

/** The signal's own variable, or the general variable if it is unset. */
const variableOf = Effect.fnUntraced(function*(signal: Signal, name: string) {
  const own = `OTEL_EXPORTER_OTLP_${signal}_${name}`
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
    ? configError(`${name} is ${JSON.stringify(value)}; it must be one of ${words.join(", ")}.${hint}`)
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
    : yield* configError(`${name} is ${JSON.stringify(value)}; it must be a whole number, 1 or more.`)
})

const named = (name: string) => Effect.map(text(name), (value) => ({ name, value }))

/** Parses `key=value,key=value`, percent-encoded. Errors do not show values, because they may be secrets. */
const pairs = Effect.fnUntraced(function*({ name, value = "" }: { readonly name: string; readonly value: string | undefined }) {
  const entries: Array<[string, string]> = []
  for (const [index, pair] of value.split(",").entries()) {
    if (pair.trim() === "") continue
    const cut = pair.indexOf("=")
    const key = pair.slice(0, cut).trim()
    const wrong = `Entry ${index + 1} of ${name}`
    if (cut < 1 || key === "") return yield* configError(`${wrong} is not key=value. Separate entries with commas.`)
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

/** The collector's address; undefined if no variable sets it. */
const addressOf = Effect.fnUntraced(function*(signal: Signal) {
  const own = yield* named(`OTEL_EXPORTER_OTLP_${signal}_ENDPOINT`)
  const given = own.value === undefined ? yield* named("OTEL_EXPORTER_OTLP_ENDPOINT") : own
  if (given.value === undefined) return undefined
  const url = URL.canParse(given.value) ? new URL(given.value) : undefined
  if (url === undefined || (url.protocol !== "http:" && url.protocol !== "https:")) {
    return yield* configError(
      `${given.name} is ${JSON.stringify(given.value)}; it must be an http or https address, like http://localhost:4318.`
    )
  }
  if (own.value === undefined) url.pathname += `${url.pathname.endsWith("/") ? "" : "/"}v1/${signal.toLowerCase()}`
  return url.href
})

/** The address of a local collector. */
const LOCAL_COLLECTOR = "http://localhost:4318/v1/"

/** Whether `OTEL_SDK_DISABLED` is true. */
export const disabled: Effect.Effect<boolean, Config.ConfigError> = Effect.map(
  text("OTEL_SDK_DISABLED"),
  (value) => value?.toLowerCase() === "true"
)

const EXPORTERS = ["otlp", "none"] as const

const GRPC_HINT = " grpc is not supported: use the collector's HTTP port, usually 4318."

/** Where and how to export a signal; undefined when the variables do not configure it. `hint`: what to do about other exporters. */
const exportOf = Effect.fnUntraced(function*(
  signal: Signal,
  hint: string
): Effect.fn.Return<ExportSettings | undefined, Config.ConfigError> {
  if (yield* disabled) return undefined
  const exporter = yield* named(`OTEL_${signal}_EXPORTER`)
  const endpoint = yield* addressOf(signal)
  if (endpoint === undefined && exporter.value === undefined) return undefined
  if ((yield* oneOf(exporter, EXPORTERS, "otlp", hint)) === "none") return undefined
  const resource = yield* pairs(yield* named("OTEL_RESOURCE_ATTRIBUTES"))
  return {
    url: endpoint ?? `${LOCAL_COLLECTOR}${signal.toLowerCase()}`,
    protocol: yield* oneOf(yield* variableOf(signal, "PROTOCOL"), PROTOCOLS, "http/protobuf", GRPC_HINT),
    headers: Redacted.make(yield* pairs(yield* variableOf(signal, "HEADERS"))),
    compression: yield* oneOf(yield* variableOf(signal, "COMPRESSION"), COMPRESSIONS, "none"),
    timeout: yield* whole(yield* variableOf(signal, "TIMEOUT"), 10_000),
    serviceName: (yield* text("OTEL_SERVICE_NAME")) ?? resource["service.name"],
    resource
  }
})

/** The size and the pace of batches. */
const batchOf = Effect.fnUntraced(function*(processor: "BSP" | "BLRP") {
  return {
    scheduleDelay: yield* whole(yield* named(`OTEL_${processor}_SCHEDULE_DELAY`), 1_000),
    maxQueueSize: yield* whole(yield* named(`OTEL_${processor}_MAX_QUEUE_SIZE`), 8_192),
    maxBatchSize: yield* whole(yield* named(`OTEL_${processor}_MAX_EXPORT_BATCH_SIZE`), 512)
  }
})

/** The settings from the variables, or undefined if they do not configure traces. Fails with a `ConfigError` if a variable is invalid. */
export const settings: Effect.Effect<Settings | undefined, Config.ConfigError> = Effect.gen(function*() {
  const shared = yield* exportOf("TRACES", " For another exporter, register your own SDK.")
  if (shared === undefined) return undefined
  const ratio = yield* named("OTEL_TRACES_SAMPLER_ARG")
  const part = Number(ratio.value ?? 1)
  if (!(part >= 0 && part <= 1)) {
    return yield* configError(`${ratio.name} is ${JSON.stringify(ratio.value)}; it must be a number from 0 to 1.`)
  }
  const read: Settings = {
    ...shared,
    sampler: yield* oneOf(yield* named("OTEL_TRACES_SAMPLER"), SAMPLERS, "parentbased_always_on"),
    ratio: part,
    ...(yield* batchOf("BSP"))
  }
  return read
})

/**
 * The settings for log lines of jobs, or undefined if the variables do not configure them: the address of the collector alone does not, because the
 * lines may contain secrets. Fails with a `ConfigError` if a variable is invalid.
 */
export const logSettings: Effect.Effect<LogSettings | undefined, Config.ConfigError> = Effect.gen(function*() {
  const isAsked = (yield* text("OTEL_LOGS_EXPORTER")) ?? (yield* text("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"))
  if (isAsked === undefined) return undefined
  const shared = yield* exportOf("LOGS", "")
  return shared === undefined ? undefined : { ...shared, ...(yield* batchOf("BLRP")) }
})

/** The settings for metrics, or undefined if the variables do not configure them. Fails with a `ConfigError` if a variable is invalid. */
export const metricSettings: Effect.Effect<MetricSettings | undefined, Config.ConfigError> = Effect.gen(function*() {
  const shared = yield* exportOf("METRICS", " Prometheus reads /metrics.")
  return shared === undefined
    ? undefined
    : { ...shared, interval: yield* whole(yield* named("OTEL_METRIC_EXPORT_INTERVAL"), 60_000) }
})

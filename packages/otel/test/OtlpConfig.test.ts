import { describe, expect, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as OtlpConfig from "../src/OtlpConfig.ts"

const read = (env: Record<string, string>) =>
  OtlpConfig.settings.pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env })))

const on = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318" }

describe("OpenTelemetry's variables", () => {
  it.effect.each<[string, Record<string, string>]>([
    ["no variable is set", {}],
    ["the endpoint is empty", { OTEL_EXPORTER_OTLP_ENDPOINT: "" }],
    ["OTEL_SDK_DISABLED is true", { ...on, OTEL_SDK_DISABLED: "TRUE" }],
    ["the exporter is none", { ...on, OTEL_TRACES_EXPORTER: "none" }],
    ["only variables other than the endpoint are set", { OTEL_SERVICE_NAME: "s", OTEL_EXPORTER_OTLP_PROTOCOL: "http/json" }]
  ])("configure no traces when %s", ([, env]) =>
    Effect.gen(function*() {
      expect(yield* read(env)).toBeUndefined()
    }))

  it.effect("configure metrics on their own", () =>
    Effect.gen(function*() {
      const readMetrics = (env: Record<string, string>) =>
        OtlpConfig.metricSettings.pipe(
          Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env }))
        )
      expect(yield* readMetrics({})).toBeUndefined()
      expect(yield* readMetrics({ ...on, OTEL_METRICS_EXPORTER: "none" })).toBeUndefined()
      expect(yield* read({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://m:1/x" })).toBeUndefined()
      expect(yield* readMetrics({ ...on, OTEL_METRIC_EXPORT_INTERVAL: "5000", OTEL_EXPORTER_OTLP_COMPRESSION: "gzip" }))
        .toMatchObject({
          url: "http://collector:4318/v1/metrics",
          compression: "gzip",
          interval: 5_000
        })
      expect(yield* readMetrics({ OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: "http://m:1/x" })).toMatchObject({
        url: "http://m:1/x",
        interval: 60_000
      })
    }))

  it.effect("configure log lines only when they are asked for, because lines may contain secrets", () =>
    Effect.gen(function*() {
      const readLogs = (env: Record<string, string>) =>
        OtlpConfig.logSettings.pipe(Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromEnv({ env })))
      expect(yield* readLogs(on)).toBeUndefined()
      expect(yield* readLogs({ ...on, OTEL_LOGS_EXPORTER: "none" })).toBeUndefined()
      expect(yield* readLogs({ ...on, OTEL_LOGS_EXPORTER: "otlp", OTEL_SDK_DISABLED: "true" })).toBeUndefined()
      expect(yield* readLogs({ ...on, OTEL_LOGS_EXPORTER: "otlp", OTEL_BLRP_MAX_QUEUE_SIZE: "7" })).toMatchObject({
        url: "http://collector:4318/v1/logs",
        maxQueueSize: 7,
        maxBatchSize: 512,
        scheduleDelay: 1_000
      })
      expect(yield* readLogs({ OTEL_EXPORTER_OTLP_LOGS_ENDPOINT: "http://l:1/x" })).toMatchObject({ url: "http://l:1/x" })
    }))

  it.effect("have the documented defaults", () =>
    Effect.gen(function*() {
      const settings = yield* read(on)
      expect(settings && { ...settings, headers: Redacted.value(settings.headers) }).toEqual({
        url: "http://collector:4318/v1/traces",
        protocol: "http/protobuf",
        headers: {},
        compression: "none",
        timeout: 10_000,
        sampler: "parentbased_always_on",
        ratio: 1,
        serviceName: undefined,
        resource: {},
        scheduleDelay: 1_000,
        maxQueueSize: 8_192,
        maxBatchSize: 512
      })
    }))

  it.effect.each<[string, Record<string, string>, string]>([
    ["an endpoint with a path", { OTEL_EXPORTER_OTLP_ENDPOINT: "https://c/otlp/" }, "https://c/otlp/v1/traces"],
    ["an address for traces", { ...on, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://t:1/x" }, "http://t:1/x"],
    [
      "the local collector, when only an exporter is named",
      { OTEL_TRACES_EXPORTER: "otlp" },
      "http://localhost:4318/v1/traces"
    ]
  ])("send to %s", ([, env, url]) =>
    Effect.gen(function*() {
      expect((yield* read(env))?.url).toBe(url)
    }))

  it.effect("for traces take precedence over the general variables", () =>
    Effect.gen(function*() {
      const settings = yield* read({
        ...on,
        OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
        OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json",
        OTEL_EXPORTER_OTLP_TIMEOUT: "1",
        OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "2",
        OTEL_EXPORTER_OTLP_HEADERS: "k=general",
        OTEL_EXPORTER_OTLP_TRACES_HEADERS: "k=a%2Cb , l=x=y"
      })
      expect(settings?.protocol).toBe("http/json")
      expect(settings?.timeout).toBe(2)
      expect(settings && Redacted.value(settings.headers)).toEqual({ k: "a,b", l: "x=y" })
    }))

  it.effect.each<[string, Record<string, string>, string]>([
    ["an endpoint", { OTEL_EXPORTER_OTLP_ENDPOINT: "collector:4318" }, "OTEL_EXPORTER_OTLP_ENDPOINT is \"collector:4318\""],
    [
      "a protocol",
      { ...on, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" },
      "OTEL_EXPORTER_OTLP_PROTOCOL is \"grpc\"; it must be one of http/protobuf, http/json. grpc is not supported"
    ],
    [
      "a sampler",
      { ...on, OTEL_TRACES_SAMPLER: "sometimes" },
      "OTEL_TRACES_SAMPLER is \"sometimes\"; it must be one of always_on"
    ],
    [
      "a sampler's part",
      { ...on, OTEL_TRACES_SAMPLER_ARG: "10%" },
      "OTEL_TRACES_SAMPLER_ARG is \"10%\"; it must be a number from 0 to 1"
    ],
    ["a time", { ...on, OTEL_BSP_SCHEDULE_DELAY: "0" }, "OTEL_BSP_SCHEDULE_DELAY is \"0\"; it must be a whole number, 1 or more"],
    [
      "an exporter",
      { ...on, OTEL_TRACES_EXPORTER: "zipkin" },
      "OTEL_TRACES_EXPORTER is \"zipkin\"; it must be one of otlp, none"
    ],
    ["an attribute", { ...on, OTEL_RESOURCE_ATTRIBUTES: "a=1,b" }, "Entry 2 of OTEL_RESOURCE_ATTRIBUTES is not key=value"]
  ])(
    "prevent the start when invalid, with an error that names the variable, its value and the expected value: %s",
    ([, env, message]) =>
      Effect.gen(function*() {
        expect((yield* Effect.flip(read(env))).message).toContain(message)
      })
  )

  it.effect("are not shown in errors when they may contain an API key", () =>
    Effect.gen(function*() {
      const wrong = yield* Effect.flip(read({ ...on, OTEL_EXPORTER_OTLP_HEADERS: "x-key=s3cret%" }))
      expect(wrong.message).toContain("Entry 1 of OTEL_EXPORTER_OTLP_HEADERS (x-key)")
      expect(`${wrong.message} ${JSON.stringify(wrong)}`).not.toContain("s3cret")
      const settings = yield* read({ ...on, OTEL_EXPORTER_OTLP_HEADERS: "x-key=s3cret" })
      expect(JSON.stringify(settings)).not.toContain("s3cret")
    }))
})

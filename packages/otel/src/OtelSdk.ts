/**
 * The OpenTelemetry SDK for a process. Its modules are loaded only when the environment configures traces.
 *
 * ```
 *   ended spans --> BatchSpanProcessor --> the exporter of the protocol --> the collector
 *                   (in memory, bounded)    \\--> logs one WARN when an outage starts, one INFO when it ends
 * ```
 *
 * The program never waits for the collector, and spans that cannot be sent in time are lost. Only the shutdown waits for the last spans,
 * for at most {@link FLUSH_TIMEOUT}.
 */
import type { TracerProvider as ApiTracerProvider } from "@opentelemetry/api"
import type { ExportResult, ExportResultCode } from "@opentelemetry/core"
import type { ReadableSpan, Sampler, SpanExporter, SpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace"
import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { make as makeTracer } from "./OtelTracer.ts"
import type { OtelModules, OtelTracer, TracerHooks } from "./OtelTracer.ts"
import * as OtlpConfig from "./OtlpConfig.ts"

/** The longest wait for the last spans at shutdown, in milliseconds. A longer wait loses fewer spans when the collector is slow. */
const FLUSH_TIMEOUT = 3_000

/** The instrumentation scope in exported spans. Backends group and filter by it, so it stays the same when the package is renamed. */
const SCOPE = "@stint/telemetry"

/** Options for the tracer. */
export interface TracerOptions extends TracerHooks {
  /** The version of the instrumentation scope. Default: none. */
  readonly version?: string
}

/** The resource of this process, used when the variables do not name it. */
export interface Identity {
  readonly serviceName: string
  readonly attributes: Readonly<Record<string, string>>
}

// Dynamic imports, so that a bundled handler does not load these modules at its start.
const load = async (): Promise<OtelModules> => ({
  api: await import("@opentelemetry/api"),
  core: await import("@opentelemetry/core")
})
const loadSdk = () => import("@opentelemetry/sdk-trace")

/** Whether this process has registered an OpenTelemetry SDK. Reads the OpenTelemetry API's global without loading a module. */
export const isRegistered = (): boolean => {
  const registry: unknown = Reflect.get(globalThis, Symbol.for("opentelemetry.js.api.1"))
  return Predicate.hasProperty(registry, "trace") && registry.trace !== undefined
}

const exporterOf = async (settings: OtlpConfig.Settings): Promise<SpanExporter> => {
  const { OTLPTraceExporter } = settings.protocol === "http/json"
    ? await import("@opentelemetry/exporter-trace-otlp-http")
    : await import("@opentelemetry/exporter-trace-otlp-proto")
  return new OTLPTraceExporter({
    url: settings.url,
    headers: Redacted.value(settings.headers),
    timeoutMillis: settings.timeout
  })
}

const samplerOf = async (name: OtlpConfig.SamplerName, ratio: number): Promise<Sampler> => {
  const { AlwaysOffSampler, AlwaysOnSampler, ParentBasedSampler, TraceIdRatioBasedSampler } = await loadSdk()
  switch (name) {
    case "always_on":
      return new AlwaysOnSampler()
    case "always_off":
      return new AlwaysOffSampler()
    case "traceidratio":
      return new TraceIdRatioBasedSampler(ratio)
    case "parentbased_always_on":
      return new ParentBasedSampler({ root: new AlwaysOnSampler() })
    case "parentbased_always_off":
      return new ParentBasedSampler({ root: new AlwaysOffSampler() })
    case "parentbased_traceidratio":
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) })
  }
}

/** Logs the start of an outage once, and its end once. */
class OutageLoggingExporter implements SpanExporter {
  readonly #exporter: SpanExporter
  readonly #url: string
  readonly #log: (line: Effect.Effect<void>) => void
  readonly #success: ExportResultCode
  #lost = 0

  constructor(exporter: SpanExporter, url: string, success: ExportResultCode, log: (line: Effect.Effect<void>) => void) {
    this.#exporter = exporter
    this.#url = url
    this.#success = success
    this.#log = log
  }

  export(spans: Array<ReadableSpan>, done: (result: ExportResult) => void): void {
    this.#exporter.export(spans, (result) => {
      if (result.code !== this.#success) this.#failed(spans.length, result.error)
      else if (this.#lost > 0) this.#recovered()
      done(result)
    })
  }

  forceFlush(): Promise<void> {
    return this.#exporter.forceFlush?.() ?? Promise.resolve()
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown()
  }

  #failed(spans: number, error: Error | undefined): void {
    const first = this.#lost === 0
    this.#lost += spans
    if (!first) return
    this.#log(Effect.logWarning(
      `Traces cannot be sent to ${this.#url}: ${
        reasonOf(error)
      }. Jobs continue; spans are lost until the collector responds. Check OTEL_EXPORTER_OTLP_ENDPOINT, or unset it.`
    ))
  }

  #recovered(): void {
    const lost = this.#lost
    this.#lost = 0
    this.#log(Effect.logInfo(`Traces are sent again; ${lost} ${lost === 1 ? "span was" : "spans were"} lost.`))
  }
}

const reasonOf = (error: Error | undefined): string => {
  if (error === undefined) return "the collector is overloaded"
  const code = Predicate.hasProperty(error, "code") ? String(error.code) : ""
  if (error.message === "") return code === "" ? error.name : code
  return code === "" || error.message.includes(code) ? error.message : `${error.message} (${code})`
}

/** Registers the SDK globally, so that spans of plain code are exported too. Unregisters it when the scope closes. */
const register = ({ api, core }: OtelModules, provider: TracerProvider): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const { AsyncLocalStorageContextManager } = await import("@opentelemetry/context-async-hooks")
      const contexts = api.context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
      const propagator = api.propagation.setGlobalPropagator(new core.W3CTraceContextPropagator())
      api.trace.setGlobalTracerProvider(provider)
      return { contexts, propagator }
    }),
    ({ contexts, propagator }) =>
      Effect.sync(() => {
        api.trace.disable()
        if (contexts) api.context.disable()
        if (propagator) api.propagation.disable()
      })
  )

/** Flushes the last spans within {@link FLUSH_TIMEOUT}. */
const flush = (sendAll: () => Promise<void>): Effect.Effect<void> =>
  // The exporter has logged the failure.
  Effect.ignore(Effect.tryPromise(sendAll)).pipe(
    Effect.timeoutOrElse({
      duration: FLUSH_TIMEOUT,
      orElse: () => Effect.logWarning(`The last spans were not sent within ${FLUSH_TIMEOUT} ms and are lost.`)
    })
  )

/** Starts an SDK with the given processors and registers it for plain code. Flushes the last spans when the scope closes. */
export const start = Effect.fnUntraced(function*(options: {
  readonly processors: ReadonlyArray<SpanProcessor>
  readonly sampler?: Sampler
  readonly resource: Readonly<Record<string, string>>
  readonly tracer?: TracerOptions
}): Effect.fn.Return<OtelTracer, never, Scope.Scope> {
  const modules = yield* Effect.promise(load)
  const provider = yield* Effect.acquireRelease(
    Effect.promise(async () => {
      const sdk = await loadSdk()
      const { defaultResource, resourceFromAttributes } = await import("@opentelemetry/resources")
      return new sdk.TracerProvider({
        resource: defaultResource().merge(resourceFromAttributes({ ...options.resource })),
        spanProcessors: [...options.processors],
        ...(options.sampler === undefined ? {} : { sampler: options.sampler })
      })
    }),
    (provider) => flush(() => provider.shutdown())
  )
  yield* register(modules, provider)
  return makeTracer(modules, provider.getTracer(SCOPE, options.tracer?.version), options.tracer)
})

/** Starts an SDK that exports spans over OTLP, as the settings specify. */
const startOtlp = Effect.fnUntraced(function*(
  settings: OtlpConfig.Settings,
  identity: Identity,
  tracer: TracerOptions
): Effect.fn.Return<OtelTracer, never, Scope.Scope> {
  const context = yield* Effect.context()
  const log = (line: Effect.Effect<void>) => Effect.runForkWith(context)(line)
  const { processor, sampler } = yield* Effect.promise(async () => {
    const { BatchSpanProcessor } = await loadSdk()
    const { core: { ExportResultCode } } = await load()
    const exporter = new OutageLoggingExporter(await exporterOf(settings), settings.url, ExportResultCode.SUCCESS, log)
    return {
      processor: new BatchSpanProcessor({
        exporter,
        scheduledDelayMillis: settings.scheduleDelay,
        maxQueueSize: settings.maxQueueSize,
        maxExportBatchSize: settings.maxBatchSize,
        exportTimeoutMillis: settings.timeout
      }),
      sampler: await samplerOf(settings.sampler, settings.ratio)
    }
  })
  return yield* start({
    processors: [processor],
    sampler,
    resource: {
      ...identity.attributes,
      ...settings.resource,
      "service.name": settings.serviceName ?? identity.serviceName
    },
    tracer
  })
})

/** The provider to which the API's proxy provider delegates. */
const delegateOf = (provider: ApiTracerProvider): unknown =>
  Predicate.hasProperty(provider, "getDelegate") && Predicate.isFunction(provider.getDelegate) ? provider.getDelegate() : provider

const hasFlush = (provider: unknown): provider is { readonly forceFlush: () => Promise<void> } =>
  Predicate.hasProperty(provider, "forceFlush") && Predicate.isFunction(provider.forceFlush)

/**
 * A tracer from the registered SDK. The SDK belongs to the program: when the scope closes, its spans are flushed, but it stays registered.
 */
const attachToRegistered = Effect.fnUntraced(function*(
  options: TracerOptions
): Effect.fn.Return<OtelTracer, never, Scope.Scope> {
  const modules = yield* Effect.promise(load)
  const { trace } = modules.api
  yield* Effect.addFinalizer(() => {
    const provider = delegateOf(trace.getTracerProvider())
    return hasFlush(provider) ? flush(() => provider.forceFlush()) : Effect.void
  })
  return makeTracer(modules, trace.getTracer(SCOPE, options.version), options)
})

/**
 * The tracer that the environment configures, or undefined when it configures none.
 *
 * ```
 *   OTEL_SDK_DISABLED=true                    none
 *   the program has registered an SDK         a tracer of that SDK
 *   OTEL_EXPORTER_OTLP_ENDPOINT or the like   our own SDK, which exports OTLP over HTTP (OtlpConfig)
 *   none of these                             none; no OpenTelemetry module is loaded
 * ```
 *
 * Fails with a `ConfigError` when a variable is invalid.
 */
export const fromEnvironment = Effect.fnUntraced(function*(
  identity: Identity,
  options: TracerOptions = {}
): Effect.fn.Return<OtelTracer | undefined, ConfigError, Scope.Scope> {
  if (yield* OtlpConfig.disabled) return undefined
  if (isRegistered()) return yield* attachToRegistered(options)
  const settings = yield* OtlpConfig.settings
  return settings === undefined ? undefined : yield* startOtlp(settings, identity, options)
})

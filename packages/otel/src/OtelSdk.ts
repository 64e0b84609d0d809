/**
 * OpenTelemetry's SDK, started for one process and stopped with it. Loaded when traces are wanted, and only then.
 *
 * ```
 *   spans that end --> BatchSpanProcessor --> the exporter for the protocol --> the collector
 *                      (in memory, bounded)    \\--> Outage: one WARN when it begins, one INFO when it is over
 * ```
 *
 * Nothing waits for a collector: spans that it does not take in time are lost, and a job never is. Only the end of the process waits for
 * the last spans, and not longer than {@link FLUSH_TIMEOUT}.
 */
import type { TracerProvider as ApiTracerProvider } from "@opentelemetry/api"
import type { ExportResult, ExportResultCode } from "@opentelemetry/core"
import type { ReadableSpan, Sampler, SpanExporter, SpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace"
import { VERSION } from "@stint/worker/Version"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { make as makeTracer } from "./OtelTracer.ts"
import type { OtelModules, OtelTracer } from "./OtelTracer.ts"
import type { SamplerName, Settings } from "./OtlpConfig.ts"

/** How long the end of the process waits for the last spans. Milliseconds. Longer saves more of them from a slow collector. */
export const FLUSH_TIMEOUT = 3_000

/** The name under which our spans' tracer is known. */
const SCOPE = "@stint/telemetry"

/** Who this process is, where the variables do not say. */
export interface Identity {
  readonly serviceName: string
  readonly attributes: Readonly<Record<string, string>>
}

// Each by a path of its own: a bundler that makes one file of a handler would load what is imported in one of its modules at its start.
const load = async (): Promise<OtelModules> => ({
  api: await import("@opentelemetry/api"),
  core: await import("@opentelemetry/core")
})
const loadSdk = () => import("@opentelemetry/sdk-trace")

/** Whether somebody has registered an SDK of OpenTelemetry in this process. Looks where its API keeps them, and loads nothing. */
export const isRegistered = (): boolean => {
  const registry: unknown = Reflect.get(globalThis, Symbol.for("opentelemetry.js.api.1"))
  return Predicate.hasProperty(registry, "trace") && registry.trace !== undefined
}

const exporterOf = async (settings: Settings): Promise<SpanExporter> => {
  const { OTLPTraceExporter } = settings.protocol === "http/json"
    ? await import("@opentelemetry/exporter-trace-otlp-http")
    : await import("@opentelemetry/exporter-trace-otlp-proto")
  return new OTLPTraceExporter({
    url: settings.url,
    headers: Redacted.value(settings.headers),
    timeoutMillis: settings.timeout
  })
}

const samplerOf = async (name: SamplerName, ratio: number): Promise<Sampler> => {
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

/** Says once that spans do not arrive, and once that they do again. */
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
      else if (this.#lost > 0) this.#over()
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
      }. Jobs run on without them; spans are lost until it answers. Check OTEL_EXPORTER_OTLP_ENDPOINT, or unset it.`
    ))
  }

  #over(): void {
    const lost = this.#lost
    this.#lost = 0
    this.#log(Effect.logInfo(`Traces are sent again; ${lost} ${lost === 1 ? "span was" : "spans were"} lost.`))
  }
}

const reasonOf = (error: Error | undefined): string => {
  if (error === undefined) return "it answers that it is overloaded"
  const code = Predicate.hasProperty(error, "code") ? String(error.code) : ""
  if (error.message === "") return code === "" ? error.name : code
  return code === "" || error.message.includes(code) ? error.message : `${error.message} (${code})`
}

/** Makes an SDK the process's own, so that plain code's spans go the same way; gives it back when the scope closes. */
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

/** Lets the last spans go, in time. */
const flush = (what: () => Promise<void>): Effect.Effect<void> =>
  // Why it failed was said when it did.
  Effect.ignore(Effect.tryPromise(what)).pipe(
    Effect.timeoutOrElse({
      duration: FLUSH_TIMEOUT,
      orElse: () => Effect.logWarning(`The last spans were not sent within ${FLUSH_TIMEOUT} ms and are lost.`)
    })
  )

/** A tracer whose spans go to these processors, and that plain code shares. The last spans go when the scope closes. */
export const start = Effect.fnUntraced(function*(options: {
  readonly processors: ReadonlyArray<SpanProcessor>
  readonly sampler?: Sampler
  readonly resource: Readonly<Record<string, string>>
}): Effect.fn.Return<OtelTracer, never, Scope.Scope> {
  const loaded = yield* Effect.promise(load)
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
    (stopped) => flush(() => stopped.shutdown())
  )
  yield* register(loaded, provider)
  return makeTracer(loaded, provider.getTracer(SCOPE, VERSION))
})

/** A tracer whose spans are sent as the settings say. */
export const startOtlp = Effect.fnUntraced(function*(
  settings: Settings,
  identity: Identity
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
    }
  })
})

/** The API gives out a provider that stands for the registered one. */
const delegateOf = (provider: ApiTracerProvider): unknown =>
  Predicate.hasProperty(provider, "getDelegate") && Predicate.isFunction(provider.getDelegate) ? provider.getDelegate() : provider

const hasFlush = (provider: unknown): provider is { readonly forceFlush: () => Promise<void> } =>
  Predicate.hasProperty(provider, "forceFlush") && Predicate.isFunction(provider.forceFlush)

/** A tracer of the SDK that somebody has registered. It stays theirs: when the scope closes it is asked for its last spans, not stopped. */
export const attachToRegistered: Effect.Effect<OtelTracer, never, Scope.Scope> = Effect.gen(function*() {
  const loaded = yield* Effect.promise(load)
  const { trace } = loaded.api
  yield* Effect.addFinalizer(() => {
    const provider = delegateOf(trace.getTracerProvider())
    return hasFlush(provider) ? flush(() => provider.forceFlush()) : Effect.void
  })
  return makeTracer(loaded, trace.getTracer(SCOPE, VERSION))
})

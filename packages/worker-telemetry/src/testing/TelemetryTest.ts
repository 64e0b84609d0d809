/**
 * Spans in memory, for tests that look at what was traced: by Stint, by Effect, and by anything that speaks OpenTelemetry's API.
 */
import * as OtelSdk from "@stint/otel/OtelSdk"
import { ActiveSpan } from "@stint/worker/Spans"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Tracer from "effect/Tracer"

/** A span that has ended. */
export interface Span {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  /** Undefined: it begins its trace. */
  readonly parentSpanId: string | undefined
  readonly attributes: { readonly [key: string]: unknown }
  /** Milliseconds since 1970. */
  readonly startTime: number
  readonly endTime: number
  /** Why it failed; undefined: it did not. */
  readonly error: string | undefined
}

/** The spans of this test. */
export class TelemetryTest extends Context.Service<TelemetryTest, {
  /** All spans that have ended, in the order of their ends. */
  readonly spans: () => ReadonlyArray<Span>
}>()("@stint/worker-telemetry/testing/TelemetryTest") {}

const millis = ([seconds, nanos]: readonly [number, number]) => seconds * 1_000 + nanos / 1_000_000

const make = Effect.gen(function*() {
  if (OtelSdk.isRegistered()) {
    return yield* Effect.die(
      new Error(
        "An SDK of OpenTelemetry is registered in this process already; TelemetryTest.layer can only see spans where it brings its own."
      )
    )
  }
  const { exporter, processor, failed } = yield* Effect.promise(async () => {
    const { InMemorySpanExporter, SimpleSpanProcessor } = await import("@opentelemetry/sdk-trace")
    const { SpanStatusCode } = await import("@opentelemetry/api")
    const memory = new InMemorySpanExporter()
    return { exporter: memory, processor: new SimpleSpanProcessor({ exporter: memory }), failed: SpanStatusCode.ERROR }
  })
  const { activeSpan, tracer } = yield* OtelSdk.start({ processors: [processor], resource: {} })
  const spans = () =>
    exporter.getFinishedSpans().map((span): Span => ({
      name: span.name,
      traceId: span.spanContext().traceId,
      spanId: span.spanContext().spanId,
      parentSpanId: span.parentSpanContext?.spanId,
      attributes: { ...span.attributes },
      startTime: millis(span.startTime),
      endTime: millis(span.endTime),
      error: span.status.code === failed ? span.status.message ?? "" : undefined
    }))
  return { context: Context.add(Context.make(Tracer.Tracer, tracer), ActiveSpan, activeSpan), exporter, spans, isOpen: false }
})

/**
 * One SDK for the process, however many layers: a tracer that a module of the tested code got once, and keeps, is bound to the SDK that
 * it first met.
 */
const shared = Effect.runSync(Effect.cached(Effect.provideService(make, Scope.Scope, Scope.makeUnsafe())))

/**
 * Records all traces, in place of `Telemetry.layer`; without spans when it opens.
 *
 * OpenTelemetry's API looks for its SDK in one place of the process: one such layer is open at a time.
 */
export const layer: Layer.Layer<TelemetryTest> = Layer.effectContext(Effect.gen(function*() {
  const sdk = yield* shared
  if (sdk.isOpen) {
    return yield* Effect.die(new Error("Another TelemetryTest.layer is open in this process; their spans would be one heap."))
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => {
      sdk.isOpen = true
    }),
    () =>
      Effect.sync(() => {
        sdk.isOpen = false
        sdk.exporter.reset()
      })
  )
  return Context.add(sdk.context, TelemetryTest, TelemetryTest.of({ spans: sdk.spans }))
}))

/** All spans that have ended, in the order of their ends. */
export const spans: Effect.Effect<ReadonlyArray<Span>, never, TelemetryTest> = Effect.map(TelemetryTest, (test) => test.spans())

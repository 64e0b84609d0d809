/**
 * Records spans in memory for tests of traced code. Records the spans of Stint, of Effect and of the OpenTelemetry API.
 */
import * as OtelSdk from "@stint/otel/OtelSdk"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { contextOf, tracerOptions } from "../WorkerTracer.ts"

/** An ended span. */
export interface Span {
  readonly name: string
  readonly traceId: string
  readonly spanId: string
  /** Undefined for the first span of a trace. */
  readonly parentSpanId: string | undefined
  readonly attributes: { readonly [key: string]: unknown }
  /** Milliseconds since 1970. */
  readonly startTime: number
  readonly endTime: number
  /** The error of a failed span; undefined for a span that succeeded. */
  readonly error: string | undefined
}

/** The spans of this test. */
export class TelemetryTest extends Context.Service<TelemetryTest, {
  /** The ended spans, in the order in which they ended. */
  readonly spans: () => ReadonlyArray<Span>
}>()("@stint/worker-telemetry/testing/TelemetryTest") {}

const millis = ([seconds, nanos]: readonly [number, number]) => seconds * 1_000 + nanos / 1_000_000

const make = Effect.gen(function*() {
  if (OtelSdk.isRegistered()) {
    return yield* Effect.die(
      new Error(
        "This process has already registered an OpenTelemetry SDK. TelemetryTest.layer records spans only with its own SDK; remove the other one."
      )
    )
  }
  const { exporter, processor, failed } = yield* Effect.promise(async () => {
    const { InMemorySpanExporter, SimpleSpanProcessor } = await import("@opentelemetry/sdk-trace")
    const { SpanStatusCode } = await import("@opentelemetry/api")
    const memory = new InMemorySpanExporter()
    return { exporter: memory, processor: new SimpleSpanProcessor({ exporter: memory }), failed: SpanStatusCode.ERROR }
  })
  const tracer = yield* OtelSdk.start({ processors: [processor], resource: {}, tracer: tracerOptions })
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
  return { context: contextOf(tracer), exporter, spans, isOpen: false }
})

/** All layers in the process share one SDK, because a tracer that a tested module stores is bound to the first SDK. */
const shared = Effect.runSync(Effect.cached(Effect.provideService(make, Scope.Scope, Scope.makeUnsafe())))

/**
 * Records all spans, in place of `Telemetry.layer`. The list starts out empty.
 *
 * The OpenTelemetry API has one SDK per process, so only one of these layers can be open at a time.
 */
export const layer: Layer.Layer<TelemetryTest> = Layer.effectContext(Effect.gen(function*() {
  const sdk = yield* shared
  if (sdk.isOpen) {
    return yield* Effect.die(
      new Error("Another TelemetryTest.layer is open in this process. Close it first: the spans of both would be mixed.")
    )
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

/** The ended spans, in the order in which they ended. */
export const spans: Effect.Effect<ReadonlyArray<Span>, never, TelemetryTest> = Effect.map(TelemetryTest, (test) => test.spans())

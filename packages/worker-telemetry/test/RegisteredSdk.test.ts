import { describe, expect, it } from "@effect/vitest"
import { context, SpanStatusCode, trace } from "@opentelemetry/api"
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks"
import { InMemorySpanExporter, SimpleSpanProcessor, TracerProvider } from "@opentelemetry/sdk-trace"
import * as Handler from "@stint/worker/Handler"
import { PlatformStub } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import { resultOf, start, TRACE, traceparent } from "./TracedWorker.ts"

describe("an SDK that the program has registered", () => {
  it.live("receives the job's spans even when no variable is set, and is flushed at the end", () =>
    Effect.gen(function*() {
      const exporter = new InMemorySpanExporter()
      let flushes = 0
      const processor = new SimpleSpanProcessor({ exporter })
      const provider = new TracerProvider({
        spanProcessors: [processor, {
          onStart: () => {},
          onEnd: () => {},
          forceFlush: async () => void flushes++,
          shutdown: () => Promise.reject(new Error("it is not ours to stop"))
        }]
      })
      context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
      trace.setGlobalTracerProvider(provider)
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          trace.disable()
          context.disable()
        })
      )
      const stub = yield* PlatformStub.make()
      const handler = Handler.fromFunction(() =>
        trace.getTracer("own").startActiveSpan("own", (span) => {
          span.end()
          return trace.getActiveSpan() === span
        }), { name: "fn" })
      const { close } = yield* start(stub, handler, {})
      expect(yield* resultOf(stub, stub.submit(null, { traceparent }))).toEqual({ output: true })
      yield* close
      const spans = exporter.getFinishedSpans()
      expect(spans.map(({ name }) => name).toSorted()).toEqual(["deliver", "handler", "own", "process stub"])
      expect(spans.map((span) => span.spanContext().traceId)).toEqual(spans.map(() => TRACE))
      expect(spans.map(({ status }) => status.code)).toEqual(spans.map(() => SpanStatusCode.UNSET))
      expect(flushes).toBe(1)
      trace.getTracer("own").startSpan("afterwards").end()
      expect(exporter.getFinishedSpans().at(-1)?.name).toBe("afterwards")
    }))

  it.live("receives no spans with OTEL_SDK_DISABLED", () =>
    Effect.gen(function*() {
      const exporter = new InMemorySpanExporter()
      trace.setGlobalTracerProvider(new TracerProvider({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }))
      yield* Effect.addFinalizer(() => Effect.sync(() => trace.disable()))
      const stub = yield* PlatformStub.make()
      const { close } = yield* start(stub, Handler.fromFunction(() => 1), { OTEL_SDK_DISABLED: "true" })
      yield* resultOf(stub, stub.submit(null))
      yield* close
      expect(exporter.getFinishedSpans()).toEqual([])
    }))
})

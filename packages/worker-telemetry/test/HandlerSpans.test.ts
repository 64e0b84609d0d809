/**
 * Tests spans that a handler's own code starts with the real OpenTelemetry API, as instrumentation libraries do.
 */
import { describe, expect, it } from "@effect/vitest"
import { context, propagation, trace } from "@opentelemetry/api"
import * as Handler from "@stint/worker/Handler"
import type { Runnable } from "@stint/worker/Runnable"
import * as RunningJob from "@stint/worker/RunningJob"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { setImmediate } from "node:timers/promises"
import { TelemetryTest } from "../src/testing/index.ts"

const tracer = trace.getTracer("the user's own")

/** Starts a span as an instrumentation library does, with the API's active span as the parent. */
const own = <A>(name: string, body: () => A): A =>
  tracer.startActiveSpan(name, (span) => {
    const value = body()
    if (value instanceof Promise) void value.finally(() => span.end())
    else span.end()
    return value
  })

const named = (spans: ReadonlyArray<TelemetryTest.Span>, name: string): TelemetryTest.Span => {
  const span = spans.find((one) => one.name === name)
  if (span === undefined) throw new Error(`no span ${name} among ${spans.map((one) => one.name).join(", ")}`)
  return span
}

const any = { input: Schema.Unknown, output: Schema.Unknown }

const HANDLERS: ReadonlyArray<[string, Runnable]> = [
  ["a function", Handler.fromFunction(() => own("own", () => 1))],
  [
    "a function after an await",
    Handler.fromFunction(async () => {
      await setImmediate()
      return await own("own", async () => {
        await setImmediate()
        return 1
      })
    })
  ],
  [
    "a generator",
    Handler.fromFunction(function*() {
      yield 1
      yield own("own", () => 2)
    })
  ],
  [
    "an async generator after an await",
    Handler.fromFunction(async function*() {
      yield 1
      await setImmediate()
      yield await own("own", () => setImmediate(2))
    })
  ],
  ["an Effect", Handler.make("effect", { ...any, run: () => Effect.sync(() => own("own", () => 1)) })],
  [
    "an Effect after a sleep",
    Handler.make("effect", {
      ...any,
      run: () => Effect.andThen(Effect.sleep(1), Effect.sync(() => own("own", () => 1)))
    })
  ],
  [
    "a promise in an Effect, after an await",
    Handler.make("effect", {
      ...any,
      run: () =>
        Effect.promise(async () => {
          await setImmediate()
          return own("own", () => 1)
        })
    })
  ]
]

describe("a span that the handler's own code starts", () => {
  it.live.each(HANDLERS)("is a child of the handler's span, in %s", ([, handler]) =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.runJson(handler, null)
      expect(result.status).toBe("COMPLETED")
      const spans = yield* TelemetryTest.spans
      expect(named(spans, "own").parentSpanId).toBe(named(spans, "handler").spanId)
      expect(named(spans, "own").traceId).toBe(named(spans, "handler").traceId)
    }).pipe(Effect.provide(TelemetryTest.layer)))

  it.live("is a child of the Effect span around it, and the parent of an effect that it runs", () =>
    Effect.gen(function*() {
      const inner = Effect.withSpan(Effect.void, "inner")
      const handler = Handler.fromFunction(async () => {
        await RunningJob.runPromise(Effect.withSpan(
          Effect.promise(() => own("own", () => RunningJob.runPromise(inner))),
          "outer"
        ))
      })
      yield* WorkerTest.runJson(handler, null)
      const spans = yield* TelemetryTest.spans
      expect(named(spans, "outer").parentSpanId).toBe(named(spans, "handler").spanId)
      expect(named(spans, "own").parentSpanId).toBe(named(spans, "outer").spanId)
      expect(named(spans, "inner").parentSpanId).toBe(named(spans, "own").spanId)
    }).pipe(Effect.provide(TelemetryTest.layer)))

  it.live("belongs to its own job while other jobs run", () =>
    Effect.gen(function*() {
      const handler = Handler.fromFunction<number>(async ({ input }) => {
        for (let turn = 0; turn < input; turn++) await setImmediate()
        own(`own ${input}`, () => undefined)
      })
      const inputs = Array.from({ length: 20 }, (_, n) => n)
      yield* Effect.forEach(
        inputs,
        (n) => WorkerTest.runJson(handler, n, { id: `job-${n}` }),
        { concurrency: "unbounded", discard: true }
      )
      const spans = yield* TelemetryTest.spans
      for (const n of inputs) {
        const ofJob = spans.find(({ attributes }) => attributes["stint.job.id"] === `job-${n}`)
        expect(named(spans, `own ${n}`).traceId).toBe(ofJob?.traceId)
      }
      expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(20)
    }).pipe(Effect.provide(TelemetryTest.layer)))

  it.live("propagates the trace to HTTP requests", () =>
    Effect.gen(function*() {
      const headers: Record<string, string> = {}
      const handler = Handler.fromFunction(async () => {
        await setImmediate()
        propagation.inject(context.active(), headers)
      })
      yield* WorkerTest.runJson(handler, null)
      const { spanId, traceId } = named(yield* TelemetryTest.spans, "handler")
      expect(headers["traceparent"]).toBe(`00-${traceId}-${spanId}-01`)
    }).pipe(Effect.provide(TelemetryTest.layer)))

  it.live("has no parent outside a job", () =>
    Effect.gen(function*() {
      yield* WorkerTest.runJson(Handler.fromFunction(() => 1), null)
      own("outside", () => undefined)
      expect(named(yield* TelemetryTest.spans, "outside").parentSpanId).toBeUndefined()
    }).pipe(Effect.provide(TelemetryTest.layer)))
})

describe("spans in a test", () => {
  it.live("have the attributes, times and errors of the traced code", () =>
    Effect.gen(function*() {
      const failing = Effect.withSpan(Effect.sleep(5).pipe(Effect.andThen(Effect.fail("no luck"))), "failing", {
        attributes: { text: "t", number: 1, flag: true, list: [1, "a"], big: 7n, nothing: undefined }
      })
      yield* Effect.ignore(failing)
      yield* Effect.withSpan(Effect.void, "fine")
      const spans = yield* TelemetryTest.spans
      expect(spans.map(({ name }) => name)).toEqual(["failing", "fine"])
      expect(named(spans, "failing").error).toBe("no luck")
      expect(named(spans, "failing").attributes).toEqual({
        "error.type": "_OTHER",
        text: "t",
        number: 1,
        flag: true,
        list: "[1,\"a\"]",
        big: "7",
        nothing: "undefined"
      })
      expect(named(spans, "failing").endTime - named(spans, "failing").startTime).toBeGreaterThanOrEqual(4)
      expect(named(spans, "fine").error).toBeUndefined()
    }).pipe(Effect.provide(TelemetryTest.layer)))

  it.live("are empty when a layer is opened", () =>
    Effect.gen(function*() {
      const one = Effect.andThen(Effect.withSpan(Effect.void, "one"), TelemetryTest.spans).pipe(
        Effect.provide(TelemetryTest.layer, { local: true })
      )
      expect(yield* one).toHaveLength(1)
      expect(yield* one).toHaveLength(1)
    }))

  it.live("belong to one open layer at a time; a second layer dies with an error", () =>
    Effect.gen(function*() {
      const second = yield* Effect.exit(Effect.scoped(Layer.build(Layer.fresh(TelemetryTest.layer))))
      expect(String(second)).toContain("Another TelemetryTest.layer is open")
    }).pipe(Effect.provide(TelemetryTest.layer)))
})

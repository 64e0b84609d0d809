import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as Tracer from "effect/Tracer"
import type { ReceivedJob } from "../src/handlers/CurrentJob.ts"
import type { Runnable } from "../src/handlers/Runnable.ts"
import { Handler, JobMiddleware, Outcome } from "../src/index.ts"
import * as Spans from "../src/runtime/Spans.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { job, services, start } from "./MemoryWorker.ts"

const TRACE = "0af7651916cd43dd8448eb211c80319c"
const CALLER = "b7ad6b7169203331"
const traceparent = `00-${TRACE}-${CALLER}-01`

/** A tracer that records every span. */
const recording = () => {
  const spans: Array<Tracer.Span> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  return { spans, layer: Layer.succeed(Tracer.Tracer, tracer) }
}

const named = (spans: ReadonlyArray<Tracer.Span>, name: string): Tracer.Span => {
  const span = spans.find((one) => one.name === name)
  if (span === undefined) throw new Error(`no span ${name} among ${spans.map((one) => one.name).join(", ")}`)
  return span
}

const parentId = ({ parent }: Tracer.Span): string | undefined => Option.getOrUndefined(parent)?.spanId

/** Milliseconds since 1970 by the virtual clock. */
const times = ({ status }: Tracer.Span) =>
  status._tag === "Ended"
    ? { start: Number(status.startTime / 1_000_000n), end: Number(status.endTime / 1_000_000n) }
    : undefined

const failure = ({ status }: Tracer.Span) => {
  if (status._tag !== "Ended") return "still open"
  return Exit.match(status.exit, {
    onSuccess: () => undefined,
    onFailure: (cause) => cause.reasons.map((reason) => reason._tag === "Fail" ? reason.error : reason._tag)
  })
}

/** Runs one job until its result is delivered and returns the spans. */
const spansOf = Effect.fnUntraced(function*(handler: Runnable, received: ReceivedJob, around: Layer.Layer<never> = Layer.empty) {
  const { spans, layer } = recording()
  const worker = services({ PLATFORM_SHUTDOWN_GRACE: "0", PLATFORM_ENDPOINT_ID: "ep" })
  yield* Effect.gen(function*() {
    const memory = yield* Memory
    yield* Effect.provide(start(handler), Layer.merge(layer, around))
    yield* memory.submit(received)
    yield* TestClock.adjust("1 second")
    yield* memory.nextDone
  }).pipe(Effect.provide(worker.layer))
  return spans
})

const Square = Handler.make("square", {
  input: Schema.Struct({ n: Schema.Number }),
  output: Schema.Number,
  run: ({ n }) => Effect.succeed(n * n).pipe(Effect.withSpan("multiply"))
})

describe("the spans of a job", () => {
  it.effect("are the children validate, handler and deliver of the job's span, whose name contains the endpoint", () =>
    Effect.gen(function*() {
      const spans = yield* spansOf(Square, { id: "j1", input: { n: 3 }, attempt: 2, delayTime: 5 })
      const root = named(spans, "process ep")
      expect(root.kind).toBe("consumer")
      expect(Option.isNone(root.parent)).toBe(true)
      expect(Object.fromEntries(root.attributes)).toEqual({
        "messaging.system": "stint",
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.destination.name": "ep",
        "messaging.message.id": "j1",
        "faas.trigger": "pubsub",
        "faas.coldstart": true,
        "stint.job.id": "j1",
        "stint.job.attempt": 2,
        "stint.job.wait_ms": 5,
        "stint.endpoint": "ep"
      })
      for (const name of ["handler", "deliver"]) expect(parentId(named(spans, name))).toBe(root.spanId)
      const handler = named(spans, "handler")
      expect(parentId(named(spans, "validate"))).toBe(handler.spanId)
      expect(parentId(named(spans, "multiply"))).toBe(handler.spanId)
      expect(spans.map(({ traceId }) => traceId)).toEqual(spans.map(() => root.traceId))
      expect(spans.map(failure)).toEqual(spans.map(() => undefined))
      expect(spans).toHaveLength(5)
    }))

  it.effect("join the caller's trace that the job names", () =>
    Effect.gen(function*() {
      const spans = yield* spansOf(Square, { id: "j1", input: { n: 3 }, traceparent, tracestate: "vendor=1" })
      const root = named(spans, "process ep")
      expect(parentId(root)).toBe(CALLER)
      expect(spans.map(({ traceId }) => traceId)).toEqual(spans.map(() => TRACE))
      const parent = Option.getOrUndefined(root.parent)
      expect(parent?._tag).toBe("ExternalSpan")
      expect(Option.map(root.parent, ({ annotations }) => annotations.mapUnsafe.get(Spans.TraceState.key))).toEqual(
        Option.some("vendor=1")
      )
    }))

  it.effect("are not recorded when the caller does not record its trace", () =>
    Effect.gen(function*() {
      const spans = yield* spansOf(Square, { id: "j1", input: { n: 3 }, delayTime: 3, traceparent: `00-${TRACE}-${CALLER}-00` })
      expect(spans).toHaveLength(5)
      expect(spans.map(({ sampled }) => sampled)).toEqual(spans.map(() => false))
    }))

  it.effect.each<[string, unknown]>([
    ["is not a string", 7],
    ["is empty", ""],
    ["has a trace id of zeros", `00-${"0".repeat(32)}-${CALLER}-01`],
    ["has a span id of zeros", `00-${TRACE}-${"0".repeat(16)}-01`],
    ["is in upper case", `00-${TRACE.toUpperCase()}-${CALLER}-01`],
    ["is of version ff", `ff-${TRACE}-${CALLER}-01`]
  ])("start a new trace when the traceparent %s", ([, broken]) =>
    Effect.gen(function*() {
      const received = { ...job("j1"), traceparent: broken }
      // The platform's value is not validated before this point.
      const spans = yield* spansOf(Handler.fromFunction(() => 1, { name: "fn" }), received as ReceivedJob)
      expect(Option.isNone(named(spans, "process ep").parent)).toBe(true)
    }))

  it.effect("do not include the wait, which ends before the job's span begins", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust("1 hour")
      const spans = yield* spansOf(Square, { id: "j1", input: { n: 3 }, delayTime: 1_500 })
      const taken = times(named(spans, "process ep"))?.start ?? Number.NaN
      for (const span of spans) expect(times(span)?.start).toBeGreaterThanOrEqual(taken)
    }))

  it.effect("last as long as the step that they measure", () =>
    Effect.gen(function*() {
      const slow = Handler.make("slow", {
        input: Schema.Unknown,
        output: Schema.Null,
        run: () => Effect.as(Effect.sleep(400), null)
      })
      const spans = yield* spansOf(slow, job("j1"))
      const { end = 0, start: from = 0 } = times(named(spans, "handler")) ?? {}
      expect(end - from).toBe(400)
      expect(times(named(spans, "deliver"))).toEqual({ start: end, end })
      expect(times(named(spans, "process ep"))).toEqual({ start: from, end })
    }))

  it.effect("include the spans of a middleware between the job and its handler", () =>
    Effect.gen(function*() {
      const around = JobMiddleware.make((next, received) => Effect.withSpan(next(received), "hydrate"))
      const handler = Handler.fromFunction(() => 1, { name: "fn" })
      const { layer, spans } = recording()
      yield* Effect.gen(function*() {
        const memory = yield* Memory
        yield* Effect.provide(start(handler, { middleware: [around] }), layer)
        yield* memory.submit(job("j1"))
        yield* memory.nextDone
      }).pipe(Effect.provide(services().layer))
      const between = named(spans, "hydrate")
      expect(parentId(between)).toBe(named(spans, "process fn").spanId)
      expect(parentId(named(spans, "handler"))).toBe(between.spanId)
    }))
})

describe("a failed job", () => {
  it.effect.each<[string, () => unknown, string]>([
    ["a returned error", () => ({ error: "no such model" }), "no such model"],
    ["an exception", () => {
      throw new RangeError("too far")
    }, "Die"]
  ])("has a failed handler span and a failed job span after %s", ([, fn, reason]) =>
    Effect.gen(function*() {
      const spans = yield* spansOf(Handler.fromFunction(fn, { name: "fn" }), job("j1"))
      const [failed] = failure(named(spans, "handler")) ?? []
      if (reason === "Die") expect(failed).toBe("Die")
      else expect(failed).toMatchObject({ message: reason })
      expect(failure(named(spans, "process ep"))).toMatchObject([{
        type: reason === "Die" ? "RangeError" : "_OTHER",
        message: reason === "Die" ? "too far" : reason
      }])
      expect(failure(named(spans, "deliver"))).toBeUndefined()
    }))

  it.effect("has no handler span when a middleware rejected it", () =>
    Effect.gen(function*() {
      const { layer, spans } = recording()
      yield* Effect.gen(function*() {
        const memory = yield* Memory
        const refuse = JobMiddleware.make(() => Effect.succeed(Outcome.failed("no such key")))
        yield* Effect.provide(start(Handler.fromFunction(() => 1, { name: "fn" }), { middleware: [refuse] }), layer)
        yield* memory.submit(job("j1"))
        yield* memory.nextDone
      }).pipe(Effect.provide(services().layer))
      expect(spans.map(({ name }) => name)).toEqual(["process fn", "deliver"])
      expect(failure(named(spans, "process fn"))).toMatchObject([{ message: "no such key" }])
    }))

  it.effect("has an interrupted span and no delivery when it was stopped", () =>
    Effect.gen(function*() {
      const { layer, spans } = recording()
      yield* Effect.gen(function*() {
        const memory = yield* Memory
        const endless = Handler.make("endless", { input: Schema.Unknown, output: Schema.Never, run: () => Effect.never })
        yield* Effect.provide(start(endless), layer)
        yield* memory.submit(job("j1"))
        yield* TestClock.adjust("1 second")
        expect(named(spans, "handler").status._tag).toBe("Started")
        yield* memory.stop("j1")
        yield* TestClock.adjust("1 second")
      }).pipe(Effect.provide(services().layer))
      expect(failure(named(spans, "handler"))).toEqual(["Interrupt"])
      expect(failure(named(spans, "process endless"))).toEqual(["Interrupt"])
      expect(spans.map(({ name }) => name)).not.toContain("deliver")
    }))
})

describe("without a tracer", () => {
  it.effect("no span is opened", () =>
    Effect.gen(function*() {
      let seen: unknown
      const curious = Handler.make("curious", {
        input: Schema.Unknown,
        output: Schema.Null,
        run: () =>
          Effect.map(Effect.option(Effect.currentSpan), (span) => {
            seen = span
            return null
          })
      })
      const memory = yield* Memory
      yield* start(curious)
      yield* memory.submit({ ...job("j1"), delayTime: 5, traceparent })
      yield* memory.nextDone
      expect(seen).toEqual(Option.none())
    }).pipe(Effect.provide(services().layer)))
})

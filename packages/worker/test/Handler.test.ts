import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { CurrentJob, Handler, Worker } from "../src/index.ts"
import * as WorkerTest from "../src/testing/WorkerTest.ts"

class Unreadable extends Schema.TaggedError<Unreadable>()("Unreadable", { url: Schema.String }) {}

class Photos
  extends Context.Service<Photos, { readonly size: (url: URL) => Effect.Effect<number, Unreadable> }>()("test/Photos")
{}

const Measure = Handler.make("measure", {
  input: Schema.Struct({ url: Schema.URL, width: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100 })) }),
  output: Schema.Struct({ at: Schema.Date, bytes: Schema.Int }),
  error: Unreadable,
  run: Effect.fn("measure")(function*({ url, width }) {
    const photos = yield* Photos
    const bytes = yield* photos.size(url)
    if (width === 13) return yield* Effect.die(new RangeError("thirteen"))
    return { at: new Date(0), bytes: bytes * width }
  })
})

const photos = Layer.succeed(Photos, {
  size: (url) => url.pathname === "/none" ? Effect.fail(new Unreadable({ url: url.href })) : Effect.succeed(10)
})

const Countdown = Handler.makeStream("countdown", {
  input: Schema.Struct({ from: Schema.Int }),
  output: Schema.Struct({ n: Schema.FiniteFromString }),
  error: Unreadable,
  aggregate: true,
  run: ({ from }) =>
    Stream.range(1, from).pipe(
      Stream.map((n) => ({ n: from + 1 - n })),
      Stream.mapEffect((chunk) => chunk.n === 13 ? Effect.fail(new Unreadable({ url: "13" })) : Effect.succeed(chunk))
    )
})

describe("Handler.make", () => {
  it.effect("decodes the input, encodes the output and receives its services from layers", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Measure, { url: new URL("http://a/b"), width: 3 })
      expect(result).toEqual({
        status: "COMPLETED",
        output: { at: new Date(0), bytes: 30 },
        error: undefined,
        failure: undefined,
        chunks: [],
        stopPod: false
      })
    }).pipe(Effect.provide(photos)))

  it.effect("fails the job with the path of each invalid value in the input", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.runJson(Measure, { url: 7, width: 1000 })
      expect(result.status).toBe("FAILED")
      expect(result.error).toMatch(/input\.url: .*got 7; input\.width: .*got 1000/)
      const missing = yield* WorkerTest.runJson(Measure, { url: "http://a/b" })
      expect(missing.error).toMatch(/input\.width: Missing key/)
      const Square = Handler.make("square", {
        input: Schema.Struct({ n: Schema.Number }),
        output: Schema.Number,
        run: ({ n }) => Effect.succeed(n * n)
      })
      expect((yield* WorkerTest.runJson(Square, { n: "x" })).error).toBe(
        `The input does not fit. input.n: Expected number, got "x"`
      )
      const nothing = yield* WorkerTest.runJson(Measure, null)
      expect(nothing.error).toMatch(/input: .*got null/)
    }).pipe(Effect.provide(photos)))

  it.effect("reports a declared failure as the job's error and every other failure as an exception", () =>
    Effect.gen(function*() {
      const declared = yield* WorkerTest.run(Measure, { url: new URL("http://a/none"), width: 3 })
      expect(declared).toMatchObject({ status: "FAILED", output: undefined })
      expect(JSON.parse(declared.error ?? "")).toEqual({ _tag: "Unreadable", url: "http://a/none" })
      const other = yield* WorkerTest.run(Measure, { url: new URL("http://a/b"), width: 13 })
      expect(JSON.parse(other.error ?? "")).toMatchObject({
        error_type: "RangeError",
        error_message: "thirteen",
        worker_id: "test-worker"
      })
    }).pipe(Effect.provide(photos)))

  it.effect("reports an output that does not match its Schema as an exception", () =>
    Effect.gen(function*() {
      const Half = Handler.make("half", { input: Schema.Number, output: Schema.Int, run: (n) => Effect.succeed(n / 2) })
      const result = yield* WorkerTest.run(Half, 3)
      expect(JSON.parse(result.error ?? "")).toMatchObject({ error_type: "SchemaError" })
    }))

  it.effect("names the first 20 of many invalid values and shortens each", () =>
    Effect.gen(function*() {
      const Numbers = Handler.make("numbers", {
        input: Schema.Array(Schema.Number),
        output: Schema.Void,
        run: () => Effect.void
      })
      const wrong = Array.from({ length: 1_000 }, () => ({ text: "x".repeat(10_000) }))
      const { error = "" } = yield* WorkerTest.runJson(Numbers, wrong)
      expect(error).toContain("input[19]: ")
      expect(error).not.toContain("input[20]: ")
      expect(error).toMatch(/; and 980 more$/)
      expect(error.length).toBeLessThan(4_000)
    }))

  // docs/spec/handler.md#returned-values
  it.effect("obeys the signals error and refresh_worker", () =>
    Effect.gen(function*() {
      const Refresh = Handler.make("refresh", {
        input: Schema.Null,
        output: Schema.Struct({ refresh_worker: Schema.Boolean, n: Schema.Int }),
        run: () => Effect.succeed({ refresh_worker: true, n: 1 })
      })
      expect(yield* WorkerTest.runJson(Refresh, null)).toMatchObject({ status: "COMPLETED", output: { n: 1 }, stopPod: true })
      // The worker removes the signal, so a typed caller cannot decode this output.
      expect(yield* Effect.exit(WorkerTest.run(Refresh, null))).toMatchObject({ _tag: "Failure" })
    }))

  it.effect("has access to its job, and its scope closes with the job", () =>
    Effect.gen(function*() {
      const events: Array<string> = []
      const Scoped = Handler.make("scoped", {
        input: Schema.Null,
        output: Schema.String,
        run: Effect.fn(function*() {
          yield* Effect.acquireRelease(Effect.sync(() => events.push("open")), () => Effect.sync(() => events.push("closed")))
          const job = yield* CurrentJob
          return `${job.id} ${String(job["extra"])}`
        })
      })
      const result = yield* WorkerTest.run(Scoped, null, { id: "j1", extra: 7 })
      expect(result.output).toBe("j1 7")
      expect(events).toEqual(["open", "closed"])
    }))

  it.effect("a handler that dies or interrupts itself fails its job", () =>
    Effect.gen(function*() {
      const Odd = Handler.make("odd", {
        input: Schema.Literals(["die", "interrupt"]),
        output: Schema.Null,
        run: (how) => how === "die" ? Effect.die("dead") : Effect.interrupt
      })
      expect(JSON.parse((yield* WorkerTest.run(Odd, "die")).error ?? "")).toMatchObject({ error_message: "dead" })
      expect(JSON.parse((yield* WorkerTest.run(Odd, "interrupt")).error ?? "")).toMatchObject({
        error_message: "The handler interrupted itself."
      })
    }))

  it("a handler with an undeclared failure does not compile", () => {
    const program = Effect.fn("program")(function*() {
      return yield* new Unreadable({ url: "http://a/b" })
    })
    const options = { input: Schema.Null, output: Schema.Never }
    // @effect-diagnostics missingEffectError:off
    // @ts-expect-error Unreadable is not declared
    const undeclared = Handler.make("undeclared", { ...options, run: program })
    class Other extends Schema.TaggedError<Other>()("Other", {}) {}
    // @ts-expect-error another failure is declared
    const other = Handler.make("other", { ...options, error: Other, run: program })
    // @ts-expect-error the same for a stream
    const stream = Handler.makeStream("stream", { ...options, run: () => Stream.fromEffect(program()) })
    const declared = Handler.make("declared", { ...options, error: Unreadable, run: program })
    expect([undeclared, other, stream, declared].map(({ name }) => name)).toEqual(["undeclared", "other", "stream", "declared"])
  })

  it("a worker without a layer that its handler needs does not compile", () => {
    // @effect-diagnostics missingLayerContext:off
    // @ts-expect-error Photos is not provided
    const missing: Layer.Layer<never, never, Worker.Services> = Worker.layer(Measure)
    const whole: Layer.Layer<never, never, Worker.Services> = Worker.layer(Measure).pipe(Layer.provide(photos))
    expect([missing, whole].every(Layer.isLayer)).toBe(true)
  })
})

describe("Handler.makeStream", () => {
  it.effect("streams encoded chunks and collects them on request", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Countdown, { from: 3 })
      const chunks = [{ n: 3 }, { n: 2 }, { n: 1 }]
      const ended = { status: "COMPLETED", error: undefined, failure: undefined, stopPod: false }
      expect(result).toEqual({ ...ended, output: chunks, chunks })
      const sent = [{ n: "3" }, { n: "2" }, { n: "1" }]
      expect(yield* WorkerTest.runJson(Countdown, { from: 3 })).toEqual({ ...ended, output: sent, chunks: sent })
      const Plain = Handler.makeStream("plain", { input: Schema.Null, output: Schema.Int, run: () => Stream.make(1, 2) })
      expect(yield* WorkerTest.run(Plain, null)).toMatchObject({ output: [], chunks: [1, 2] })
    }))

  it.effect("a failing stream fails the job after its chunks", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Countdown, { from: 14 })
      expect(result).toMatchObject({ status: "FAILED", output: undefined, chunks: [{ n: 14 }] })
      expect(result.failure).toEqual(new Unreadable({ url: "13" }))
      expect(JSON.parse(result.error ?? "")).toEqual({ _tag: "Unreadable", url: "13" })
    }))

  it.effect("a stream stops at a chunk with an error, and the chunk is not sent", () =>
    Effect.gen(function*() {
      const Bad = Handler.makeStream("bad", {
        input: Schema.Null,
        output: Schema.Struct({ error: Schema.optionalKey(Schema.String) }),
        run: () => Stream.make({}, { error: "bad" }, {})
      })
      expect(yield* WorkerTest.run(Bad, null)).toMatchObject({ status: "FAILED", error: "bad", chunks: [{}] })
    }))
})

/** Runs a plain function as a handler with JSON input and returns the result. */
const fromFunction = (fn: Handler.HandlerFunction, input: unknown = null, options: Handler.FunctionOptions = {}) =>
  WorkerTest.runJson(Handler.fromFunction(fn, options), input)

describe("Handler.fromFunction", () => {
  it.effect.each<[string, Handler.HandlerFunction]>([
    ["sync", (job) => ({ got: job.input })],
    ["async", async (job) => ({ got: job.input })],
    ["returning a thenable", (job) => ({ then: (resolve: (value: unknown) => void) => resolve({ got: job.input }) })]
  ])("%s", ([, fn]) =>
    Effect.gen(function*() {
      expect(yield* fromFunction(fn, { n: 1 })).toMatchObject({ status: "COMPLETED", output: { got: { n: 1 } }, chunks: [] })
    }))

  it.effect.each<[string, Handler.HandlerFunction]>([
    ["generator", function*() {
      yield 1
      yield { n: 2 }
    }],
    ["async generator", async function*() {
      yield 1
      yield { n: 2 }
    }],
    ["async function that returns a generator", async () =>
      (function*() {
        yield 1
        yield { n: 2 }
      })()]
  ])("%s", ([, fn]) =>
    Effect.gen(function*() {
      expect(yield* fromFunction(fn)).toMatchObject({ status: "COMPLETED", output: [], chunks: [1, { n: 2 }] })
      expect(yield* fromFunction(fn, null, { returnAggregateStream: true })).toMatchObject({ output: [1, { n: 2 }] })
    }))

  it.effect.each<[string, Handler.HandlerFunction]>([
    ["sync", () => {
      throw new RangeError("far")
    }],
    ["async", async () => {
      throw new RangeError("far")
    }],
    ["generator", function*() {
      yield 1
      throw new RangeError("far")
    }],
    ["async generator", async function*() {
      yield 1
      throw new RangeError("far")
    }]
  ])("%s that throws", ([, fn]) =>
    Effect.gen(function*() {
      const result = yield* fromFunction(fn)
      expect(result.status).toBe("FAILED")
      expect(JSON.parse(result.error ?? "")).toMatchObject({ error_type: "RangeError", error_message: "far" })
    }))

  it.effect("iterable values are outputs, not streams", () =>
    Effect.gen(function*() {
      expect(yield* fromFunction(() => [1, 2])).toMatchObject({ output: [1, 2], chunks: [] })
      expect(yield* fromFunction(() => "ab")).toMatchObject({ output: "ab", chunks: [] })
    }))

  it.effect("a chunk with an error ends the generator, and its finally block runs", () =>
    Effect.gen(function*() {
      const events: Array<string> = []
      const result = yield* fromFunction(async function*() {
        try {
          yield 1
          yield { error: "bad" }
          events.push("went on")
        } finally {
          events.push("finally")
        }
      })
      expect(result).toMatchObject({ status: "FAILED", error: "bad", chunks: [1] })
      expect(events).toEqual(["finally"])
    }))

  it.effect("only the signals of a generator's return value are used", () =>
    Effect.gen(function*() {
      const result = yield* fromFunction(function*() {
        yield 1
        return { refresh_worker: true, a: 1 }
      })
      expect(result).toMatchObject({ status: "COMPLETED", output: [], stopPod: true })
    }))

  it.effect("a stop aborts the signal of a function and waits for the function to end", () =>
    Effect.gen(function*() {
      const events: Array<string> = []
      const started = yield* Deferred.make<void>()
      const waiting = Handler.fromFunction(async (_job, { signal }) => {
        Effect.runSync(Deferred.succeed(started, undefined))
        await new Promise((resolve) => signal.addEventListener("abort", resolve))
        events.push("aborted")
        await Promise.resolve()
        events.push("cleaned up")
      })
      const fiber = yield* Effect.forkChild(WorkerTest.runJson(waiting, null))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      expect(events).toEqual(["aborted", "cleaned up"])
    }))

  it.effect("a signal that is first read after the stop is already aborted", () =>
    Effect.gen(function*() {
      const started = yield* Deferred.make<void>()
      let release = () => {}
      let late: boolean | undefined
      const waiting = Handler.fromFunction(async (_job, context) => {
        Effect.runSync(Deferred.succeed(started, undefined))
        await new Promise<void>((resolve) => {
          release = resolve
        })
        late = context.signal.aborted
      })
      const fiber = yield* Effect.forkChild(WorkerTest.runJson(waiting, null))
      yield* Deferred.await(started)
      const stopping = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* Effect.yieldNow
      release()
      yield* Fiber.join(stopping)
      expect(late).toBe(true)
    }))

  it.effect("a stop runs the finally block of a generator", () =>
    Effect.gen(function*() {
      const events: Array<string> = []
      const started = yield* Deferred.make<void>()
      const endless = Handler.fromFunction(async function*(_job, { signal }) {
        try {
          yield 1
          Effect.runSync(Deferred.succeed(started, undefined))
          await new Promise((resolve) => signal.addEventListener("abort", resolve))
          yield 2
        } finally {
          events.push("finally")
        }
      })
      const fiber = yield* Effect.forkChild(WorkerTest.runJson(endless, null))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      expect(events).toEqual(["finally"])
    }))
})

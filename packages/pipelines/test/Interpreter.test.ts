import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { CurrentJob } from "@stint/worker/CurrentJob"
import { CurrentStep } from "@stint/worker/CurrentStep"
import * as RunningJob from "@stint/worker/RunningJob"
import { LogMemory } from "@stint/worker/testing"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import { Pipeline } from "../src/index.ts"
import { PipelineTest } from "../src/testing/index.ts"

const Double = Handler.make("double", {
  input: Schema.Number,
  output: Schema.Number,
  run: (n) => Effect.succeed(n * 2)
})

const paths = (entries: ReadonlyArray<{ readonly kind: string; readonly path: string }>) =>
  entries.map(({ kind, path }) => `${kind} ${path}`)

describe("steps", () => {
  it.effect("receive the value before them, the results by name and their context", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("a", (n) => n + 1)
        .step("b", async (n) => n * 2)
        .step("c", (n, { a, input }, { attempt, idempotencyKey, path, run }) =>
          Effect.succeed({ all: [n, a, input], attempt, path, key: idempotencyKey === `${run}/c` }))
        .end(Schema.Unknown)
      const result = yield* PipelineTest.run(pipeline, 1)
      expect(result).toMatchObject({ status: "COMPLETED", output: { all: [4, 2, 1], attempt: 1, path: "c", key: true } })
      expect(paths(result.entries)).toEqual(["step a", "step b", "step c"])
    }))

  it.effect("record how long each attempt ran", () =>
    Effect.gen(function*() {
      const records: Array<readonly [string, number | undefined]> = []
      // Sets the clock while an attempt runs.
      const takes = TestClock.adjust
      let tries = 0
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("quick", (n) => n)
        .step("slow", () =>
          ++tries === 1
            ? Effect.andThen(takes("2 seconds"), Effect.fail("not yet"))
            : Effect.as(takes("3 seconds"), 1), {
          retry: { times: 1, delay: 0 },
          undo: () => takes("5 seconds")
        })
        .step("fails", () => Effect.andThen(takes("250 millis"), Effect.fail("no")))
        .end(Schema.Number)
      const run = yield* PipelineTest.start(pipeline, 1, {
        crash: ({ ms, path }, when) => {
          if (when === "before") {
            records.push([path, ms])
          }
          return false
        }
      })
      expect((yield* run.result).status).toBe("FAILED")
      expect(records).toEqual([
        ["quick", 0],
        ["slow~1", 2_000],
        ["slow~2~0", undefined],
        ["slow", 3_000],
        ["fails", 250],
        ["slow~undo", 5_000]
      ])
    }))

  it.effect("record their input once, and only if it is not the output of other nodes", () =>
    Effect.gen(function*() {
      const inputs: Array<readonly [string, unknown]> = []
      let tries = 0
      const pipeline = Pipeline.make("p", { input: Schema.Array(Schema.Number) })
        .step("first", (list) => list)
        .select(() => [3, 1, 2])
        // The step changes its input. The record has the input from before.
        .step("reverses", (list) => list.reverse().length)
        .step("next", (n) => n)
        .select(({ first, next }) => ({ first, next }))
        .sleep("nap", "1 second")
        .step("retried", () => ++tries === 1 ? Promise.reject(new Error("no")) : 1, { retry: { times: 1, delay: 0 } })
        .all("extras", {
          passes: (p) => p,
          is: (p) => p.step("recorded", () => "a")
        })
        .step("after-all", () => 1)
        .all("others", { computes: (p) => p.step("one", () => 1).select(() => 2), not: (p) => p.step("two", () => 2) })
        .step("after-computed", () => 1)
        .select(() => ["a", "b"])
        .forEach("each", (item: string) => item.toUpperCase())
        .forEach("again", (item: string) => item)
        .select(() => "x".repeat(5_000))
        .step("long", () => undefined)
        .select(() => ({ big: 1n }))
        .step("bigint", () => undefined)
        .select(() => undefined)
        .step("nothing", () => 1)
        .end(Schema.Number)
      const run = yield* PipelineTest.start(pipeline, [1], {
        crash: ({ input, path }, when) => {
          if (when === "before" && input !== undefined) inputs.push([path, input])
          return false
        }
      })
      yield* run.parked("nap")
      yield* TestClock.adjust("1 second")
      expect(yield* run.result).toMatchObject({ status: "COMPLETED" })
      expect(inputs).toEqual([
        ["reverses", { value: [3, 1, 2] }],
        ["retried~1", { value: { first: [1], next: 3 } }],
        ["after-computed", { value: { computes: 2, not: 2 } }],
        ["each[0]", { value: "a" }],
        ["each[1]", { value: "b" }],
        ["long", { text: `"${"x".repeat(999)}` }],
        ["bigint", { text: "{\"big\": 1n}" }],
        ["nothing", { value: null }]
      ])
    }))

  it.effect("record the value after a wait that may time out, because its default is not recorded", () =>
    Effect.gen(function*() {
      const inputs: Array<readonly [string, unknown]> = []
      const pipeline = Pipeline.make("p", { input: Schema.String })
        .waitFor("approval", Schema.String, { timeout: "1 hour", onTimeout: () => "declined" })
        .branch("way", (): "on" | "off" => "on", { on: (p) => p.select(() => 7), off: (p) => p.step("no", () => 8) })
        .step("page", (value) => value)
        .end(Schema.Number)
      const run = yield* PipelineTest.start(pipeline, "a", {
        crash: ({ input, path }) => {
          if (input !== undefined) inputs.push([path, input])
          return false
        }
      })
      yield* run.parked("approval")
      yield* run.event("approval", { data: "ok" })
      expect(yield* run.result).toMatchObject({ status: "COMPLETED", output: 7 })
      expect(new Map(inputs)).toEqual(new Map([["page", { value: 7 }]]))
    }))

  it.effect("log with their path, also from plain code and generators, and one at a time in several runs", () =>
    Effect.gen(function*() {
      const log = LogMemory.make()
      const printed: Array<readonly [string | undefined, string | undefined]> = []
      const print = () => {
        printed.push([RunningJob.service(CurrentStep), RunningJob.service(CurrentJob)?.id])
      }
      const pipeline = Pipeline.make("p", { input: Schema.Array(Schema.Number) })
        .forEach("each", async (n) => {
          await Promise.resolve()
          print()
          return n
        })
        .stream("tokens", async function*() {
          yield "a"
          await Promise.resolve()
          print()
        })
        .step("logs", () => Effect.as(Effect.logInfo("hello"), 1))
        .step("fails", () => Promise.reject(new Error("broken")))
        .end(Schema.Unknown)
      yield* PipelineTest.run(pipeline, [1, 2]).pipe(Effect.provide(log.layer))
      expect(printed).toEqual(["each[0]", "each[1]", "tokens"].map((step) => [step, expect.any(String)]))
      expect(log.lines).toMatchObject([
        { message: "hello", step: "logs" },
        { message: expect.stringContaining("broken"), step: "fails" }
      ])
      expect(RunningJob.service(CurrentStep)).toBeUndefined()
    }))

  it.effect("use services of the test's layers", () => {
    class Greeting extends Context.Service<Greeting, string>()("test/Greeting") {}
    const pipeline = Pipeline.make("p", { input: Schema.String })
      .step("greet", (name) => Effect.map(Greeting, (greeting) => `${greeting} ${name}`))
      .end(Schema.String)
    return Effect.gen(function*() {
      expect((yield* PipelineTest.run(pipeline, "Ada")).output).toBe("Hello Ada")
    }).pipe(Effect.provideService(Greeting, "Hello"))
  })

  it.effect("pass values through their Schema, otherwise as JSON, and no value as undefined", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("p", { input: Schema.Date })
        .step("later", (date) => new Date(date.getTime() + 1), { output: Schema.Date })
        .step("drop", (): { a: number; b?: number | undefined } => ({ a: 1, b: undefined }))
        .step("nothing", () => {})
        .step("all", (nothing, { drop, later }) => [nothing === undefined, Object.keys(drop).join(), later.getTime()])
        .end(Schema.Unknown)
      expect((yield* PipelineTest.run(pipeline, new Date(1))).output).toEqual([true, "a", 2])
    }))

  it.effect("run again after a failure, with a backoff, until the last attempt", () =>
    Effect.gen(function*() {
      const attempts: Array<number> = []
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("flaky", (n, _, { attempt }) => {
          attempts.push(attempt)
          if (attempt <= n) throw new Error(`no ${attempt}`)
          return attempt
        }, { retry: 2 })
        .end(Schema.Number)
      const run = yield* PipelineTest.start(pipeline, 2)
      yield* run.parked("flaky")
      yield* TestClock.adjust("999 millis")
      expect(attempts).toEqual([1])
      yield* TestClock.adjust("1 millis")
      yield* run.parked("flaky")
      yield* TestClock.adjust("2 seconds")
      expect(yield* run.result).toMatchObject({ status: "COMPLETED", output: 3 })
      expect(attempts).toEqual([1, 2, 3])

      const failing = yield* PipelineTest.start(pipeline, 3)
      yield* failing.parked("flaky")
      yield* TestClock.adjust("1 second")
      yield* failing.parked("flaky")
      yield* TestClock.adjust("2 seconds")
      const failed = yield* failing.result
      expect(failed).toMatchObject({ status: "FAILED", error: "The step \"flaky\" failed: no 3" })
      expect(paths(failed.entries)).toEqual([
        "failed flaky~1",
        "sleep flaky~2~0",
        "end flaky~2~0",
        "failed flaky~2",
        "sleep flaky~3~0",
        "end flaky~3~0",
        "failed flaky"
      ])
    }))

  it.effect("fail when an attempt takes too long, and their signal is aborted", () =>
    Effect.gen(function*() {
      const began = Deferred.makeUnsafe<void>()
      let aborted = false
      const pipeline = Pipeline.make("p", { input: Schema.Null })
        .step("slow", (_value, _results, { signal }) => {
          signal.addEventListener("abort", () => {
            aborted = true
          })
          Deferred.doneUnsafe(began, Effect.void)
          return new Promise<void>(() => {})
        }, { timeout: "5 seconds" })
        .end(Schema.Unknown)
      const run = yield* PipelineTest.start(pipeline, null)
      yield* Deferred.await(began)
      yield* TestClock.adjust("5 seconds")
      expect(yield* run.result).toMatchObject({ status: "FAILED", error: "The step \"slow\" failed: It took longer than 5s." })
      expect(aborted).toBe(true)
    }))

  it.effect("fail the run when its input or its output does not fit", () =>
    Effect.gen(function*() {
      const Positive = Schema.Number.check(Schema.isGreaterThan(0))
      const pipeline = Pipeline.make("p", { input: Schema.Number }).step("a", (n) => n).end(Positive)
      const result = yield* PipelineTest.run(pipeline, -1)
      expect(result.status).toBe("FAILED")
      expect(result.error).toContain("The step \"end\" failed: The output does not fit")
    }))
})

describe("jobs", () => {
  it.effect("run handlers, functions and pipelines, and report their failures", () =>
    Effect.gen(function*() {
      const inner = Pipeline.make("inner", { input: Schema.Number }).step("one", (n) => n + 1).run("twice", Double).end(
        Schema.Number
      )
      const pipeline = Pipeline.make("p", { input: Schema.Number }).run("inner", inner).run("double", Double).end(Schema.Number)
      const endpoints = { inner, double: Double }
      expect(yield* PipelineTest.run(pipeline, 1, { endpoints })).toMatchObject({ status: "COMPLETED", output: 8 })

      const failing = {
        inner,
        double: () => {
          throw new Error("out of order")
        }
      }
      expect((yield* PipelineTest.run(pipeline, 1, { endpoints: failing })).error).toBe(
        "The step \"inner\" failed: The step \"twice\" failed: out of order"
      )
      expect((yield* PipelineTest.run(pipeline, 1)).error).toContain("The test has no endpoint \"inner\"")
    }))

  it.effect("have the priority and the tags of their node, if it has any", () =>
    Effect.gen(function*() {
      const urgent = { priority: 7, tags: ["urgent"] }
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .run("one", Double, urgent)
        .run("two", Double)
        .select(({ one, two }) => [one, two])
        .forEach("each", Double, { ...urgent, concurrency: 1 })
        .end(Schema.Array(Schema.Number))
      const spawned: Array<unknown> = []
      yield* PipelineTest.run(pipeline, 1, {
        endpoints: { double: Double },
        crash: ({ body, kind, path }, when) => {
          if (kind === "spawn" && when === "before") spawned.push([path, body])
          return false
        }
      })
      expect(spawned).toEqual([
        ["one", { endpoint: "double", input: 1, ...urgent }],
        ["two", { endpoint: "double", input: 2 }],
        ["each[0]", { endpoint: "double", input: 2, ...urgent }],
        ["each[1]", { endpoint: "double", input: 4, ...urgent }]
      ])
      const make = () => Pipeline.make("p", { input: Schema.Number }).run("one", Double, { priority: 1.5 })
      expect(make).toThrow("the priority of \"one\" is 1.5, but must be an integer from -1000 to 1000.")
    }))

  it.effect("are retried as new jobs, and end after their timeout", () =>
    Effect.gen(function*() {
      let jobs = 0
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .run("double", Double, { retry: { times: 1, delay: "10 seconds" }, timeout: "1 minute" })
        .end(Schema.Number)
      const endpoints = { double: () => ++jobs === 1 ? new Promise(() => {}) : 7 }
      const run = yield* PipelineTest.start(pipeline, 1, { endpoints })
      yield* run.parked("double")
      yield* TestClock.adjust("1 minute")
      yield* run.parked("double")
      yield* TestClock.adjust("10 seconds")
      const result = yield* run.result
      expect(result).toMatchObject({ status: "COMPLETED", output: 7 })
      expect(paths(result.entries)).toEqual([
        "spawn double",
        "end double",
        "sleep double~2~0",
        "end double~2~0",
        "spawn double~2",
        "end double~2"
      ])
    }))
})

describe("lists, parts and choices", () => {
  it.effect("runs the items of a list with bounded concurrency, and keeps their order", () =>
    Effect.gen(function*() {
      let running = 0
      let most = 0
      const pipeline = Pipeline.make("p", { input: Schema.Int })
        .step("list", (n) => Array.from({ length: n }, (_, index) => index))
        .forEach("square", (n) =>
          Effect.gen(function*() {
            most = Math.max(most, ++running)
            yield* Effect.yieldNow
            running--
            return n * n
          }), { concurrency: 3 })
        .end(Schema.Array(Schema.Number))
      const result = yield* PipelineTest.run(pipeline, 20)
      expect(result.output).toEqual(Array.from({ length: 20 }, (_, n) => n * n))
      expect(most).toBe(3)
      expect((yield* PipelineTest.run(pipeline, 0)).output).toEqual([])
    }))

  it.effect("runs a job per item and fails with the first item that fails", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("p", { input: Schema.Array(Schema.Number) }).forEach("double", Double).end(
        Schema.Array(Schema.Number)
      )
      const ok = yield* PipelineTest.run(pipeline, [1, 2, 3], { endpoints: { double: Double } })
      expect(ok.output).toEqual([2, 4, 6])
      const endpoints = {
        double: (n: Schema.Json) => {
          if (n === 2) throw new Error("two")
          return n
        }
      }
      const failed = yield* PipelineTest.run(pipeline, [1, 2, 3], { endpoints })
      expect(failed.error).toBe("The step \"double[1]\" failed: two")
    }))

  it.effect("runs parts at the same time, and one branch", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .all("parts", {
          a: (p) => p.step("x", (n) => n + 1).run("double", Double),
          b: (p) => p.step("y", (n) => `${n}`)
        })
        .branch("size", ({ parts }) => parts.a > 10 ? "large" : "small", {
          large: (p) => p.step("zip", ({ b }) => `zip ${b}`),
          small: (p) => p.step("plain", ({ b }) => `plain ${b}`)
        })
        .end(Schema.String)
      const result = yield* PipelineTest.run(pipeline, 9, { endpoints: { double: Double } })
      expect(result.output).toBe("zip 9")
      expect(paths(result.entries)).toContain("step size.large.zip")
      expect((yield* PipelineTest.run(pipeline, 1, { endpoints: { double: Double } })).output).toBe("plain 1")
    }))
})

describe("waits", () => {
  it.effect("sleep without a worker, and pass the value through", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("p", { input: Schema.Number }).sleep("cool", "30 days").step("n", (n) => n).end(
        Schema.Number
      )
      const run = yield* PipelineTest.start(pipeline, 7)
      yield* run.parked("cool")
      yield* TestClock.adjust("29 days")
      yield* run.parked("cool")
      yield* TestClock.adjust("1 day")
      expect(yield* run.result).toMatchObject({ output: 7, activations: 2 })
    }))

  const Approval = Pipeline.make("p", { input: Schema.String })
    .step("ask", (name) => `ask ${name}`)
    .waitFor("approved", Schema.Struct({ by: Schema.String }), { key: ({ input }) => input, timeout: "7 days" })
    .step("done", ({ by }) => by)
    .end(Schema.String)

  it.effect("receive an event with their name and key, even one that arrived first", () =>
    Effect.gen(function*() {
      const run = yield* PipelineTest.start(Approval, "x")
      yield* run.event("approved", { key: "y", data: { by: "Eve" } })
      yield* run.parked("approved")
      yield* run.event("approved", { key: "x", data: { by: "Ada" } })
      yield* run.event("approved", { key: "x", data: { by: "Bob" } })
      expect((yield* run.result).output).toBe("Ada")

      const early = yield* PipelineTest.start(Approval, "x")
      yield* early.event("approved", { key: "x", data: { by: "Cid" } })
      expect((yield* early.result).output).toBe("Cid")
    }))

  it.effect("fail at an event whose data does not fit, with the way out in the message", () =>
    Effect.gen(function*() {
      const run = yield* PipelineTest.start(Approval, "x")
      yield* run.event("approved", { key: "x", data: { from: "Ada" } })
      const { entries, error } = yield* run.result
      expect(error).toBe(
        "The step \"approved\" failed: The data of the event \"approved\" does not fit: Missing key\n  at [\"by\"]. " +
          `Run \`stint jobs retry p ${run.id} --from approved\`, and send the event again.`
      )
      // A retry forgets this event because of the failure at `~0`.
      expect(paths(entries)).toEqual(["step ask", "wait approved", "event approved", "failed approved~0"])

      const undone = Pipeline.make("p", { input: Schema.String })
        .step("ask", (name) => name, { undo: () => {} })
        .waitFor("approved", Schema.Boolean)
        .end(Schema.Boolean)
      const other = yield* PipelineTest.start(undone, "x")
      yield* other.event("approved", { data: 7 })
      const end = yield* other.result
      expect(end.error).toMatch(/^The step "approved" failed: The data of the event "approved" does not fit: Expected boolean$/)
      expect(paths(end.entries).slice(3)).toEqual(["failed approved~0", "undo ask~undo"])
    }))

  it.effect("fail after their timeout, unless they have a value for that case", () =>
    Effect.gen(function*() {
      const run = yield* PipelineTest.start(Approval, "x")
      yield* run.parked("approved")
      yield* TestClock.adjust("7 days")
      expect((yield* run.result).error).toBe("The step \"approved\" failed: No event \"approved\" arrived within 7d.")

      const pipeline = Pipeline.make("p", { input: Schema.String })
        .waitFor("go", Schema.Boolean, { timeout: "1 hour", onTimeout: () => false })
        .end(Schema.Boolean)
      const other = yield* PipelineTest.start(pipeline, "x")
      yield* other.parked("go")
      yield* TestClock.adjust("1 hour")
      expect(yield* other.result).toMatchObject({ status: "COMPLETED", output: false })
    }))
})

describe("streams", () => {
  it.effect("send their chunks as chunks of the run, and collect them", () =>
    Effect.gen(function*() {
      const Words = Handler.makeStream("words", {
        input: Schema.String,
        output: Schema.String,
        run: (text) => Stream.fromIterable(text.split(" "))
      })
      const pipeline = Pipeline.make("p", { input: Schema.String })
        .stream("words", Words)
        .stream("lengths", async function*(words) {
          for (const word of words) yield word.length
        })
        .stream("sum", (lengths) => Stream.fromIterable(lengths).pipe(Stream.map((n) => n * 10)))
        .end(Schema.Array(Schema.Number))
      const result = yield* PipelineTest.run(pipeline, "a bc")
      expect(result.output).toEqual([10, 20])
      expect(result.chunks).toEqual(["a", "bc", 1, 2, 10, 20])
    }))

  it.effect("begin again after a crash, and do not send a chunk twice", () =>
    Effect.gen(function*() {
      let crashed = false
      const pipeline = Pipeline.make("p", { input: Schema.Null })
        .stream("first", async function*() {
          yield "a"
        })
        .stream("count", async function*() {
          yield 1
          yield 2
          if (!crashed) {
            crashed = true
            throw new Error("broken pipe")
          }
          yield 3
        }, { retry: { times: 1, delay: 0 } })
        .end(Schema.Unknown)
      const run = yield* PipelineTest.start(pipeline, null)
      yield* run.parked("count")
      yield* TestClock.adjust(1)
      const result = yield* run.result
      // The wait before the second attempt has parked the run, so another activation continues the stream.
      expect(result.activations).toBeGreaterThan(1)
      expect(result.output).toEqual([1, 2, 3])
      expect(result.chunks).toEqual(["a", 1, 2, 3])
    }))
})

describe("compensation", () => {
  /** Reserves, charges, mails two people and waits; then it fails. */
  const make = (log: Array<string>, isBroken: () => boolean = () => false) =>
    Pipeline.make("p", { input: Schema.Number })
      .step("reserve", (seat) => seat, {
        undo: (seat, { path }) => {
          if (isBroken()) throw new Error("closed")
          log.push(`${path} ${seat}`)
        }
      })
      .run("charge", Double, { undo: (amount) => Effect.sync(() => void log.push(`refund ${amount}`)) })
      .select(() => ["ada", "bob"])
      .forEach("mail", (to) => `to ${to}`, { concurrency: 1, undo: (mail) => void log.push(`sorry ${mail}`) })
      .waitFor("go", Schema.Boolean)
      .step("ship", () => {
        throw new Error("no truck")
      })
      .end(Schema.Unknown)

  const endpoints = { double: Double }

  it.effect("undoes what is recorded in reverse order when a step fails", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const run = yield* PipelineTest.start(make(log), 4, { endpoints })
      yield* run.event("go", { data: true })
      const result = yield* run.result
      expect(result).toMatchObject({ status: "FAILED", error: "The step \"ship\" failed: no truck" })
      expect(log).toEqual(["sorry to bob", "sorry to ada", "refund 8", "reserve~undo 4"])
      expect(paths(result.entries).slice(-4)).toEqual([
        "undo mail[1]~undo",
        "undo mail[0]~undo",
        "undo charge~undo",
        "undo reserve~undo"
      ])
    }))

  it.effect("runs the compensations when a caller cancels, and the run ends as CANCELLED", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const run = yield* PipelineTest.start(make(log), 4, { endpoints })
      yield* run.parked("go")
      yield* run.cancel
      expect(yield* run.result).toMatchObject({ status: "CANCELLED", error: undefined })
      expect(log).toEqual(["sorry to bob", "sorry to ada", "refund 8", "reserve~undo 4"])
    }))

  it.effect("does each compensation once even if the worker is killed after each", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const run = yield* PipelineTest.start(make(log), 4, {
        endpoints,
        crash: ({ kind }, when) => kind === "undo" && when === "after"
      })
      yield* run.event("go", { data: true })
      expect((yield* run.result).status).toBe("FAILED")
      expect(log).toEqual(["sorry to bob", "sorry to ada", "refund 8", "reserve~undo 4"])
    }))

  it.effect("names what is not undone", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const run = yield* PipelineTest.start(make(log, () => true), 4, { endpoints })
      yield* run.event("go", { data: true })
      for (const seconds of [1, 2, 4]) {
        yield* run.parked("reserve~undo")
        yield* TestClock.adjust(seconds * 1000)
      }
      expect((yield* run.result).error).toBe(
        "The step \"ship\" failed: no truck. Not undone: reserve. The undo of \"reserve\" failed: closed"
      )
    }))

  it.effect("runs an endpoint as a compensation", () =>
    Effect.gen(function*() {
      const given: Array<Schema.Json> = []
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("reserve", (n) => n, { undo: Double })
        .step("fail", () => Effect.fail("no"))
        .end(Schema.Unknown)
      const result = yield* PipelineTest.run(pipeline, 3, { endpoints: { double: (n: Schema.Json) => given.push(n) } })
      expect(result.status).toBe("FAILED")
      expect(given).toEqual([3])
      expect(paths(result.entries).slice(-3)).toEqual(["spawn reserve~undo", "end reserve~undo", "undo reserve~undo"])
    }))
})

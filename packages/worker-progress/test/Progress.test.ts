import { describe, expect, it } from "@effect/vitest"
import { Handler, RunningJob } from "@stint/worker"
import { JobSourceMemory, LogMemory, WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Progress } from "../src/index.ts"
import { inMemory } from "./ProgressWorker.ts"

const { Memory } = JobSourceMemory

/** Reports a number at each of these times and ends at the last one. */
const reporter = (times: ReadonlyArray<number>, end: Effect.Effect<unknown> = Effect.succeed("done")) =>
  Handler.make("reporter", {
    input: Schema.Unknown,
    output: Schema.Unknown,
    run: () =>
      Effect.gen(function*() {
        let now = 0
        for (const time of times) {
          if (time > now) yield* Effect.sleep(time - now)
          now = time
          yield* Progress.update(time)
        }
        return yield* end
      })
  })

const slow = (after: number) => ({ after, how: 200 })

// docs/spec/progress.md#reporting-progress, docs/spec/worker-protocol.md#delivering-progress
describe("progress of a job", () => {
  it.effect("is sent while the handler runs, without delaying the handler", () => {
    const { layer, seen } = inMemory(reporter([0, 1_000, 2_000]), { answers: [slow(900), slow(900), slow(900)] })
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.submit({ id: "j1", input: null })
      yield* TestClock.adjust(1_999)
      expect(seen.map(({ at, value }) => [value, at])).toEqual([[0, 0], [1_000, 1_000]])
      yield* TestClock.adjust(5_000)
      expect(seen.at(-1)).toMatchObject({ kind: "done", value: { output: "done" } })
    }).pipe(Effect.provide(layer))
  })

  it.effect("replaces older pending values while one is in flight", () => {
    const { layer, values } = inMemory(reporter([1, 2, 3, 4, 5, 300, 301, 302, 5_000]), {
      answers: [slow(200), slow(500)],
      progress: { interval: 0 }
    })
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(6_000)
      expect(values()).toEqual([1, 5, 302, 5_000])
    }).pipe(Effect.provide(layer))
  })

  it.effect("is sent at most once per interval, the first value immediately", () => {
    const { layer, seen } = inMemory(reporter([0, 10, 20, 99, 150, 160, 1_000, 5_000]))
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(6_000)
      expect(seen.filter(({ kind }) => kind === "progress").map(({ at, value }) => [value, at])).toEqual([
        [0, 0],
        [99, 100],
        [160, 200],
        [1_000, 1_000],
        [5_000, 5_000]
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("has the value at the time of the report, even if the object changes later", () => {
    const { layer, values } = inMemory(
      Handler.fromFunction(async (job) => {
        const state = { done: 1 }
        RunningJob.service(Progress.Progress)?.update(job, state)
        state.done = 2
        RunningJob.service(Progress.Progress)?.update(job, state)
        state.done = 3
        await ended
      })
    )
    let end = () => {}
    const ended = new Promise<void>((resolve) => {
      end = resolve
    })
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(1_000)
      expect(values()).toEqual([{ done: 1 }, { done: 2 }])
      end()
      yield* (yield* Memory).nextDone
    }).pipe(Effect.provide(layer))
  })

  it.effect("of concurrent jobs is sent independently", () => {
    const { layer, seen } = inMemory(reporter([0, 200, 400]), { concurrency: 3, answers: [slow(60_000)] })
    return Effect.gen(function*() {
      for (const id of ["j1", "j2", "j3"]) yield* (yield* Memory).submit({ id, input: null })
      yield* TestClock.adjust(399)
      const of = (id: string) => seen.filter(({ job }) => job === id).map(({ value }) => value)
      expect([of("j1"), of("j2"), of("j3")]).toEqual([[0], [0, 200], [0, 200]])
      yield* TestClock.adjust(2_000)
      expect(seen.filter(({ kind }) => kind === "done")).toHaveLength(3)
    }).pipe(Effect.provide(layer))
  })
})

describe("progress that fails", () => {
  it.effect.each<number | "unreachable">([500, 503, 429, 408, "unreachable"])(
    "with %s is sent four times in total, with a growing backoff and one WARN, without affecting the job",
    (how) => {
      const answers = Array.from({ length: 20 }, () => ({ after: 0, how }))
      const { layer, log, seen } = inMemory(reporter([0], Effect.as(Effect.sleep(60_000), "done")), { answers })
      return Effect.gen(function*() {
        yield* (yield* Memory).submit({ id: "j1", input: null })
        yield* TestClock.adjust(61_000)
        const tries = seen.filter(({ kind }) => kind === "progress").map(({ at }) => at)
        expect(tries).toHaveLength(4)
        const waits = tries.slice(1).map((at, index) => at - (tries[index] ?? 0))
        for (const [index, wait] of waits.entries()) {
          expect(wait).toBeGreaterThanOrEqual(Math.max(100, 50 * 2 ** index))
          expect(wait).toBeLessThanOrEqual(100 * 2 ** index)
        }
        expect(seen.at(-1)).toMatchObject({ kind: "done", value: { output: "done" } })
        expect(log.filter(({ level }) => level === "WARN" || level === "ERROR")).toEqual([
          { level: "WARN", message: expect.stringContaining("Progress could not be sent"), requestId: "j1" }
        ])
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("is replaced by newer progress without shortening the backoff", () => {
    const answers = Array.from({ length: 5 }, () => ({ after: 0, how: 500 }))
    const { layer, seen, values } = inMemory(
      reporter(Array.from({ length: 100 }, (_, index) => index * 100), Effect.as(Effect.sleep(5_000), "done")),
      { answers }
    )
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(4_000)
      expect(new Set(values().slice(0, 6)).size).toBeGreaterThan(4)
      const tries = seen.slice(0, 6).map(({ at }) => at)
      expect((tries[5] ?? 0) - (tries[4] ?? 0)).toBeGreaterThanOrEqual(800)
      yield* TestClock.adjust(20_000)
      expect(values().at(-1)).toBe(9_900)
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([400, 401, 413])("with %i is dropped with one WARN and without a retry; later values are sent", (how) => {
    const { layer, log, values } = inMemory(reporter([0, 1_000, 2_000, 3_000]), {
      answers: [{ after: 0, how }, { after: 0, how }]
    })
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(10_000)
      expect(values()).toEqual([0, 1_000, 2_000, 3_000])
      expect(log.filter(({ level }) => level === "WARN")).toEqual([
        { level: "WARN", message: expect.stringContaining("The platform rejected the progress"), requestId: "j1" }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect.each([404, 409, 410])("with %i is the job's last, without a WARN", (how) => {
    const { layer, log, values } = inMemory(reporter([0, 1_000, 2_000, 3_000]), {
      answers: [{ after: 0, how: 200 }, { after: 0, how }]
    })
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(10_000)
      expect(values()).toEqual([0, 1_000])
      expect(log.filter(({ level }) => level === "WARN" || level === "ERROR")).toEqual([])
      expect(log.filter(({ message }) => message.startsWith("The worker sends no more progress for this job"))).toHaveLength(1)
    }).pipe(Effect.provide(layer))
  })
})

describe("the end of a job", () => {
  it.effect("waits for the value in flight and drops the pending one", () => {
    const { layer, seen } = inMemory(reporter([0, 10]), { answers: [slow(700)] })
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(699)
      expect(seen).toHaveLength(1)
      yield* TestClock.adjust(1)
      expect(seen.map(({ at, kind, value }) => [kind, value, at])).toEqual([
        ["progress", 0, 0],
        ["done", { output: "done" }, 700]
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits at most a second when the platform does not respond", () => {
    const { layer, seen } = inMemory(reporter([0]), { answers: [slow(60_000)] })
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(999)
      expect(seen).toHaveLength(1)
      yield* TestClock.adjust(1)
      expect(seen.at(-1)).toMatchObject({ kind: "done", at: 1_000 })
      yield* TestClock.adjust(120_000)
      expect(seen[0]?.answered).toBeUndefined()
    }).pipe(Effect.provide(layer))
  })

  it.effect("by failure waits for the value in flight before it sends the failure", () => {
    const { layer, seen } = inMemory(reporter([0, 10], Effect.die(new Error("broken"))), { answers: [slow(300)] })
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(5_000)
      expect(seen.map(({ at, kind }) => [kind, at])).toEqual([["progress", 0], ["done", 300]])
      expect(seen[1]?.value).toMatchObject({ error: expect.stringContaining("broken") })
    }).pipe(Effect.provide(layer))
  })

  it.effect("by a stop aborts the value in flight immediately", () => {
    const { layer, seen } = inMemory(reporter([0, 200], Effect.never), { answers: [slow(60_000)] })
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.submit({ id: "j1", input: null })
      yield* TestClock.adjust(50)
      yield* memory.stop("j1")
      yield* TestClock.adjust(0)
      // The slot is freed immediately.
      yield* memory.submit({ id: "j2", input: null })
      yield* TestClock.adjust(0)
      expect(seen.map(({ at, job, kind }) => [kind, job, at])).toEqual([["progress", "j1", 0], ["progress", "j2", 50]])
      yield* TestClock.adjust(120_000)
      expect(seen.filter(({ job }) => job === "j1").map(({ answered }) => answered)).toEqual([undefined])
    }).pipe(Effect.provide(layer))
  })

  it.effect("by a stop is immediate while the result waits for progress", () => {
    const { layer, seen } = inMemory(reporter([0]), { answers: [slow(60_000)], progress: { flushTimeout: "1 hour" } })
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.submit({ id: "j1", input: null })
      yield* TestClock.adjust(50)
      yield* memory.stop("j1")
      yield* memory.submit({ id: "j2", input: null })
      yield* TestClock.adjust(0)
      expect(seen.map(({ job, kind }) => [kind, job])).toEqual([["progress", "j1"], ["progress", "j2"], ["done", "j2"]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("ignores later updates with a DEBUG line", () => {
    let late = () => {}
    const { layer, log, seen } = inMemory(
      Handler.fromFunction((job) => {
        const progress = RunningJob.service(Progress.Progress)
        late = () => progress?.update(job, "late")
        return "done"
      })
    )
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.submit({ id: "j1", input: null })
      yield* memory.nextDone
      late()
      yield* TestClock.adjust(10_000)
      expect(seen.map(({ kind }) => kind)).toEqual(["done"])
      expect(log.filter(({ message }) => message.startsWith("Progress is ignored"))).toEqual([
        { level: "DEBUG", message: expect.stringContaining("has ended"), requestId: "j1" }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("ignores updates that a previous attempt of the job sends", () => {
    let late = () => {}
    const { layer, values } = inMemory(
      Handler.fromFunction((job) => {
        const progress = RunningJob.service(Progress.Progress)
        if (job["attempt"] === 1) {
          late = () => progress?.update(job, "first")
          return null
        }
        progress?.update(job, "second")
        late()
        return new Promise(() => {})
      })
    )
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.submit({ id: "j1", input: null, attempt: 1 })
      yield* memory.nextDone
      yield* memory.submit({ id: "j1", input: null, attempt: 2 })
      yield* TestClock.adjust(10_000)
      expect(values()).toEqual(["second"])
    }).pipe(Effect.provide(layer))
  })
})

describe("an invalid value", () => {
  const circle: Record<string, unknown> = {}
  circle["self"] = circle

  it.effect.each<[string, unknown, RegExp]>([
    ["undefined", undefined, /The progress of job j1 is undefined/],
    ["a function", () => 1, /The progress of job j1 is a function/],
    ["a symbol", Symbol("s"), /The progress of job j1 is a symbol/],
    ["a BigInt", { n: 1n }, /The progress of job j1 cannot be written as JSON: .*BigInt/],
    ["a circle", circle, /The progress of job j1 cannot be written as JSON: .*circular/],
    ["a toJSON that throws", {
      toJSON: () => {
        throw new Error("no text")
      }
    }, /cannot be written as JSON: no text/],
    ["1,000,001 bytes", "ü".repeat(499_999) + "x", /has 1000001 bytes, but the limit is 1000000/]
  ])("such as %s is dropped with one WARN that names the job, and the job continues", ([, value, message]) => {
    const { layer, log, values } = inMemory(
      Handler.make("handler", {
        input: Schema.Unknown,
        output: Schema.Unknown,
        run: () =>
          Effect.gen(function*() {
            yield* Progress.update(value)
            yield* Progress.update(value)
            yield* Progress.update("good")
            return "done"
          })
      })
    )
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* memory.submit({ id: "j1", input: null })
      expect((yield* memory.nextDone).body).toEqual({ output: "done" })
      expect(values()).toEqual(["good"])
      expect(log.filter(({ level }) => level === "WARN")).toEqual([
        { level: "WARN", message: expect.stringMatching(message), requestId: "j1" }
      ])
    }).pipe(Effect.provide(layer))
  })

  it.effect("exceeds the limit in bytes; a value of exactly the limit is valid", () => {
    const { layer, values } = inMemory(
      Handler.make("handler", {
        input: Schema.Unknown,
        output: Schema.Unknown,
        run: () => Effect.andThen(Progress.update("üü"), Effect.andThen(Progress.update("üüx"), Effect.sleep(1_000)))
      }),
      { progress: { maxBytes: 6 } }
    )
    return Effect.gen(function*() {
      yield* (yield* Memory).submit({ id: "j1", input: null })
      yield* TestClock.adjust(5_000)
      expect(values()).toEqual(["üü"])
    }).pipe(Effect.provide(layer))
  })
})

describe("Progress.layerMemory", () => {
  const log = LogMemory.make()

  it.effect("records every value in order and logs invalid values", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(
        Handler.make("handler", {
          input: Schema.Struct({ n: Schema.Int }),
          output: Schema.Int,
          run: ({ n }) =>
            Effect.gen(function*() {
              for (let i = 0; i < n; i++) yield* Progress.update({ i })
              yield* Progress.update(undefined)
              return n
            })
        }),
        { n: 3 },
        { id: "test-1" }
      )
      expect(result).toMatchObject({ status: "COMPLETED", output: 3 })
      expect(yield* Progress.updates).toEqual([0, 1, 2].map((i) => ({ job: "test-1", value: { i } })))
      expect(log.lines.map(({ message }) => message)).toEqual([expect.stringMatching(/^The progress of job test-1 is undefined/)])
    }).pipe(Effect.provide(Layer.provideMerge(Progress.layerMemory, log.layer))))

  it.effect("records values of plain functions", () =>
    Effect.gen(function*() {
      yield* WorkerTest.runJson(
        Handler.fromFunction((job) => RunningJob.service(Progress.Progress)?.update(job, "half")),
        null,
        { id: "test-2" }
      )
      expect(yield* Progress.updates).toEqual([{ job: "test-2", value: "half" }])
    }).pipe(Effect.provide(Progress.layerMemory)))
})

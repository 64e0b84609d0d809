import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as TestClock from "effect/testing/TestClock"
import type { BatchOptions } from "../src/handlers/BatchFunction.ts"
import type { FunctionJob } from "../src/handlers/HandlerFunction.ts"
import { Handler } from "../src/index.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import { job, services, start } from "./MemoryWorker.ts"

/** Runs everything that can run without time passing. */
const settle = TestClock.adjust(0)

/** A handler that records the inputs of each call and waits until the test completes the call. */
const recorded = (options: BatchOptions) => {
  const calls: Array<ReadonlyArray<unknown>> = []
  const signals: Array<AbortSignal> = []
  const answers: Array<(results: unknown) => void> = []
  const handler = Handler.fromBatchFunction((jobs: ReadonlyArray<FunctionJob>, { signal }) => {
    calls.push(jobs.map(({ input }) => input))
    signals.push(signal)
    return new Promise((resolve) => answers.push(resolve))
  }, options)
  return { handler, calls, signals, answer: (results: unknown) => answers.shift()?.(results) }
}

const double = (jobs: ReadonlyArray<{ readonly input: unknown }>) => jobs.map(({ input }) => Number(input) * 2)

const submitAll = Effect.fnUntraced(function*(inputs: ReadonlyArray<number>) {
  const memory = yield* Memory
  for (const input of inputs) yield* memory.submit(job(`j${input}`, input))
})

const results = Effect.fnUntraced(function*(count: number) {
  const memory = yield* Memory
  const done = yield* Effect.replicateEffect(memory.nextDone, count)
  return Object.fromEntries(done.map(({ body, id }) => [id, body]))
})

describe("a handler that receives several jobs at once", () => {
  it.effect("receives at most max jobs in one call, and gives each job its own result", () => {
    const { layer } = services()
    const { answer, calls, handler } = recorded({ max: 3 })
    return Effect.gen(function*() {
      yield* submitAll([1, 2, 3, 4])
      yield* start(handler)
      yield* settle
      expect(calls).toEqual([[1, 2, 3]])
      answer(["a", { error: "no" }, { refresh: 1 }])
      expect(yield* results(3)).toEqual({ j1: { output: "a" }, j2: { error: "no" }, j3: { output: { refresh: 1 } } })
      yield* settle
      expect(calls).toEqual([[1, 2, 3], [4]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("waits for more jobs, but no longer than wait", () => {
    const { layer } = services()
    const { calls, handler } = recorded({ max: 3, wait: 50 })
    return Effect.gen(function*() {
      yield* start(handler)
      yield* submitAll([1])
      yield* TestClock.adjust(49)
      yield* submitAll([2])
      yield* settle
      expect(calls).toEqual([])
      yield* TestClock.adjust(1)
      expect(calls).toEqual([[1, 2]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("collects the jobs that arrive while a batch runs, and runs one batch at a time", () => {
    const { layer } = services()
    const { answer, calls, handler } = recorded({ max: 3 })
    return Effect.gen(function*() {
      yield* start(handler)
      yield* submitAll([1])
      yield* settle
      yield* submitAll([2, 3])
      yield* TestClock.adjust("1 minute")
      expect(calls).toEqual([[1]])
      answer(["one"])
      expect(yield* results(1)).toEqual({ j1: { output: "one" } })
      yield* settle
      expect(calls).toEqual([[1], [2, 3]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("fails only the bad job when the handler throws, and when a result is an Error", () => {
    const { layer } = services()
    const handler = Handler.fromBatchFunction(async (jobs: ReadonlyArray<FunctionJob>) => {
      if (jobs.some(({ input }) => input === 2)) throw new Error("cannot double 2")
      return jobs.map(({ input }) => input === 4 ? new Error("cannot double 4") : Number(input) * 2)
    }, { max: 4 })
    return Effect.gen(function*() {
      yield* submitAll([1, 2, 3, 4])
      yield* start(handler)
      const done = yield* results(4)
      expect(done).toMatchObject({ j1: { output: 2 }, j3: { output: 6 } })
      expect(JSON.stringify(done["j2"])).toContain("cannot double 2")
      expect(JSON.stringify(done["j4"])).toContain("cannot double 4")
    }).pipe(Effect.provide(layer))
  })

  it.effect("fails all jobs of a call that returns no array, or an array of the wrong length, and names both lengths", () => {
    const { layer } = services()
    const wrong: Array<unknown> = [["only one"], { output: 1 }]
    const handler = Handler.fromBatchFunction(() => wrong.shift(), { max: 2 })
    return Effect.gen(function*() {
      yield* submitAll([1, 2])
      yield* start(handler)
      const first = yield* results(2)
      expect(JSON.stringify(first["j1"])).toContain("returned an array of 1 for a batch of 2")
      expect(JSON.stringify(first["j2"])).toContain("one result for each job")
      yield* submitAll([3])
      expect(JSON.stringify((yield* results(1))["j3"])).toContain("returned object for a batch of 1")
    }).pipe(Effect.provide(layer))
  })

  it.effect("drops a job that is stopped while it waits, and aborts the signal when all jobs of a call are stopped", () => {
    const { layer, log } = services()
    const { answer, calls, handler, signals } = recorded({ max: 2, wait: 50 })
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(handler)
      yield* submitAll([1])
      yield* settle
      yield* memory.stop("j1")
      yield* settle
      yield* submitAll([2, 3])
      yield* settle
      expect(calls).toEqual([[2, 3]])
      yield* memory.stop("j2")
      yield* settle
      expect(signals[0]?.aborted).toBe(false)
      yield* memory.stop("j3")
      yield* settle
      expect(signals[0]?.aborted).toBe(true)
      yield* submitAll([4])
      yield* TestClock.adjust(1_999)
      expect(calls.length).toBe(1)
      yield* TestClock.adjust(51)
      expect(calls).toEqual([[2, 3], [4]])
      expect(log.map(({ message }) => message).join("\n")).toContain("after all jobs of its batch were stopped")
      answer(["too late", "too late"])
      answer(["four"])
      expect(yield* results(1)).toEqual({ j4: { output: "four" } })
    }).pipe(Effect.provide(layer))
  })

  it.effect("starts the next batch once a job that hung while it ran alone has been stopped", () => {
    const { layer } = services()
    const calls: Array<ReadonlyArray<unknown>> = []
    const handler = Handler.fromBatchFunction(async (jobs: ReadonlyArray<FunctionJob>) => {
      calls.push(jobs.map(({ input }) => input))
      if (jobs.length > 1) throw new Error("too many")
      return jobs.some(({ input }) => input === 2) ? new Promise(() => {}) : double(jobs)
    }, { max: 2 })
    return Effect.gen(function*() {
      const memory = yield* Memory
      yield* start(handler)
      yield* submitAll([1, 2])
      expect(yield* results(1)).toEqual({ j1: { output: 2 } })
      yield* memory.stop("j2")
      yield* settle
      yield* submitAll([3])
      yield* TestClock.adjust(2_050)
      expect(yield* results(1)).toEqual({ j3: { output: 6 } })
      expect(calls).toEqual([[1, 2], [1], [2], [3]])
    }).pipe(Effect.provide(layer))
  })

  it("rejects sizes and waits that are out of range", () => {
    for (
      const options of [{ max: 0 }, { max: 1.5 }, { max: 1_001 }, { max: Number.NaN }, { max: 2, wait: -1 }, {
        max: 2,
        wait: 60_001
      }]
    ) {
      expect(() => Handler.fromBatchFunction(double, options)).toThrow(/batch\.(?:max|wait) must be/)
    }
  })
})

// The negative type tests below are reported by the Effect language service as well as by the compiler.
// @effect-diagnostics missingLayerContext:off missingEffectContext:off
import { describe, expect, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Outcome } from "../src/handlers/Outcome.ts"
import { CurrentJob, Handler, JobMiddleware, Worker } from "../src/index.ts"
import { Memory } from "../src/testing/JobSourceMemory.ts"
import * as WorkerTest from "../src/testing/WorkerTest.ts"
import { job, services, start } from "./MemoryWorker.ts"

const one = Handler.fromFunction(() => 1)

/** The uses that one job records. The middleware provides a separate list for each job. */
class Tally extends Context.Service<Tally, Array<string>>()("test/JobMiddleware/Tally") {}

/** A service that the worker's layers provide. */
class Ledger extends Context.Service<Ledger, Array<string>>()("test/JobMiddleware/Ledger") {}

/** Gives each job a tally and writes it into the ledger when the job has ended. */
const tally = JobMiddleware.provides(Tally, (next, job) => {
  const used: Array<string> = []
  return Effect.ensuring(
    next(job, used),
    Effect.flatMap(Ledger, (ledger) => Effect.sync(() => void ledger.push(`${job.id}: ${used.join()}`)))
  )
})

const Counting = Handler.make("counting", {
  input: Schema.String,
  output: Schema.Number,
  run: (word) => Effect.map(Tally, (used) => used.push(word))
})

describe("the middleware list", () => {
  it.effect("wraps every run with the first one outermost and can change the outcome", () =>
    Effect.gen(function*() {
      const events: Array<string> = []
      const trace = (name: string) =>
        JobMiddleware.make((next, job) =>
          Effect.sync(() => void events.push(`${name} before ${job.id}`)).pipe(
            Effect.andThen(next(job)),
            Effect.tap(() => Effect.sync(() => void events.push(`${name} after`)))
          )
        )
      const list = JobMiddleware.make((next, job) =>
        Effect.map(next(job), (outcome): Outcome => ({ ...outcome, output: [outcome.output] }))
      )
      const middleware = [trace("outer"), trace("inner"), list] as const
      const result = yield* WorkerTest.runJson(one, null, { id: "j1" }, { middleware })
      expect(result.output).toEqual([1])
      expect(events).toEqual(["outer before j1", "inner before j1", "inner after", "outer after"])
    }))

  it.live("keeps its order, however long the setup of each middleware takes", () =>
    Effect.gen(function*() {
      const events: Array<string> = []
      const slow = (name: string, millis: number) =>
        JobMiddleware.unwrap(Effect.as(
          Effect.sleep(millis),
          JobMiddleware.make((next, job) => {
            events.push(name)
            return next(job)
          })
        ))
      yield* WorkerTest.runJson(one, null, {}, { middleware: [slow("first", 30), slow("second", 0), slow("third", 10)] })
      expect(events).toEqual(["first", "second", "third"])
    }))

  it.effect("sets up each middleware once per worker and closes its scope with the worker", () =>
    Effect.gen(function*() {
      const events: Array<string> = []
      const middleware = [JobMiddleware.unwrap(Effect.as(
        Effect.acquireRelease(
          Effect.sync(() => events.push("set up")),
          () => Effect.sync(() => events.push("closed"))
        ),
        JobMiddleware.none
      ))] as const
      const worker = Effect.gen(function*() {
        yield* start(one, { middleware: middleware })
        const memory = yield* Memory
        for (const id of ["j1", "j2"]) {
          yield* memory.submit(job(id))
          yield* memory.nextDone
        }
        events.push("done")
      })
      yield* Effect.provide(Effect.scoped(worker), services().layer)
      expect(events).toEqual(["set up", "done", "closed"])
    }))
})

describe("a middleware", () => {
  it.effect("can replace the job, which the handler receives as its argument and as CurrentJob", () =>
    Effect.gen(function*() {
      const Double = Handler.make("double", {
        input: Schema.Struct({ n: Schema.Number }),
        output: Schema.Struct({ twice: Schema.Number, current: Schema.Json }),
        run: ({ n }) => Effect.map(CurrentJob, ({ input }) => ({ twice: 2 * n, current: input }))
      })
      const middleware = [JobMiddleware.make((next, job) => next({ ...job, input: { n: 4 } }))] as const
      expect((yield* WorkerTest.runJson(Double, { n: 1 }, {}, { middleware })).output).toEqual({ twice: 8, current: { n: 4 } })
      const plain = Handler.fromFunction((job: { input: unknown }) => job.input)
      expect((yield* WorkerTest.runJson(plain, { n: 1 }, {}, { middleware })).output).toEqual({ n: 4 })
    }))

  it.effect("fails the job when it throws, like a handler that throws", () =>
    Effect.gen(function*() {
      const throwing = JobMiddleware.make(() => {
        throw new RangeError("far")
      })
      const result = yield* WorkerTest.runJson(one, null, {}, { middleware: [throwing] })
      expect(JSON.parse(result.error ?? "")).toMatchObject({ error_type: "RangeError", error_message: "far" })
    }))

  it.effect("can return an outcome without running the handler", () =>
    Effect.gen(function*() {
      const refuse = JobMiddleware.make(() => Effect.succeed({ error: "no" }))
      const result = yield* WorkerTest.runJson(one, null, {}, { middleware: [refuse] })
      expect(result).toMatchObject({ status: "FAILED", error: "no" })
    }))

  it.effect("provides each job with its own service, which inner middleware can use too", () =>
    Effect.gen(function*() {
      const ledger: Array<string> = []
      const inner = JobMiddleware.make((next, job) =>
        Effect.flatMap(Tally, (used) => {
          used.push("inner")
          return next(job)
        })
      )
      for (const id of ["j1", "j2"]) {
        yield* WorkerTest.run(Counting, "word", { id }, { middleware: [tally, inner] }).pipe(
          Effect.provideService(Ledger, ledger)
        )
      }
      expect(ledger).toEqual(["j1: inner,word", "j2: inner,word"])
    }))
})

describe("the types of the middleware list", () => {
  const accept = (_: Layer.Layer<never, never, Worker.Services>) => {}
  const acceptLedger = (_: Layer.Layer<never, never, Worker.Services | Ledger>) => {}
  const needsTally = JobMiddleware.make((next, job) => Effect.andThen(Tally, next(job)))

  it("accept a worker whose list provides what its handler and its inner middleware need", () => {
    acceptLedger(Worker.layer(Counting, { middleware: [tally] }))
    acceptLedger(Worker.layer(Counting, { middleware: [tally, needsTally] }))
    accept(Worker.layer(one))
    accept(Worker.layer(one, { middleware: [JobMiddleware.none] }))
  })

  it("reject a worker without the middleware that its handler needs", () => {
    // @ts-expect-error The handler needs Tally, and no middleware provides it.
    acceptLedger(Worker.layer(Counting))
    // @ts-expect-error The same, with another middleware.
    acceptLedger(Worker.layer(Counting, { middleware: [JobMiddleware.none] }))
    // @ts-expect-error A list whose length is unknown may be empty.
    acceptLedger(Worker.layer(Counting, { middleware: [tally].slice() }))
  })

  it("reject a middleware outside the one that it needs", () => {
    // @ts-expect-error needsTally is the outermost, so no middleware provides Tally to it.
    acceptLedger(Worker.layer(one, { middleware: [needsTally, tally] }))
  })

  it("reject a worker without the layer that a middleware needs", () => {
    // @ts-expect-error The middleware needs Ledger.
    accept(Worker.layer(Counting, { middleware: [tally] }))
  })

  it("reject a middleware that claims to provide more than it does", () => {
    // @ts-expect-error `none` provides nothing.
    const claim: JobMiddleware.JobMiddleware<Tally> = JobMiddleware.none
    expect(claim).toBe(JobMiddleware.none)
  })

  it("reject a middleware that does not give `next` its service", () => {
    // @ts-expect-error `next` takes the service.
    expect(JobMiddleware.provides(Tally, (next, job) => next(job))).toBeDefined()
  })
})

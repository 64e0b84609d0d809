import { describe, expect, it } from "@effect/vitest"
import { CurrentJob, Handler, JobMiddleware } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import { Validator } from "../src/index.ts"

const rules = {
  prompt: { type: "str", required: true },
  width: { type: "int", default: 512, constraints: (width) => width % 8 === 0 || "must be a multiple of 8" }
} as const satisfies Validator.Rules

const validated = Layer.provideMerge(Validator.layer(rules), JobMiddleware.layer)

const echo = Handler.fromFunction((job) => job.input)

describe("Validator.layer", () => {
  it.effect("the handler gets the input with its defaults", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.runJson(echo, { prompt: "a" })
      expect(result).toMatchObject({ status: "COMPLETED", output: { prompt: "a", width: 512 } })
    }).pipe(Effect.provide(validated)))

  it.effect("CurrentJob has the same input, and all that the job came with", () =>
    Effect.gen(function*() {
      const handler = Handler.make("current", {
        input: Schema.Struct({ prompt: Schema.String, width: Schema.Int }),
        output: Schema.Unknown,
        run: (input) => Effect.map(CurrentJob, (job) => ({ input, job }))
      })
      const result = yield* WorkerTest.runJson(handler, { prompt: "a" }, { id: "j1", traceparent: "t" })
      const input = { prompt: "a", width: 512 }
      expect(result.output).toEqual({ input, job: { id: "j1", traceparent: "t", input } })
    }).pipe(Effect.provide(validated)))

  it.effect("a job whose input does not fit fails with all that is wrong, and its handler does not run", () =>
    Effect.gen(function*() {
      const ran: Array<unknown> = []
      const result = yield* WorkerTest.runJson(Handler.fromFunction((job) => ran.push(job)), { width: 13, promt: "a" })
      expect(result).toMatchObject({
        status: "FAILED",
        output: undefined,
        error: "The input does not fit. prompt is a required input (a string). width does not meet the constraints "
          + "(must be a multiple of 8): got 13. Unexpected input. promt is not a valid input option. Did you mean \"prompt\"?"
      })
      expect(ran).toEqual([])
    }).pipe(Effect.provide(validated)))

  it.effect("the empty input is answered, with the keys that it lacks", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.runJson(echo, {})
      expect(result.error).toBe("The input does not fit. prompt is a required input (a string).")
    }).pipe(Effect.provide(validated)))

  it.effect("streaming handlers get validated input, too", () =>
    Effect.gen(function*() {
      const handler = Handler.fromFunction(function*(job) {
        yield job.input
      })
      expect((yield* WorkerTest.runJson(handler, { prompt: "a" })).chunks).toEqual([{ prompt: "a", width: 512 }])
      expect(yield* WorkerTest.runJson(handler, {})).toMatchObject({ status: "FAILED", chunks: [] })
    }).pipe(Effect.provide(validated)))

  it.effect("what was added after it sees the validated input, what was added before sees what came", () => {
    const seen: Array<unknown> = []
    const look = JobMiddleware.layerOf((next, job) => {
      seen.push(job.input)
      return next(job)
    })
    return WorkerTest.runJson(echo, { prompt: "a" }).pipe(
      Effect.andThen(Effect.sync(() => expect(seen).toEqual([{ prompt: "a" }, { prompt: "a", width: 512 }]))),
      Effect.provide(
        Layer.fresh(look).pipe(
          Layer.provideMerge(Validator.layer(rules)),
          Layer.provideMerge(look),
          Layer.provideMerge(JobMiddleware.layer)
        )
      )
    )
  })

  it.effect("a failed check of one job leaves the next one alone", () =>
    Effect.gen(function*() {
      expect((yield* WorkerTest.runJson(echo, 3)).status).toBe("FAILED")
      expect((yield* WorkerTest.runJson(echo, { prompt: "b", width: 8 })).output).toEqual({ prompt: "b", width: 8 })
    }).pipe(Effect.provide(validated)))

  it.effect("the looking is a span of the job, where there is a tracer", () => {
    const spans: Array<string> = []
    const tracer = Tracer.make({
      span: (options) => {
        spans.push(options.name)
        return new Tracer.NativeSpan(options)
      }
    })
    return WorkerTest.runJson(echo, {}).pipe(
      Effect.andThen(Effect.sync(() => expect(spans).toEqual(["validate"]))),
      Effect.provide(validated),
      Effect.provideService(Tracer.Tracer, tracer)
    )
  })
})

import { describe, expect, it } from "@effect/vitest"
import { CurrentJob, Handler, JobMiddleware } from "@stint/worker"
import type { Runnable } from "@stint/worker/Runnable"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tracer from "effect/Tracer"
import { Validator } from "../src/index.ts"

const rules = {
  prompt: { type: "str", required: true },
  width: { type: "int", default: 512, constraints: (width) => width % 8 === 0 || "must be a multiple of 8" }
} as const satisfies Validator.Rules

const runJson = (handler: Runnable, input: unknown, job: Partial<CurrentJob["Service"]> = {}) =>
  WorkerTest.runJson(handler, input, job, { middleware: [Validator.middleware(rules)] })

const echo = Handler.fromFunction((job) => job.input)

describe("Validator.middleware", () => {
  it.effect("passes the input with its defaults to the handler", () =>
    Effect.gen(function*() {
      const result = yield* runJson(echo, { prompt: "a" })
      expect(result).toMatchObject({ status: "COMPLETED", output: { prompt: "a", width: 512 } })
    }))

  it.effect("puts the same input and the other fields of the job into CurrentJob", () =>
    Effect.gen(function*() {
      const handler = Handler.make("current", {
        input: Schema.Struct({ prompt: Schema.String, width: Schema.Int }),
        output: Schema.Unknown,
        run: (input) => Effect.map(CurrentJob, (job) => ({ input, job }))
      })
      const result = yield* runJson(handler, { prompt: "a" }, { id: "j1", traceparent: "t" })
      const input = { prompt: "a", width: 512 }
      expect(result.output).toEqual({ input, job: { id: "j1", traceparent: "t", input } })
    }))

  it.effect("fails a job with invalid input, lists all problems, and does not run its handler", () =>
    Effect.gen(function*() {
      const ran: Array<unknown> = []
      const result = yield* runJson(Handler.fromFunction((job) => ran.push(job)), { width: 13, promt: "a" })
      expect(result).toMatchObject({
        status: "FAILED",
        output: undefined,
        error: "The input does not fit. prompt is a required input (a string). width does not meet the constraints "
          + "(must be a multiple of 8): got 13. Unexpected input. promt is not a valid input option. Did you mean \"prompt\"?"
      })
      expect(ran).toEqual([])
    }))

  it.effect("names the missing keys of an empty input", () =>
    Effect.gen(function*() {
      const result = yield* runJson(echo, {})
      expect(result.error).toBe("The input does not fit. prompt is a required input (a string).")
    }))

  it.effect("passes validated input to streaming handlers", () =>
    Effect.gen(function*() {
      const handler = Handler.fromFunction(function*(job) {
        yield job.input
      })
      expect((yield* runJson(handler, { prompt: "a" })).chunks).toEqual([{ prompt: "a", width: 512 }])
      expect(yield* runJson(handler, {})).toMatchObject({ status: "FAILED", chunks: [] })
    }))

  it.effect("passes the validated input to later middleware and the original input to earlier middleware", () => {
    const seen: Array<unknown> = []
    const record = JobMiddleware.make((next, job) => {
      seen.push(job.input)
      return next(job)
    })
    return WorkerTest.runJson(echo, { prompt: "a" }, {}, { middleware: [record, Validator.middleware(rules), record] }).pipe(
      Effect.andThen(Effect.sync(() => expect(seen).toEqual([{ prompt: "a" }, { prompt: "a", width: 512 }])))
    )
  })

  it.effect("validates the next job normally after a job with invalid input", () =>
    Effect.gen(function*() {
      expect((yield* runJson(echo, 3)).status).toBe("FAILED")
      expect((yield* runJson(echo, { prompt: "b", width: 8 })).output).toEqual({ prompt: "b", width: 8 })
    }))

  it.effect("records the validation as a span of the job if there is a tracer", () => {
    const spans: Array<string> = []
    const tracer = Tracer.make({
      span: (options) => {
        spans.push(options.name)
        return new Tracer.NativeSpan(options)
      }
    })
    return runJson(echo, {}).pipe(
      Effect.andThen(Effect.sync(() => expect(spans).toEqual(["process handler", "validate"]))),
      Effect.provideService(Tracer.Tracer, tracer)
    )
  })
})

/**
 * Tests that the client decodes what a worker's handler encodes, and vice versa. Both run here and exchange JSON text.
 */
import { describe, expect, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as fc from "fast-check"
import { ofHandler } from "../src/HandlerCodec.ts"

const Value = Schema.Struct({
  url: Schema.URL,
  at: Schema.Date,
  bytes: Schema.Uint8Array,
  many: Schema.Array(Schema.Option(Schema.Int)),
  maybe: Schema.optionalKey(Schema.BigInt)
})

class Refused extends Schema.TaggedError<Refused>()("Refused", { value: Value }) {}

const Echo = Handler.make("echo", {
  input: Schema.Struct({ value: Value, fail: Schema.Boolean }),
  output: Value,
  error: Refused,
  run: ({ fail, value }) => fail ? Effect.fail(new Refused({ value })) : Effect.succeed(value)
})

const Twice = Handler.makeStream("twice", {
  input: Value,
  output: Value,
  aggregate: true,
  run: (value) => Stream.make(value, value)
})

const value = fc.record({
  url: fc.webUrl().map((url) => new URL(url)),
  at: fc.date({ noInvalidDate: true }),
  bytes: fc.uint8Array({ maxLength: 20 }),
  many: fc.array(fc.option(fc.maxSafeInteger(), { nil: undefined }).map(Option.fromUndefinedOr), { maxLength: 5 }),
  maybe: fc.bigInt()
}, { requiredKeys: ["url", "at", "bytes", "many"] })

const overTheWire = (json: unknown): Schema.Json => JSON.parse(JSON.stringify(json))

/** Checks a property whose body is an Effect. */
const forAll = <A>(arbitrary: fc.Arbitrary<A>, body: (a: A) => Effect.Effect<void, unknown>) =>
  Effect.promise(() => fc.assert(fc.asyncProperty(arbitrary, (a) => Effect.runPromise(Effect.orDie(body(a)))), { numRuns: 60 }))

describe("HandlerCodec", () => {
  const echo = ofHandler(Echo)

  it.live("preserves inputs, outputs and declared failures through JSON", () =>
    forAll(fc.record({ value, fail: fc.boolean() }), (input) =>
      Effect.gen(function*() {
        const result = yield* WorkerTest.runJson(Echo, overTheWire(yield* echo.input(input)))
        if (input.fail) {
          expect(result.status).toBe("FAILED")
          const declared = yield* echo.declared(result.error ?? "")
          expect(Option.getOrThrow(declared)).toBeInstanceOf(Refused)
          expect(Option.getOrThrow(declared).value).toEqual(input.value)
        } else {
          expect(yield* echo.output(overTheWire(result.output))).toEqual(input.value)
        }
      })))

  it.live("preserves the chunks of a stream, and its output as a list", () =>
    forAll(value, (input) =>
      Effect.gen(function*() {
        const twice = ofHandler(Twice)
        const { chunks, output } = yield* WorkerTest.runJson(Twice, overTheWire(yield* twice.input(input)))
        expect(yield* twice.output(overTheWire(output))).toEqual([input, input])
        expect(yield* Effect.forEach(chunks, (chunk) => twice.chunk(overTheWire(chunk)))).toEqual([input, input])
      })))

  it.effect("does not decode exceptions or the platform's own errors as declared failures, unless a declared failure is a string", () =>
    Effect.gen(function*() {
      const exception = JSON.stringify({ error_type: "E", error_message: "m", error_traceback: "" })
      for (const error of [exception, "job timed out after 1 retries", "", "null", "{\"_tag\":\"Refused\"}"]) {
        expect(Option.isNone(yield* echo.declared(error))).toBe(true)
      }
      const text = ofHandler(Handler.make("text", {
        input: Schema.String,
        output: Schema.String,
        error: Schema.String,
        run: Effect.succeed
      }))
      expect(yield* text.declared("out of paper")).toEqual(Option.some("out of paper"))
      expect(Option.isNone(yield* text.declared(exception))).toBe(true)
    }))
})

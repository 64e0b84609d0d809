import { describe, expect, expectTypeOf, it } from "@effect/vitest"
import { Handler } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Validator } from "../src/index.ts"

const rules = {
  prompt: { type: "str", required: true },
  width: { type: "int", default: 512, constraints: (width) => width % 8 === 0 || "must be a multiple of 8" },
  seed: { type: "int", required: false },
  images: { type: "list", default: [], items: { type: "dict", rules: { url: { type: "str", required: true } } } }
} as const satisfies Validator.Rules

const Input = Validator.toSchema(rules)

const decode = Schema.decodeUnknownResult(Input, { errors: "all" })

describe("Validator.toSchema", () => {
  it.effect("types the input of a handler and fills in defaults", () =>
    Effect.gen(function*() {
      const handler = Handler.make("echo", {
        input: Input,
        output: Schema.Unknown,
        run: (input) => {
          expectTypeOf(input).toEqualTypeOf<
            { prompt: string; width: number; seed?: number; images: Array<{ url: string }> }
          >()
          return Effect.succeed(input)
        }
      })
      const result = yield* WorkerTest.runJson(handler, { prompt: "a", images: [{ url: "u" }] })
      expect(result).toMatchObject({ status: "COMPLETED", output: { prompt: "a", width: 512, images: [{ url: "u" }] } })
      expect(yield* WorkerTest.run(handler, { prompt: "a", width: 8, images: [] })).toMatchObject({ status: "COMPLETED" })
    }))

  it.effect("reports every problem of a handler's input with its path", () =>
    Effect.gen(function*() {
      const handler = Handler.make("echo", { input: Input, output: Schema.Unknown, run: Effect.succeed })
      const result = yield* WorkerTest.runJson(handler, { promt: "a", width: 13, images: [{}] })
      for (
        const part of [
          "input.prompt: is a required input (a string)",
          "input.width: does not meet the constraints (must be a multiple of 8), got 13",
          "input.images[0].url: is a required input (a string)",
          "input.promt: is not a valid input option (Did you mean \"prompt\"?)"
        ]
      ) expect(result.error).toContain(part)
    }))

  it("reports one error when the parse options ask for the first only", () => {
    const message = (errors: "first" | "all") => {
      const result = Schema.decodeUnknownResult(Input, { errors })({})
      return result._tag === "Failure" ? result.failure.message : ""
    }
    expect(message("first")).toContain("prompt")
    expect(Schema.decodeUnknownResult(Input)({ a: 1, b: 1 })._tag).toBe("Failure")
  })

  it("rejects unknown keys regardless of the parse options", () => {
    expect(Schema.decodeUnknownResult(Input, { onExcessProperty: "ignore" })({ prompt: "a", x: 1 })._tag).toBe("Failure")
  })

  it("bounds the error of a huge invalid input", () => {
    const result = decode({ prompt: "a", images: Array.from({ length: 100_000 }, () => 1) })
    expect(result._tag === "Failure" ? result.failure.message : "").toContain("There are more problems. These are the first 20.")
  })

  it("has the validated input as its type and the input that callers send as its encoded type", () => {
    expectTypeOf<typeof Input["Type"]>().toEqualTypeOf<
      { prompt: string; width: number; seed?: number; images: Array<{ url: string }> }
    >()
    expectTypeOf<typeof Input["Encoded"]>().toEqualTypeOf<
      { prompt: string; width?: number; seed?: number; images?: Array<{ url: string }> }
    >()
    expect(Schema.is(Input)({ prompt: "a" })).toBe(false)
    expect(Schema.is(Input)({ prompt: "a", width: 8, images: [] })).toBe(true)
    expect(Schema.is(Input)({ prompt: "a", width: 13, images: [] })).toBe(false)
  })

  it("has a JSON Schema without the constraints", () => {
    expect(Schema.toJsonSchemaDocument(Input).schema).toEqual({
      type: "object",
      properties: {
        prompt: { type: "string" },
        width: { type: "integer", default: 512 },
        seed: { type: "integer" },
        images: {
          type: "array",
          default: [],
          items: { type: "object", properties: { url: { type: "string" } }, required: ["url"], additionalProperties: false }
        }
      },
      required: ["prompt"],
      additionalProperties: false
    })
    expect(
      Schema.toJsonSchemaDocument(Validator.toSchema({ a: { type: ["str", "int"], default: null } })).schema
    ).toEqual({
      type: "object",
      properties: { a: { type: ["string", "integer", "null"], default: null } },
      additionalProperties: false
    })
  })

  it("works inside other Schemas", () => {
    const Outer = Schema.Struct({ job: Validator.toSchema({ n: { type: "int", default: 1 } }) })
    expect(Schema.decodeUnknownSync(Outer)({ job: {} })).toEqual({ job: { n: 1 } })
    expect(Schema.decodeUnknownResult(Outer, { errors: "all" })({ job: { m: 1 } })).toMatchObject({ _tag: "Failure" })
  })
})

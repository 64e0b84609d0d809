import { expect, expectTypeOf, it } from "@effect/vitest"
import { Validator } from "../src/index.ts"

it("infers the type of each validated field from the rules", () => {
  const result = Validator.validate({ a: "a", b: 1, f: null, g: 1, j: [], k: null }, {
    a: { type: "str", required: true, constraints: (value) => value.startsWith("a") },
    b: { type: Number, required: true, constraints: (value) => value.toFixed() === "1" },
    c: { type: "bool", required: false },
    d: { type: "dict", default: {}, constraints: (value) => value["x"] === undefined },
    e: { type: Object, default: null },
    f: { type: String, nullable: true, required: true },
    g: { type: ["str", "int"], required: true, constraints: (value: string | number) => value !== 0 },
    h: { type: "list", required: false, constraints: (value) => value.length < 3 },
    i: { type: "dict", default: { m: 1 }, rules: { m: { type: "int", required: true }, n: { type: "str", required: false } } },
    j: { type: Array, required: true, items: { type: "list", items: { type: "float", nullable: true } } },
    k: { type: ["str", "None"], required: true },
    l: { type: "null", required: false }
  })
  if (result.errors !== undefined) throw new Error(result.errors.join(" "))
  expectTypeOf(result.validated_input).toEqualTypeOf<{
    a: string
    b: number
    c?: boolean
    d: Record<string, unknown>
    e: Record<string, unknown> | null
    f: string | null
    g: string | number
    h?: Array<unknown>
    i: { m: number; n?: string }
    j: Array<Array<number | null>>
    k: string | null
    l?: null
  }>()
  expect(result.validated_input).toEqual({ a: "a", b: 1, d: {}, e: null, f: null, g: 1, i: { m: 1 }, j: [], k: null })
})

it("narrows a result by its keys or by a check for errors", () => {
  const result = Validator.validate({}, { n: { type: "int", default: 1 } })
  if ("errors" in result) expectTypeOf(result.errors).toEqualTypeOf<ReadonlyArray<string>>()
  else expectTypeOf(result.validated_input).toEqualTypeOf<{ n: number }>()
  expectTypeOf(result.errors ? null : result.validated_input.n).toEqualTypeOf<number | null>()
  expect(Object.keys(result)).toEqual(["validated_input"])
  expect(Object.keys(Validator.validate(1, {}))).toEqual(["errors"])
})

it("rejects contradictory rules at compile time", () => {
  // @ts-expect-error a default of another type
  expect(() => Validator.make({ a: { type: "str", default: 3 } })).toThrow(TypeError)
  // @ts-expect-error a misspelled type
  expect(() => Validator.make({ a: { type: "strr", required: true } })).toThrow(TypeError)
  // @ts-expect-error a constraint for another type
  const wrong = Validator.make({ a: { type: "str", required: true, constraints: (value: number) => value > 0 } })
  expect(wrong.validate({ a: "x" }).errors).toEqual(["a does not meet the constraints: got \"x\"."])
  // @ts-expect-error an element cannot have a default
  expect(() => Validator.make({ a: { type: "list", required: true, items: { type: "str", default: "x" } } })).toThrow(TypeError)
})

it("types the fields of an input with dynamic rules as unknown", () => {
  const rules: Validator.Rules = { n: { type: "int", default: 1 } }
  const result = Validator.validate({}, rules)
  expect(result.validated_input?.["n"]).toBe(1)
})

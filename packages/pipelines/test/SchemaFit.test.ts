/**
 * What fits and what does not, between two JSON Schemas: no false alarms, and a result for recursive ones.
 */
import * as Schema from "effect/Schema"
import { describe, expect, it } from "vitest"
import { exportSchema } from "../src/file/ImportedSchema.ts"
import { elementOf, exactly, listOf, memberOf, misfits, objectOf, oneOf, shapeOf } from "../src/file/SchemaFit.ts"

const found = (given: unknown, taken: unknown): ReadonlyArray<string> =>
  misfits(shapeOf(given), shapeOf(taken)).map(({ message, path }) => `${path}: ${message}`)

interface Expr {
  readonly left: Expr | number
  readonly right: Expr | number
}

/** Expressions such as sums and differences, of numbers or of other expressions. */
const expressions = (leaf: object, ...names: ReadonlyArray<string>) => ({
  $ref: "#/$defs/Expr",
  $defs: {
    Expr: {
      anyOf: [
        leaf,
        ...names.map((name) => ({
          type: "object",
          properties: { kind: { const: name }, left: { $ref: "#/$defs/Expr" }, right: { $ref: "#/$defs/Expr" } },
          required: ["kind", "left", "right"],
          additionalProperties: false
        }))
      ]
    }
  }
})

describe("recursive schemas", () => {
  it("are compared once for each pair", () => {
    const number = { type: "number" }
    expect(found(expressions(number, "add", "mul", "sub"), expressions(number, "add", "mul", "sub"))).toEqual([])
    const text = expressions({ type: "string" }, "add", "mul", "sub")
    expect(found(text, expressions(number, "add", "mul", "sub"))[0]).toContain(": is string, but must be number or object")
  })

  it("do not fit when one of two alternatives was refused because of them", () => {
    // While A is compared with C, B is taken to fit D only because A is taken to fit C, which turns out to be wrong.
    const pair = (leaf: string) => ({
      $defs: {
        Outer: {
          type: "object",
          properties: { inner: { $ref: "#/$defs/Inner" }, leaf: { type: leaf } },
          required: ["inner", "leaf"]
        },
        Inner: { type: "object", properties: { outer: { $ref: "#/$defs/Outer" } } }
      },
      type: "object",
      properties: { first: { $ref: "#/$defs/Outer" }, second: { $ref: "#/$defs/Inner" } }
    })
    const { properties, ...taken } = pair("number")
    const lenient = { ...taken, properties: { ...properties, first: { anyOf: [properties.first, { type: "object" }] } } }
    expect(found(pair("string"), lenient)).toEqual([".second.outer.leaf: is string, but must be number"])
  })

  it("of a Schema fit themselves", () => {
    const Member: Schema.Codec<Expr | number> = Schema.Union([Schema.Finite, Schema.suspend((): Schema.Codec<Expr> => Node)])
    const Node: Schema.Codec<Expr> = Schema.Struct({ left: Member, right: Member })
    expect(found(exportSchema(Node), exportSchema(Node))).toEqual([])
  })
})

describe("the same values, written in another way,", () => {
  it.each([
    ["types and alternatives", { type: ["string", "null"] }, exportSchema(Schema.NullOr(Schema.String))],
    ["an enum and constants", { enum: ["a", "b"] }, { oneOf: [{ const: "a" }, { const: "b" }] }],
    ["a boolean and constants", { type: "boolean" }, { anyOf: [{ const: true }, { const: false }] }],
    ["a boolean and an enum", { type: "boolean" }, { enum: [true, false] }],
    ["types with a boolean", { type: ["boolean", "null"] }, { anyOf: [{ const: true }, { const: false }, { type: "null" }] }]
  ])("fit: %s", (_, given, taken) => {
    expect(found(given, taken)).toEqual([])
  })

  it.each([
    ["a type", { type: ["string", "null"] }, { anyOf: [{ type: "string" }, { type: "number" }] }, "string or null"],
    ["a constant", { enum: ["a", "c"] }, { oneOf: [{ const: "a" }, { const: "b" }] }, "\"a\" or \"c\""],
    ["false", { type: "boolean" }, { const: true }, "boolean"]
  ])("do not fit without %s", (_, given, taken, is) => {
    expect(found(given, taken)[0]).toContain(`: is ${is}, but must be `)
  })
})

describe("an object whose names have a pattern", () => {
  const record = exportSchema(Schema.Record(Schema.TemplateLiteral(["x-", Schema.String]), Schema.Finite))

  it("takes members, and has them", () => {
    expect(misfits(objectOf([["x-a", exactly(1)]]), shapeOf(record))).toEqual([])
    expect(memberOf(shapeOf(record), "x-a")).toMatchObject({ schema: {} })
  })
})

describe("a tuple", () => {
  const tuple = shapeOf(exportSchema(Schema.TupleWithRest(Schema.Tuple([Schema.String]), [Schema.Finite])))

  it("takes a list whose first elements differ from the others", () => {
    expect(misfits(listOf(oneOf([exactly("a"), exactly(1)])), tuple)).toEqual([])
    expect(misfits(tuple, shapeOf({ type: "array", items: { type: "string" } }))).toEqual([])
  })

  it("has elements of their own types", () => {
    expect(memberOf(tuple, 0)).toMatchObject({ schema: { type: "string" } })
    expect(misfits(shapeOf({ type: "string" }), Object(memberOf(tuple, 1)))).toHaveLength(1)
    expect(elementOf(tuple)).toEqual({ schema: {}, defs: {} })
  })
})

describe("names of an object's prototype", () => {
  const closed = shapeOf({ type: "object", properties: { a: {} }, additionalProperties: false })

  it("are not members", () => {
    expect(memberOf(closed, "constructor")).toEqual({ known: ["a"] })
    expect(misfits(objectOf([["toString", exactly(1)]]), closed)).toEqual([
      { path: ".toString", message: "is not taken here; known are a" }
    ])
    expect(misfits(objectOf([]), shapeOf({ type: "object", required: ["valueOf"] }))).toEqual([
      { path: ".valueOf", message: "is missing; it must be any value" }
    ])
  })
})

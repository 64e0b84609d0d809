/** Tests the form of the playground (apps/console/src/endpoints/InputSchema.ts). */
import * as Schema from "effect/Schema"
import { describe, expect, test } from "vitest"
import {
  fieldProblem,
  fieldText,
  fieldValue,
  type FormField,
  inputFields,
  valueAt,
  withValue
} from "../src/endpoints/InputSchema.ts"

/** The JSON Schema of a Schema, as workers report it. */
const reported = (schema: Schema.Constraint) => {
  const { definitions, schema: root } = Schema.toJsonSchemaDocument(schema)
  const text = JSON.stringify(Object.keys(definitions).length === 0 ? root : { ...root, $defs: definitions })
  const value: Record<string, Schema.Json> = JSON.parse(text)
  return value
}

const outline = (fields: ReadonlyArray<FormField> | undefined): unknown =>
  fields?.map(({ isRequired, kind, path }) => [
    `${path.join(".")}${isRequired ? " required" : ""}`,
    kind._tag === "Group" ? outline(kind.fields) : kind._tag === "Choice" ? kind.options.join("|") : kind._tag
  ])

const field = (schema: Schema.Constraint): FormField => {
  const [one] = inputFields(reported(Schema.Struct({ one: schema }))) ?? []
  if (one === undefined) throw new Error("no field")
  return one
}

describe("the fields of an input", () => {
  test("are those of the handler's Schema, whatever JSON Schema makes of it", () => {
    const Size = Schema.Struct({ width: Schema.Int, height: Schema.optionalKey(Schema.Int) }).annotate({ identifier: "Size" })
    const input = Schema.Struct({
      url: Schema.URL,
      mode: Schema.Literals(["fit", "fill"]),
      ratio: Schema.Number,
      scale: Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 4 })),
      size: Size,
      thumbnail: Schema.optionalKey(Size),
      at: Schema.optional(Schema.String),
      fast: Schema.NullOr(Schema.Boolean),
      tags: Schema.Array(Schema.String),
      crops: Schema.Array(Size),
      extra: Schema.Unknown
    })
    const size = (path: string) => [[`${path}.width required`, "Number"], [`${path}.height`, "Number"]]
    expect(outline(inputFields(reported(input)))).toEqual([
      ["url required", "Text"],
      ["mode required", "\"fit\"|\"fill\""],
      ["ratio required", "Number"],
      ["scale required", "Number"],
      ["size required", size("size")],
      ["thumbnail", size("thumbnail")],
      ["at", "Text"],
      ["fast required", "Boolean"],
      ["tags required", "Lines"],
      ["crops required", "Json"],
      ["extra required", "Json"]
    ])
  })

  test("have the titles and descriptions of the Schema", () => {
    const width = field(Schema.Int.annotate({ title: "Width", description: "In pixels." }))
    expect([width.label, width.description]).toEqual(["Width", "In pixels."])
  })

  test("end where a Schema contains itself", () => {
    interface Tree {
      readonly name: string
      readonly child?: Tree
    }
    const Tree = Schema.Struct({
      name: Schema.String,
      child: Schema.optionalKey(Schema.suspend((): Schema.Codec<Tree> => Tree))
    }).annotate({ identifier: "Tree" })
    const depth = (fields: ReadonlyArray<FormField> | undefined): number => {
      const group = fields?.find(({ kind }) => kind._tag === "Group")?.kind
      return group?._tag === "Group" ? 1 + depth(group.fields) : 1
    }
    expect(depth(inputFields(reported(Tree)))).toBe(4)
  })

  test("do not exist for an input that is no object", () => {
    for (const schema of [Schema.String, Schema.Array(Schema.String), Schema.Unknown, Schema.Struct({})]) {
      expect(inputFields(reported(schema))).toBeUndefined()
    }
    expect(inputFields({ $ref: "#/$defs/missing" })).toBeUndefined()
    expect(inputFields({ $ref: "https://example.com/schema.json" })).toBeUndefined()
  })
})

describe("a value", () => {
  test("is read and written at its path, and the other members keep their order", () => {
    const input = { a: 1, b: { c: "x" }, d: [1] }
    expect(valueAt(input, ["b", "c"])).toBe("x")
    expect(valueAt(input, ["b", "c", "e"])).toBeUndefined()
    expect(valueAt({}, ["constructor"])).toBeUndefined()
    expect(JSON.stringify(withValue(input, ["b", "c"], "y"))).toBe("{\"a\":1,\"b\":{\"c\":\"y\"},\"d\":[1]}")
    expect(JSON.stringify(withValue(input, ["b", "e", "f"], 2))).toBe("{\"a\":1,\"b\":{\"c\":\"x\",\"e\":{\"f\":2}},\"d\":[1]}")
    expect(JSON.stringify(withValue(input, ["a"], undefined))).toBe("{\"b\":{\"c\":\"x\"},\"d\":[1]}")
    expect(JSON.stringify(withValue("text", ["a"], 1))).toBe("{\"a\":1}")
    expect(input.b.c).toBe("x")
  })

  test.each([
    [Schema.String, "red shoes"],
    [Schema.Number, 1.5],
    [Schema.Boolean, false],
    [Schema.Literals(["a", "b"]), "b"],
    [Schema.Array(Schema.String), ["a", "b"]]
  ])("of %s returns from the text that shows it", (schema, value) => {
    const one = field(schema)
    expect(fieldValue(one, fieldText(one, value))).toEqual(value)
    expect(fieldValue(one, "")).toBeUndefined()
  })

  test.each<readonly [Schema.Constraint, unknown, string | undefined]>([
    [Schema.String, undefined, "Required."],
    [Schema.optionalKey(Schema.String), undefined, undefined],
    [Schema.String, 1, "The input has another type here than text."],
    [Schema.NonEmptyString, "", "Enter at least 1 character."],
    [Schema.Int, 1.5, "Enter a whole number."],
    [Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3 })), 0, "Enter 1 or more."],
    [Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3 })), 4, "Enter 3 or less."],
    [Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3 })), 2, undefined],
    [Schema.Finite.check(Schema.isGreaterThan(0)), 0, "Enter more than 0."],
    [Schema.Literals(["a", "b"]), "c", "The input has none of these values here."],
    [Schema.NullOr(Schema.String), null, undefined],
    [Schema.Array(Schema.String), "a", "The input has another type here than a list."]
  ])("of %s that is %j: %s", (schema, value, problem) => {
    expect(fieldProblem(field(schema), value)).toBe(problem)
  })
})

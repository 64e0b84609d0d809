import { describe, expect, it } from "@effect/vitest"
import { Validator } from "../src/index.ts"

const mistakeOf = (rules: unknown): string => {
  try {
    Validator.make(rules as Validator.Rules)
  } catch (error) {
    expect(error).toBeInstanceOf(TypeError)
    return (error as TypeError).message
  }
  return "no mistake"
}

const recursive: Record<string, unknown> = { type: "list" }
recursive["items"] = recursive
const cycle: Array<unknown> = []
cycle.push(cycle)

const node: Record<string, unknown> = { type: "dict", required: true }
node["rules"] = { child: node }

describe("an invalid rule throws a TypeError that names it", () => {
  it.each<readonly [what: string, rules: unknown, message: RegExp]>([
    ["no rules", 5, /^The rules must be an object .*, got 5\./],
    ["rules in a list", [], /^The rules must be an object .*, got \[\]\./],
    [
      "a bare type",
      { width: "int" },
      /^The rule for "width" is "int"\. A rule is an object, for example \{ type: "str", required: true \}/
    ],
    ["a bare class", { width: Number }, /^The rule for "width" is Number\./],
    ["a misspelled key", { a: { type: "int", requierd: true } }, /"a" has an unknown key "requierd"\. Did you mean "required"\?/],
    ["no type", { a: { required: true } }, /"a" has no type\. The types are str, int/],
    [
      "a misspelled type",
      { a: { type: "nubmer", required: true } },
      /"a" has the unknown type "nubmer"\. Did you mean "number"\?/
    ],
    ["a class that JSON cannot hold", { a: { type: Date, required: true } }, /"a" has the unknown type Date\. The types are/],
    ["an empty list of types", { a: { type: [], required: true } }, /"a" has an empty list of types/],
    ["a wrong type among several", { a: { type: ["int", Map], required: true } }, /"a" has the unknown type Map\./],
    ["neither required nor default", { a: { type: "int" } }, /"a" has neither required nor a default\. Write required/],
    [
      "required that is not a boolean",
      { a: { type: "int", required: "yes" } },
      /"a" has required: "yes"\. It must be true or false\./
    ],
    ["nullable that is not a boolean", { a: { type: "int", required: true, nullable: 1 } }, /"a" has nullable: 1\./],
    ["constraints that are not a function", { a: { type: "int", required: true, constraints: 3 } }, /"a" has constraints: 3\./],
    [
      "items of a type that is not a list",
      { a: { type: "dict", required: true, items: { type: "int" } } },
      /"a" has items, but its type is not a list/
    ],
    [
      "rules of a type that is not a dict",
      { a: { type: "list", required: true, rules: {} } },
      /"a" has rules, but its type is not a dict/
    ],
    ["nested rules that are not an object", { a: { type: "dict", required: true, rules: [] } }, /"a" has rules: \[\]\./],
    [
      "an item with a default",
      { a: { type: "list", required: true, items: { type: "int", default: 1 } } },
      /"a\[\]" has an unknown key "default"/
    ],
    [
      "a nested rule",
      { a: { type: "list", required: true, items: { type: "dict", rules: { url: { typ: "str" } } } } },
      /^The rule for "a\[\]\.url" has an unknown key "typ"\. Did you mean "type"\?/
    ],
    [
      "a default of another type",
      { a: { type: "int", default: "x" } },
      /"a" has an invalid default\. a should be an integer, not/
    ],
    [
      "a default that is null",
      { a: { type: "int", default: null, nullable: false } },
      /invalid default\. a should be an integer, not null/
    ],
    [
      "a default that does not meet the constraints",
      { a: { type: "int", default: 3, constraints: (value: number) => value % 2 === 0 || "must be even" } },
      /invalid default\. a does not meet the constraints \(must be even\): got 3\./
    ],
    [
      "a default that lacks a nested key",
      { a: { type: "dict", default: {}, rules: { b: { type: "int", required: true } } } },
      /"a" has an invalid default\. a\.b is a required input \(an integer\)\./
    ],
    [
      "a default that is not JSON",
      { a: { type: "dict", default: { f: () => 1 } } },
      /"a" has a default that is not a JSON value/
    ],
    ["a default of a class", { a: { type: "dict", default: new Map() } }, /"a" has a default that is not a JSON value/],
    ["a default that contains itself", { a: { type: "list", default: cycle } }, /"a" has a default that is not a JSON value/],
    [
      "a rule that contains itself",
      { a: { type: "list", required: true, items: recursive } },
      /^The rule for "a\[\]\[\]" contains itself/
    ],
    ["rules that contain themselves", { a: node }, /^The rule for "a\.child" contains itself/],
    [
      "a key named __proto__",
      JSON.parse("{\"__proto__\": {\"type\": \"int\", \"required\": true}}"),
      /"__proto__" is not allowed/
    ]
  ])("%s", (_what, rules, message) => {
    expect(mistakeOf(rules)).toMatch(message)
  })

  it("is thrown by make, middleware, toSchema and validate before they check an input", () => {
    const rules = { a: { type: "int", requierd: true } } as unknown as Validator.Rules
    for (const create of [Validator.make, Validator.middleware, Validator.toSchema]) {
      expect(() => create(rules)).toThrow(/Did you mean "required"/)
    }
    expect(() => Validator.validate({}, rules)).toThrow(/Did you mean "required"/)
  })
})

it("accepts one rule object in several places", () => {
  const size = { type: "int", default: 1 } as const
  const box = { type: "dict", default: {}, rules: { width: size, height: size } } as const
  expect(Validator.validate({}, { a: box, b: box }).validated_input).toEqual({
    a: { width: 1, height: 1 },
    b: { width: 1, height: 1 }
  })
})

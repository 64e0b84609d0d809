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

describe("a rule that cannot be meant is a TypeError that names it", () => {
  it.each<readonly [what: string, rules: unknown, message: RegExp]>([
    ["no rules", 5, /^The rules are 5\. They are an object/],
    ["rules in a list", [], /^The rules are \[\]\./],
    ["a bare type", { width: "int" }, /^The rule of "width" is "int"\. Write \{ type: "str", required: true \}/],
    ["a bare class", { width: Number }, /^The rule of "width" is Number\./],
    ["a misspelt key", { a: { type: "int", requierd: true } }, /"a" has an unknown key "requierd"\. Did you mean "required"\?/],
    ["no type", { a: { required: true } }, /"a" has no type\. The types are str, int/],
    ["a misspelt type", { a: { type: "nubmer", required: true } }, /"a" has "nubmer" for a type\. Did you mean "number"\?/],
    ["a class that JSON cannot hold", { a: { type: Date, required: true } }, /"a" has Date for a type\. The types are/],
    ["an empty list of types", { a: { type: [], required: true } }, /"a" has an empty list of types/],
    ["a wrong type among several", { a: { type: ["int", Map], required: true } }, /"a" has Map for a type/],
    ["neither required nor default", { a: { type: "int" } }, /"a" does not say what to do without the key\. Write required/],
    ["required and a default", { a: { type: "int", required: true, default: 1 } }, /"a" is required and has a default/],
    ["required that is no boolean", { a: { type: "int", required: "yes" } }, /"a" has required: "yes"\. It is true or false\./],
    ["nullable that is no boolean", { a: { type: "int", required: true, nullable: 1 } }, /"a" has nullable: 1\./],
    ["constraints that are no function", { a: { type: "int", required: true, constraints: 3 } }, /"a" has constraints: 3\./],
    [
      "items of what is no list",
      { a: { type: "dict", required: true, items: { type: "int" } } },
      /"a" has items, which only a list/
    ],
    ["rules of what is no dict", { a: { type: "list", required: true, rules: {} } }, /"a" has rules, which only a dict has/],
    ["nested rules that are none", { a: { type: "dict", required: true, rules: [] } }, /"a" has rules: \[\]\./],
    [
      "an item with a default",
      { a: { type: "list", required: true, items: { type: "int", default: 1 } } },
      /"a\[\]" has an unknown key "default"/
    ],
    [
      "a nested rule",
      { a: { type: "list", required: true, items: { type: "dict", rules: { url: { typ: "str" } } } } },
      /^The rule of "a\[\]\.url" has an unknown key "typ"\. Did you mean "type"\?/
    ],
    [
      "a default of another type",
      { a: { type: "int", default: "x" } },
      /"a" has a default that does not fit\. a should be an integer, not/
    ],
    [
      "a default that is null",
      { a: { type: "int", default: null, nullable: false } },
      /default that does not fit\. a should be an integer, not null/
    ],
    [
      "a default that does not meet the constraints",
      { a: { type: "int", default: 3, constraints: (value: number) => value % 2 === 0 || "must be even" } },
      /default that does not fit\. a does not meet the constraints \(must be even\): got 3\./
    ],
    [
      "a default that lacks a nested key",
      { a: { type: "dict", default: {}, rules: { b: { type: "int", required: true } } } },
      /"a" has a default that does not fit\. a\.b is a required input \(an integer\)\./
    ],
    ["a default that is no JSON", { a: { type: "dict", default: { f: () => 1 } } }, /"a" has a default that is no JSON value/],
    ["a default of a class", { a: { type: "dict", default: new Map() } }, /"a" has a default that is no JSON value/],
    ["a default that contains itself", { a: { type: "list", default: cycle } }, /"a" has a default that is no JSON value/],
    [
      "a rule within itself",
      { a: { type: "list", required: true, items: recursive } },
      /^The rule of "a\[\]\[\]" contains itself/
    ],
    ["rules within themselves", { a: node }, /^The rule of "a\.child" contains itself/],
    ["a key that no object has", JSON.parse("{\"__proto__\": {\"type\": \"int\", \"required\": true}}"), /"__proto__" cannot be/]
  ])("%s", (_what, rules, message) => {
    expect(mistakeOf(rules)).toMatch(message)
  })

  it("in each of the ways, before any input is seen", () => {
    const rules = { a: { type: "int", requierd: true } } as unknown as Validator.Rules
    for (const way of [Validator.make, Validator.middleware, Validator.toSchema]) {
      expect(() => way(rules)).toThrow(/Did you mean "required"/)
    }
    expect(() => Validator.validate({}, rules)).toThrow(/Did you mean "required"/)
  })
})

it("one rule may stand at several places", () => {
  const size = { type: "int", default: 1 } as const
  const box = { type: "dict", default: {}, rules: { width: size, height: size } } as const
  expect(Validator.validate({}, { a: box, b: box }).validated_input).toEqual({
    a: { width: 1, height: 1 },
    b: { width: 1, height: 1 }
  })
})

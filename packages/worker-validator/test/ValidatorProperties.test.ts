import { describe, expect, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import * as fc from "fast-check"
import { Validator } from "../src/index.ts"

/** A rule without the package's static types, which would restrict generated rules. */
interface AnyRule {
  readonly type: unknown
  readonly required?: boolean
  readonly default?: unknown
  readonly nullable?: boolean
  readonly constraints?: (value: unknown) => boolean
  readonly items?: AnyRule
  readonly rules?: AnyRules
}
type AnyRules = Readonly<Record<string, AnyRule>>

const asRules = (rules: AnyRules) => rules as Validator.Rules

// A second, independent implementation of the rules. The properties compare the validator with it.

const jsonTypes: ReadonlyArray<readonly [ReadonlyArray<unknown>, (value: unknown) => boolean]> = [
  [["str", "string", String], (value) => typeof value === "string"],
  [["int", "integer"], (value) => typeof value === "number" && Number.isSafeInteger(value)],
  [["float", "number", Number], (value) => typeof value === "number" && Number.isFinite(value)],
  [["bool", "boolean", Boolean], (value) => typeof value === "boolean"],
  [["list", "array", Array], (value) => Array.isArray(value)],
  [["dict", "object", Object], (value) => typeof value === "object" && value !== null && !Array.isArray(value)]
]

const typesOf = (rule: AnyRule): ReadonlyArray<unknown> => Array.isArray(rule.type) ? rule.type : [rule.type]

const isOfType = (rule: AnyRule, value: unknown) =>
  typesOf(rule).some((type) => jsonTypes.some(([words, is]) => words.includes(type) && is(value)))

const isNull = (rule: AnyRule, value: unknown) => value === null && (rule.nullable ?? rule.default === null)

const entriesOf = (value: unknown): Record<string, unknown> => value as Record<string, unknown>
const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value)

/** The expected output for a value; undefined if it must be rejected. */
const expectedValue = (rule: AnyRule, value: unknown): { readonly value: unknown } | undefined => {
  if (isNull(rule, value)) return { value }
  if (!isOfType(rule, value)) return undefined
  let out: unknown = value
  if (rule.rules !== undefined && isObject(value)) {
    const inner = expectedInput(rule.rules, value)
    if (inner === undefined) return undefined
    out = inner
  }
  if (rule.items !== undefined && Array.isArray(value)) {
    const items = value.map((item) => expectedValue(rule.items!, item))
    if (items.includes(undefined)) return undefined
    out = items.map((item) => item!.value)
  }
  return rule.constraints === undefined || rule.constraints(out) ? { value: out } : undefined
}

/** The expected output for an input; undefined if it must be rejected. */
const expectedInput = (rules: AnyRules, input: unknown): Record<string, unknown> | undefined => {
  if (!isObject(input)) return undefined
  if (Object.keys(entriesOf(input)).some((key) => !Object.hasOwn(rules, key))) return undefined
  const out: Record<string, unknown> = {}
  for (const [name, rule] of Object.entries(rules)) {
    if (Object.hasOwn(entriesOf(input), name)) {
      const value = expectedValue(rule, entriesOf(input)[name])
      if (value === undefined) return undefined
      out[name] = value.value
    } else if (rule.required === true) return undefined
    else if (rule.default !== undefined) out[name] = expectedValue(rule, rule.default)?.value
  }
  return out
}

// Generators of rules and of inputs that nearly meet them.

const names = ["a", "b", "width", "constructor", "toString", "two words", "ü"]
const name = fc.constantFrom(...names)

const constraint = fc.constantFrom<((value: unknown) => boolean) | undefined>(
  undefined,
  undefined,
  (value) => JSON.stringify(value).length % 3 !== 0,
  (value) => JSON.stringify(value).length < 12
)

const word = fc.constantFrom(...jsonTypes.flatMap(([words]) => words))

const json = fc.jsonValue({ maxDepth: 2 }).map((value): unknown => JSON.parse(JSON.stringify(value)))

/** A value that usually has a correct type, and sometimes any type. */
const valueFor = (rule: AnyRule): fc.Arbitrary<unknown> => {
  const one = (type: unknown): fc.Arbitrary<unknown> => {
    const [words] = jsonTypes.find(([all]) => all.includes(type))!
    switch (words[0]) {
      case "str":
        return fc.string({ maxLength: 12 })
      case "int":
        return fc.oneof(fc.integer(), fc.maxSafeInteger())
      case "float":
        return fc.double({ noNaN: true, noDefaultInfinity: true }).map((value) => value + 0)
      case "bool":
        return fc.boolean()
      case "list":
        return rule.items === undefined ? fc.array(json, { maxLength: 3 }) : fc.array(valueFor(rule.items), { maxLength: 3 })
      default:
        return rule.rules === undefined
          ? fc.dictionary(fc.string({ maxLength: 5 }), json, { maxKeys: 3, noNullPrototype: true })
          : inputFor(rule.rules)
    }
  }
  return fc.oneof(
    { weight: 8, arbitrary: fc.oneof(...typesOf(rule).map(one)) },
    { weight: 1, arbitrary: json },
    { weight: 1, arbitrary: fc.constant(null) }
  )
}

/** An input that nearly meets the rules. */
const inputFor = (rules: AnyRules): fc.Arbitrary<unknown> => {
  const fields = Object.entries(rules).map(([key, rule]) =>
    fc.oneof(
      { weight: rule.required === true ? 8 : 2, arbitrary: valueFor(rule).map((value) => [[key, value]] as const) },
      { weight: 1, arbitrary: fc.constant([] as const) }
    )
  )
  const extra = fc.oneof(
    { weight: 6, arbitrary: fc.constant([] as const) },
    {
      weight: 1,
      arbitrary: fc.tuple(fc.oneof(fc.string(), name, fc.constant("__proto__")), json).map((entry) => [entry] as const)
    }
  )
  return fc.tuple(extra, ...fields).map((parts) => {
    const entries = parts.flat()
    // JSON.parse does the same: `__proto__` becomes an ordinary key.
    return JSON.parse(
      `{${entries.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(",")}}`
    ) as unknown
  })
}

const itemRule = (depth: number): fc.Arbitrary<AnyRule> =>
  fc.record({
    type: fc.oneof({ weight: 4, arbitrary: word }, {
      weight: 1,
      arbitrary: fc.uniqueArray(word, { minLength: 1, maxLength: 3 })
    }),
    nullable: fc.constantFrom(undefined, undefined, true, false),
    constraints: constraint,
    items: depth > 0 ? fc.option(itemRule(depth - 1), { nil: undefined }) : fc.constant(undefined),
    rules: depth > 0 ? fc.option(rulesOf(depth - 1), { nil: undefined }) : fc.constant(undefined)
  }).map(({ constraints, items, nullable, rules, type }) => {
    const types = Array.isArray(type) ? type : [type]
    const takes = (...words: ReadonlyArray<unknown>) => types.some((one: unknown) => words.includes(one))
    return {
      type,
      ...(nullable === undefined ? {} : { nullable }),
      ...(constraints === undefined ? {} : { constraints }),
      ...(items !== undefined && takes("list", "array", Array) ? { items } : {}),
      ...(rules !== undefined && takes("dict", "object", Object) ? { rules } : {})
    }
  })

/** A complete rule. Its default meets the rule, because the parser rejects others. */
const rule = (depth: number): fc.Arbitrary<AnyRule> =>
  itemRule(depth).chain((base) =>
    fc.oneof(
      fc.constant({ ...base, required: true }),
      fc.constant({ ...base, required: false }),
      valueFor(base).map((value) => {
        const withDefault = { ...base, default: value }
        return expectedValue(withDefault, value) === undefined ? { ...base, required: false } : withDefault
      })
    )
  )

const rulesOf = (depth: number): fc.Arbitrary<AnyRules> => fc.dictionary(name, rule(depth), { maxKeys: 4, noNullPrototype: true })

const rulesAndInput = rulesOf(2).chain((rules) =>
  fc.tuple(fc.constant(rules), fc.oneof({ weight: 9, arbitrary: inputFor(rules) }, { weight: 1, arbitrary: json }))
)

const formatIssues = SchemaIssue.makeFormatterStandardSchemaV1()

const RUNS = { numRuns: 1_000 }

describe("for all rules and all JSON", () => {
  it("validate never throws and returns either the input or errors", () => {
    fc.assert(
      fc.property(rulesAndInput, ([rules, input]) => {
        const result = Validator.validate(input, asRules(rules))
        expect(Object.keys(result)).toHaveLength(1)
        if (result.errors !== undefined) expect(result.errors.length).toBeGreaterThan(0)
      }),
      RUNS
    )
  })

  it("validate accepts exactly the inputs that meet the rules and only adds defaults", () => {
    const outcomes = { accepted: 0, refused: 0 }
    fc.assert(
      fc.property(rulesAndInput, ([rules, input]) => {
        const { validated_input } = Validator.validate(input, asRules(rules))
        expect(validated_input).toEqual(expectedInput(rules, input))
        outcomes[validated_input === undefined ? "refused" : "accepted"]++
      }),
      RUNS
    )
    // The generator produces both valid and invalid inputs.
    expect(Math.min(outcomes.accepted, outcomes.refused)).toBeGreaterThan(RUNS.numRuns / 10)
  })

  it("validate accepts a validated input unchanged", () => {
    fc.assert(
      fc.property(rulesAndInput, ([rules, input]) => {
        const validator = Validator.make(asRules(rules))
        const { validated_input } = validator.validate(input)
        fc.pre(validated_input !== undefined)
        expect(validator.validate(validated_input)).toEqual({ validated_input })
      }),
      RUNS
    )
  })

  it("validate fills in defaults for exactly the missing keys", () => {
    fc.assert(
      fc.property(rulesAndInput, ([rules, input]) => {
        const { validated_input } = Validator.validate(input, asRules(rules))
        fc.pre(validated_input !== undefined)
        const absent = Object.keys(rules).filter((key) => !Object.hasOwn(entriesOf(input), key))
        const added = Object.keys(validated_input).filter((key) => !Object.hasOwn(entriesOf(input), key))
        expect(added).toEqual(absent.filter((key) => rules[key]?.default !== undefined))
      }),
      RUNS
    )
  })

  it("validate names every unknown key", () => {
    fc.assert(
      fc.property(
        rulesOf(1),
        fc.uniqueArray(fc.string({ minLength: 1, maxLength: 20 }).filter((key) => !names.includes(key)), {
          minLength: 1,
          maxLength: 5
        }),
        (rules, unknown) => {
          const input = Object.fromEntries(unknown.map((key) => [key, 1]))
          const errors = Validator.validate(input, asRules(rules)).errors ?? []
          for (const key of Object.keys(input)) {
            expect(errors.filter((error) => error.startsWith(`Unexpected input. ${key} is not a valid input option.`)))
              .toHaveLength(1)
          }
        }
      ),
      RUNS
    )
  })

  it("validate changes neither the input nor the rules", () => {
    fc.assert(
      fc.property(rulesAndInput, ([rules, input]) => {
        const before = JSON.stringify([rules, input])
        Validator.validate(input, asRules(rules))
        expect(JSON.stringify([rules, input])).toBe(before)
      }),
      RUNS
    )
  })

  it("validate returns few and short errors", () => {
    fc.assert(
      fc.property(rulesOf(2), fc.jsonValue({ maxDepth: 4 }), (rules, input) => {
        const errors = Validator.validate(input, asRules(rules)).errors ?? []
        expect(errors.length).toBeLessThanOrEqual(21)
        for (const error of errors) expect(error.length).toBeLessThan(1_500)
      }),
      RUNS
    )
  })

  it("toSchema accepts the same inputs as validate, with the same output and the same errors", () => {
    fc.assert(
      fc.property(rulesAndInput, ([rules, input]) => {
        const schema = Validator.toSchema(asRules(rules))
        const { errors, validated_input } = Validator.validate(input, asRules(rules))
        for (const codec of [schema, Schema.toCodecJson(schema)]) {
          const decoded = Schema.decodeUnknownResult(codec, { errors: "all" })(input)
          expect(Result.getOrUndefined(decoded)).toEqual(validated_input)
          const issues = Result.isFailure(decoded) ? formatIssues(decoded.failure.issue).issues : []
          expect(issues).toHaveLength(errors?.length ?? 0)
          for (const [index, { message }] of issues.entries()) {
            expect(errors?.[index]).toContain(message.replace(/ \((?:Did you|Its constraint) .*\)$/, ""))
          }
        }
      }),
      { numRuns: 300 }
    )
  })

  it("toSchema decodes to a value of its type that encodes to itself", () => {
    fc.assert(
      fc.property(rulesAndInput, ([rules, input]) => {
        const schema = Validator.toSchema(asRules(rules))
        const decoded = Result.getOrUndefined(Schema.decodeUnknownResult(schema)(input))
        fc.pre(decoded !== undefined)
        expect(Schema.is(schema)(decoded)).toBe(true)
        expect(Schema.encodeSync(schema)(decoded)).toEqual(decoded)
      }),
      { numRuns: 300 }
    )
  })
})

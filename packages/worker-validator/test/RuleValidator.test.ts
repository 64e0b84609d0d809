import { describe, expect, it } from "@effect/vitest"
import { Validator } from "../src/index.ts"

/** Throws any value; lint forbids a `throw` of a non-error. */
const raise = (value: unknown): boolean => (function*(): Generator<boolean> {})().throw(value).value

const errorsOf = (input: unknown, rules: Validator.Rules) => Validator.validate(input, rules).errors

describe("types", () => {
  const good: ReadonlyArray<readonly [type: Validator.Type, value: unknown]> = [
    ["str", ""],
    ["string", "a"],
    [String, "a"],
    ["int", -3],
    ["integer", 2 ** 53 - 1],
    ["int", 1.0],
    ["float", 1.5],
    ["number", 1],
    [Number, -0.1],
    ["bool", false],
    ["boolean", true],
    [Boolean, true],
    ["list", []],
    ["array", [1, "a"]],
    [Array, [null]],
    ["dict", {}],
    ["object", { a: 1 }],
    [Object, { a: { b: [] } }]
  ]

  it.each(good)("%s accepts %j unchanged", (type, value) => {
    expect(Validator.validate({ x: value }, { x: { type, required: true } })).toEqual({ validated_input: { x: value } })
  })

  const bad: ReadonlyArray<readonly [type: Validator.Type, value: unknown, error: string]> = [
    ["str", 1, "x should be a string, not an integer: got 1."],
    ["str", null, "x should be a string, not null."],
    [String, ["a"], "x should be a string, not an array: got [\"a\"]."],
    ["int", "1", "x should be an integer, not a string: got \"1\"."],
    ["int", 1.5, "x should be an integer, not a fraction: got 1.5."],
    ["int", true, "x should be an integer, not a boolean: got true."],
    ["int", 2 ** 53, "x should be an integer, not a number too large to be exact: got 9007199254740992."],
    ["float", "1.5", "x should be a number, not a string: got \"1.5\"."],
    ["float", JSON.parse("1e999"), "x should be a number, not an infinite number: got Infinity."],
    [Number, Number.NaN, "x should be a number, not NaN: got NaN."],
    ["bool", 0, "x should be a boolean, not an integer: got 0."],
    ["bool", "true", "x should be a boolean, not a string: got \"true\"."],
    ["list", {}, "x should be an array, not an object: got {}."],
    ["list", "abc", "x should be an array, not a string: got \"abc\"."],
    ["dict", [], "x should be an object, not an array: got []."],
    [Object, null, "x should be an object, not null."],
    ["dict", () => 1, "x should be an object, not a function: got a function."],
    ["int", 1n, "x should be an integer, not a bigint: got 1n."],
    ["str", Symbol("s"), "x should be a string, not a symbol: got Symbol(s)."]
  ]

  it.each(bad)("%s rejects %s with the expected type, the actual type and the value", (type, value, error) => {
    expect(Validator.validate({ x: value }, { x: { type, required: true } })).toEqual({ errors: [error] })
  })

  it("float accepts an integer", () => {
    expect(Validator.validate({ x: 3 }, { x: { type: "float", required: true } })).toEqual({ validated_input: { x: 3 } })
  })

  it("several types accept a value of each type and reject others", () => {
    const rules: Validator.Rules = { x: { type: ["str", Number, "list"], required: true } }
    for (const x of ["a", 1.5, []]) expect(Validator.validate({ x }, rules)).toEqual({ validated_input: { x } })
    expect(errorsOf({ x: true }, rules)).toEqual(["x should be a string, a number or an array, not a boolean: got true."])
  })

  it.each<[Validator.Type]>([["null"], ["None"], [null]])("the type %j accepts only null", (type) => {
    const rules: Validator.Rules = { x: { type, required: true } }
    expect(Validator.validate({ x: null }, rules)).toEqual({ validated_input: { x: null } })
    expect(errorsOf({ x: 1 }, rules)).toEqual(["x should be null, not an integer: got 1."])
    expect(errorsOf({}, rules)).toEqual(["x is a required input (null)."])
    const either: Validator.Rules = { x: { type: ["str", type], default: "a" } }
    expect([{ x: null }, { x: "b" }, {}].map((input) => Validator.validate(input, either).validated_input)).toEqual([
      { x: null },
      { x: "b" },
      { x: "a" }
    ])
  })

  it("accepts null only if the rule is nullable", () => {
    const rules: Validator.Rules = { x: { type: "int", required: true, nullable: true, constraints: (x) => x > 0 } }
    expect(Validator.validate({ x: null }, rules)).toEqual({ validated_input: { x: null } })
    expect(errorsOf({ x: "a" }, rules)).toEqual(["x should be an integer or null, not a string: got \"a\"."])
    expect(errorsOf({}, rules)).toEqual(["x is a required input (an integer or null)."])
  })
})

describe("keys", () => {
  it("reports a missing required key with its name and type", () => {
    expect(errorsOf({}, { prompt: { type: "str", required: true } })).toEqual(["prompt is a required input (a string)."])
  })

  it("does not fill in the default of a required key", () => {
    const rules: Validator.Rules = { y: { type: "int", required: true, default: 5 } }
    expect(Validator.validate({ y: 20 }, rules)).toEqual({ validated_input: { y: 20 } })
    expect(errorsOf({}, rules)).toEqual(["y is a required input (an integer)."])
  })

  it("leaves out a missing key that is optional and has no default", () => {
    const result = Validator.validate({}, { seed: { type: "int", required: false } })
    expect(result.validated_input).toEqual({})
    expect(Object.keys(result.validated_input ?? {})).toEqual([])
  })

  it("treats a key whose value is undefined as missing, as in JSON", () => {
    expect(Validator.validate({ a: undefined, b: undefined, c: undefined }, {
      a: { type: "int", default: 1 },
      b: { type: "int", required: false }
    })).toEqual({ validated_input: { a: 1 } })
  })

  it("fills in a default only for a missing key", () => {
    const rules: Validator.Rules = {
      a: { type: "int", default: 1 },
      b: { type: "bool", default: false },
      c: { type: "str", default: "" }
    }
    expect(Validator.validate({}, rules)).toEqual({ validated_input: { a: 1, b: false, c: "" } })
    expect(Validator.validate({ a: 0, b: true, c: "x" }, rules)).toEqual({ validated_input: { a: 0, b: true, c: "x" } })
    expect(errorsOf({ a: null }, rules)).toEqual(["a should be an integer, not null."])
  })

  it("makes a key with a default of null nullable", () => {
    const rules: Validator.Rules = { lora: { type: "str", default: null } }
    expect(Validator.validate({}, rules)).toEqual({ validated_input: { lora: null } })
    expect(Validator.validate({ lora: null }, rules)).toEqual({ validated_input: { lora: null } })
    expect(Validator.validate({ lora: "x" }, rules)).toEqual({ validated_input: { lora: "x" } })
  })

  it("copies a default for each input and from the rules", () => {
    const tags = ["a"]
    const validator = Validator.make({ tags: { type: "list", default: tags }, deep: { type: "dict", default: { list: [1] } } })
    tags.push("changed")
    const first = validator.validate({}).validated_input
    first?.tags.push("mine")
    Reflect.set(first?.deep ?? {}, "list", "mine")
    expect(validator.validate({}).validated_input).toEqual({ tags: ["a"], deep: { list: [1] } })
  })

  it("reports an unknown key with its name and the closest known key", () => {
    const rules: Validator.Rules = { width: { type: "int", required: false }, height: { type: "int", required: false } }
    expect(errorsOf({ widht: 1, zzz: 2, height: 3 }, rules)).toEqual([
      "Unexpected input. widht is not a valid input option. Did you mean \"width\"?",
      "Unexpected input. zzz is not a valid input option."
    ])
  })

  it("does not suggest a key that the input already has", () => {
    expect(errorsOf({ width: 1, Width: 2 }, { width: { type: "int", required: true } })).toEqual([
      "Unexpected input. Width is not a valid input option."
    ])
  })

  it("accepts only the empty input when there are no rules", () => {
    expect(Validator.validate({}, {})).toEqual({ validated_input: {} })
    expect(errorsOf({ a: 1 }, {})).toEqual(["Unexpected input. a is not a valid input option."])
  })

  it.each([
    [null, "The input should be an object, not null."],
    [undefined, "The input should be an object, not undefined."],
    ["text", "The input should be an object, not a string: got \"text\"."],
    [[1], "The input should be an object, not an array: got [1]."],
    [7, "The input should be an object, not an integer: got 7."]
  ])("reports one error for an input that is not an object: %j", (input, error) => {
    expect(errorsOf(input, { a: { type: "int", required: true } })).toEqual([error])
  })

  it("reports all problems at once, in the order of the rules, unknown keys last", () => {
    expect(errorsOf({ z: 1, c: "x", b: 5 }, {
      a: { type: "str", required: true },
      b: { type: "int", required: true, constraints: () => false },
      c: { type: "int", required: false },
      d: { type: "int", required: true }
    })).toEqual([
      "a is a required input (a string).",
      "b does not meet the constraints: got 5.",
      "c should be an integer, not a string: got \"x\".",
      "d is a required input (an integer).",
      "Unexpected input. z is not a valid input option."
    ])
  })
})

describe("constraints", () => {
  const width = (constraints: (value: number) => Validator.ConstraintResult): Validator.Rules => ({
    width: { type: "int", required: true, constraints }
  })

  it("accept a value that meets them", () => {
    expect(Validator.validate({ width: 64 }, width((w) => w % 8 === 0))).toEqual({ validated_input: { width: 64 } })
  })

  it("report the field and its value when they return false", () => {
    expect(errorsOf({ width: 13 }, width(() => false))).toEqual(["width does not meet the constraints: got 13."])
  })

  it("use a returned string as the message", () => {
    expect(errorsOf({ width: 13 }, width((w) => w % 8 === 0 || "must be a multiple of 8"))).toEqual([
      "width does not meet the constraints (must be a multiple of 8): got 13."
    ])
    expect(errorsOf({ width: 13 }, width(() => ""))).toEqual(["width does not meet the constraints: got 13."])
  })

  it("are not called for a value of the wrong type or for null", () => {
    const calls: Array<unknown> = []
    const rules: Validator.Rules = {
      a: { type: "int", required: true, constraints: (value) => calls.push(value) > 0 },
      b: { type: "int", nullable: true, required: true, constraints: (value) => calls.push(value) > 0 },
      c: { type: "list", required: true, items: { type: "int" }, constraints: (value) => calls.push(value) > 0 }
    }
    expect(errorsOf({ a: "x", b: null, c: ["x"] }, rules)).toHaveLength(2)
    expect(calls).toEqual([])
  })

  it("turn an exception into an error for the field", () => {
    const thrown = [new RangeError("far"), "text", null, { a: 1 }]
    const errors = thrown.map((value) =>
      errorsOf(
        { width: 1 },
        width(() => raise(value))
      )
    )
    expect(errors).toEqual([
      ["width could not be checked: got 1. Its constraint threw: far"],
      ["width could not be checked: got 1. Its constraint threw: text"],
      ["width could not be checked: got 1. Its constraint threw: null"],
      ["width could not be checked: got 1. Its constraint threw: {\"a\":1}"]
    ])
  })

  it("pass with any truthy result except a string, and fail with any falsy result", () => {
    for (const truthy of [1, -1, [], {}, /a/.exec("a"), 1n]) {
      expect(Validator.validate({ width: 1 }, width(() => truthy))).toEqual({ validated_input: { width: 1 } })
    }
    for (const falsy of [0, Number.NaN, null, /a/.exec("b"), "", 0n]) {
      expect(errorsOf({ width: 1 }, width(() => falsy))).toEqual(["width does not meet the constraints: got 1."])
    }
    expect(errorsOf({ width: 1 }, width(() => undefined))).toEqual([
      "width does not meet the constraints: got 1. Its constraint returned undefined."
    ])
  })

  it("report an error when they return a promise", () => {
    for (const promise of [Promise.resolve(true), Promise.reject(new Error("rejected and never awaited"))]) {
      expect(errorsOf({ width: 1 }, width(() => promise))).toEqual([
        "width could not be checked: got 1. Its constraint returned a promise. It must return true, false or a message."
      ])
    }
  })

  it("receive an object with its defaults, as the handler does", () => {
    const seen: Array<unknown> = []
    Validator.validate({ box: {} }, {
      box: {
        type: "dict",
        required: true,
        rules: { size: { type: "int", default: 3 } },
        constraints: (box) => seen.push(box) > 0
      }
    })
    expect(seen).toEqual([{ size: 3 }])
  })
})

describe("nested rules", () => {
  const rules = {
    images: {
      type: "list",
      default: [],
      items: {
        type: "dict",
        rules: {
          url: { type: "str", required: true },
          crop: { type: "dict", default: {}, rules: { left: { type: "int", default: 0 } } }
        }
      }
    }
  } as const satisfies Validator.Rules

  it("name the path in errors: images[2].url", () => {
    expect(errorsOf({ images: [{ url: "a" }, 7, { url: 1, ulr: 2 }, { crop: { left: "x" }, url: "" }] }, rules)).toEqual([
      "images[1] should be an object, not an integer: got 7.",
      "images[2].url should be a string, not an integer: got 1.",
      "Unexpected input. images[2].ulr is not a valid input option.",
      "images[3].crop.left should be an integer, not a string: got \"x\"."
    ])
    expect(errorsOf({ images: [{ ulr: 2 }] }, rules)).toEqual([
      "images[0].url is a required input (a string).",
      "Unexpected input. images[0].ulr is not a valid input option. Did you mean \"url\"?"
    ])
  })

  it("fill in defaults at every depth without changing the input", () => {
    const input = { images: [{ url: "a" }, { url: "b", crop: { left: 4 } }] }
    expect(Validator.validate(input, rules)).toEqual({
      validated_input: { images: [{ url: "a", crop: { left: 0 } }, { url: "b", crop: { left: 4 } }] }
    })
    expect(input).toEqual({ images: [{ url: "a" }, { url: "b", crop: { left: 4 } }] })
  })

  it("check lists of lists and constraints of elements", () => {
    const matrix: Validator.Rules = {
      matrix: {
        type: "list",
        required: true,
        items: { type: "list", items: { type: "float", nullable: true, constraints: (n) => n >= 0 } }
      }
    }
    expect(Validator.validate({ matrix: [[1, null], []] }, matrix)).toEqual({ validated_input: { matrix: [[1, null], []] } })
    expect(errorsOf({ matrix: [[1], [2, -1]] }, matrix)).toEqual(["matrix[1][1] does not meet the constraints: got -1."])
  })

  it("apply to the object and to the list when the rule has several types", () => {
    const size: Validator.Rules = {
      size: {
        type: ["int", "dict", "list"],
        required: true,
        rules: { width: { type: "int", required: true } },
        items: { type: "int" },
        constraints: (value: unknown) => value !== 0
      }
    }
    for (const value of [1, { width: 1 }, [1, 2]]) {
      expect(Validator.validate({ size: value }, size)).toEqual({ validated_input: { size: value } })
    }
    expect(errorsOf({ size: {} }, size)).toEqual(["size.width is a required input (an integer)."])
    expect(errorsOf({ size: ["x"] }, size)).toEqual(["size[0] should be an integer, not a string: got \"x\"."])
    expect(errorsOf({ size: 0 }, size)).toEqual(["size does not meet the constraints: got 0."])
  })
})

describe("hostile input", () => {
  it.each(["__proto__", "constructor", "prototype", "toString", "hasOwnProperty"])(
    "the key %s is unknown like any other, and pollutes nothing",
    (key) => {
      const input: unknown = JSON.parse(`{"${key}": {"polluted": true}}`)
      expect(errorsOf(input, { a: { type: "int", default: 1 } })).toEqual([
        `Unexpected input. ${key} is not a valid input option.`
      ])
      expect(Reflect.get({}, "polluted")).toBeUndefined()
    }
  )

  it("treats inherited keys as missing", () => {
    const rules: Validator.Rules = Object.fromEntries([
      ["constructor", { type: "str", required: true }],
      ["toString", { type: "str", default: "d" }]
    ])
    expect(errorsOf({}, rules)).toEqual(["constructor is a required input (a string)."])
    expect(Validator.validate({ constructor: "c" }, rules)).toEqual({ validated_input: { constructor: "c", toString: "d" } })
  })

  it("reports a symbol as an unknown key", () => {
    expect(errorsOf({ [Symbol("s")]: 1 }, {})).toEqual(["Unexpected input. Symbol(s) is not a valid input option."])
  })

  it("quotes a key that is not an identifier", () => {
    const rules: Validator.Rules = { o: { type: "dict", required: true, rules: {} } }
    expect(errorsOf({ o: { "a b\n": 1, "": 2 } }, rules)).toEqual([
      "Unexpected input. o[\"a b\\n\"] is not a valid input option.",
      "Unexpected input. o[\"\"] is not a valid input option."
    ])
  })

  it("reports the first 20 problems and that there are more", () => {
    const items = Array.from({ length: 100_000 }, () => "x")
    const calls: Array<number> = []
    const errors = errorsOf({ items }, {
      items: { type: "list", required: true, items: { type: "int" } },
      last: { type: "int", required: true, constraints: (value) => calls.push(value) > 0 }
    })
    expect(errors).toHaveLength(21)
    expect(errors?.[19]).toBe("items[19] should be an integer, not a string: got \"x\".")
    expect(errors?.[20]).toBe("There are more problems. These are the first 20.")
    expect(calls).toEqual([])
  })

  it("reports exactly 20 problems as 20 errors", () => {
    const input = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`key${index}`, 1]))
    expect(errorsOf(input, {})).toHaveLength(20)
    expect(errorsOf({ ...input, other: 1 }, {})).toHaveLength(21)
  })

  it("truncates a huge value", () => {
    const rules: Validator.Rules = { x: { type: "int", required: true } }
    const huge = "x".repeat(5_000_000)
    const values: ReadonlyArray<readonly [value: unknown, shown: string]> = [
      [huge, `"${"x".repeat(60)}..."`],
      [Array.from({ length: 1_000_000 }, () => 0), "[0, 0, 0, ... 999997 more]"],
      [{ a: { b: { c: 1 } }, d: [[[1]]], e: 1, f: 1, g: 1 }, "{\"a\": {\"b\": {...}}, \"d\": [[...]], \"e\": 1, ... 2 more}"]
    ]
    for (const [value, shown] of values) {
      expect(errorsOf({ x: value }, rules)?.[0]?.split(": got ")[1]).toBe(`${shown}.`)
    }
    const [, unexpected] = errorsOf({ [huge]: 1 }, rules) ?? []
    expect(unexpected).toBe(`Unexpected input. ${"x".repeat(60)}... is not a valid input option.`)
  })

  it("truncates a constraint's huge message", () => {
    const rules: Validator.Rules = { x: { type: "int", required: true, constraints: () => "x".repeat(1_000_000) } }
    expect(errorsOf({ x: 1 }, rules)?.[0]?.length).toBeLessThan(300)
  })
})

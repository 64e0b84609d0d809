import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { type JsonFault, type JsonScan, MAX_DEPTH, scan, type Wanted } from "../src/http/JsonScanner.ts"

/** Runs a scan to its end. */
const scanned = (text: string, wanted?: Wanted): JsonScan | JsonFault => {
  const steps = scan(text, wanted)
  while (true) {
    const step = steps.next()
    if (step.done === true) return step.value
  }
}

const valid = (text: string, wanted?: Wanted): JsonScan => {
  const found = scanned(text, wanted)
  if (found._tag === "JsonFault") throw new Error(`${found.reason} at ${found.at} in ${text}`)
  return found
}

const memberOf = (text: string, name: string) => valid(text, { members: new Set([name]) }).members.get(name)?.text

/** What `JSON.parse` makes of a text. */
const parsed = (text: string): "JSON" | "JSON with an infinite number" | "not JSON" => {
  let finite = true
  try {
    JSON.parse(text, (_, value: unknown) => {
      finite &&= typeof value !== "number" || Number.isFinite(value)
      return value
    })
    return finite ? "JSON" : "JSON with an infinite number"
  } catch {
    return "not JSON"
  }
}

/** JSON text with random white space wherever JSON allows it. */
const spaced = fc.tuple(fc.jsonValue(), fc.integer({ min: 0, max: 4 })).map(([value, spaces]) =>
  JSON.stringify(value, null, spaces)
)

const key = fc.oneof(
  fc.constantFrom("input", "output", "", "a\"b", "\\", "\\\"", "}", "{", ":", "__proto__"),
  fc.string({ unit: "binary" })
)

const object = fc.array(fc.tuple(key, spaced), { maxLength: 8 }).map((members) => ({
  members,
  text: ` \n{\t${members.map(([name, value]) => `${JSON.stringify(name)} :\r${value}`).join(" , ")} } `
}))

const countOf = (value: unknown): number =>
  typeof value === "object" && value !== null ? 1 + Object.values(value).reduce<number>((sum, one) => sum + countOf(one), 0) : 1

/** Sequences of pieces of JSON. Most of them are almost JSON. */
const almostJson = fc.array(
  fc.constantFrom(
    ..."{}[],:\"\\ \t\n\r0123456789+-.eEtrufalsn".split(""),
    "\"a\"",
    "\"\":",
    "true",
    "null",
    "-0",
    "1.5",
    "1e5",
    "01",
    "\\u00e9",
    "\\u00g1",
    "\u0000",
    "\u2028",
    "é",
    "😀"
  ),
  { maxLength: 12 }
).map((parts) => parts.join(""))

/** A valid text with one character removed, replaced or inserted. */
const mutated = fc.tuple(
  spaced,
  fc.nat(),
  fc.constantFrom("", "\"", "\\", "{", "]", ",", "0", "e", "-", " ", "\u0007"),
  fc.boolean()
).map((
  [text, position, character, replaces]
) => {
  const at = position % (text.length + 1)
  return text.slice(0, at) + character + text.slice(replaces ? at + 1 : at)
})

describe("scan", () => {
  it("accepts exactly the texts that JSON.parse accepts, except for infinite numbers", () => {
    fc.assert(
      fc.property(fc.oneof(almostJson, mutated, spaced, fc.string({ unit: "binary" })), (text) => {
        const found = scanned(text)
        const expected = parsed(text)
        expect(found._tag, JSON.stringify(text)).toBe(expected === "JSON" ? "JsonScan" : "JsonFault")
        // The scan stops at an infinite number, so it does not find a syntax error after it.
        if (expected === "JSON with an infinite number") expect(found).toMatchObject({ reason: "number" })
      }),
      { numRuns: 5_000 }
    )
    for (
      const text of [
        "",
        " ",
        "nul",
        "truex",
        "1 2",
        "\"\\u12\"",
        "\"\\u12\u0000\"",
        "[1,]",
        "{\"a\":1,}",
        "{,}",
        "\u00a01",
        "-",
        "1.",
        "1e",
        ".5"
      ]
    ) {
      expect([text, scanned(text)._tag]).toEqual([text, "JsonFault"])
    }
  })

  it("returns the last member with a name, exactly as it was written", () => {
    fc.assert(fc.property(object, key, ({ members, text }, name) => {
      expect(memberOf(text, name)).toBe(members.findLast(([one]) => one === name)?.[1])
    }))
  })

  it("returns the first elements of an array exactly as they were written, and counts values", () => {
    fc.assert(fc.property(fc.array(spaced), fc.nat({ max: 5 }), (texts, elements) => {
      const found = valid(` [\n${texts.join(" ,\t")} ] `, { elements })
      expect(found.elements.map(({ text }) => text)).toEqual(texts.slice(0, elements))
      expect(found.elements.map(({ values }) => values)).toEqual(
        texts.slice(0, elements).map((text) => countOf(JSON.parse(text)))
      )
      expect(found.values).toBe(texts.reduce((sum, text) => sum + countOf(JSON.parse(text)), 1))
    }))
  })

  it("finds a member regardless of how its name is escaped", () => {
    expect(memberOf("{\"\\u0069\\u006eput\":1}", "input")).toBe("1")
    expect(memberOf("{\"a\\\"\":1,\"b\":2}", "b")).toBe("2")
  })

  it("reports the kind of value, and has no members unless it is an object", () => {
    const kinds = { "[{\"a\":1}]": "array", "1": "number", "\"{\"": "string", " null": "null", false: "boolean", "{}": "object" }
    for (const [text, kind] of Object.entries(kinds)) {
      const found = valid(text, { members: new Set(["a"]) })
      expect(found.kind).toBe(kind)
      expect(found.members.size).toBe(0)
    }
  })

  it("rejects values that are nested too deeply, at the first bracket too many", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth)
    expect(scanned(nested(MAX_DEPTH))._tag).toBe("JsonScan")
    expect(scanned(nested(MAX_DEPTH + 1))).toEqual({ _tag: "JsonFault", at: MAX_DEPTH, reason: "depth" })
    expect(scanned("{\"a\":".repeat(MAX_DEPTH + 1))).toMatchObject({ reason: "depth" })
  })

  it("rejects numbers that a double cannot hold, and only those", () => {
    for (const text of ["1e400", "-1E+309", "[0.1e999]", "9".repeat(310), `1${"0".repeat(400)}`, "1e99999999999999999999"]) {
      expect([text, scanned(text)]).toMatchObject([text, { reason: "number" }])
    }
    for (
      const text of [
        "1e308",
        "-1.7976931348623157e308",
        "1e-400",
        "18446744073709551615",
        `0.${"1".repeat(400)}`,
        "9".repeat(308)
      ]
    ) {
      expect([text, scanned(text)._tag]).toEqual([text, "JsonScan"])
    }
  })

  it("pauses regularly, whatever the text contains", () => {
    const size = 1_000_000
    const texts = [
      `"${"x".repeat(size)}"`,
      `"${"\\\\".repeat(size / 2)}"`,
      `"${"\\u0041".repeat(size / 6)}"`,
      `${" ".repeat(size)}1`,
      `1${" ".repeat(size)}`,
      `[${"1,".repeat(size / 2)}1]`,
      `[${"[{}],".repeat(size / 5)}1]`,
      `{${"\"a\":1,".repeat(size / 6)}"a":1}`
    ]
    for (const text of texts) {
      const steps = scan(text, { members: new Set(["a"]), elements: 3 })
      let pauses = 0
      while (steps.next().done !== true) pauses++
      expect(pauses, text.slice(0, 10)).toBeGreaterThan(10)
    }
  })
})

import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { memberText } from "../src/http/JsonMember.ts"

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

describe("memberText", () => {
  it("returns the value of the last member with that name, exactly as it was written", () => {
    fc.assert(fc.property(object, key, ({ members, text }, name) => {
      const last = members.findLast(([one]) => one === name)?.[1]
      expect(memberText(text, name)).toBe(last)
    }))
  })

  it("agrees with JSON.parse", () => {
    fc.assert(fc.property(fc.dictionary(key, fc.jsonValue()), key, (value, name) => {
      const text = JSON.stringify(value)
      const found = memberText(text, name)
      const parsed: Record<string, unknown> = JSON.parse(text)
      if (Object.hasOwn(parsed, name)) expect(JSON.parse(found ?? "missing")).toEqual(parsed[name])
      else expect(found).toBeUndefined()
    }))
  })

  it("finds a member regardless of how its name is escaped", () => {
    expect(memberText("{\"\\u0069\\u006eput\":1}", "input")).toBe("1")
    expect(memberText("{\"a\\\"\":1,\"b\":2}", "b")).toBe("2")
  })

  it("returns undefined for a text that is not an object", () => {
    for (const text of ["[]", "[{\"a\":1}]", "1", "\"{\"", "null", "{}"]) expect(memberText(text, "a")).toBeUndefined()
  })

  it("takes linear time for any text", () => {
    const backslashes = `{"a":"${"\\\\".repeat(500_000)}","b":"${"\\\"".repeat(500_000)}","c":${"[".repeat(500_000)}${
      "]".repeat(500_000)
    }}`
    expect(memberText(backslashes, "c")?.length).toBe(1_000_000)
  })
})

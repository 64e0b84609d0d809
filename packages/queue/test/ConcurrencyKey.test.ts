import { assert, describe, it } from "@effect/vitest"
import { JsonText } from "@stint/contract/Json"
import { concurrencyKey } from "../src/jobs/ConcurrencyKey.ts"

const keyOf = (setting: string, text: string) => concurrencyKey(setting, JsonText.make(text))

describe("concurrency keys", () => {
  it("finds the value of a path, and takes any other setting as the key", () => {
    const text = "{ \"customer\" : {\"id\": 7, \"name\": \"Acme \\\"Inc\\\"\", \"tags\": [1, {\"a\": \"}\"}]}, \"x\": null }"
    assert.deepStrictEqual(
      ["input.customer.id", "input.customer.name", "input.customer.tags", "input.x", "input.y", "input.customer.id.z", "db"]
        .map((setting) => keyOf(setting, text)),
      ["7", "Acme \"Inc\"", "[1, {\"a\": \"}\"}]", "", "", "", "db"]
    )
    assert.deepStrictEqual(["3", "\"a\"", "[1]", " null "].map((text) => keyOf("input", text)), ["3", "a", "[1]", ""])
    assert.strictEqual(keyOf("inputs.a", "{\"a\":1}"), "inputs.a")
    assert.strictEqual(keyOf("input.a", "{\"a\":1,\"a\":2}"), "2")
  })

  it("keeps keys short and free of control characters, and different values apart", () => {
    const long = ["x".repeat(201), "x".repeat(202)].map((text) => keyOf("input", JSON.stringify(text)))
    assert.isTrue(long.every((key) => key.length < 80))
    assert.notStrictEqual(long[0], long[1])
    assert.strictEqual(keyOf("input", "\"a\\u0000b\""), "\"a\\u0000b\"")
    assert.strictEqual(keyOf("input", "\"\\ud800\""), "\ufffd")
  })

  it("finds the same value as JSON.parse among any members, with any whitespace", () => {
    const values: ReadonlyArray<unknown> = [0, -1.5e7, true, "a", "\"", "\\", "\\\"", "{", "],", [], {}, [[{}]], { "": "," }, [
      "\"]"
    ]]
    const value = Object.fromEntries(values.flatMap((one, at) => [[`n${at}`, one], [`"\\${at}`, one]]))
    for (const text of [JSON.stringify(value), JSON.stringify(value, null, 2)]) {
      for (const [name, wanted] of Object.entries(value)) {
        const key = keyOf(`input.${name}`, text)
        assert.deepStrictEqual<unknown>(typeof wanted === "string" ? key : JSON.parse(key), wanted)
      }
    }
  })
})

import { assert, describe, it } from "@effect/vitest"
import { encodeValues } from "../src/Connection.ts"
import { escapeNul, unescapeNul } from "../src/NulText.ts"

describe("the values of a statement", () => {
  it("contain no NUL character, which the server would reject like a broken database", () => {
    const encoded = encodeValues(["a\0b", ["\0", "c"], null, 1, escapeNul("\0\uF8FE")])
    assert.notInclude(JSON.stringify(encoded), "\\u0000")
    assert.deepStrictEqual(encoded.slice(2), [null, 1, escapeNul("\0\uF8FE")])
    assert.strictEqual(unescapeNul(String(encoded[0])), "a\0b")
  })
})

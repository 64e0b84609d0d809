import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { inspect } from "node:util"
import { open, seal } from "../src/SecretCipher.ts"
import { format, generate, parse } from "../src/SecretsKey.ts"

describe("the cipher of secrets", () => {
  it.effect("returns the value only for the same key and name, and never gives the same text twice", () =>
    Effect.gen(function*() {
      const [key, other] = [yield* generate, yield* generate]
      for (const value of ["", "hf_0123456789", "Zürich \u{1F680}\n\"quoted\" \\ \u0000", "x".repeat(65_536)]) {
        const sealed = seal(key, "token", value)
        assert.strictEqual(open(key, "token", sealed), value)
        assert.strictEqual(open(other, "token", sealed), undefined)
        assert.strictEqual(open(key, "token2", sealed), undefined)
        assert.notStrictEqual(seal(key, "token", value), sealed)
      }
    }))

  it.effect("rejects a text with any changed byte, and one that is too short", () =>
    Effect.gen(function*() {
      const key = yield* generate
      const bytes = Buffer.from(seal(key, "token", "hf_0123456789"), "base64")
      for (let at = 0; at < bytes.length; at++) {
        const changed = Buffer.from(bytes)
        changed[at] = (changed[at] ?? 0) ^ 1
        assert.strictEqual(open(key, "token", changed.toString("base64")), undefined, `byte ${at}`)
        assert.strictEqual(open(key, "token", bytes.subarray(0, at).toString("base64")), undefined, `${at} bytes`)
      }
    }))
})

describe("the keys of secrets", () => {
  it.effect("are read in base64, base64url and hexadecimal, one per line or separated by commas", () =>
    Effect.gen(function*() {
      const [one, two] = [yield* generate, yield* generate]
      const text = format([one, two])
      assert.deepStrictEqual(parse(text)?.map(({ id }) => id), [one.id, two.id])
      const [base64 = "", second = ""] = text.split("\n")
      const bytes = Buffer.from(base64, "base64")
      for (const form of [base64, base64.replace(/=$/, ""), bytes.toString("base64url"), bytes.toString("hex").toUpperCase()]) {
        assert.deepStrictEqual(parse(` ${form},${second}\r\n`)?.map(({ id }) => id), [one.id, two.id], form)
      }
      for (const wrong of ["short", base64.slice(1), `${base64}\nshort`, "0".repeat(63)]) {
        assert.strictEqual(parse(wrong), undefined, wrong)
      }
      assert.deepStrictEqual(parse(" \n"), [])
    }))

  it.effect("do not appear when a key is printed, and its id does not contain it", () =>
    Effect.gen(function*() {
      const key = yield* generate
      const hex = Buffer.from(format([key]), "base64").toString("hex")
      assert.match(key.id, /^[0-9a-f]{12}$/)
      assert.notInclude(hex, key.id)
      for (const shown of [inspect(key, { depth: 9 }), JSON.stringify(key), inspect(key.bytes)]) {
        assert.notInclude(shown, hex.slice(0, 8))
        assert.notInclude(shown, format([key]).slice(0, 8))
      }
    }))
})

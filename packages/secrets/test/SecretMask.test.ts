import { assert, describe, it } from "@effect/vitest"
import * as FastCheck from "fast-check"
import * as SecretMask from "../src/SecretMask.ts"

const mask = (values: Readonly<Record<string, string>>) =>
  SecretMask.make(Object.entries(values).map(([name, value]) => [value, name])) ?? ((text: string) => text)

describe("the mask of secrets", () => {
  it("replaces every occurrence of a value with the name of its secret", () => {
    const hide = mask({ "hf-token": "hf_abcdefgh", db: "p$ss^w.rd(1)" })
    assert.strictEqual(
      hide("hf_abcdefghhf_abcdefgh and p$ss^w.rd(1), not p$ss^wxrd(1)"),
      "[secret hf-token][secret hf-token] and [secret db], not p$ss^wxrd(1)"
    )
  })

  it("does not mask values that are shorter than 8 characters, because they match ordinary words", () => {
    assert.strictEqual(SecretMask.make([["1234567", "pin"], ["", "empty"]]), undefined)
    assert.strictEqual(mask({ pin: "1234567", eight: "12345678" })("1234567 12345678"), "1234567 [secret eight]")
  })

  it("finds values in JSON, in Python's JSON, in URLs, and each line of a value with several lines", () => {
    const value = "p\"ä\\ss w/ord"
    const hide = mask({ db: value })
    assert.strictEqual(hide(JSON.stringify({ value })), "{\"value\":\"[secret db]\"}")
    assert.strictEqual(hide(String.raw`{"value": "p\"\u00e4\\ss w/ord"}`), "{\"value\": \"[secret db]\"}")
    assert.strictEqual(hide(`https://user:${encodeURIComponent(value)}@host/`), "https://user:[secret db]@host/")
    const pem = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----\n"
    const hidePem = mask({ pem })
    for (const line of pem.trim().split("\n")) assert.strictEqual(hidePem(`  ${line}\r`), "  [secret pem]\r")
    assert.strictEqual(hidePem(`key: ${pem}.`), "key: [secret pem].")
    assert.strictEqual(hidePem(JSON.stringify(pem)), "\"[secret pem]\"")
  })

  it("masks a value that contains another as a whole, and never masks a replacement again", () => {
    const hide = mask({ short: "password", long: "password-and-more", "password-name": "another-value" })
    assert.strictEqual(hide("password-and-more password another-value"), "[secret long] [secret short] [secret password-name]")
  })

  it("leaves no value in any text that contains it, whatever characters it has", () => {
    FastCheck.assert(FastCheck.property(
      FastCheck.string({ minLength: 8, unit: "binary" }),
      FastCheck.string({ unit: "binary" }),
      FastCheck.string({ unit: "binary" }),
      (value, before, after) => {
        // The texts around it contain no part of the value by construction: they are in another alphabet.
        const [left, right] = [before, after].map((text) => Buffer.from(text).toString("hex").toUpperCase())
        const hidden = mask({ secret: value })(`<${left}>${value}<${right}>`)
        assert.strictEqual(hidden, `<${left}>[secret secret]<${right}>`)
      }
    ))
  })
})

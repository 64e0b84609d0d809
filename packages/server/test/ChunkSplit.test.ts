import { describe, expect, it } from "@effect/vitest"
import { JsonText } from "@stint/contract/Json"
import * as fc from "fast-check"
import { splitText } from "../src/workers/ChunkSplit.ts"

/** One character as JSON text, which may be escaped in different ways. */
const character = fc.constantFrom(
  "a",
  "u",
  "é",
  "漢",
  "😀",
  "\\n",
  "\\\"",
  "\\\\",
  "\\\\u",
  "\\\\ud83d",
  "\\u0000",
  "\\ud83d\\ude00",
  "\\uD83D",
  "\\uDE00"
)

const halves = (text: string) => text.length - Array.from(text).length

describe("splitText", () => {
  it("property: splits every text into pieces that fit, are JSON and together form the text", () =>
    fc.assert(
      fc.property(fc.array(character, { maxLength: 200 }), fc.integer({ min: 50, max: 120 }), (characters, limit) => {
        const json = JsonText.make(`"${characters.join("")}"`)
        const pieces = splitText(json, limit)
        for (const piece of pieces) expect(Buffer.byteLength(piece)).toBeLessThanOrEqual(limit)
        const texts = pieces.map((piece) => String(JSON.parse(piece)))
        const text = String(JSON.parse(json))
        expect(texts.join("")).toBe(text)
        // No surrogate pair is separated: the pieces contain as many pairs as the text.
        expect(texts.reduce((sum, piece) => sum + halves(piece), 0)).toBe(halves(text))
      }),
      { numRuns: 1_000 }
    ))

  it("fills the pieces of plain text", () => {
    const sizes = splitText(JsonText.make(`"${"x".repeat(100)}"`), 50).map((piece) => piece.length)
    expect(sizes).toEqual([50, 50, 6])
  })
})

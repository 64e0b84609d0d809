import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { splitText } from "../src/transport/ChunkSplit.ts"

describe("splitText", () => {
  it("property: the pieces make up the text, none exceeds the limit in bytes as JSON, and no character is split", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 60 }),
      fc.string({ unit: fc.constantFrom("a", "\"", "\n", "é", "漢", "😀", "\ud800"), maxLength: 60 })
    )
    fc.assert(fc.property(text, fc.integer({ min: 8, max: 200 }), (whole, limit) => {
      const pieces = splitText(whole, limit)
      expect(pieces.join("")).toBe(whole)
      for (const piece of pieces) expect(Buffer.byteLength(JSON.stringify(piece))).toBeLessThanOrEqual(limit)
      if (whole.isWellFormed()) expect(pieces.every((piece) => piece.isWellFormed())).toBe(true)
      // Two neighbours do not fit into one piece.
      for (const [index, piece] of pieces.entries()) {
        if (index === 0) continue
        const next = String.fromCodePoint(piece.codePointAt(0) ?? 0)
        expect(Buffer.byteLength(JSON.stringify(`${pieces[index - 1]}${next}`))).toBeGreaterThan(limit)
      }
    }))
  })

  it("returns a text that fits as a single piece, even an empty one", () => {
    expect([splitText("", 8), splitText("abcdef", 8), splitText("abcdefg", 8)]).toEqual([[""], ["abcdef"], ["abcdef", "g"]])
  })
})

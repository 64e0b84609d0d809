import * as fc from "fast-check"
import { Buffer } from "node:buffer"
import { describe, expect, it } from "vitest"
import { describe as words, partsOf, withoutMedia } from "../src/jobs/OutputParts.ts"

/** Base64 of a file of a format: its first bytes, and 90 more. */
const file = (...first: ReadonlyArray<number | string>): string =>
  Buffer.concat([
    ...first.map((part) => typeof part === "string" ? Buffer.from(part, "latin1") : Buffer.from([part])),
    Buffer.alloc(90)
  ])
    .toString("base64")

const PNG = file(0x89, "PNG\r\n\x1a\n")
const WAV = file("RIFF\x10\x00\x00\x00WAVE")

describe("the parts of an output", () => {
  it("are the media in it, as data URLs or as Base64 of a known format, wherever they are", () => {
    const output = {
      images: [PNG, file(0xff, 0xd8, 0xff)],
      sound: { wav: WAV },
      film: file("\0\0\0\x20ftypisom"),
      url: "data:audio/ogg;base64,T2dnUw=="
    }
    expect(partsOf(output).map(({ kind, path }) => `${path} ${kind}`)).toEqual([
      "images[0] image",
      "images[1] image",
      "sound.wav audio",
      "film video",
      "url audio"
    ])
    const [first] = partsOf(PNG)
    expect(first).toEqual({ kind: "image", path: "", type: "image/png", bytes: 98, source: `data:image/png;base64,${PNG}` })
    if (first?.kind !== "image") throw new Error("it is a picture")
    expect(words(first)).toBe("image/png, 98 B")
  })

  it("contain no addresses of other hosts and no other types of data URLs", () => {
    for (
      const text of [
        "https://example.com/cat.png",
        "data:text/html;base64,PGgxPg==",
        "data:application/pdf;base64,JVBERi0=",
        "javascript:alert(1)",
        "a".repeat(100),
        `${PNG.slice(0, -4)}!!!!`
      ]
    ) expect(partsOf({ text }), text).toEqual([])
  })

  it("are tables of objects with short values, and their columns in order", () => {
    expect(partsOf({ rows: [{ a: 1, b: "x" }, { b: null, c: true }] })).toEqual([
      { kind: "table", path: "rows", columns: ["a", "b", "c"], rows: [{ a: 1, b: "x" }, { b: null, c: true }] }
    ])
    for (const rows of [[], [{}], [{ a: { b: 1 } }], [{ a: "x".repeat(201) }], [1, 2], [{ a: 1 }, 2]]) {
      expect(partsOf(rows)).toEqual([])
    }
  })

  it("are texts with Markdown, and no other texts", () => {
    for (
      const text of [
        "# Title\n\ntext",
        "a\n\n- one\n- two",
        "| a | b |\n| - | - |\n| 1 | 2 |",
        "x\n```js\n1\n```",
        "this is **bold**\nyes"
      ]
    ) {
      expect(partsOf({ text }), text).toEqual([{ kind: "markdown", path: "text", text }])
    }
    for (const text of ["# one line", "2 * 3\n4 * 5", "plain\ntext", "a - b\nc - d"]) expect(partsOf(text), text).toEqual([])
  })

  it("are bounded in number, and in the levels and values that are searched", () => {
    const images = Array.from({ length: 20 }, () => PNG)
    expect(partsOf(images)).toHaveLength(12)
    let deep: unknown = PNG
    for (let level = 0; level < 9; level++) deep = { deep }
    expect(partsOf(deep)).toEqual([])
    expect(partsOf([...Array.from({ length: 10_000 }, () => [1]), PNG])).toEqual([])
  })

  it("property: do not fail, and media alone are shortened in the JSON", () => {
    fc.assert(fc.property(fc.jsonValue(), (value) => {
      expect(Array.isArray(partsOf(value))).toBe(true)
      expect(withoutMedia(value)).toEqual(value)
    }))
    expect(withoutMedia({ a: [PNG], b: 1, c: "text" })).toEqual({ a: ["(image/png, 98 B)"], b: 1, c: "text" })
  })
})

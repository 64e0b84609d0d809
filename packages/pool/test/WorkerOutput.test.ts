import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import { PassThrough } from "node:stream"
import { MAX_LINE, readLines, splitter } from "../src/WorkerOutput.ts"

const split = (pieces: ReadonlyArray<Buffer>) => {
  const lines = splitter()
  return [...pieces.flatMap((piece) => lines.push(piece)), ...lines.end()]
}

describe("WorkerOutput", () => {
  it("returns the same lines for any split of the bytes", () =>
    fc.assert(fc.property(
      fc.array(fc.string({ unit: "grapheme", maxLength: 30 }).filter((line) => !/[\r\n]/.test(line)), { minLength: 1 }),
      fc.array(fc.nat(), { maxLength: 10 }),
      fc.constantFrom("\n", "\r\n"),
      (lines, cuts, end) => {
        const bytes = Buffer.from(lines.map((line) => line + end).join(""))
        const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
        const pieces = at.slice(1).map((to, index) => bytes.subarray(at[index], to))
        assert.deepStrictEqual(split(pieces), lines)
      }
    )))

  it("returns the last line without a line break, and empty lines", () =>
    assert.deepStrictEqual(split([Buffer.from("a\n\nb")]), ["a", "", "b"]))

  it("splits an endless line into pieces, and buffers at most one", () => {
    const lines = splitter()
    const got = [...lines.push(Buffer.alloc(MAX_LINE * 2 + 5, "x")), ...lines.push(Buffer.from("y\n"))]
    assert.deepStrictEqual(got.map((line) => line.length), [MAX_LINE, MAX_LINE, 6])
  })

  it.effect("waits until each line is handled, and tolerates a broken pipe", () =>
    Effect.gen(function*() {
      const stream = new PassThrough()
      const seen: Array<string> = []
      stream.write("one\ntwo\n")
      yield* readLines(stream, (line) =>
        Effect.sync(() => {
          seen.push(line)
          if (line === "two") stream.destroy(new Error("EPIPE"))
        }))
      assert.deepStrictEqual(seen, ["one", "two"])
    }))
})

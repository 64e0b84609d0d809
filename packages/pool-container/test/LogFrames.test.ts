import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { demultiplexer } from "../src/LogFrames.ts"
import { frame } from "./StubEngine.ts"

/** The bytes of each stream, for chunks that are cut at these places. */
const separate = (bytes: Buffer, cuts: ReadonlyArray<number>) => {
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length].sort((a, b) => a - b)
  const push = demultiplexer()
  const text = { stdout: "", stderr: "" }
  at.slice(1).forEach((to, index) => {
    for (const part of push(bytes.subarray(at[index], to))) text[part.stream] += part.bytes.toString("latin1")
  })
  return text
}

describe("LogFrames", () => {
  it("separates the streams wherever the bytes are cut", () =>
    fc.assert(fc.property(
      fc.array(fc.record({ stream: fc.constantFrom(1 as const, 2 as const), text: fc.string({ maxLength: 300 }) }), {
        maxLength: 20
      }),
      fc.array(fc.nat(), { maxLength: 20 }),
      (frames, cuts) => {
        const bytes = Buffer.concat(frames.map(({ stream, text }) => frame(stream, text)))
        const of = (wanted: number) =>
          Buffer.from(frames.filter(({ stream }) => stream === wanted).map(({ text }) => text).join("")).toString("latin1")
        assert.deepStrictEqual(separate(bytes, cuts), { stdout: of(1), stderr: of(2) })
      }
    )))

  it("returns the part of a frame that has arrived", () => {
    const bytes = frame(2, "half a line")
    const push = demultiplexer()
    assert.deepStrictEqual(push(bytes.subarray(0, 5)), [])
    assert.deepStrictEqual(push(bytes.subarray(5, 12)).map(({ bytes, stream }) => [stream, bytes.toString()]), [[
      "stderr",
      "half"
    ]])
    assert.deepStrictEqual(push(bytes.subarray(12)).map(({ bytes }) => bytes.toString()), [" a line"])
  })

  it("rejects output that is not in frames", () => {
    assert.throws(() => demultiplexer()(Buffer.from("plain text of a terminal")), /not in frames/)
  })
})

import { describe, expect, it } from "vitest"
import { addLines, emptyBuildLog, MAX_LINES } from "../src/endpoints/useBuildLog.ts"

const lines = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, n) => ({ number: from + n, time: 1, text: `line ${from + n}` }))

describe("the log of a build", () => {
  it("ignores lines that arrive again", () => {
    const log = addLines(addLines(emptyBuildLog, lines(1, 3)), lines(2, 5))
    expect(log.lines.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5])
    expect(log.dropped).toBe(0)
  })

  it("keeps the newest lines, and counts the others", () => {
    const log = addLines(addLines(emptyBuildLog, lines(1, MAX_LINES)), lines(MAX_LINES + 1, MAX_LINES + 7))
    expect(log.lines).toHaveLength(MAX_LINES)
    expect(log.lines.at(-1)?.number).toBe(MAX_LINES + 7)
    expect(log.dropped).toBe(7)
  })
})

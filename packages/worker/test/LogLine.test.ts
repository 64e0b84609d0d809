import { describe, expect, it } from "@effect/vitest"
import { MAX_LOG_MESSAGE, truncateMessage } from "@stint/contract/LogMessage"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import * as LogLine from "../src/runtime/LogLine.ts"
import * as LogMemory from "../src/testing/LogMemory.ts"

// docs/spec/logging.md#line-format
describe("a line", () => {
  it("is JSON with requestId, message and level on a platform", () => {
    const style: LogLine.Style = { level: "DEBUG", json: true }
    expect(LogLine.format(style, "INFO", "hello", "job-1")).toBe(`{"requestId":"job-1","message":"hello","level":"INFO"}`)
    expect(LogLine.format(style, "WARN", "two\nlines")).toBe(`{"requestId":null,"message":"two\\nlines","level":"WARN"}`)
  })

  it("is LEVEL | message without a platform", () => {
    expect(LogLine.format({ level: "DEBUG", json: false }, "ERROR", "it broke", "job-1")).toBe("ERROR | it broke")
  })

  it("names the step of a pipeline", () => {
    expect(LogLine.format({ level: "DEBUG", json: true }, "INFO", "hello", "job-1", "page[2]")).toBe(
      `{"requestId":"job-1","message":"hello","level":"INFO","step":"page[2]"}`
    )
    expect(LogLine.format({ level: "DEBUG", json: false }, "INFO", "hello", "job-1", "page[2]")).toBe("INFO | hello step=page[2]")
  })

  const shownAt = (threshold: LogLine.Level) =>
    LogLine.LEVELS.filter((level) => level !== "NOTSET")
      .filter((level) => LogLine.isLevelEnabled({ level: threshold, json: false }, level))

  it.each(LogLine.LEVELS.slice(1))("%s shows lines of its own level and above", (threshold) => {
    expect(shownAt(threshold)).toEqual(LogLine.LEVELS.slice(LogLine.LEVELS.indexOf(threshold)))
  })

  it("NOTSET shows no lines", () => {
    expect(shownAt("NOTSET")).toEqual([])
  })

  it("property: a long message keeps its beginning and end within the limit, and no character is split", () => {
    const long = fc.string({ unit: "grapheme", minLength: 1, maxLength: 40 }).map((part) => part.repeat(5000 / part.length + 1))
    fc.assert(fc.property(fc.oneof(long, fc.string({ unit: "grapheme" })), (message) => {
      const cut = truncateMessage(message)
      if (message.length <= MAX_LOG_MESSAGE) {
        expect(cut).toBe(message)
        return
      }
      expect(cut.length).toBeLessThanOrEqual(MAX_LOG_MESSAGE)
      expect(cut.length).toBeGreaterThan(MAX_LOG_MESSAGE - 3)
      const [head = "", tail = ""] = cut.split(/ \.\.\.\[\d+ characters, cut here\]\.\.\. /)
      expect(message.startsWith(head)).toBe(true)
      expect(message.endsWith(tail)).toBe(true)
      expect(Math.abs(head.length - tail.length)).toBeLessThanOrEqual(3)
      expect(cut.isWellFormed()).toBe(true)
    }))
  })
})

describe("Effect's log", () => {
  it.effect("contains the job's id, other annotations and the cause", () =>
    Effect.gen(function*() {
      const log = LogMemory.make()
      yield* Effect.gen(function*() {
        yield* Effect.logInfo("one", { two: 2 }).pipe(Effect.annotateLogs({ requestId: "job-1", step: "resize" }))
        yield* Effect.logError("it broke", new Error("the reason"))
        yield* Effect.logTrace("quiet")
      }).pipe(Effect.provide(log.layer))
      expect(log.lines[0]).toEqual({ level: "INFO", message: `one {"two":2} step=resize`, requestId: "job-1" })
      expect(log.lines[1]).toMatchObject({
        level: "ERROR",
        requestId: undefined,
        message: expect.stringContaining("Error: the reason")
      })
      expect(log.lines[2]).toMatchObject({ level: "TRACE" })
    }))
})

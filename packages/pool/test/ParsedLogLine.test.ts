import { describe, expect, it } from "@effect/vitest"
import * as ParsedLogLine from "@stint/pool/ParsedLogLine"

const line = (text: string, stream: "stdout" | "stderr" = "stdout") => ParsedLogLine.parse({ stream, text })

describe("ParsedLogLine", () => {
  // docs/spec/logging.md#line-format
  it("parses the job, level and message of a line from an SDK's logger", () => {
    expect(line(`{"requestId":"job-1","message":"two\\nlines","level":"WARN"}`)).toEqual({
      job: "job-1",
      level: "WARN",
      source: "log",
      message: "two\nlines",
      isLogged: true
    })
    expect(line(`{"requestId": null, "message": "loading", "level": "TIP"}`)).toMatchObject({ job: undefined, level: "INFO" })
    expect(line(`{"requestId":"job-1","message":"printed","level":"ERROR","source":"stderr"}`)).toMatchObject({
      source: "stderr"
    })
  })

  it("parses the step of a pipeline, and ignores what other programs call a step", () => {
    const of = (step: unknown) => line(JSON.stringify({ requestId: "job-1", message: "m", level: "INFO", step }))
    expect(of("thumbnail[3]~undo")).toMatchObject({ isLogged: true, step: "thumbnail[3]~undo" })
    for (const step of [7, null, "", "a b", "x".repeat(600), { at: 1 }]) {
      expect(of(step)).toEqual({ job: "job-1", level: "INFO", source: "log", message: "m", isLogged: true })
    }
  })

  it("treats any other line as text, with level WARN on standard error", () => {
    expect(line("hello")).toEqual({ job: undefined, level: "INFO", source: "stdout", message: "hello", isLogged: false })
    expect(line("Traceback (most recent call last):", "stderr")).toMatchObject({ level: "WARN", source: "stderr" })
    for (
      const text of [
        `{"requestId":"job-1"`,
        `{"msg":"another logger's","level":30}`,
        `{}`,
        `{"requestId":7,"message":"","level":""}`
      ]
    ) {
      expect(line(text)).toMatchObject({ job: undefined, message: text, isLogged: false })
    }
  })
})

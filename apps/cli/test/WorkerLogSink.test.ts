/**
 * Workers' lines in the platform's log.
 */
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { WorkerLog } from "@stint/pool/WorkerLog"
import { JobLogs } from "@stint/queue/JobLogs"
import * as WaitList from "@stint/queue/WaitList"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { LogLevel } from "effect/LogLevel"
import * as References from "effect/References"
import process from "node:process"
import { describe, expect, it, vi } from "vitest"
import * as WorkerLogSink from "../src/platform/WorkerLogSink.ts"

/** What the platform prints, and what it stores with the job, for these lines at a level. */
const linesAt = async (level: LogLevel) => {
  let printed = ""
  const stored: Array<string> = []
  const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    printed += String(text)
    return true
  })
  const logs = Layer.mock(JobLogs, {
    followers: WaitList.make(),
    write: ({ message }) => Effect.sync(() => stored.push(message) > 0)
  })
  const logged = (level: string, message: string) => JSON.stringify({ requestId: null, message, level })
  const texts = [
    ["stdout", logged("DEBUG", "a detail")],
    ["stdout", "printed"],
    ["stderr", "printed on standard error"],
    ["stdout", logged("ERROR", "a failure")]
  ] as const
  try {
    await Effect.runPromise(
      Effect.gen(function*() {
        const sink = yield* WorkerLog
        for (const [stream, text] of texts) {
          yield* sink.write({ endpoint: EndpointId.make("e"), worker: WorkerId.make("w"), stream, text })
        }
      }).pipe(
        Effect.provide(WorkerLogSink.layer().pipe(Layer.provide(logs))),
        Effect.provideService(References.MinimumLogLevel, level)
      )
    )
  } finally {
    write.mockRestore()
  }
  return { printed: printed.trimEnd().split("\n"), stored }
}

describe("the platform's log", () => {
  it("shows workers' lines from its level up, with their date, and stores all of them with their job", async () => {
    const all = ["a detail", "printed", "printed on standard error", "a failure"]
    const debug = await linesAt("Debug")
    expect(debug.stored).toEqual(all)
    expect(debug.printed).toHaveLength(4)
    for (const line of debug.printed) expect(line).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ [A-Z ]{6} e w \| /)
    const info = await linesAt("Info")
    expect(info.printed.map((line) => line.split(" | ")[1])).toEqual(all.slice(1))
    const warn = await linesAt("Warn")
    expect(warn.printed.map((line) => line.split(" | ")[1])).toEqual(all.slice(2))
    expect(warn.stored).toEqual(all)
  })
})

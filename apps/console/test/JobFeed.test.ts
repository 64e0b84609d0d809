import type { JobEvent, JobLogLine } from "@stint/client"
import { describe, expect, it } from "vitest"
import { errorLine, errorParts } from "../src/jobs/JobError.ts"
import { addEvents, emptyFeed, MAX_KEPT, streamedText } from "../src/jobs/JobFeed.ts"
import { countNew, mergePages } from "../src/jobs/JobPages.ts"

const position = undefined

const chunk = (number: number, output: string | number, attempt = 1): JobEvent => ({
  _tag: "Chunk",
  position,
  attempt,
  number,
  output
})

const line = (number: number): JobEvent => {
  const logged: JobLogLine = { number, time: number, level: "INFO", message: `line ${number}`, attempt: 1, source: "log" }
  return { _tag: "Log", position, ...logged }
}

describe("the feed of a job", () => {
  it("collects statuses, progress, chunks and lines until the end", () => {
    const feed = addEvents(
      addEvents(emptyFeed, [
        { _tag: "Status", position, attempt: 1, status: "IN_PROGRESS", workerId: "w-1" },
        { _tag: "Progress", position, attempt: 1, output: 0.5 },
        chunk(1, "a")
      ]),
      [line(1), chunk(2, "b"), { _tag: "End", position, job: { id: "j", status: "COMPLETED" } }]
    )
    expect(feed).toMatchObject({ status: "COMPLETED", attempt: 1, progress: 0.5, hasEnded: true, dropped: 0 })
    expect(feed.chunks.map(({ output }) => output)).toEqual(["a", "b"])
    expect(feed.lines.map(({ message }) => message)).toEqual(["line 1"])
  })

  it("keeps the newest lines of a job that never stops", () => {
    const feed = addEvents(emptyFeed, Array.from({ length: MAX_KEPT + 7 }, (_, index) => line(index + 1)))
    expect(feed.lines).toHaveLength(MAX_KEPT)
    expect(feed.lines[0]?.number).toBe(8)
    expect(feed.dropped).toBe(7)
  })

  it("shows a stream of texts as one text, from the last attempt only", () => {
    const { chunks } = addEvents(emptyFeed, [chunk(1, "lost ", 1), chunk(1, "Once ", 2), chunk(2, "upon", 2)])
    expect(streamedText(chunks)).toBe("Once upon")
    expect(streamedText(addEvents(emptyFeed, [chunk(1, "a"), chunk(2, 7)]).chunks)).toBeUndefined()
    expect(streamedText([])).toBeUndefined()
  })
})

describe("the error of a job", () => {
  const blob = JSON.stringify({
    error_type: "<class 'ValueError'>",
    error_message: "no such city\nsecond line",
    error_traceback: "Traceback ...",
    hostname: "w-1"
  })

  it("is split into type, message and traceback", () => {
    expect(errorParts(blob)).toEqual({
      type: "ValueError",
      message: "no such city\nsecond line",
      traceback: "Traceback ...",
      worker: "w-1"
    })
    expect(errorParts("boom \ntraceback: File x, line 1")).toMatchObject({ message: "boom", traceback: "File x, line 1" })
    expect(errorParts("plain")).toEqual({ type: undefined, message: "plain", traceback: undefined, worker: undefined })
    expect(errorParts("[1]").message).toBe("[1]")
  })

  it("has one line in lists, even when the list has truncated it", () => {
    expect(errorLine(blob)).toBe("no such city")
    expect(errorLine(blob.slice(0, blob.indexOf(" city")))).toBe("no such")
    expect(errorLine("plain\nmore")).toBe("plain")
  })
})

describe("job lists", () => {
  const job = (id: string, status: "IN_QUEUE" | "COMPLETED" = "COMPLETED") => ({
    endpoint: "hello",
    id,
    status,
    createdAt: 0,
    attempt: 1,
    priority: 0,
    tags: []
  })

  it("put the newest page before the older ones, and each job once with its newer state", () => {
    const merged = mergePages([job("c"), job("b")], [{ jobs: [job("b", "IN_QUEUE"), job("a")], cursor: null }])
    expect(merged.map(({ id, status }) => `${id} ${status}`)).toEqual(["c COMPLETED", "b COMPLETED", "a COMPLETED"])
    expect(countNew([job("b")], [job("d"), job("c"), job("b")])).toBe(2)
  })
})

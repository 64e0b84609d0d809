/**
 * The events of a job, compared with a model of the job: whatever happens to it, and wherever a reader stops and resumes, the reader receives every chunk
 * and line once and in order (R9, docs/spec/figures.md#reliability).
 *
 * ```
 *   random steps:  claim, chunk, line, progress, lose, finish, retry --> model of the job
 *                  read (pages of any size), resume from any event   --> reader: diff(cursor, what a store would return)
 * ```
 */
import { describe, expect, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import {
  decodeEventCursor,
  diff,
  encodeEventCursor,
  type JobEvent,
  type JobEventCursor,
  NO_LOGS,
  START_CURSOR
} from "@stint/queue/JobEventCursor"
import type { LogLine } from "@stint/store/JobLogStore"
import type { JobReport } from "@stint/store/JobRecord"
import type { PeekResult } from "@stint/store/JobStore"
import * as fc from "fast-check"
import process from "node:process"
import { Scenario } from "../src/index.ts"

const job: JobReport = Scenario.record()

const RUNS = Number(process.env["STINT_PROPERTY_RUNS"] ?? 1_000)
const SEED = process.env["STINT_PROPERTY_SEED"]
const parameters = { numRuns: RUNS, ...(SEED === undefined ? {} : { seed: Number(SEED) }) }

describe("the text of a cursor", () => {
  const number = fc.integer({ min: 0, max: 999_999_999 })

  it("is read as the same cursor", () => {
    const cursor = fc.record({
      attempt: number,
      chunk: number,
      line: fc.oneof(fc.constant(0), number),
      phase: fc.constantFrom("start", "queued", "running", "ended"),
      endedAt: fc.integer({ min: 0, max: 999_999_999_999_999 })
    })
    fc.assert(
      fc.property(cursor, (one) => {
        // Only an ended job has an end.
        const given: JobEventCursor = { ...one, endedAt: one.phase === "ended" ? one.endedAt : 0 }
        expect(decodeEventCursor(encodeEventCursor(given))).toEqual(given)
      }),
      parameters
    )
  })

  it("stays as it is, because readers keep it", () => {
    const cursor: JobEventCursor = { attempt: 1, chunk: 7, phase: "running", endedAt: 0, line: 0 }
    expect(encodeEventCursor(START_CURSOR)).toBe("0.0.s")
    expect(encodeEventCursor({ ...cursor, phase: "queued" })).toBe("1.7.q")
    expect(encodeEventCursor(cursor)).toBe("1.7.r")
    expect(encodeEventCursor({ ...cursor, line: 12 })).toBe("1.7.r.12")
    expect(encodeEventCursor({ ...cursor, phase: "ended", endedAt: 1_790_000_000_000, line: 12 })).toBe("1.7.e1790000000000.12")
  })

  it.each([
    "",
    "1.7",
    "1.7.",
    "1.7.x",
    "a.7.r",
    "1.b.r",
    "1.7.ra",
    "1.7.r.",
    "1.7.r.c",
    "x1.7.r",
    "1.7.rx",
    "1.7.r.12x",
    " 1.7.r",
    "1.7.r\n",
    "-1.7.r",
    "1.7.R",
    "1234567890.7.r",
    "1.1234567890.r",
    "1.7.e1234567890123456",
    "1.7.r.1234567890"
  ])("is refused: %j", (text) => {
    expect(decodeEventCursor(text)).toBeUndefined()
  })
})

/** What has happened to a job. */
class JobModel {
  status: "IN_QUEUE" | "IN_PROGRESS" | "COMPLETED" = "IN_QUEUE"
  attempt = 0
  progress = 0
  finishedAt: number | null = null
  chunks: Array<string> = []
  readonly lines: Array<LogLine> = []
  /** The numbers of the lines that were stored after their attempt was followed by another one. */
  readonly late = new Set<number>()
  #clock = 0

  claim(): void {
    if (this.status !== "IN_QUEUE") return
    this.attempt++
    this.status = "IN_PROGRESS"
  }

  chunk(): void {
    if (this.status === "IN_PROGRESS") this.chunks.push(`${this.attempt}:${this.chunks.length + 1}`)
  }

  /** A line of the current attempt, or a late one of the attempt before. */
  line(late: boolean): void {
    const attempt = late ? this.attempt - 1 : this.attempt
    // While a job waits for its next attempt, its last one has no chunks any more.
    if (attempt < 1) return
    if (late) this.late.add(this.lines.length + 1)
    this.lines.push({
      number: this.lines.length + 1,
      attempt,
      chunk: late ? 0 : this.chunks.length,
      time: 0,
      level: "INFO",
      source: "log",
      worker: "bench",
      message: "line"
    })
  }

  advance(): void {
    if (this.status === "IN_PROGRESS") this.progress++
  }

  lose(): void {
    if (this.status !== "IN_PROGRESS") return
    this.status = "IN_QUEUE"
    this.chunks = []
    this.progress = 0
  }

  finish(): void {
    if (this.status !== "IN_PROGRESS") return
    this.status = "COMPLETED"
    this.finishedAt = ++this.#clock
  }

  retry(): void {
    if (this.status !== "COMPLETED") return
    this.status = "IN_QUEUE"
    this.finishedAt = null
    this.chunks = []
    this.progress = 0
  }

  /** What a store returns for a cursor, with at most `limit` chunks. */
  peek(cursor: JobEventCursor, limit: number): PeekResult {
    const seen = cursor.attempt === this.attempt ? cursor.chunk : 0
    const chunks = this.chunks.slice(seen, seen + limit)
    return {
      job: {
        ...job,
        status: this.status,
        attempt: this.attempt,
        chunks: this.chunks.length,
        startedAt: this.status === "IN_QUEUE" ? null : 0,
        finishedAt: this.finishedAt,
        progress: this.progress === 0 ? null : toJsonText(this.progress)
      },
      chunks: chunks.map(toJsonText),
      from: seen + 1,
      more: seen + chunks.length < this.chunks.length
    }
  }

  logs(cursor: JobEventCursor, limit: number) {
    const left = this.lines.filter(({ number }) => number > cursor.line)
    return { lines: left.slice(0, limit), more: left.length > limit }
  }
}

/** A reader, which keeps the events that it has received. */
class Reader {
  events: Array<JobEvent> = []
  cursor = START_CURSOR
  progress: ReturnType<typeof diff>["progress"] = null
  done = false

  /** Reads until there is nothing more. */
  read(model: JobModel, limit: number): void {
    for (let page = 0; page < 1_000; page++) {
      const logs = model.logs(this.cursor, limit)
      const peeked = model.peek(this.cursor, limit)
      const { cursor, done, events, progress } = diff(this.cursor, this.progress, peeked, logs)
      this.cursor = cursor
      this.progress = progress
      this.done = done
      this.events.push(...events)
      // A reader that is done has received everything.
      if (done) expect([model.status, logs.more, peeked.more]).toEqual(["COMPLETED", false, false])
      // The last event covers everything before it.
      if (events.length > 0) expect(events.at(-1)?.cursor).toEqual(cursor)
      if (events.length === 0 && !logs.more && !peeked.more) return
    }
    throw new Error("a reader receives events without end")
  }

  /** Loses the connection after some of the events, and continues after the last one that it has received. */
  resume(share: number): void {
    this.events = this.events.slice(0, Math.floor(share * (this.events.length + 1)))
    const text = encodeEventCursor(this.events.at(-1)?.cursor ?? START_CURSOR)
    this.cursor = decodeEventCursor(text) ?? START_CURSOR
    this.progress = null
    this.done = false
  }
}

type Step = (model: JobModel, reader: Reader) => void

const page = fc.integer({ min: 1, max: 4 })
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Step>((model) => model.claim()) },
  { weight: 8, arbitrary: fc.constant<Step>((model) => model.chunk()) },
  { weight: 6, arbitrary: fc.constant<Step>((model) => model.line(false)) },
  { weight: 1, arbitrary: fc.constant<Step>((model) => model.line(true)) },
  { weight: 2, arbitrary: fc.constant<Step>((model) => model.advance()) },
  { weight: 2, arbitrary: fc.constant<Step>((model) => model.lose()) },
  { weight: 2, arbitrary: fc.constant<Step>((model) => model.finish()) },
  { weight: 2, arbitrary: fc.constant<Step>((model) => model.retry()) },
  { weight: 4, arbitrary: page.map((limit): Step => (model, reader) => reader.read(model, limit)) },
  {
    weight: 1,
    arbitrary: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }).map((share): Step => (_, reader) =>
      reader.resume(share)
    )
  }
)

/** What must hold for the events that a reader has received. */
const check = (events: ReadonlyArray<JobEvent>, model: JobModel): void => {
  const lines = events.flatMap((event) => event._tag === "Log" ? [event.line.number] : [])
  expect(lines).toEqual(model.lines.map(({ number }) => number))
  const numbers = new Map<number, Array<number>>()
  let status: { readonly attempt: number; readonly status: string } | undefined
  for (const event of events) {
    if (event._tag === "Status") {
      status = event
      expect(event.attempt).toBeGreaterThanOrEqual(numbers.size === 0 ? 0 : Math.max(...numbers.keys()))
    }
    if (event._tag === "Log") expect(event.attempt).toBe(event.line.attempt)
    // The lines of an attempt precede the next attempt.
    if (event._tag === "Log" && !model.late.has(event.line.number) && status?.status === "IN_PROGRESS") {
      expect(status.attempt).toBeLessThanOrEqual(event.attempt)
    }
    if (event._tag === "Log" && event.line.chunk > 0) {
      // A line follows its chunk. The chunks of a lost attempt may be gone before the reader received them.
      const received = numbers.get(event.attempt)?.length ?? 0
      expect(received).toBeLessThanOrEqual(event.line.chunk)
      if (event.attempt === model.attempt && model.chunks.length > 0) expect(received).toBe(event.line.chunk)
    }
    if (event._tag === "Chunk" || event._tag === "End") {
      // The status of an attempt precedes its chunks and its end.
      expect(status).toMatchObject({ attempt: event.attempt, status: "IN_PROGRESS" })
    }
    if (event._tag !== "Chunk") continue
    const own = numbers.get(event.attempt) ?? []
    numbers.set(event.attempt, [...own, event.number])
    expect(event.output).toBe(toJsonText(`${event.attempt}:${event.number}`))
  }
  for (const own of numbers.values()) expect(own).toEqual(own.map((_, index) => index + 1))
  expect(numbers.get(model.attempt)?.length ?? 0).toBe(model.chunks.length)
}

describe("the events of a job", () => {
  it("have every chunk and line once and in order, for every history and every place to resume", () => {
    let resumed = 0
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60, size: "max" }), page, (steps, limit) => {
        const [model, reader] = [new JobModel(), new Reader()]
        for (const one of steps) one(model, reader)
        model.claim()
        model.finish()
        reader.read(model, limit)
        check(reader.events, model)
        expect(reader.done).toBe(true)
        const last = reader.events.findLast(({ _tag }) => _tag !== "Log")
        expect(last).toMatchObject({ _tag: "End", attempt: model.attempt, cursor: { phase: "ended", endedAt: model.finishedAt } })
        // A reader of the ended job from any event on receives what came after it.
        const before = reader.events.length
        reader.resume(0.5)
        resumed += before - reader.events.length
        reader.read(model, limit)
        expect(reader.done).toBe(true)
        check(reader.events, model)
      }),
      parameters
    )
    expect(resumed).toBeGreaterThan(RUNS)
  })

  it("report each status and each value of the progress once, and the progress again to a reader that resumes", () => {
    const [model, reader] = [new JobModel(), new Reader()]
    const received = () => {
      const before = reader.events.length
      reader.read(model, 10)
      return reader.events.slice(before).map((event) =>
        event._tag === "Status" ? event.status : event._tag === "Progress" ? event.output : event._tag
      )
    }
    expect(received()).toEqual(["IN_QUEUE"])
    expect(received()).toEqual([])
    expect(reader.done).toBe(false)
    model.claim()
    model.advance()
    expect(received()).toEqual(["IN_PROGRESS", "1"])
    expect(received()).toEqual([])
    model.advance()
    expect(received()).toEqual(["2"])
    reader.resume(0.99)
    expect(received()).toEqual(["2"])
    model.lose()
    expect(received()).toEqual(["IN_QUEUE"])
    expect(reader.progress).toBeNull()
    // An attempt that begins and is lost between two reads is not reported, but the job waits for another one.
    model.claim()
    model.lose()
    expect(received()).toEqual(["IN_QUEUE"])
    model.claim()
    model.chunk()
    model.advance()
    model.finish()
    expect(received()).toEqual(["IN_PROGRESS", "Chunk", "End"])
    expect(reader.done).toBe(true)
    model.line(false)
    expect(received()).toEqual(["Log"])
    expect(reader.done).toBe(true)
    model.retry()
    expect(received()).toEqual(["IN_QUEUE"])
    expect(reader.done).toBe(false)
    model.claim()
    model.finish()
    expect(received()).toEqual(["IN_PROGRESS", "End"])
  })

  it("of a job that ended before it started are only its end", () => {
    const peeked: PeekResult = {
      job: { ...job, status: "CANCELLED", attempt: 0, chunks: 0, startedAt: null, finishedAt: 5, progress: null },
      chunks: [],
      from: 1,
      more: false
    }
    const { cursor, done, events } = diff(START_CURSOR, null, peeked)
    expect(events.map(({ _tag }) => _tag)).toEqual(["End"])
    expect(cursor).toMatchObject({ phase: "ended", endedAt: 5 })
    expect(done).toBe(true)
  })

  it("wait for the rest of the lines before the next status, and for the rest of the chunks before the end", () => {
    const model = new JobModel()
    model.claim()
    model.line(false)
    model.line(false)
    model.chunk()
    model.chunk()
    model.finish()
    const first = diff(START_CURSOR, null, model.peek(START_CURSOR, 1), model.logs(START_CURSOR, 1))
    expect(first.events.map(({ _tag }) => _tag)).toEqual(["Status", "Log"])
    expect(first.done).toBe(false)
    const second = diff(first.cursor, null, model.peek(first.cursor, 1), model.logs(first.cursor, 1))
    expect(second.events.map(({ _tag }) => _tag)).toEqual(["Log", "Chunk"])
    expect(second.done).toBe(false)
    const third = diff(second.cursor, null, model.peek(second.cursor, 1), NO_LOGS)
    expect(third.events.map(({ _tag }) => _tag)).toEqual(["Chunk", "End"])
    expect(third.done).toBe(true)
  })
})

const numbers = (events: ReadonlyArray<JobEvent>) => events.map((one) => one._tag === "Chunk" ? one.number : one._tag)

/** The chunks of a pipeline's run as a store returns them: after the reader's cursor, whatever the attempt is. */
const peekedRun = (cursor: JobEventCursor, stored: number, rest: Partial<JobReport>): PeekResult => ({
  job: { ...job, startedAt: 0, chunks: stored, ...rest },
  chunks: Array.from({ length: stored - cursor.chunk }, (_, index) => toJsonText(cursor.chunk + index + 1)),
  from: cursor.chunk + 1,
  more: false
})

describe("the events of a pipeline's run", () => {
  it("continue with the next chunk after each status, also when it arrives later", () => {
    const running = { status: "IN_PROGRESS", attempt: 1 } as const
    const first = diff(START_CURSOR, null, peekedRun(START_CURSOR, 2, running))
    expect(numbers(first.events)).toEqual(["Status", 1, 2])
    const queued = diff(first.cursor, null, peekedRun(first.cursor, 2, { status: "IN_QUEUE", attempt: 1 }))
    const again = diff(queued.cursor, null, peekedRun(queued.cursor, 2, { ...running, attempt: 2 }))
    expect(numbers([...queued.events, ...again.events])).toEqual(["Status", "Status"])
    expect(again.cursor).toMatchObject({ attempt: 2, chunk: 2 })
    const more = diff(again.cursor, null, peekedRun(again.cursor, 3, { ...running, attempt: 2 }))
    expect(numbers(more.events)).toEqual([3])
  })
})

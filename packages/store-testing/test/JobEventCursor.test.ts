import { describe, expect, it } from "@effect/vitest"
import { JsonText } from "@stint/contract/Json"
import { diff, type JobEvent, type JobEventCursor, START_CURSOR } from "@stint/queue/JobEventCursor"
import type { JobReport } from "@stint/store/JobRecord"
import type { PeekResult } from "@stint/store/JobStore"
import { Scenario } from "../src/index.ts"

const job: JobReport = Scenario.record()

const numbers = (events: ReadonlyArray<JobEvent>) => events.map((one) => one._tag === "Chunk" ? one.number : one._tag)

/** The chunks of a pipeline's run as a store returns them: after the reader's cursor, whatever the attempt is. */
const peeked = (cursor: JobEventCursor, stored: number, rest: Partial<JobReport>): PeekResult => ({
  job: { ...job, startedAt: 0, chunks: stored, ...rest },
  chunks: Array.from({ length: stored - cursor.chunk }, (_, index) => JsonText.make(String(cursor.chunk + index + 1))),
  from: cursor.chunk + 1,
  more: false
})

describe("the events of a pipeline's run", () => {
  it("continue with the next chunk after each status, also when it arrives later", () => {
    const running = { status: "IN_PROGRESS", attempt: 1 } as const
    const first = diff(START_CURSOR, null, peeked(START_CURSOR, 2, running))
    expect(numbers(first.events)).toEqual(["Status", 1, 2])
    const queued = diff(first.cursor, null, peeked(first.cursor, 2, { status: "IN_QUEUE", attempt: 1 }))
    const again = diff(queued.cursor, null, peeked(queued.cursor, 2, { ...running, attempt: 2 }))
    expect(numbers([...queued.events, ...again.events])).toEqual(["Status", "Status"])
    const more = diff(again.cursor, null, peeked(again.cursor, 3, { ...running, attempt: 2 }))
    expect(numbers(more.events)).toEqual([3])
  })
})

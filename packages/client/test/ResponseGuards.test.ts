import { Health } from "@stint/contract/Health"
import { Job, JobReceipt, Purged, StreamPage } from "@stint/contract/Job"
import { JobChunkEvent, JobProgressEvent, JobStatusEvent } from "@stint/contract/JobEvents"
import { JobLogLine } from "@stint/contract/JobLogLine"
import { EventReceipt } from "@stint/contract/RunSteps"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import { describe, expect, it } from "vitest"
import { decoders } from "../src/protocol/ResponseGuards.ts"

const pairs: ReadonlyArray<readonly [string, (json: unknown) => unknown, (json: unknown) => boolean]> = [
  ["job", decoders.job, Schema.is(Job)],
  ["receipt", decoders.receipt, Schema.is(JobReceipt)],
  ["page", decoders.page, Schema.is(StreamPage)],
  ["status event", decoders.events.status, Schema.is(JobStatusEvent)],
  ["progress event", decoders.events.progress, Schema.is(JobProgressEvent)],
  ["chunk event", decoders.events.chunk, Schema.is(JobChunkEvent)],
  ["log event", decoders.events.log, Schema.is(JobLogLine)],
  ["end event", decoders.events.end, Schema.is(Job)],
  ["purged", decoders.purged, Schema.is(Purged)],
  ["eventReceipt", decoders.eventReceipt, Schema.is(EventReceipt)],
  ["health", decoders.health, Schema.is(Health)]
]

const count = fc.oneof(fc.nat(), fc.constantFrom<unknown>(-1, 1.5, "1", null, 2 ** 53))
const status = fc.constantFrom<unknown>(
  "IN_QUEUE",
  "IN_PROGRESS",
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "TIMED_OUT",
  "completed",
  "RUNNING",
  1,
  "toString"
)
const text = fc.oneof({ weight: 5, arbitrary: fc.string() }, { weight: 1, arbitrary: fc.constantFrom<unknown>(null, 7, ["x"]) })
const chunk = fc.oneof({ weight: 5, arbitrary: fc.record({ output: fc.jsonValue() }) }, {
  weight: 1,
  arbitrary: fc.constantFrom<unknown>(1, {}, null, [])
})

/** Values that resemble responses: any subset of their keys, with mostly valid values. */
const nearly = fc.oneof(
  fc.record({
    id: text,
    status,
    delayTime: count,
    executionTime: count,
    output: fc.jsonValue(),
    error: text,
    retries: count,
    workerId: text,
    stream: fc.oneof(fc.array(chunk, { maxLength: 4 }), fc.constant<unknown>({})),
    removed: count,
    attempt: count,
    number: count
  }, { requiredKeys: [] }),
  fc.record({ id: fc.string(), status: fc.constant("COMPLETED"), stream: fc.array(chunk, { maxLength: 3 }) }),
  fc.record({
    id: fc.string(),
    status: fc.constantFrom("IN_QUEUE", "IN_PROGRESS", "COMPLETED"),
    attempt: count,
    number: count,
    output: fc.jsonValue(),
    workerId: text
  }, { requiredKeys: ["id", "status", "attempt"] }),
  fc.record({
    number: fc.nat(),
    time: count,
    level: fc.constantFrom<unknown>("TRACE", "INFO", "ERROR", "TIP", 3),
    message: text,
    attempt: fc.nat(),
    source: fc.constantFrom<unknown>("log", "stdout", "platform", "elsewhere"),
    workerId: text
  }, { requiredKeys: ["number", "time", "level", "message", "attempt", "source"] }),
  fc.record({ removed: count, status: fc.constantFrom("completed", "failed") }),
  fc.record({ delivered: text, duplicate: fc.constantFrom<unknown>(true, false, 1) }, { requiredKeys: ["delivered"] }),
  fc.record({
    jobs: fc.record({ completed: count, failed: fc.nat(), inProgress: fc.nat(), inQueue: fc.nat(), retried: fc.nat() }, {
      requiredKeys: ["completed", "failed", "inProgress", "inQueue"]
    }),
    workers: fc.record({
      idle: fc.nat(),
      initializing: fc.nat(),
      ready: fc.nat(),
      running: fc.nat(),
      throttled: fc.nat(),
      unhealthy: fc.nat()
    })
  }),
  fc.jsonValue()
)

describe("the guards of the promise client", () => {
  it.each(pairs)("accept the same values as the contract's Schema for: %s", (_, read, fits) => {
    let accepted = 0
    fc.assert(
      fc.property(nearly, (value) => {
        // Responses are values from JSON.parse.
        const json: unknown = JSON.parse(JSON.stringify(value))
        const wanted = fits(json)
        if (wanted) accepted += 1
        expect(read(json) !== undefined).toBe(wanted)
      }),
      { numRuns: 2_000 }
    )
    expect(accepted).toBeGreaterThan(20)
  })
})

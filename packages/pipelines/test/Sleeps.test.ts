/**
 * Long waits on a test clock: 30 days pass in a moment, during which no worker holds the run.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { Pipeline } from "../src/index.ts"
import { PipelineTest } from "../src/testing/index.ts"

const DAYS = 30
const MONTH = Duration.days(DAYS)

/** A duration minus one millisecond. */
const almost = (time: Duration.Duration) => Duration.millis(Duration.toMillis(time) - 1)

const Day = Pipeline.make("day", { input: Schema.Number })
  .sleep("night", "1 day")
  .step("wake", (n) => n + 1)
  .end(Schema.Number)

describe("30 days on a test clock", () => {
  it.effect("end a sleep to the millisecond, although its worker is killed at each record", () =>
    Effect.gen(function*() {
      const begun: Array<string> = []
      const pipeline = Pipeline.make("month", { input: Schema.Number })
        .step("before", (n, _, { path }) => {
          begun.push(path)
          return n
        })
        .sleep("month", MONTH)
        .step("after", (n, _, { path }) => {
          begun.push(path)
          return n + 1
        })
        .end(Schema.Number)
      const run = yield* PipelineTest.start(pipeline, 1, { crash: (_, when) => when === "after" })
      yield* run.parked("month")
      yield* TestClock.adjust(almost(MONTH))
      yield* run.parked("month")
      expect(begun).toEqual(["before"])
      yield* TestClock.adjust("1 milli")
      const { activations, entries, output } = yield* run.result
      expect(output).toBe(2)
      expect(begun).toEqual(["before", "after"])
      // The first two activations are killed, and the third one parks. The last one is killed after its end, which is also the end of the run.
      expect(activations).toBe(4)
      const [sleep, end] = ["sleep", "end"].map((kind) =>
        entries.find((entry) => entry.kind === kind && entry.path === "month")?.at
      )
      expect((end ?? 0) - (sleep ?? 0)).toBe(Duration.toMillis(MONTH))
    }))

  it.effect("end 30 sleeps of a day in 30 child pipelines, one after the other", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("days", { input: Schema.Number })
        .step("list", () => Array.from({ length: DAYS }, (_, day) => day))
        .forEach("day", Day, { concurrency: 1 })
        .end(Schema.Array(Schema.Number))
      const run = yield* PipelineTest.start(pipeline, 0, { endpoints: { day: Day } })
      const clock = yield* Effect.forkChild(Effect.forever(Effect.andThen(Effect.yieldNow, TestClock.adjust("10 minutes"))))
      const { entries, output, status } = yield* run.result
      yield* Fiber.interrupt(clock)
      expect(status).toBe("COMPLETED")
      expect(output).toEqual(Array.from({ length: DAYS }, (_, day) => day + 1))
      const passed = (entries.at(-1)?.at ?? 0) - (entries[0]?.at ?? 0)
      expect(passed).toBeGreaterThanOrEqual(Duration.toMillis(MONTH))
      expect(passed).toBeLessThan(Duration.toMillis(MONTH) + Duration.toMillis("1 day"))
    }))

  it.effect("end a wait at its timeout, and an event in its last millisecond ends it before", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("month", { input: Schema.String })
        .waitFor("answer", Schema.String, { key: ({ input }) => input, timeout: MONTH, onTimeout: () => "nobody came" })
        .end(Schema.String)
      const [late, early] = [yield* PipelineTest.start(pipeline, "late"), yield* PipelineTest.start(pipeline, "early")]
      for (const run of [late, early]) yield* run.parked("answer")
      yield* TestClock.adjust(almost(MONTH))
      yield* early.event("answer", { key: "early", data: "yes" })
      expect((yield* early.result).output).toBe("yes")
      yield* TestClock.adjust("1 milli")
      expect((yield* late.result).output).toBe("nobody came")
    }))
})

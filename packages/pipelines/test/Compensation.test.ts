/**
 * Compensation when records are in flight, when the run ends with its last step, and when a failure has no separate entry.
 */
import { describe, expect, it } from "@effect/vitest"
import type { JournalEntry, RunWrite } from "@stint/contract/RunJournal"
import { Handler } from "@stint/worker"
import { CurrentJob } from "@stint/worker/CurrentJob"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaTransformation from "effect/SchemaTransformation"
import * as TestClock from "effect/testing/TestClock"
import { Pipeline } from "../src/index.ts"
import { Journal } from "../src/Journal.ts"
import * as JournalMemory from "../src/JournalMemory.ts"
import { PipelineTest } from "../src/testing/index.ts"

const paths = (entries: ReadonlyArray<Pick<JournalEntry, "kind" | "path">>) => entries.map(({ kind, path }) => `${kind} ${path}`)

const Positive = Schema.Number.check(Schema.isGreaterThan(0))

/** Encodes positive numbers, and cannot decode what it has encoded. */
const Negated = Schema.Number.pipe(
  Schema.decodeTo(Positive, SchemaTransformation.transform({ decode: (n) => -n, encode: (n) => n }))
)

/** Lets the other fibers run as far as they can. */
const settle = Effect.forEach(Array.from({ length: 50 }), () => Effect.yieldNow, { discard: true })

/** Runs a pipeline in one activation, with an effect before and after each of its writes. */
const runWith = Effect.fnUntraced(function*(
  pipeline: Pipeline.Pipeline<string, Schema.Constraint, Schema.Constraint, never>,
  input: Schema.Json,
  around: (write: RunWrite, when: "before" | "after", memory: JournalMemory.MemoryJournal) => Effect.Effect<void>
) {
  const memory: JournalMemory.MemoryJournal = yield* JournalMemory.make({
    around: (write, when) => Effect.suspend(() => around(write, when, memory))
  })
  yield* Effect.forkScoped(
    Effect.exit(pipeline.run({ id: "run", input, attempt: 1 }, undefined)).pipe(
      Effect.provideService(Journal, memory.journal),
      Effect.provideService(CurrentJob, { id: "run", input })
    )
  )
  return { end: yield* memory.ended("run"), entries: paths(memory.entries("run")) }
})

const records = (write: RunWrite, kind: string, path: string): boolean =>
  (write.records ?? []).some((record) => record.kind === kind && record.path === path)

describe("a step that has ended", () => {
  it.effect("is undone even if its record is still in flight when another item fails", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const writing = Deferred.makeUnsafe<void>()
      const charged = Deferred.makeUnsafe<void>()
      const pipeline = Pipeline.make("p", { input: Schema.Array(Schema.Number) })
        .forEach("pay", (n) =>
          n === 0 ? Effect.fail("no money") : Effect.gen(function*() {
            yield* Deferred.await(writing)
            log.push(`charge ${n}`)
            yield* Deferred.succeed(charged, undefined)
            return n
          }), { undo: (n) => void log.push(`refund ${n}`) })
        .end(Schema.Unknown)
      const { end } = yield* runWith(pipeline, [0, 1], (write, when) => {
        if (when === "after") return Effect.void
        if (records(write, "failed", "pay[0]")) {
          // The other item ends while the failure is being written.
          return Effect.andThen(Deferred.succeed(writing, undefined), Effect.andThen(Deferred.await(charged), settle))
        }
        return records(write, "step", "pay[1]") ? settle : Effect.void
      })
      expect(end.error).toBe("The step \"pay[0]\" failed: no money")
      expect(log).toEqual(["charge 1", "refund 1"])
    }))

  it.effect("is undone even if a caller cancels while its record is in flight", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("reserve", (n) => n, { undo: () => void log.push("release") })
        .step("charge", (n) => n, { undo: () => void log.push("refund") })
        .step("ship", () => void log.push("ship"))
        .end(Schema.Unknown)
      const { end } = yield* runWith(pipeline, 1, (write, when, memory) =>
        when === "before" && records(write, "step", "charge") ? memory.cancel("run") : Effect.void)
      expect(end.status).toBe("CANCELLED")
      expect(log).toEqual(["refund", "release"])
    }))

  it.effect("is undone when it was the last step and the output of the run does not fit", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("charge", (n) => n, { undo: (n) => void log.push(`refund ${n}`) })
        .end(Positive)
      const result = yield* PipelineTest.run(pipeline, -1)
      expect(result.error).toContain("The step \"end\" failed: The output does not fit")
      expect(log).toEqual(["refund -1"])
      expect(paths(result.entries)).toEqual(["step charge", "failed end~0", "undo charge~undo"])
    }))

  it.effect("is named as not undone when its compensation cannot read its output", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("charge", (n) => n, { output: Negated, undo: () => {} })
        .end(Schema.Unknown)
      const { error } = yield* PipelineTest.run(pipeline, 1)
      expect(error).toContain("The step \"charge\" failed: The recorded output does not fit")
      expect(error).toContain("Not undone: charge. The undo of \"charge\" failed: The recorded output does not fit")
    }))
})

describe("a failure that no node records", () => {
  const Release = Handler.make("release", { input: Schema.Number, output: Schema.Unknown, run: () => Effect.void })
  const Refund = Handler.make("refund", { input: Schema.Number, output: Schema.Unknown, run: () => Effect.void })

  it.effect("is kept while the compensations wait, and no node runs again during that time", () =>
    Effect.gen(function*() {
      const began = Deferred.makeUnsafe<void>()
      const refunded = Promise.withResolvers<void>()
      const released = Promise.withResolvers<void>()
      let times = 0
      const pipeline = Pipeline.make("p", { input: Schema.Number })
        .step("reserve", (n) => n, { undo: Release })
        .step("charge", (n) => n, { undo: Refund })
        .all("both", {
          work: (p) =>
            p.step("work", () => {
              times++
              return Effect.andThen(Deferred.succeed(began, undefined), Effect.never)
            }),
          wait: (p) => p.waitFor("approval", Schema.Boolean, { timeout: "1 hour" })
        })
        .end(Schema.Unknown)
      const run = yield* PipelineTest.start(pipeline, 1, {
        endpoints: { refund: () => refunded.promise, release: () => released.promise }
      })
      yield* Deferred.await(began)
      yield* settle
      // The run asks every second what has arrived.
      yield* TestClock.adjust("3602 seconds")
      yield* run.parked("charge~undo")
      refunded.resolve()
      yield* run.parked("reserve~undo")
      released.resolve()
      const { entries, error, status } = yield* run.result
      expect([status, error]).toEqual([
        "FAILED",
        "The step \"both.wait.approval\" failed: No event \"approval\" arrived within 1h."
      ])
      expect(times).toBe(1)
      expect(paths(entries).filter((entry) => entry.startsWith("failed"))).toEqual(["failed both.wait.approval~0"])
    }))

  const make = (log: Array<string>) =>
    Pipeline.make("p", { input: Schema.Number })
      .step("reserve", (n) => n, { undo: () => void log.push("release") })
      .step("charge", (n) => n, { undo: () => void log.push("refund") })

  const broken = (): never => {
    throw new Error("not pure")
  }

  it.effect("is kept when the worker is killed between the compensations", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const failures: ReadonlyArray<
        readonly [string, Pipeline.Pipeline<"p", typeof Schema.Number, Schema.Codec<unknown>, never>]
      > = [
        ["select", make(log).select(broken).end(Schema.Unknown)],
        ["size", make(log).branch("size", (): "one" => broken(), { one: (p) => p.select(() => 1) }).end(Schema.Unknown)],
        ["nap", make(log).sleep("nap", broken).end(Schema.Unknown)],
        ["go", make(log).waitFor("go", Schema.Boolean, { key: broken }).end(Schema.Unknown)]
      ]
      for (const [path, pipeline] of failures) {
        log.length = 0
        const { activations, entries, error } = yield* PipelineTest.run(pipeline, 1, {
          crash: ({ kind }, when) => (kind === "undo" || kind === "failed") && when === "after"
        })
        expect(error).toBe(`The step "${path}" failed: not pure`)
        expect(log).toEqual(["refund", "release"])
        expect(activations).toBe(4)
        expect(paths(entries).slice(2)).toEqual([`failed ${path}~0`, "undo charge~undo", "undo reserve~undo"])
      }
    }))

  it.effect("is kept when the output of the run does not fit", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const { error } = yield* PipelineTest.run(make(log).end(Positive), -1, {
        crash: ({ kind }, when) => kind === "undo" && when === "after"
      })
      expect(error).toContain("The step \"end\" failed: The output does not fit")
      expect(log).toEqual(["refund", "release"])
    }))

  it.effect("is not recorded by a run without compensations, which ends at once", () =>
    Effect.gen(function*() {
      const pipeline = Pipeline.make("p", { input: Schema.Number }).step("a", (n) => n).select(broken).end(Schema.Unknown)
      const { entries, error } = yield* PipelineTest.run(pipeline, 1)
      expect(error).toBe("The step \"select\" failed: not pure")
      expect(paths(entries)).toEqual(["step a"])
    }))
})

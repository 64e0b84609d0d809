/**
 * Testing a plugin: the seams are layers, so a test provides them and looks at what the plugin did.
 */
import { describe, expect, it } from "@effect/vitest"
import { DebugFields, FitnessChecks, Handler, Worker } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { Ledger, Usage } from "../src/index.ts"
import { LedgerTest } from "../src/testing/index.ts"
import { Summary } from "../Summary.ts"

const usage = (options: Usage.Options = {}) =>
  Usage.layerWith(options).pipe(Layer.provideMerge(LedgerTest.layer), Layer.provideMerge(Worker.layerPluginServices))

const text = "one two three four"

describe("a job's usage", () => {
  it.effect("is added up and written when the job has ended", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Summary, { text, words: 2 }, { id: "j1" })
      expect(result).toMatchObject({ status: "COMPLETED", output: { summary: "one two" } })
      expect(yield* LedgerTest.entries).toEqual([{ job: "j1", used: { tokens: 4 } }])
    }).pipe(Effect.provide(usage())))

  it.effect("fails the job above the limit, as an error that callers can tell apart, and is written all the same", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Summary, { text, words: 2 }, { id: "j1" })
      expect(JSON.parse(result.error ?? "")).toMatchObject({ _tag: "LimitExceeded", unit: "tokens", used: 4, limit: 3 })
      expect(yield* LedgerTest.entries).toEqual([{ job: "j1", used: { tokens: 4 } }])
    }).pipe(Effect.provide(usage({ limits: { tokens: 3 } }))))

  it.effect("is its own for each of the jobs that run at once, and written for one that is stopped", () =>
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const Endless = Handler.make("endless", {
        input: Schema.Int,
        output: Schema.Void,
        run: (n) => Usage.add("steps", n).pipe(Effect.andThen(Deferred.succeed(begun, undefined)), Effect.andThen(Effect.never))
      })
      const endless = yield* Effect.forkChild(WorkerTest.run(Endless, 7, { id: "j1" }))
      yield* Deferred.await(begun)
      yield* WorkerTest.run(Summary, { text, words: 1 }, { id: "j2" })
      yield* Fiber.interrupt(endless)
      expect(yield* LedgerTest.entries).toEqual([{ job: "j2", used: { tokens: 4 } }, { job: "j1", used: { steps: 7 } }])
    }).pipe(Effect.provide(usage())))

  it.effect("shows in the debugger's report while the job runs", () =>
    Effect.gen(function*() {
      const { of } = yield* DebugFields.DebugFields
      const Looking = Handler.make("looking", {
        input: Schema.Void,
        output: Schema.Json,
        run: () => Effect.andThen(Usage.add("pages", 2), of({ id: "j1", input: null }))
      })
      expect((yield* WorkerTest.run(Looking, undefined, { id: "j1" })).output).toEqual({ usage: { pages: 2 } })
    }).pipe(Effect.provide(usage())))
})

describe("the ledger's fitness check", () => {
  it.effect("fails where the ledger cannot be written, and names the variable", () =>
    Effect.gen(function*() {
      const [check] = yield* Effect.flatMap(FitnessChecks.FitnessChecks, ({ all }) => all)
      const failure = yield* Effect.flip(check?.run ?? Effect.void)
      expect(String(failure)).toContain("/dev/null/usage.jsonl cannot be written (USAGE_LEDGER names it)")
    }).pipe(Effect.provide(
      Layer.provideMerge(Ledger.layerFile, Worker.layerPluginServices).pipe(
        Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown({ USAGE_LEDGER: "/dev/null/usage.jsonl" })))
      )
    )))
})

// The negative type tests below are reported by the Effect language service as well as by the compiler.
// @effect-diagnostics missingLayerContext:off missingEffectContext:off
/**
 * Tests a plugin: the tests run a handler with the middleware and read the in-memory ledger.
 */
import { describe, expect, it } from "@effect/vitest"
import { Handler, Worker } from "@stint/worker"
import { LogMemory, WorkerTest } from "@stint/worker/testing"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Ledger, Usage } from "../src/index.ts"
import { LedgerTest } from "../src/testing/index.ts"
import { Summary } from "../Summary.ts"

const text = "one two three four"
const middleware = [Usage.middleware] as const

describe("a job's usage", () => {
  it.effect("is summed up and written when the job has ended", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.run(Summary, { text, words: 2 }, { id: "j1" }, { middleware })
      expect(result).toMatchObject({ status: "COMPLETED", output: { summary: "one two" } })
      expect(yield* LedgerTest.entries).toEqual([{ job: "j1", used: { tokens: 4 } }])
    }).pipe(Effect.provide(LedgerTest.layer)))

  it.effect("fails a job that exceeds the limit with an error that callers can distinguish, and is written anyway", () =>
    Effect.gen(function*() {
      const middleware = [Usage.middlewareWith({ limits: { tokens: 3 } })] as const
      const result = yield* WorkerTest.run(Summary, { text, words: 2 }, { id: "j1" }, { middleware })
      expect(JSON.parse(result.error ?? "")).toMatchObject({ _tag: "LimitExceeded", unit: "tokens", used: 4, limit: 3 })
      expect(yield* LedgerTest.entries).toEqual([{ job: "j1", used: { tokens: 4 } }])
    }).pipe(Effect.provide(LedgerTest.layer)))

  it.effect("is separate for concurrent jobs, and is written even for a job that is stopped", () =>
    Effect.gen(function*() {
      const begun = yield* Deferred.make<void>()
      const Endless = Handler.make("endless", {
        input: Schema.Int,
        output: Schema.Void,
        error: Usage.LimitExceeded,
        run: (n) => Usage.add("steps", n).pipe(Effect.andThen(Deferred.succeed(begun, undefined)), Effect.andThen(Effect.never))
      })
      const endless = yield* Effect.forkChild(WorkerTest.run(Endless, 7, { id: "j1" }, { middleware }))
      yield* Deferred.await(begun)
      yield* WorkerTest.run(Summary, { text, words: 1 }, { id: "j2" }, { middleware })
      yield* Fiber.interrupt(endless)
      expect(yield* LedgerTest.entries).toEqual([{ job: "j2", used: { tokens: 4 } }, { job: "j1", used: { steps: 7 } }])
    }).pipe(Effect.provide(LedgerTest.layer)))

  it("must be provided by the middleware: a worker without it does not compile", () => {
    const accept = (_: Layer.Layer<never, never, Worker.Services | Ledger.Ledger>) => {}
    accept(Worker.layer(Summary, { middleware }))
    // @ts-expect-error The handler needs Usage.
    accept(Worker.layer(Summary))
  })
})

describe("the ledger file", () => {
  const entry = { job: "j1", used: { tokens: 4 } }
  const write = (path: string) =>
    Effect.flatMap(Ledger.Ledger, (ledger) => ledger.write(entry)).pipe(
      Effect.provide(Layer.provide(Ledger.layerFile, ConfigProvider.layer(ConfigProvider.fromUnknown({ USAGE_LEDGER: path }))))
    )

  it.live("has one line per job", () =>
    Effect.gen(function*() {
      const folder = yield* Effect.acquireRelease(
        Effect.sync(() => mkdtempSync(join(tmpdir(), "ledger-"))),
        (path) => Effect.sync(() => rmSync(path, { recursive: true }))
      )
      const path = join(folder, "usage.jsonl")
      yield* write(path)
      yield* write(path)
      expect(readFileSync(path, "utf8").trim().split("\n").map((line) => JSON.parse(line))).toEqual([entry, entry])
    }))

  it.live("causes an ERROR line with the variable and the entry when it cannot be written", () => {
    const log = LogMemory.make()
    return write("/dev/null/usage.jsonl").pipe(
      Effect.andThen(Effect.sync(() => {
        expect(log.lines).toMatchObject([{ level: "ERROR", message: expect.stringContaining("Set USAGE_LEDGER") }])
        expect(log.lines[0]?.message).toContain(JSON.stringify(entry))
      })),
      Effect.provide(log.layer)
    )
  })
})

/**
 * Random pipelines that fail, wait, are cancelled and lose their worker, in memory.
 */
import { describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import process from "node:process"
import { PipelineTest } from "../src/testing/index.ts"
import { endsAlike, type Host, Job, undoesAll } from "./RandomPipelines.ts"

const memory: Host<Scope.Scope> = {
  start: (pipeline, crash) => PipelineTest.start(pipeline, 1, { endpoints: { job: Job }, crash }),
  settle: Effect.forEach(Array.from({ length: 30 }), () => Effect.yieldNow, { discard: true })
}

/** Without the log lines of the failing steps. */
const quiet = Layer.merge(TestClock.layer(), Layer.succeed(References.MinimumLogLevel, "None"))

const provided = (program: Effect.Effect<void, never, Scope.Scope>): Promise<void> =>
  Effect.runPromise(Effect.scoped(Effect.provide(program, quiet)))

const runs = Number(process.env["STINT_PROPERTY_RUNS"] ?? 20)

describe("a random pipeline that fails, waits and is undone", () => {
  it(
    "ends alike when its worker is killed at random records, and its journal is consistent",
    () => endsAlike(memory, runs, provided),
    600_000
  )

  it(
    "undoes everything that it has done when a caller cancels it at a random record",
    () => undoesAll(memory, runs, provided),
    600_000
  )
})

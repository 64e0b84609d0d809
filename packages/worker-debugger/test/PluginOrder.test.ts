import { describe, expect, it } from "@effect/vitest"
import { DebugFields, Handler, JobMiddleware } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as Worker from "@stint/worker/Worker"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { Debugger } from "../src/index.ts"
import { machine } from "./DebuggedWorker.ts"

/** A plugin that counts per job and shows the count in the debugger's report, built after `delay` milliseconds. */
const counting = (delay: number) =>
  Layer.effectDiscard(Effect.gen(function*() {
    yield* Effect.sleep(delay)
    const running = new Map<string, number>()
    yield* (yield* JobMiddleware.JobMiddleware).add((next, job) => {
      running.set(job.id, 1)
      return Effect.ensuring(next(job), Effect.sync(() => running.delete(job.id)))
    })
    yield* (yield* DebugFields.DebugFields).add((job) =>
      Effect.sync(() => running.has(job.id) ? { count: running.get(job.id) ?? 0 } : {})
    )
  }))

describe("a plugin's field in the debugger's report", () => {
  it.live.fails("does not depend on how long the plugin takes to build", () =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.runJson(Handler.fromFunction(() => ({})), null)
      expect(result.output).toMatchObject({ rp_debugger: { count: 1 } })
    }).pipe(Effect.provide(
      Layer.mergeAll(counting(50), Debugger.layerAlwaysWith({ systemInfo: Effect.succeed(machine) })).pipe(
        Layer.provideMerge(Worker.layerPluginServices)
      )
    )))
})

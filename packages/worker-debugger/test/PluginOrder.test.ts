// The negative type test below is reported by the Effect language service as well as by the compiler.
// @effect-diagnostics missingLayerContext:off missingEffectContext:off
import { describe, expect, it } from "@effect/vitest"
import { Handler, JobMiddleware } from "@stint/worker"
import { WorkerTest } from "@stint/worker/testing"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { Debugger } from "../src/index.ts"
import { machine } from "./DebuggedWorker.ts"

/** A plugin's counter of one job. */
class Count extends Context.Service<Count, number>()("test/PluginOrder/Count") {}

/** A plugin that counts per job and takes `delay` milliseconds to set up. */
const counting = (delay: number) =>
  JobMiddleware.unwrap(Effect.as(Effect.sleep(delay), JobMiddleware.provides(Count, (next, job) => next(job, 1))))

const debug = Debugger.middlewareAlwaysWith({
  systemInfo: Effect.succeed(machine),
  fields: [() => Effect.map(Count, (count) => ({ count }))]
})

const handler = Handler.fromFunction(() => ({}))

describe("a plugin's field in the debugger's report", () => {
  it.live.each([0, 50])("is present for a plugin whose setup takes %s ms", (delay) =>
    Effect.gen(function*() {
      const result = yield* WorkerTest.runJson(handler, null, {}, { middleware: [counting(delay), debug] })
      expect(result.output).toMatchObject({ rp_debugger: { count: 1 } })
    }))

  it("does not compile when the debugger comes before the plugin", () => {
    const accept = (_: Effect.Effect<unknown>) => {}
    accept(WorkerTest.runJson(handler, null, {}, { middleware: [counting(0), debug] }))
    // @ts-expect-error The debugger needs Count, which only a later middleware provides.
    accept(WorkerTest.runJson(handler, null, {}, { middleware: [debug, counting(0)] }))
  })
})

/**
 * Searches for sequences of calls and faults over several nodes that break an invariant. A failure prints the seed, and the shortest sequence that still
 * breaks the invariant.
 */
import { assert, describe, it } from "@effect/vitest"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import { search } from "../src/search/NodeSearch.ts"

describe("a search over three nodes, three workers and their callers", () => {
  it.live("R1, R2, R3, R5, R8, R9: finds no sequence of calls and faults that breaks an invariant", () =>
    Effect.gen(function*() {
      const runs = Number(process.env["STINT_PROPERTY_RUNS"] ?? 300)
      const { jobs } = yield* search(MemoryJobStore.layer, { runs })
      assert.isAbove(jobs, 3 * runs)
    }), 120_000)
})

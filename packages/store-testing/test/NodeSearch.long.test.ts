/**
 * The search of NodeSearch.test.ts with more sequences. `STINT_PROPERTY_RUNS=1000000` runs a million of them, which takes hours; `pnpm chaos --minutes N
 * --only search` searches for N minutes.
 */
import { assert, describe, it } from "@effect/vitest"
import { reportChaos, SeededRandom } from "@stint/store-testing"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import { search } from "../src/search/NodeSearch.ts"

const RUNS = Number(process.env["STINT_PROPERTY_RUNS"] ?? 10_000)

/** The sequences between two looks at the clock. */
const PORTION = 1_000

const minutes = SeededRandom.chaosMinutes()

describe("chaos: a search over three nodes, three workers and their callers", () => {
  it.live(
    "R1, R2, R3, R5, R8, R9: finds no sequence of calls and faults that breaks an invariant",
    (context) =>
      Effect.gen(function*() {
        const until = performance.now() + (minutes ?? 0) * 60_000
        const counts = { jobs: 0, sequences: 0, lost: 0 }
        for (
          let seed = SeededRandom.runSeed();
          minutes === undefined ? counts.sequences < RUNS : performance.now() < until;
          seed++
        ) {
          counts.jobs += (yield* search(MemoryJobStore.layer, { runs: PORTION, seed })).jobs
          counts.sequences += PORTION
          reportChaos(context, counts)
        }
        process.stdout.write(`search: ${JSON.stringify(counts)}\n`)
        assert.isAbove(counts.jobs, 3 * counts.sequences)
      }),
    86_400_000
  )
})

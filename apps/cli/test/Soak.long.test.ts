/**
 * A platform at half load does not grow (R15). `pnpm chaos --minutes 60 --only R15` is the run of an hour.
 */
import { reportChaos, SeededRandom } from "@stint/store-testing"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { soak } from "./SoakScenario.ts"

const minutes = SeededRandom.chaosMinutes() ?? 2

describe("chaos: a soak", () => {
  it(
    "R15: memory and descriptors of the platform and its worker, and the database, do not grow at half load once the first jobs were removed",
    async (context) => {
      const seed = SeededRandom.runSeed()
      const { counts, report, violations } = await soak({ seed, minutes })
      reportChaos(context, counts)
      process.stdout.write(`soak, seed ${seed}: ${report}`)
      expect(violations, `seed ${seed}, ${JSON.stringify(counts)}`).toEqual([])
      // There were jobs of every kind.
      for (const kind of ["cancels", "chunks read", "retried", "webhooks"]) expect(counts[kind], kind).toBeGreaterThan(0)
    },
    180_000 + minutes * 60_000
  )
})

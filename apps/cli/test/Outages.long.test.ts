/**
 * A platform with a PostgreSQL database comes back from its outages without a restart (R7).
 */
import { missing } from "@stint/store-postgres/testing"
import { reportChaos, SeededRandom } from "@stint/store-testing"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { outages } from "./OutageScenario.ts"

const minutes = SeededRandom.chaosMinutes()

describe("chaos: outages of the database", () => {
  it(
    "R7: the first worker receives a job within 5 s of its return, from the same process, and no acknowledged job is lost",
    async (context) => {
      if (missing !== undefined) context.skip(missing)
      const seed = SeededRandom.runSeed()
      // A round takes about 5 s.
      const rounds = minutes === undefined ? 3 : Math.ceil(2 * minutes)
      const { counts, violations } = await outages({ seed, rounds })
      reportChaos(context, counts)
      const told = `seed ${seed}, ${JSON.stringify(counts)}`
      process.stdout.write(`outages of the database: ${told}\n`)
      expect(violations, told).toEqual([])
      // The outages happened and had an effect.
      expect(counts["refused submissions"], told).toBeGreaterThan(0)
    },
    180_000 + (minutes ?? 0) * 60_000
  )
})

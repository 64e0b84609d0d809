/**
 * Many short jobs under kills (R1, R3). `STINT_CHAOS_KILLS=500 STINT_CHAOS_JOBS=200000 pnpm chaos --minutes 1 --only "many short jobs"` is the goal of
 * docs/spec/figures.md#reliability.
 */
import { reportChaos, SeededRandom } from "@stint/store-testing"
import process from "node:process"
import { describe, expect, it } from "vitest"
import { manyKills } from "./ManyKillsScenario.ts"

const minutes = SeededRandom.chaosMinutes() ?? 0
const kills = Number(process.env["STINT_CHAOS_KILLS"] ?? 0)
const jobs = Number(process.env["STINT_CHAOS_JOBS"] ?? 0)

/** The time for one kill, with the restart of the platform, and for one job, on a busy machine. Milliseconds. */
const [MILLIS_PER_KILL, MILLIS_PER_JOB] = [10_000, 20]

describe("chaos: many short jobs", () => {
  it(
    "R1, R3: complete once each, with their own output, although workers and the platform are killed again and again",
    async (context) => {
      const seed = SeededRandom.runSeed()
      const { counts, violations } = await manyKills({ seed, kills, jobs, millis: 12_000 + minutes * 60_000 })
      reportChaos(context, counts)
      expect(violations.slice(0, 20), `seed ${seed}, ${JSON.stringify(counts)}`).toEqual([])
      expect(counts.jobs).toBeGreaterThan(500)
    },
    300_000 + minutes * 60_000 + kills * MILLIS_PER_KILL + jobs * MILLIS_PER_JOB
  )
})

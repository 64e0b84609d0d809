/**
 * Faults between real processes. The recorded history of the wire is checked against R1 to R3, R5, R6 and R8 to R10
 * (docs/spec/figures.md#reliability). Each test has the size of an ordinary run; `pnpm chaos --minutes N` runs longer.
 */
import { reportChaos, SeededRandom } from "@stint/store-testing"
import { describe, expect, it, type TestContext } from "vitest"
import { cancels, cutReaders, frozenWorkers, killedWorkers, type ScenarioResult, storm } from "./FaultScenarios.ts"
import { webhooks } from "./WebhookScenario.ts"

const minutes = SeededRandom.chaosMinutes()

/** The time limit of a test, in milliseconds. A long run extends it by its minutes. */
const LIMIT = 180_000 + (minutes ?? 0) * 60_000

/** Reports the counts, requires that no rule is broken, and returns the counts. */
const passed = (context: TestContext, seed: number, { counts, violations }: ScenarioResult): ScenarioResult["counts"] => {
  reportChaos(context, counts)
  expect(violations, `seed ${seed}, ${JSON.stringify(counts)}`).toEqual([])
  return counts
}

describe("chaos: a storm of faults between real processes", () => {
  it(
    "R1, R2, R3, R5, R9: workers killed and frozen past their lease, lost responses, readers cut every 200 ms, a kill -9 of the platform: " +
      "no stale result, no duplicate job, no gap, and every job has ended a lease and 5 s after the last fault",
    async (context) => {
      const seed = SeededRandom.runSeed()
      const counts = passed(context, seed, await storm({ seed, millis: 15_000 + (minutes ?? 0) * 60_000 }))
      // The faults happened and had an effect.
      expect(counts["freezes"]).toBeGreaterThan(0)
      expect(counts["worker kills"]).toBeGreaterThan(0)
      expect(counts["connections"]).toBeGreaterThan(0)
      if (minutes !== undefined) expect(counts["stale writes refused"]).toBeGreaterThan(0)
    },
    LIMIT
  )
})

describe("chaos: a worker frozen past its lease, again and again", () => {
  it(
    "R2: gets its late chunk or result refused; each job ends once, with the output of the accepted attempt",
    async (context) => {
      // A round waits for a lease to end and for two workers to start: about 6 s.
      const rounds = minutes === undefined ? 4 : Math.ceil(10 * minutes)
      const counts = passed(context, 0, await frozenWorkers({ rounds }))
      expect(counts["late writes"]).toBe(rounds)
      expect(counts["stale writes refused"]).toBeGreaterThanOrEqual(rounds)
    },
    LIMIT
  )
})

describe("chaos: a killed worker, again and again", () => {
  it("R6: its job runs on another worker and ends within a lease and 5 s", async (context) => {
    const rounds = minutes === undefined ? 2 : Math.ceil(10 * minutes)
    passed(context, 0, await killedWorkers({ rounds }))
  }, LIMIT)
})

describe("chaos: a cancel of a running job", () => {
  it(
    "R8: interrupts its handler within 3 s even when the worker's job-stop connection is cut, and starts no further attempt",
    async (context) => {
      const seed = SeededRandom.runSeed()
      const count = minutes === undefined ? 24 : Math.ceil(200 * minutes)
      const counts = passed(context, seed, await cancels({ seed, count }))
      expect(counts.cancels).toBe(count)
      expect(counts["interrupts"]).toBe(count)
    },
    LIMIT
  )
})

describe("chaos: stream readers whose connection is cut", () => {
  it(
    "R9: each receive every chunk once and in order, while a worker writes and their connections are cut every 200 ms",
    async (context) => {
      const rounds = minutes === undefined ? 1 : Math.ceil(6 * minutes)
      const counts = passed(context, 0, await cutReaders({ rounds }))
      expect(counts["fewest connections"]).toBeGreaterThan(4)
      expect(counts["chunks read"]).toBe(4 * 600 * rounds)
    },
    LIMIT
  )
})

describe("chaos: webhooks", () => {
  const jobs = minutes === undefined ? 1_000 : 10_000

  it(
    "R10: delivers the end of every job at least once, signed, and never before its commit, from a platform that is killed twice to receivers " +
      `that fail, hang and reset (${jobs} jobs)`,
    async (context) => {
      const seed = SeededRandom.runSeed()
      const counts = passed(context, seed, await webhooks({ seed, jobs, limitMs: LIMIT }))
      expect(counts["webhooks accepted"]).toBe(jobs)
      expect(counts["webhook faults"]).toBeGreaterThan(jobs * 0.2)
    },
    2 * LIMIT
  )
})

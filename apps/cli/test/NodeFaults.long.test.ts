/**
 * Three nodes with one PostgreSQL database under faults between real processes: the recorded history of all calls is checked against the rules that hold
 * for one platform (docs/spec/figures.md#reliability). Each call goes to the next node.
 */
import { missing } from "@stint/store-postgres/testing"
import { reportChaos, SeededRandom } from "@stint/store-testing"
import process from "node:process"
import { describe, expect, it, type TestContext } from "vitest"
import { cancels, cutReaders, frozenWorkers, killedWorkers, type ScenarioResult } from "./FaultScenarios.ts"
import { nodeStorm } from "./NodeScenarios.ts"
import { webhooks } from "./WebhookScenario.ts"

const minutes = SeededRandom.chaosMinutes()

const NODES = 3

/** The time limit of a test, in milliseconds. A long run extends it by its minutes. */
const LIMIT = 300_000 + (minutes ?? 0) * 120_000

/** Reports the counts, requires that no rule is broken, and returns the counts. */
const passed = (context: TestContext, title: string, seed: number, { counts, violations }: ScenarioResult) => {
  reportChaos(context, counts)
  const told = `${title}: seed ${seed}, ${JSON.stringify(counts)}`
  process.stdout.write(`${told}\n`)
  expect(violations, told).toEqual([])
  return counts
}

describe.skipIf(missing !== undefined)(missing ?? "chaos: three nodes with one database", () => {
  it(
    "R1, R2, R3, R5, R9: nodes killed, frozen and cut off from the database in both directions and in one, workers killed and frozen, the database " +
      "killed, frozen and its connections ended: nothing is lost or ends twice",
    async (context) => {
      const seed = SeededRandom.runSeed()
      // A round takes about a minute.
      const rounds = Math.max(1, Math.floor(minutes ?? 1))
      const options = minutes === undefined ? {} : { longOutage: 5 * 60_000 }
      const counts = passed(context, "three nodes", seed, await nodeStorm({ seed, rounds, nodes: NODES, ...options }))
      for (const fault of ["nodes killed", "nodes frozen", "nodes cut off", "nodes that receive no replies"]) {
        expect(counts[fault], fault).toBe(rounds)
      }
      // The faults had an effect.
      expect(counts["refused calls"]).toBeGreaterThan(0)
    },
    LIMIT + (minutes === undefined ? 0 : 5 * 60_000)
  )

  it("R2: a worker that was frozen past its lease gets its late chunk or result refused, through any node", async (context) => {
    const rounds = minutes === undefined ? 4 : Math.ceil(10 * minutes)
    const counts = passed(context, "late results on three nodes", 0, await frozenWorkers({ rounds, nodes: NODES }))
    expect(counts["stale writes refused"]).toBeGreaterThanOrEqual(rounds)
  }, LIMIT)

  it("R6: the job of a killed worker runs on another worker, which calls other nodes", async (context) => {
    passed(
      context,
      "killed workers on three nodes",
      0,
      await killedWorkers({ rounds: minutes === undefined ? 2 : Math.ceil(10 * minutes), nodes: NODES })
    )
  }, LIMIT)

  it("R8: a cancel through one node interrupts a handler whose worker listens at another, within 3 s", async (context) => {
    const seed = SeededRandom.runSeed()
    const count = minutes === undefined ? 12 : Math.ceil(100 * minutes)
    const counts = passed(context, "cancels on three nodes", seed, await cancels({ seed, count, nodes: NODES }))
    expect(counts["interrupts"]).toBe(count)
  }, LIMIT)

  it(
    "R9: readers at any node receive every chunk once and in order, while a worker writes through all of them",
    async (context) => {
      const rounds = minutes === undefined ? 1 : Math.ceil(6 * minutes)
      const counts = passed(context, "readers on three nodes", 0, await cutReaders({ rounds, nodes: NODES }))
      expect(counts["chunks read"]).toBe(4 * 600 * rounds)
    },
    LIMIT
  )

  it(
    "R10: the end of every job is delivered at least once, signed, and never before its commit, although two nodes are killed",
    async (context) => {
      const seed = SeededRandom.runSeed()
      const jobs = minutes === undefined ? 300 : 3_000
      const counts = passed(
        context,
        "webhooks of three nodes",
        seed,
        await webhooks({ seed, jobs, limitMs: LIMIT, nodes: NODES })
      )
      expect(counts["webhooks accepted"]).toBe(jobs)
    },
    2 * LIMIT
  )
})

/**
 * What the timers read of a database with many parked runs.
 */
import { assert, describe, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { Scenario } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import { rowsRead } from "./RowsRead.ts"
import { ENDPOINT, HASH, node, START } from "./RunNode.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

/** The number of runs that wake before the others. */
const DUE = 5

const WAKES_AT = 50_000

/** Registers the rule, with a number of parked runs. */
export const parkedRunsRule = (parked: number): void => {
  describe.skipIf(missing !== undefined)(missing ?? "timers of parked runs", () => {
    const cluster = testCluster()
    const { url } = makeDatabases(cluster)

    it.live(`a tick with ${parked} parked runs reads only those that are due`, () =>
      Effect.gen(function*() {
        const address = yield* url
        const sql = (text: string) => Effect.promise(() => execute(address, text))
        const reads = rowsRead(address)
        yield* Effect.scoped(Effect.gen(function*() {
          const one = yield* node(address)
          yield* one.runs.define(ENDPOINT, HASH, toJsonText({ name: "letters", nodes: [] }), 0)
          for (let n = 0; n < DUE; n++) {
            yield* one.jobs.insert(Scenario.record())
            const [job] = yield* one.claim(ENDPOINT, "ann")
            if (job === undefined) return yield* Effect.die(new Error("no job"))
            yield* one.write(job.id, { start: START })
            yield* one.write(job.id, { park: { seen: 0, wakeAfter: 1, until: WAKES_AT } })
          }
        }))
        // Copies of the last run, which wake much later. The planner knows nothing of them yet.
        yield* sql(`INSERT INTO stint.running SELECT (jsonb_populate_record(r, jsonb_build_object(
            'id', 'copy-' || n, 'not_before', ${10 * WAKES_AT} + n, 'due_at', ${10 * WAKES_AT} + n))).*
          FROM stint.running r, generate_series(1, ${parked}) n WHERE r.id = (SELECT id FROM stint.running LIMIT 1)`)
        const tick = (now: number) => reads(({ jobs }) => jobs.tick({ _tag: "Tick", now }, 1_000))

        const [early, readEarly] = yield* tick(WAKES_AT - 1)
        assert.deepStrictEqual(early, [])
        assert.isAtMost(readEarly, 10, "nothing was due")
        const [woken, readWoken] = yield* tick(WAKES_AT)
        assert.strictEqual(woken.length, DUE)
        assert.isAtMost(readWoken, 20 * DUE, "five runs were due")
        // The same holds when the planner knows how many there are.
        yield* sql("ANALYZE")
        const [late, readLate] = yield* tick(WAKES_AT + 1)
        assert.deepStrictEqual(late, [])
        assert.isAtMost(readLate, 10, "nothing was due after the planner had counted the runs")
      }).pipe(Effect.scoped), 120_000)
  })
}

/**
 * What the timers read when many jobs are due at the same time, for example because a purge or a batch has ended them together.
 */
import { assert, describe, it } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import { rowsRead } from "./RowsRead.ts"
import { node } from "./RunNode.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

/** The number of jobs with the first turns, and of all others. */
const FIRST = 20
const OTHERS = 3_000

/** How many jobs a sweep fires. */
const LIMIT = 5

describe.skipIf(missing !== undefined)(missing ?? "timers of jobs that are due together", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  it.live("a sweep reads about as many jobs as it fires, in the order of submission", () =>
    Effect.gen(function*() {
      const address = yield* url
      const sql = (text: string) => Effect.promise(() => execute(address, text))
      const jobs = Array.from({ length: FIRST }, () => Scenario.record())
      yield* Effect.scoped(Effect.gen(function*() {
        const one = yield* node(address)
        for (const job of jobs) yield* one.jobs.insert(job)
        // Jobs fire in order of submission, not in the order in which they ended.
        for (const { endpoint, id } of jobs.toReversed()) {
          yield* one.jobs.apply(endpoint, id, { _tag: "Cancel", now: 0, endpoint })
        }
      }))
      // The timers must not read these. In this order, the newest rows are also the first ones of the table.
      yield* sql(
        `INSERT INTO stint.ended SELECT (jsonb_populate_record(e, jsonb_build_object('id', 'copy-' || n, 'seq', e.seq + ${OTHERS} + 1 - n))).*
        FROM stint.ended e, generate_series(1, ${OTHERS}) n WHERE e.id = '${jobs.at(-1)?.id ?? ""}'`
      )
      const reads = rowsRead(address)
      const due = jobs[0]?.retentionMs ?? 0
      const tick = (now: number) => reads(({ jobs }) => jobs.tick({ _tag: "Tick", now, random: 0 }, LIMIT))
      // The rows that the statement above has read are reported meanwhile.
      assert.deepStrictEqual((yield* tick(due - 1))[0], [])
      for (const [at, knows] of ["the planner knows nothing", "the planner has counted the rows"].entries()) {
        if (at > 0) yield* sql("ANALYZE")
        const [fired, read] = yield* tick(due)
        assert.deepStrictEqual(
          fired.map((one) => one._tag === "Removed" ? one.before.id : one._tag),
          jobs.slice(at * LIMIT, (at + 1) * LIMIT).map(({ id }) => id),
          knows
        )
        assert.isAtMost(read, 20 * LIMIT, knows)
      }
    }).pipe(Effect.scoped), 120_000)
})

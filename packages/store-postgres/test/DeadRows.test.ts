/**
 * Claims while a transaction of another program stays open, so that the server keeps the dead rows of all claimed jobs.
 */
import { assert, describe, it } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import { connect } from "../src/Connection.ts"
import { MANY } from "../src/DeadRows.ts"
import { node } from "./RunNode.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

const DEAD = 2 * MANY
const CLAIMS = 20

/** The index entries that claims have read, with those of dead rows. A connection reports them when it closes, if not before. */
const READ = `SELECT idx_tup_read::int FROM pg_stat_user_indexes WHERE indexrelname = 'ready_line'`

const OPEN = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'stint'"

describe.skipIf(missing !== undefined)(missing ?? "claims among many dead rows", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  it.live("begin behind them, and keep the order of priority and submission", () =>
    Effect.gen(function*() {
      const address = yield* url
      const sql = (text: string) => Effect.promise(() => execute(address, text))
      const numberOf = (text: string) => Effect.map(sql(text), ([row]) => Number(row?.[0]))
      const jobs = Array.from({ length: CLAIMS }, () => Scenario.record())
      const first = jobs[0] ?? assert.fail("there are no jobs")
      yield* Effect.scoped(Effect.gen(function*() {
        const { jobs: store } = yield* node(address)
        for (const job of jobs) yield* store.insert(job)
        const open = yield* Effect.acquireRelease(
          Effect.promise(() => connect({ url: address, deadlineMs: 60_000, prepare: false })),
          ({ end }) => Effect.promise(end)
        )
        yield* Effect.promise(() => open.execute("SET idle_in_transaction_session_timeout = 0"))
        yield* Effect.promise(() => open.execute("BEGIN ISOLATION LEVEL REPEATABLE READ"))
        yield* Effect.promise(() => open.query("SELECT count(*) FROM stint.ready"))
        yield* sql(
          `INSERT INTO stint.ready SELECT (jsonb_populate_record(r, jsonb_build_object('id', 'copy-' || n, 'seq', n - ${DEAD} - 1))).*
           FROM stint.ready r, generate_series(1, ${DEAD}) n WHERE r.id = '${first.id}'`
        )
        yield* sql(`DELETE FROM stint.ready WHERE id LIKE 'copy-%'`)
        const claim = Effect.map(
          store.claim(first.endpoint, 1, { _tag: "Claim", now: 0, worker: "ann" }),
          ({ jobs }) => jobs.map(({ id }) => id)
        )
        const claimed = yield* Effect.replicateEffect(claim, CLAIMS - 3)
        assert.deepStrictEqual(claimed.flat(), jobs.slice(0, CLAIMS - 3).map(({ id }) => id))
        yield* store.apply(first.endpoint, first.id, { _tag: "Return", endpoint: first.endpoint, worker: "ann", now: 0 })
        const [urgent, late] = [Scenario.record({ priority: 9 }), Scenario.record({ priority: -9 })]
        yield* store.insert(late)
        yield* store.insert(urgent)
        const rest = yield* Effect.replicateEffect(claim, 7)
        assert.deepStrictEqual(
          rest.flat(),
          [urgent.id, first.id, ...jobs.slice(-3).map(({ id }) => id), late.id]
        )
      }))
      yield* numberOf(OPEN).pipe(Effect.repeat({ until: (count) => count === 0 }))
      const read = yield* numberOf(READ)
      // Each claim that reads everything reads all dead entries: the first two, those that find nothing, and one a second.
      assert.isAtLeast(read, DEAD)
      assert.isAtMost(read, CLAIMS / 2 * DEAD)
    }).pipe(Effect.scoped), 120_000)
})

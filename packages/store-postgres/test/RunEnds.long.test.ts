/**
 * Ends of runs that are larger than one transaction, or whose nested runs outlive them.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import type { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { Scenario } from "@stint/store-testing"
import type { ApplyResult } from "@stint/store/JobStore"
import type { NewEntry } from "@stint/store/RunStore"
import * as Effect from "effect/Effect"
import type * as PostgresDatabase from "../src/PostgresDatabase.ts"
import { MAX_CANCELS } from "../src/RunLoads.ts"
import { CHILDREN, ENDPOINT, HASH, node, spawn, START } from "./RunNode.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

describe.skipIf(missing !== undefined)(missing ?? "the ends of runs", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  /** Two nodes, and a run that worker ann has begun. */
  const world = Effect.fnUntraced(function*(options: Partial<PostgresDatabase.Options> = {}) {
    const address = yield* url
    const [one, two] = [yield* node(address, options), yield* node(address, options)]
    yield* one.runs.define(ENDPOINT, HASH, toJsonText({ name: "letters", nodes: [] }), 0)
    const begin = Effect.fnUntraced(function*() {
      yield* one.jobs.insert(Scenario.record())
      const [job] = yield* one.claim(ENDPOINT, "ann")
      if (job === undefined) return yield* Effect.die(new Error("no job"))
      yield* one.write(job.id, { start: START })
      return job.id
    })
    const sql = (text: string) => Effect.promise(() => execute(address, text))
    const count = (from: string) => Effect.map(sql(`SELECT count(*)::int FROM stint.${from}`), ([row]) => Number(row?.[0]))
    const cancel = (id: JobId) => two.jobs.apply(ENDPOINT, id, { _tag: "Cancel", now: 0, endpoint: ENDPOINT })
    const tick = (now: number) => one.jobs.tick({ _tag: "Tick", now }, 10_000)
    return { one, two, begin, sql, count, cancel, tick }
  })

  const spawnMany = (count: number): ReadonlyArray<NewEntry> => Array.from({ length: count }, (_, n) => spawn(`stamp ${n}`))

  it.live("retention keeps a run until its nested runs have undone what they did", () =>
    Effect.gen(function*() {
      const { begin, cancel, one, tick, two } = yield* world()
      const root = yield* begin()
      const nested = spawn("nested", ENDPOINT)
      yield* one.write(root, { records: [nested] })
      yield* two.claim(ENDPOINT, "carl")
      const paid: NewEntry = { kind: "step", path: "paid", body: toJsonText("yes") }
      yield* two.write(nested.id, { start: { ...START, undo: true }, records: [paid] }, "carl")
      yield* cancel(root)
      const status = (id: JobId) => Effect.map(one.jobs.get(ENDPOINT, id), (job) => job?.status)
      assert.deepStrictEqual([yield* status(root), yield* status(nested.id)], ["CANCELLED", "IN_PROGRESS"])
      // Its worker stops, so that the undo waits for another worker.
      yield* two.jobs.apply(ENDPOINT, nested.id, { _tag: "Return", endpoint: ENDPOINT, worker: "carl", now: 0 })

      const later = 600_001
      yield* tick(later)
      yield* tick(later + 1)
      assert.strictEqual(yield* status(root), "CANCELLED", "the run was removed before the nested run that it locks")
      assert.strictEqual(yield* status(nested.id), "IN_QUEUE")

      yield* two.jobs.claim(ENDPOINT, 1, { _tag: "Claim", now: later + 2, worker: "dora" })
      const ended = yield* two.jobs.apply(ENDPOINT, nested.id, {
        _tag: "Finish",
        endpoint: ENDPOINT,
        worker: "dora",
        now: later + 3,
        output: null,
        error: null,
        cancelled: true
      })
      assert.strictEqual(ended._tag, "Changed")
      for (let n = 1; n <= 3; n++) yield* tick(later + n * 60_001)
      assert.deepStrictEqual([yield* status(root), yield* status(nested.id)], [undefined, undefined])
    }).pipe(Effect.scoped))

  it.live("the end of a run with many children cancels some of them, and the timers cancel the rest", () =>
    Effect.gen(function*() {
      const { begin, cancel, count, one, tick, two } = yield* world()
      const extra = 150
      const root = yield* begin()
      const nested = spawn("nested", ENDPOINT)
      yield* one.write(root, { records: [nested, ...spawnMany(MAX_CANCELS)] })
      yield* two.claim(ENDPOINT, "carl")
      yield* two.write(nested.id, { start: START, records: spawnMany(MAX_CANCELS + extra) }, "carl")
      const cancelled = yield* cancel(root)
      assert.strictEqual(cancelled._tag, "Changed")
      const open = "ready"
      const left = yield* count(open)
      assert.strictEqual(yield* count("run_cancels"), left + (yield* count("running")), "every open child is to be cancelled")
      assert.isAbove(left, extra)
      const results = yield* tick(0)
      const others = (found: ReadonlyArray<ApplyResult>): number =>
        found.reduce((sum, one) => sum + 1 + (one._tag === "Changed" ? others(one.others ?? []) : 0), 0)
      assert.isAtLeast(others(results), left, "callers of the children are told of their end")
      assert.deepStrictEqual([yield* count(open), yield* count("running"), yield* count("run_cancels")], [0, 0, 0])
      assert.strictEqual(yield* count("ended WHERE status = 'CANCELLED'"), 2 + 2 * MAX_CANCELS + extra)
      // Each child's end is in the journal of its run.
      for (const run of [root, nested.id]) {
        assert.strictEqual(yield* count(`run_entries WHERE run = '${run}' AND open`), 0)
      }
    }).pipe(Effect.scoped))

  it.live("a run whose timer never ends within the time limit does not stop the timers of other runs", () =>
    Effect.gen(function*() {
      const { begin, count, sql, tick } = yield* world({ deadlineMs: 1_000 })
      const stuck = yield* begin()
      const other = yield* begin()
      yield* sql(`CREATE FUNCTION stint.stall() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(30); RETURN NEW; END $$`)
      yield* sql(`CREATE TRIGGER stall BEFORE DELETE ON stint.running FOR EACH ROW WHEN (OLD.id = '${stuck}')
        EXECUTE FUNCTION stint.stall()`)
      // Both have lost their worker. The first one is due before the other.
      yield* sql(`UPDATE stint.running SET due_at = 1 WHERE id = '${stuck}'`)
      const isWaiting = count(`ready WHERE id = '${other}'`)
      yield* Effect.ignore(tick(20_000)).pipe(
        Effect.andThen(isWaiting),
        Effect.repeat({ until: (waiting) => waiting === 1, times: 10 })
      )
      assert.strictEqual(yield* isWaiting, 1)
      assert.strictEqual(yield* count(`running WHERE id = '${stuck}'`), 1)
      yield* sql("DROP FUNCTION stint.stall CASCADE")
    }).pipe(Effect.scoped))

  it.live("a run's child that was left to the timers is not cancelled twice", () =>
    Effect.gen(function*() {
      const { begin, cancel, count, one, tick, two } = yield* world()
      const root = yield* begin()
      yield* one.write(root, { records: spawnMany(MAX_CANCELS + 10) })
      const claimed = yield* two.claim(CHILDREN, "bob")
      yield* cancel(root)
      // Some end by themselves before the timers cancel them.
      yield* Effect.forEach(claimed, ({ id }) => two.finish(id))
      yield* tick(0)
      assert.strictEqual(yield* count("ended"), MAX_CANCELS + 11)
      assert.strictEqual(yield* count(`run_entries WHERE run = '${root}' AND kind = 'end'`), MAX_CANCELS + 10)
    }).pipe(Effect.scoped))
})

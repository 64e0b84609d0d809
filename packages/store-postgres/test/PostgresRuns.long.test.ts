/**
 * Runs that two nodes change at the same time. The conformance suite makes one call after the other.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import type { JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import { toJsonText } from "@stint/contract/Json"
import { Scenario, SeededRandom } from "@stint/store-testing"
import { isParked } from "@stint/store/JobMachine"
import type { NewEntry } from "@stint/store/RunStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { Client } from "pg"
import { CHILDREN, ENDPOINT, HASH, node, spawn, START } from "./RunNode.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

describe.skipIf(missing !== undefined)(missing ?? "runs on two nodes at the same time", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  /** Two nodes, and `count` runs that worker ann has begun. */
  const world = Effect.fnUntraced(function*(count: number) {
    const address = yield* url
    const [one, two] = [yield* node(address), yield* node(address)]
    yield* one.runs.define(ENDPOINT, HASH, toJsonText({ name: "letters", nodes: [] }), 0)
    const begin = Effect.fnUntraced(function*() {
      yield* one.jobs.insert(Scenario.record())
      const [job] = yield* one.claim(ENDPOINT, "ann")
      if (job === undefined) return yield* Effect.die(new Error("no job"))
      yield* one.write(job.id, { start: START })
      return job.id
    })
    const ids: Array<JobId> = []
    for (let n = 0; n < count; n++) ids.push(yield* begin())
    const deadlocks = Effect.promise(async () => {
      const [row] = await execute(address, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
      return Number(row?.[0])
    })
    return { address, one, two, ids, deadlocks }
  })

  const both = <A, B, E, R>(a: Effect.Effect<A, E, R>, b: Effect.Effect<B, E, R>) =>
    Effect.all([a, b], { concurrency: "unbounded" })

  it.live("R14: a run does not park while its child ends at the other node, or it wakes", () =>
    Effect.gen(function*() {
      const { ids, one, two } = yield* world(60)
      let parks = 0
      for (const id of ids) {
        const child = spawn("stamp")
        const { last } = yield* one.write(id, { records: [child] })
        yield* two.claim(CHILDREN, "bob")
        const [parked] = yield* both(
          one.write(id, { park: { seen: last, wakeAfter: 1, until: null } }),
          two.finish(child.id)
        )
        if (parked.state === "parked") parks += 1
        const job = yield* one.jobs.get(ENDPOINT, id)
        assert.strictEqual((yield* two.runs.entries(ENDPOINT, id, 0, 10)).length, 2)
        assert.isFalse(job === undefined || isParked(job), "the run missed its wake")
      }
      assert.isAbove(parks, 0)
      assert.isBelow(parks, ids.length)
    }).pipe(Effect.scoped))

  it.live("an event that one node receives and a wait that the other one stores do not miss each other", () =>
    Effect.gen(function*() {
      const { ids, one, two } = yield* world(60)
      let kept = 0
      for (const [key, id] of ids.entries()) {
        const event = { name: "approval", key: String(key), body: toJsonText("yes"), id: null, expiresAt: 50_000 }
        const wait: NewEntry = { kind: "wait", path: "approved", name: "approval", key: String(key), until: null }
        const [, sent] = yield* both(one.write(id, { records: [wait] }), two.runs.send(ENDPOINT, event, 0))
        if (sent.run === null) kept += 1
        const kinds = (yield* one.runs.entries(ENDPOINT, id, 0, 10)).map(({ kind }) => kind)
        assert.deepStrictEqual(kinds, ["wait", "event"])
      }
      assert.isAbove(kept, 0)
      assert.isBelow(kept, ids.length)
    }).pipe(Effect.scoped))

  it.live("an event wakes the oldest stored wait when commands of the same transaction close all loaded ones", () =>
    Effect.gen(function*() {
      const { ids, one } = yield* world(12)
      const oldest = ids.toSorted()
      const wait: NewEntry = { kind: "wait", path: "approved", name: "approval", key: "", until: null }
      for (const id of ids) yield* one.write(id, { records: [wait] })
      const event = { name: "approval", key: "", body: toJsonText("yes"), id: null, expiresAt: 50_000 }
      const finish = { output: toJsonText("done"), error: null, cancelled: false }
      const [, sent] = yield* both(
        Effect.forEach(oldest.slice(0, 9), (id) => one.write(id, { finish }), { concurrency: "unbounded" }),
        one.runs.send(ENDPOINT, event, 0)
      )
      assert.strictEqual(sent.run, oldest[9])
    }).pipe(Effect.scoped))

  it.live("timers of many runs fire even if the server cannot change them all in one transaction", () =>
    Effect.gen(function*() {
      const { address, ids, one } = yield* world(24)
      for (const id of ids) yield* one.write(id, { park: { seen: 0, wakeAfter: 1, until: 1 } })
      // Stands for a statement that takes longer than the server allows.
      yield* Effect.acquireRelease(
        Effect.promise(() =>
          execute(
            address,
            `CREATE FUNCTION stint.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
               IF (SELECT count(*) FROM arrived) > 5 THEN RAISE 'too slow' USING ERRCODE = '57014'; END IF;
               RETURN NULL;
             END $$`
          ).then(() =>
            execute(
              address,
              `CREATE TRIGGER refuse AFTER INSERT ON stint.ready REFERENCING NEW TABLE AS arrived
               FOR EACH STATEMENT EXECUTE FUNCTION stint.refuse()`
            )
          )
        ),
        () => Effect.promise(() => execute(address, "DROP FUNCTION stint.refuse CASCADE"))
      )
      const tick = Effect.ignore(one.jobs.tick({ _tag: "Tick", now: 10 }, 200))
      yield* Effect.andThen(tick, tick)
      for (const id of ids) {
        const job = yield* one.jobs.get(ENDPOINT, id)
        assert.strictEqual(job?.status, "IN_QUEUE")
      }
    }).pipe(Effect.scoped))

  it.live("a run cannot start a child on an endpoint that another node has removed", () =>
    Effect.gen(function*() {
      const { address, ids: [id], one } = yield* world(1)
      if (id === undefined) return yield* Effect.die(new Error("no run"))
      yield* Effect.promise(() => execute(address, `INSERT INTO stint.removed_endpoints (id) VALUES ('${CHILDREN}')`))
      const { entries, spawned } = yield* one.write(id, { records: [spawn("stamp")] })
      assert.deepStrictEqual(spawned, [])
      assert.deepStrictEqual(entries.map(({ body, kind }) => [kind, body]), [
        ["end", toJsonText({ status: "FAILED", error: `There is no endpoint "${CHILDREN}".` })]
      ])
    }).pipe(Effect.scoped))

  it.live("a cancel of a run locks its children before their batches, as all other commands do", () =>
    Effect.gen(function*() {
      const { address, ids: [id], one } = yield* world(1)
      if (id === undefined) return yield* Effect.die(new Error("no run"))
      const child = spawn("stamp")
      yield* one.write(id, { records: [child] })
      yield* Effect.promise(() => execute(address, `UPDATE stint.running SET batch = 'batch_summer' WHERE id = '${id}'`))
      yield* Effect.promise(() =>
        execute(
          address,
          "INSERT INTO stint.batches (id, endpoint, owner, created_at, ended, due_at, body) VALUES ('batch_summer', 'letters', '', 0, false, 0, '{}')"
        )
      )
      const other = new Client({ connectionString: address })
      yield* Effect.acquireRelease(Effect.promise(() => other.connect()), () => Effect.promise(() => other.end()))
      yield* Effect.promise(() => other.query("BEGIN; SELECT 1 FROM stint.batches WHERE id = 'batch_summer' FOR UPDATE"))
      const cancelling = yield* Effect.forkChild(
        Effect.exit(one.jobs.apply(ENDPOINT, id, { _tag: "Cancel", now: 0, endpoint: ENDPOINT })),
        { startImmediately: true }
      )
      yield* Effect.promise(() => execute(address, "SELECT count(*) FROM pg_locks WHERE NOT granted")).pipe(
        Effect.repeat({ until: ([row]) => Number(row?.[0]) > 0 })
      )
      const free = yield* Effect.promise(() =>
        execute(address, `SELECT id FROM stint.ready WHERE id = '${child.id}' FOR UPDATE SKIP LOCKED`)
      )
      assert.deepStrictEqual(free, [], "the cancel waits for the batch, and has not locked the child")
      yield* Effect.promise(() => other.query("DELETE FROM stint.batches; COMMIT"))
      yield* Fiber.join(cancelling)
    }).pipe(Effect.scoped), 15_000)

  it.live("ends, cancels and heartbeats of nested runs on both nodes leave no child behind, and do not deadlock", () =>
    Effect.gen(function*() {
      const random = SeededRandom.seededRandom(1)
      const { deadlocks, ids, one, two } = yield* world(25)
      const any = () => random() < 0.5 ? one : two
      for (const id of ids) {
        // A run whose child is a run with children.
        const nested = spawn("nested", ENDPOINT)
        const stamps = [spawn("a"), spawn("b")]
        yield* one.write(id, { records: [nested, ...stamps] })
        yield* two.claim(ENDPOINT, "carl")
        const inner = [spawn("c"), spawn("d"), spawn("e")]
        yield* two.write(nested.id, { start: START, records: inner }, "carl")
        yield* any().claim(CHILDREN, "bob")
        const children = [...stamps, ...inner]
        const heartbeat = { _tag: "Heartbeat", endpoint: CHILDREN, worker: "bob", now: 0 } as const
        yield* Effect.all([
          ...children.map((child) => any().finish(child.id)),
          ...children.map((child) => any().jobs.apply(CHILDREN, child.id, heartbeat)),
          any().jobs.applyRunning({ endpoint: CHILDREN, worker: "bob" }, heartbeat),
          any().write(nested.id, { finish: { output: toJsonText("done"), error: null, cancelled: false } }, "carl"),
          any().jobs.apply(ENDPOINT, id, { _tag: "Cancel", now: 0, endpoint: ENDPOINT }),
          any().jobs.tick({ _tag: "Tick", now: 0 }, 10)
        ], { concurrency: "unbounded" })
        for (const child of [nested, ...children]) {
          const job = yield* one.jobs.get(child === nested ? ENDPOINT : CHILDREN, child.id)
          assert.isTrue(job !== undefined && isTerminal(job.status))
        }
        for (const [run, spawned] of [[id, 3], [nested.id, 3]] as const) {
          const entries = yield* two.runs.entries(ENDPOINT, run, 0, 20)
          assert.deepStrictEqual(entries.map(({ n }) => n), entries.map((_, at) => at + 1))
          assert.isAtMost(entries.length, 2 * spawned)
          // Each end is stored once, unless the run had already ended.
          assert.strictEqual(new Set(entries.map(({ kind, path }) => `${kind} ${path}`)).size, entries.length)
        }
      }
      assert.strictEqual(yield* deadlocks, 0)
    }).pipe(Effect.scoped))
})

/**
 * The counts of ended nodes move to node 0. The sums of all nodes do not change, even while other transactions commit.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { Nodes } from "@stint/store/Nodes"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { connect, type Connection } from "../src/Connection.ts"
import * as EndedNodes from "../src/EndedNodes.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresNodes from "../src/PostgresNodes.ts"
import * as TallyRows from "../src/TallyRows.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

/** Increments of each node. */
const INCREMENTS = 60

describe.skipIf(missing !== undefined)(missing ?? "ended nodes", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  const rule = (title: string, body: (address: string) => Effect.Effect<void, unknown, Scope.Scope>) =>
    it.effect(title, () => Effect.scoped(Effect.flatMap(url, body)))

  /** Creates the tables, without nodes. */
  const migrated = (address: string) =>
    Effect.scoped(Layer.build(Layer.fresh(PostgresDatabase.layer({ url: Redacted.make(address) })))).pipe(
      Effect.andThen(Effect.promise(() => execute(address, "DELETE FROM stint.nodes")))
    )

  const open = (address: string) =>
    Effect.acquireRelease(
      Effect.promise(() => connect({ url: address, deadlineMs: 60_000, prepare: true })),
      (connection) => Effect.promise(() => connection.end())
    )

  const sumOf = async (connection: Connection, id = "e") => (await TallyRows.read(connection.query, "endpoint", id)).bytes

  const nodesOf = async (address: string) => (await execute(address, "SELECT no FROM stint.nodes ORDER BY no")).map(([no]) => no)

  /** A node whose heartbeat was two hours ago. Like the group commit, it reads its counts again after a failure. */
  const agedNode = async (connection: Connection, no: number) => {
    const rows = TallyRows.make(no)
    await rows.reload(connection.query)
    const age = () => connection.query(`UPDATE stint.nodes SET seen_at = now() - interval '2 hours' WHERE no = $1`, [no])
    await age()
    const add = (id: string, bytes: number) => {
      const changes = rows.begin()
      changes.logged(id, "owner", bytes)
      return changes
    }
    return {
      age,
      add,
      reload: () => rows.reload(connection.query),
      /** Returns how often the transaction had to be repeated. */
      commit: async (id: string, bytes: number) => {
        for (let repeats = 0;; repeats++) {
          const changes = add(id, bytes)
          try {
            await PostgresDatabase.transact(connection, changes.send)
            changes.committed()
            return repeats
          } catch (cause) {
            if (!String(cause).includes("division by zero")) throw cause
            await rows.reload(connection.query)
          }
        }
      }
    }
  }

  rule(
    "the oldest node removes the rows of nodes that ended an hour ago, and keeps their counts",
    (address) =>
      Effect.gen(function*() {
        yield* migrated(address)
        const connection = yield* open(address)
        const ids = ["e", "zero"]
        yield* Effect.promise(async () => {
          for (const no of [101, 102, 103]) {
            const node = await agedNode(connection, no)
            for (const id of ids) await node.commit(id, no)
          }
          await (await agedNode(connection, 104)).commit("zero", -306)
          await connection.query("UPDATE stint.nodes SET seen_at = now() - interval '59 minutes' WHERE no = 103")
          await connection.query("UPDATE stint.nodes SET seen_at = '-infinity' WHERE no = 102")
          await connection.query("SELECT setval('stint.node_no', 200)")
        })
        yield* Effect.gen(function*() {
          const nodes = yield* Nodes
          assert.isTrue(nodes.isOldest())
          yield* TestClock.adjust("10 minutes")
          const left = yield* Effect.promise(() => nodesOf(address)).pipe(
            Effect.repeat({ until: (numbers) => !numbers.includes(101) })
          )
          assert.deepStrictEqual(left, [0, 103, 201])
        }).pipe(
          Effect.provide(PostgresNodes.layer.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(address) }))))
        )
        yield* Effect.promise(async () => {
          assert.strictEqual(await sumOf(connection), 306)
          assert.strictEqual(await sumOf(connection, "zero"), 0)
          const rows = await execute(address, "SELECT DISTINCT node FROM stint.tallies ORDER BY node")
          assert.deepStrictEqual(rows.map(([no]) => no), [0, 103])
        })
      })
  )

  rule("skips a node that is committing; a node that returns reads its counts again", (address) =>
    Effect.gen(function*() {
      yield* migrated(address)
      const [frozen, other] = [yield* open(address), yield* open(address)]
      yield* Effect.promise(async () => {
        // The greatest number remains.
        await agedNode(other, 9)
        const node = await agedNode(frozen, 5)
        const fold = () => PostgresDatabase.transact(other, EndedNodes.fold)
        await node.commit("e", 1)
        const changes = node.add("e", 2)
        await frozen.execute("BEGIN")
        await changes.send(frozen.query)
        assert.notInclude(await fold(), 5)
        await frozen.execute("COMMIT")
        changes.committed()
        assert.strictEqual(await sumOf(other), 3)

        assert.include(await fold(), 5)
        assert.strictEqual(await sumOf(other), 3)
        // Neither a known count nor a new one is stored beside the folded ones.
        assert.strictEqual(await node.commit("e", 4), 1)
        assert.strictEqual(await sumOf(other), 7)
        await node.age()
        assert.include(await fold(), 5)
        assert.strictEqual(await node.commit("new", 8), 1)
        assert.strictEqual(await sumOf(other, "new"), 8)
        assert.strictEqual(await sumOf(other), 7)

        // Two nodes that consider themselves the oldest.
        await node.age()
        const folded = await Promise.all([fold(), PostgresDatabase.transact(frozen, EndedNodes.fold)])
        assert.strictEqual(folded.flat().filter((no) => no === 5).length, 1)
        assert.strictEqual(await sumOf(other), 7)
        assert.deepStrictEqual(await nodesOf(address), [0, 9])
      })
    }))

  rule("loses and repeats no count while nodes commit, are folded and return", (address) =>
    Effect.gen(function*() {
      yield* migrated(address)
      const connections = [yield* open(address), yield* open(address), yield* open(address), yield* open(address)] as const
      yield* Effect.promise(async () => {
        const [one, two, folder, reader] = connections
        await agedNode(folder, 9)
        const incrementing = { left: 2 }
        let repeats = 0
        let folds = 0
        const increment = async (connection: Connection, no: number) => {
          const node = await agedNode(connection, no)
          for (let at = 0; at < INCREMENTS; at++) {
            // A new endpoint now and then: its first row replaces none.
            repeats += await node.commit("e", 1) + await node.commit(`e${at % 20}`, 1)
            await node.age()
          }
          incrementing.left -= 1
        }
        const fold = async () => {
          while (incrementing.left > 0) folds += (await PostgresDatabase.transact(folder, EndedNodes.fold)).length
        }
        const read = async () => {
          let before = 0
          while (incrementing.left > 0) {
            const sum = await sumOf(reader)
            assert.isAtLeast(sum, before, "a count was lost")
            before = sum
          }
        }
        await Promise.all([increment(one, 5), increment(two, 6), fold(), read()])
        const logs = await TallyRows.read(reader.query, "logs", "")
        assert.deepStrictEqual([await sumOf(reader), logs.bytes], [2 * INCREMENTS, 4 * INCREMENTS])
        // Check that the conflicts happened.
        assert.isAbove(folds, 10)
        assert.isAbove(repeats, 10)
      })
    }))
})

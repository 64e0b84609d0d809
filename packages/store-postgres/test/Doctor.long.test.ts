/**
 * Each check of the doctor: on a healthy database, and with its fault.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import { Client } from "pg"
import { connect } from "../src/Connection.ts"
import * as Doctor from "../src/Doctor.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresNodes from "../src/PostgresNodes.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 })

describe.skipIf(missing !== undefined)(missing ?? "the doctor", () => {
  const cluster = testCluster({ fsync: true })
  const { url } = makeDatabases(cluster)
  const options = (address: string) => ({ url: Redacted.make(address) })

  const node = (address: string, version = "1.0.0") =>
    Layer.build(PostgresNodes.layer.pipe(Layer.provide(Layer.fresh(PostgresDatabase.layer({ ...options(address), version })))))

  const failing = ({ findings }: { readonly findings: ReadonlyArray<Doctor.Finding> }) =>
    findings.filter(({ state }) => state === "failed").map(({ check }) => check)

  const sql = (address: string, ...statements: ReadonlyArray<string>) =>
    Effect.promise(async () => {
      for (const text of statements) await execute(address, text)
    })

  /** A database with one node. */
  const rule = (title: string, body: (address: string) => Effect.Effect<void, unknown, Scope.Scope>) =>
    it.live(title, () => Effect.scoped(Effect.flatMap(url, (address) => Effect.andThen(node(address), body(address)))))

  const fails = (address: string, check: string, limits?: Doctor.Limits) =>
    Effect.gen(function*() {
      const examination = yield* Doctor.examine(options(address), limits)
      assert.deepStrictEqual(failing(examination), [check])
      const found = examination.findings.find((one) => one.check === check)
      assert.isAbove(found?.advice.length ?? 0, 20, "says what to do")
      return found?.found ?? ""
    })

  rule("finds nothing in the database of a running node", (address) =>
    Effect.gen(function*() {
      const { database, findings } = yield* Doctor.examine(options(address))
      assert.deepStrictEqual(findings.filter(({ state }) => state !== "ok"), [])
      assert.deepStrictEqual(findings.map(({ check }) => check), [
        "server",
        "pooler",
        "tables",
        "nodes",
        "clocks of nodes",
        "clock",
        "indexes",
        "dead rows",
        "long transactions",
        "durability",
        "connections",
        "notifications"
      ])
      assert.match(findings.find(({ check }) => check === "nodes")?.found ?? "", /1 of version 1\.0\.0/)
      assert.notInclude(database, "stint@")
    }))

  it.live("reports a database that cannot be reached, without its password", () =>
    Effect.gen(function*() {
      const { findings } = yield* Doctor.examine(options(`postgres://stint:hunter2@localhost/none?host=${cluster.folder}`))
      assert.deepStrictEqual(failing({ findings }), ["connection"])
      assert.notInclude(JSON.stringify(findings), "hunter2")
      assert.include(findings[0]?.found ?? "", "none")
    }))

  it.live("skips the tables of a new database", () =>
    Effect.gen(function*() {
      yield* sql(cluster.url("postgres"), "CREATE DATABASE fresh")
      const { findings } = yield* Doctor.examine(options(cluster.url("fresh")))
      assert.deepStrictEqual(failing({ findings }), [])
      assert.strictEqual(findings.find(({ check }) => check === "tables")?.state, "skipped")
    }))

  rule("finds tables of another version", (address) =>
    Effect.gen(function*() {
      yield* sql(address, "UPDATE stint.settings SET value = (value::int + 1)::text WHERE key = 'version'")
      yield* fails(address, "tables")
      yield* sql(address, "UPDATE stint.settings SET value = (value::int - 2)::text WHERE key = 'version'")
      yield* fails(address, "tables")
      yield* sql(address, "UPDATE stint.settings SET value = (value::int + 1)::text WHERE key = 'version'")
    }))

  rule("finds nodes of different versions", (address) =>
    Effect.gen(function*() {
      yield* node(address, "1.1.0")
      assert.include(yield* fails(address, "nodes"), "1.0.0, 1.1.0")
    }))

  rule("finds a node whose clock is wrong", (address) =>
    Effect.gen(function*() {
      yield* sql(
        address,
        `INSERT INTO stint.nodes (no, started_at, seen_at, version, clock)
         VALUES (900, now(), now(), '1.0.0', (extract(epoch FROM now()) * 1000)::bigint - 5000)`
      )
      assert.include(yield* fails(address, "clocks of nodes"), "node 900 is 5.0 s behind the database")
    }))

  rule("finds a wrong clock on this machine", (address) =>
    Effect.gen(function*() {
      const surroundings = { connect, now: () => Date.now() + 7_000 }
      const { findings } = yield* Doctor.examine(options(address), {}, surroundings)
      assert.deepStrictEqual(failing({ findings }), ["clock"])
      assert.include(findings.find(({ check }) => check === "clock")?.found ?? "", "7.0 s ahead of the database")
    }))

  rule("finds missing and invalid indexes, and says how to recreate them", (address) =>
    Effect.gen(function*() {
      yield* sql(address, "DROP INDEX stint.running_leased")
      assert.include(yield* fails(address, "indexes"), "running_leased")
      const { findings } = yield* Doctor.examine(options(address))
      const statement = findings.find(({ check }) => check === "indexes")?.advice.split("\n")[1] ?? ""
      yield* sql(address, statement)
      assert.deepStrictEqual(failing(yield* Doctor.examine(options(address))), [])
      yield* sql(address, "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'stint.ready_line'::regclass")
      assert.include(yield* fails(address, "indexes"), "ready_line")
      yield* sql(address, "UPDATE pg_index SET indisvalid = true WHERE indexrelid = 'stint.ready_line'::regclass")
    }))

  rule("finds a table with many dead rows", (address) =>
    Effect.gen(function*() {
      yield* sql(
        address,
        "ALTER TABLE stint.keys SET (autovacuum_enabled = off)",
        "INSERT INTO stint.keys SELECT n::text, '' FROM generate_series(1, 1000) n",
        "DELETE FROM stint.keys"
      )
      const dead = Effect.promise(() =>
        execute(address, "SELECT n_dead_tup::int FROM pg_stat_user_tables WHERE schemaname = 'stint' AND relname = 'keys'")
      )
      yield* dead.pipe(Effect.repeat({ until: ([row]) => Number(row?.[0]) >= 1_000 }))
      assert.include(yield* fails(address, "dead rows", { deadRows: 500 }), "keys has 1000 dead rows")
      yield* sql(address, "VACUUM stint.keys", "ALTER TABLE stint.keys RESET (autovacuum_enabled)")
    }))

  rule("finds a transaction that has been open for a long time, and names its program", (address) =>
    Effect.gen(function*() {
      const other = new Client({ connectionString: address, application_name: "report" })
      yield* Effect.acquireRelease(Effect.promise(() => other.connect()), () => Effect.promise(() => other.end()))
      yield* Effect.promise(() => other.query("BEGIN"))
      const found = yield* Doctor.examine(options(address), { transactionMs: 0 }).pipe(
        Effect.repeat({ until: (one) => failing(one).includes("long transactions") })
      )
      assert.include(found.findings.find(({ check }) => check === "long transactions")?.found ?? "", "(report)")
    }))

  rule("finds settings with which a crash loses jobs", (address) =>
    Effect.gen(function*() {
      yield* sql(address, "ALTER ROLE stint SET synchronous_commit = off")
      assert.include(yield* fails(address, "durability"), "synchronous_commit is off")
    }).pipe(Effect.ensuring(sql(address, "ALTER ROLE stint RESET synchronous_commit"))))

  rule("finds a server with too few connections for one more node", (address) =>
    Effect.gen(function*() {
      yield* sql(
        address,
        `INSERT INTO stint.nodes (no, started_at, seen_at, version, clock)
         SELECT 1000 + n, now(), now() + interval '1 hour', '1.0.0', (extract(epoch FROM now() + interval '1 hour') * 1000)::bigint
         FROM generate_series(1, 30) n`
      )
      assert.include(yield* fails(address, "connections"), "32 nodes use up to 160")
    }))

  rule("finds a server that accepts no changes", (address) =>
    Effect.gen(function*() {
      yield* sql(address, "ALTER ROLE stint SET default_transaction_read_only = on")
      const examination = yield* Doctor.examine(options(address))
      assert.include(failing(examination), "server")
    }).pipe(
      Effect.ensuring(
        sql(
          `${address}&options=${encodeURIComponent("-c default_transaction_read_only=off")}`,
          "ALTER ROLE stint RESET default_transaction_read_only"
        )
      )
    ))

  rule("finds a standby, which refuses to listen for notifications", (address) =>
    Effect.gen(function*() {
      const standby: typeof connect = async (to) => {
        const connection = await connect(to)
        return {
          ...connection,
          query: (text, values) => connection.query(text.replace("pg_is_in_recovery()", "true"), values),
          execute: (text) =>
            text.startsWith("LISTEN")
              ? Promise.reject(new Error("cannot execute LISTEN during recovery"))
              : connection.execute(text)
        }
      }
      const { findings } = yield* Doctor.examine(options(address), {}, { connect: standby, now: Date.now })
      assert.deepStrictEqual(failing({ findings }), ["server"])
      assert.include(findings.find(({ check }) => check === "server")?.found ?? "", "a standby")
    }))

  rule("finds that notifications do not arrive", (address) =>
    Effect.gen(function*() {
      const deaf: typeof connect = async (to) => ({ ...await connect(to), onNotification: () => {} })
      const { findings } = yield* Doctor.examine(options(address), { notifyMs: 50 }, { connect: deaf, now: Date.now })
      assert.deepStrictEqual(failing({ findings }), ["notifications"])
    }))
})

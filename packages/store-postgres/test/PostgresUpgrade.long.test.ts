/**
 * A node of a new version starts while nodes of an older one work.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { SeededRandom } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Client, DatabaseError } from "pg"
import { connect } from "../src/Connection.ts"
import * as Migrations from "../src/Migrations.ts"
import { migrateTables, readVersion } from "../src/OpenTables.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import { PostgresOpenError } from "../src/PostgresOpenError.ts"
import { execute, missing, testCluster } from "./TestCluster.ts"

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

/** The version whose next step changes all tables of jobs. */
const OLD = 3

/** Creates the tables of a version. */
const createOld = async (address: string, version: number): Promise<void> => {
  await execute(address, "CREATE SCHEMA stint; CREATE TABLE stint.settings (key text PRIMARY KEY, value text NOT NULL)")
  for (const step of Migrations.steps.slice(0, version)) await execute(address, step)
  await execute(address, `INSERT INTO stint.settings (key, value) VALUES ('version', '${version}')`)
}

/** The columns of every table of a version, with the SQL of a value for the row `n`. */
type Tables = ReadonlyMap<string, ReadonlyMap<string, string>>

const VALUES = new Map([["text", "'row' || n"], ["boolean", "false"], ["timestamp with time zone", "now()"], ["ARRAY", "'{}'"]])

const tablesOf = async (address: string): Promise<Tables> => {
  const rows = await execute(
    address,
    `SELECT table_name, column_name, data_type FROM information_schema.columns
     WHERE table_schema = 'stint' AND table_name NOT IN ('settings', 'nodes') AND is_identity = 'NO' AND is_generated = 'NEVER'`
  )
  const tables = new Map<string, Map<string, string>>()
  for (const [table, column, type] of rows) {
    const columns = tables.get(String(table)) ?? new Map<string, string>()
    tables.set(String(table), columns.set(String(column), VALUES.get(String(type)) ?? "n"))
  }
  return tables
}

/** Inserts the rows `from` to `to`. */
const inserted = (tables: Tables, table: string, from: number, to = from): string => {
  const columns = [...tables.get(table) ?? []]
  const values = columns.map(([, value]) => value).join(", ")
  return `INSERT INTO stint.${table} (${
    columns.map(([name]) => `"${name}"`).join(", ")
  }) SELECT ${values} FROM generate_series(${from}, ${to}) n`
}

/** All rows of a table, with the columns of the old version, as one text. */
const rowsOf = async (address: string, tables: Tables, table: string): Promise<unknown> => {
  const columns = [...tables.get(table)?.keys() ?? []].map((name) => `"${name}"`).join(", ")
  const text =
    `SELECT string_agg(row::text, ' ' ORDER BY row::text) FROM (SELECT ROW(${columns}) AS row FROM stint.${table}) rows`
  return (await execute(address, text))[0]?.[0]
}

/** The tables that an older node writes below. */
const WRITTEN = ["jobs", "ready", "running"]
/** The rows of each table, and the connections of the older node. */
const ROWS = 200
const CONNECTIONS = 4

/** How long the start of a node may take on a busy machine. Milliseconds. */
const READY_WITHIN = 60_000

/** What an older node does on one of its connections. */
interface OlderNode {
  /** The rows of the jobs whose submission was acknowledged. */
  readonly submitted: Array<number>
  transactions: number
  repeated: number
  isOver: boolean
}

/** Submits, claims and reads jobs as an older node does, with the columns of its version. Repeats a transaction after a deadlock. */
const work = async (address: string, tables: Tables, node: OlderNode, first: number, random: () => number): Promise<void> => {
  const client = new Client({ connectionString: address })
  await client.connect()
  try {
    const columns = [...tables.get("ready")?.keys() ?? []].map((name) => `"${name}"`).join(", ")
    const claim =
      `WITH taken AS (DELETE FROM stint.ready WHERE id = (SELECT id FROM stint.ready LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING ${columns})
      INSERT INTO stint.running (${columns}) SELECT ${columns} FROM taken`
    const places = ["ready", "delayed", "running", "ended"].map((table) => `SELECT 1 FROM stint.${table} LIMIT 1`)
    for (let job = first; !node.isOver; job++) {
      const reads = places.toSorted(() => random() - 0.5)
      for (const statements of [[inserted(tables, "jobs", job), inserted(tables, "ready", job)], [claim], reads]) {
        for (let isDone = false; !isDone;) {
          try {
            for (const statement of ["BEGIN", ...statements, "COMMIT"]) await client.query(statement)
            isDone = true
          } catch (error) {
            if (!(error instanceof DatabaseError && error.code === "40P01")) throw error
            await client.query("ROLLBACK")
            node.repeated += 1
          }
        }
        node.transactions += 1
      }
      node.submitted.push(job)
    }
  } finally {
    await client.end()
  }
}

/** How often a transaction of the older node and the migration wait for each other. */
const CROSSINGS = 7

const WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"

describe.skipIf(missing !== undefined)(missing ?? "an upgrade", () => {
  const cluster = testCluster()

  it.live("a node starts although transactions of an older node and its migration wait for each other, many times", () =>
    Effect.gen(function*() {
      const address = cluster.url("postgres")
      const sql = (text: string) => Effect.promise(() => execute(address, text))
      yield* Effect.promise(() => createOld(address, OLD))

      const older = new Client({ connectionString: address })
      yield* Effect.acquireRelease(Effect.promise(() => older.connect()), () => Effect.promise(() => older.end()))
      const query = (text: string) => Effect.promise(() => older.query(text))
      yield* query("BEGIN; SELECT 1 FROM stint.running")
      const starting = yield* Effect.forkChild(
        Effect.exit(Layer.build(PostgresDatabase.layer({ url: Redacted.make(address) }))),
        { startImmediately: true }
      )
      const waiting = sql(WAITS).pipe(
        Effect.repeat({ until: ([row]) => Number(row?.[0]) > 0 }),
        Effect.race(Fiber.await(starting))
      )
      for (let times = 1; times <= CROSSINGS; times++) {
        yield* waiting
        // The migration holds this table, and waits for the other one.
        yield* query("SELECT 1 FROM stint.ready")
        yield* query(times < CROSSINGS ? "COMMIT; BEGIN; SELECT 1 FROM stint.running" : "COMMIT")
      }
      const started = yield* Fiber.join(starting)
      assert.strictEqual(started._tag, "Success")
    }).pipe(Effect.scoped))

  it("names the session that keeps the tables locked, and changes nothing", async () => {
    await execute(cluster.url("postgres"), "CREATE DATABASE locked")
    const address = cluster.url("locked")
    await createOld(address, OLD)
    const backup = new Client({ connectionString: address, application_name: "a backup" })
    await backup.connect()
    const connection = await connect({ url: address, deadlineMs: 10_000, prepare: true })
    try {
      await backup.query("BEGIN; SELECT 1 FROM stint.running")
      const refused: unknown = await migrateTables(connection, "locked", 200).catch((error: unknown) => error)
      assert.instanceOf(refused, PostgresOpenError)
      assert.match(refused.message, /used them for 0\.2 s\..* locked by process \d+ \(a backup\), for \d s\. /)
      assert.strictEqual(await readVersion(connection), OLD)
      await backup.query("COMMIT")
      await migrateTables(connection, "locked", 200)
      assert.strictEqual(await readVersion(connection), Migrations.LATEST)
    } finally {
      await connection.end()
      await backup.end()
    }
  })

  it("cancels an autovacuum that would keep a table locked for long", async () => {
    /** How often the server looks for tables to vacuum. */
    const setNap = async (setting: string) => {
      for (const text of [`ALTER SYSTEM ${setting}`, "SELECT pg_reload_conf()"]) await execute(cluster.url("postgres"), text)
    }
    await setNap("SET autovacuum_naptime = 1")
    await execute(cluster.url("postgres"), "CREATE DATABASE vacuumed")
    const address = cluster.url("vacuumed")
    await createOld(address, OLD)
    const tables = await tablesOf(address)
    await execute(
      address,
      `ALTER TABLE stint.ended SET (autovacuum_vacuum_threshold = 0, autovacuum_vacuum_scale_factor = 0,
         autovacuum_vacuum_cost_delay = 100, autovacuum_vacuum_cost_limit = 1)`
    )
    await execute(address, inserted(tables, "ended", 1, 20_000))
    await execute(address, "DELETE FROM stint.ended")
    const vacuums = "SELECT count(*) FROM pg_stat_progress_vacuum WHERE relid = 'stint.ended'::regclass"
    await vi.waitUntil(async () => Number((await execute(address, vacuums))[0]?.[0]) > 0, { timeout: 60_000 })
    const connection = await connect({ url: address, deadlineMs: 10_000, prepare: true })
    try {
      await migrateTables(connection, "vacuumed", 10_000)
      assert.strictEqual(await readVersion(connection), Migrations.LATEST)
    } finally {
      await setNap("RESET autovacuum_naptime")
      await connection.end()
    }
  })

  for (let version = 1; version < Migrations.LATEST; version++) {
    it(`R1: a node upgrades tables of version ${version} while an older node submits, claims and reads jobs, and no row is lost`, async () => {
      const seed = SeededRandom.runSeed()
      const random = SeededRandom.seededRandom(seed)
      await execute(cluster.url("postgres"), `CREATE DATABASE old${version}`)
      const address = cluster.url(`old${version}`)
      await createOld(address, version)
      const tables = await tablesOf(address)
      // A job is either ready or running.
      for (const table of tables.keys()) {
        const first = table === "running" ? ROWS + 1 : 1
        await execute(address, inserted(tables, table, first, first + ROWS - 1))
      }
      const untouched = [...tables.keys()].filter((table) => !WRITTEN.includes(table))
      const before = await Promise.all(untouched.map((table) => rowsOf(address, tables, table)))

      const node: OlderNode = { submitted: [], transactions: 0, repeated: 0, isOver: false }
      const working = Promise.all(
        Array.from({ length: CONNECTIONS }, (_, n) => work(address, tables, node, 1_000_000 * (n + 1), random))
      )
      /** Waits until the older node has ended some more transactions. */
      const more = async () => {
        const enough = node.transactions + 50
        await Promise.race([working, vi.waitUntil(() => node.transactions >= enough, { timeout: 60_000 })])
      }
      try {
        await more()
        const begun = performance.now()
        const database = PostgresDatabase.layer({ url: Redacted.make(address) })
        await Effect.runPromise(Effect.scoped(Effect.andThen(
          Layer.build(database),
          Effect.promise(() => {
            const took = performance.now() - begun
            assert.isBelow(took, READY_WITHIN)
            process.stdout.write(`from version ${version}: ${Math.round(took)} ms\n`)
            return more()
          })
        )))
      } finally {
        node.isOver = true
      }
      await working
      // The migration gave way before the server ended a transaction.
      assert.strictEqual(node.repeated, 0)

      const after = await Promise.all(untouched.map((table) => rowsOf(address, tables, table)))
      for (const [at, table] of untouched.entries()) assert.strictEqual(after[at], before[at], `${table}, seed ${seed}`)
      const idsIn = async (text: string) => (await execute(address, text)).map(([id]) => String(id)).toSorted()
      const expected = (count: number) =>
        [...Array.from({ length: count }, (_, n) => n + 1), ...node.submitted].map((n) => `row${n}`).toSorted()
      assert.deepStrictEqual(await idsIn("SELECT id FROM stint.jobs"), expected(ROWS))
      const places = await idsIn("SELECT id FROM stint.ready UNION ALL SELECT id FROM stint.running")
      assert.deepStrictEqual(places, expected(2 * ROWS))
    })
  }
})

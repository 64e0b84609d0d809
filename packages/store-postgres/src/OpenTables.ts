/**
 * Prepares the tables for a node: checks the server, applies the migrations, and gives the node its number.
 */
import { setTimeout as pause } from "node:timers/promises"
import { type Connection, sqlStateOf } from "./Connection.ts"
import * as ImportState from "./ImportState.ts"
import * as MigrationLocks from "./MigrationLocks.ts"
import * as Migrations from "./Migrations.ts"
import {
  ImportUnfinished,
  OLDEST_SERVER,
  PostgresOpenError,
  ServerTooOld,
  TablesInUse,
  TablesNewer
} from "./PostgresOpenError.ts"

/** The advisory lock of migrations: nodes that start together apply them one after the other. */
const MIGRATION_LOCK = 5_354_494_001

const SETTINGS = `CREATE SCHEMA IF NOT EXISTS stint;
CREATE TABLE IF NOT EXISTS stint.settings (key text PRIMARY KEY, value text NOT NULL);`

/** The version of the tables; 0 for a new database. */
export const readVersion = async ({ query }: Connection): Promise<number> => {
  const [row] = await query(`SELECT value FROM stint.settings WHERE key = 'version'`)
  return row === undefined ? 0 : Number(row[0])
}

/** Returns whether the tables are up to date. False: other transactions used them. */
const migrate = async (connection: Connection, database: string, waitMillis: number): Promise<boolean> => {
  const [exists] = await connection.query(`SELECT to_regclass('stint.settings') IS NOT NULL`)
  if (exists?.[0] === true && (await readVersion(connection)) === Migrations.LATEST) return true
  await connection.execute("BEGIN")
  await connection.query(`SELECT pg_advisory_xact_lock($1)`, [MIGRATION_LOCK])
  await connection.execute(SETTINGS)
  const version = await readVersion(connection)
  if (version > Migrations.LATEST) {
    throw new PostgresOpenError({ database, reason: new TablesNewer({ version, supported: Migrations.LATEST }) })
  }
  const steps = Migrations.steps.slice(version)
  if (!(await MigrationLocks.lock(connection, steps, waitMillis))) return false
  for (const step of steps) await connection.execute(step)
  await connection.query(
    `INSERT INTO stint.settings (key, value) VALUES ('version', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
    [String(Migrations.LATEST)]
  )
  await connection.execute("COMMIT")
  return true
}

const DEADLOCK = "40P01"

/**
 * How long the attempts wait for the tables, in turn. Milliseconds. A short wait is enough among short transactions. Meanwhile, transactions of older
 * nodes wait behind the migration. After a second, the default of `deadlock_timeout`, the server would end one of them if it and the migration wait for
 * each other.
 */
const WAITS = [50, 100, 200, 400] as const

/** The wait of an attempt. The longest one is longer while a table is vacuumed: the server cancels an autovacuum only after it. */
const waitOf = async (connection: Connection, attempt: number): Promise<number> => {
  const wait = WAITS[attempt % WAITS.length] ?? WAITS[0]
  return wait === WAITS.at(-1) ? await MigrationLocks.vacuumWait(connection) ?? wait : wait
}

/** The pause after an attempt, in which the waiting transactions run. Milliseconds. */
const PAUSE = 50

/** For how long a migration tries to lock its tables. Long enough for a short backup. Milliseconds. */
const LOCK_WITHIN = 60_000

const migrateRepeatedly = async (connection: Connection, database: string, lockWithinMs: number): Promise<void> => {
  const end = performance.now() + lockWithinMs
  for (let attempt = 0;; attempt++) {
    try {
      if (await migrate(connection, database, await waitOf(connection, attempt))) return
    } catch (cause) {
      if (sqlStateOf(cause) !== DEADLOCK) throw cause
    }
    await connection.execute("ROLLBACK")
    if (performance.now() > end) {
      const holders = await MigrationLocks.holders(connection)
      throw new PostgresOpenError({ database, reason: new TablesInUse({ seconds: lockWithinMs / 1000, holders }) })
    }
    await pause(PAUSE)
  }
}

/** Brings the tables to the version of this program. */
export const migrateTables = async (connection: Connection, database: string, lockWithinMs = LOCK_WITHIN): Promise<void> => {
  try {
    const [version] = await connection.query(
      `SELECT current_setting('server_version_num')::int, current_setting('server_version')`
    )
    if (Number(version?.[0]) < OLDEST_SERVER * 10_000) {
      throw new PostgresOpenError({ database, reason: new ServerTooOld({ version: String(version?.[1]) }) })
    }
    await migrateRepeatedly(connection, database, lockWithinMs)
  } catch (cause) {
    if (connection.isOpen()) await connection.execute("ROLLBACK").catch(() => {})
    throw cause
  }
}

/** Returns the number of the node. */
export const openTables = async (connection: Connection, database: string): Promise<number> => {
  await migrateTables(connection, database)
  try {
    await connection.execute("BEGIN")
    await ImportState.lock(connection.query)
    const state = (await ImportState.read(connection.query))?.state
    if (state === "unfinished" || state === "backup") {
      throw new PostgresOpenError({ database, reason: new ImportUnfinished({ state }) })
    }
    const [row] = await connection.query(
      `INSERT INTO stint.nodes (no, started_at, seen_at) VALUES (nextval('stint.node_no'), now(), now()) RETURNING no`
    )
    await connection.execute("COMMIT")
    return Number(row?.[0])
  } catch (cause) {
    if (connection.isOpen()) await connection.execute("ROLLBACK").catch(() => {})
    throw cause
  }
}

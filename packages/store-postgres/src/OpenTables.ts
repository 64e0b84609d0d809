/**
 * Prepares the tables for a node: checks the server, applies the migrations, and gives the node its number.
 */
import { type Connection, sqlStateOf } from "./Connection.ts"
import * as ImportState from "./ImportState.ts"
import * as Migrations from "./Migrations.ts"
import { ImportUnfinished, OLDEST_SERVER, PostgresOpenError, ServerTooOld, TablesNewer } from "./PostgresOpenError.ts"

/** The advisory lock of migrations: nodes that start together apply them one after the other. */
const MIGRATION_LOCK = 5_354_494_001

const SETTINGS = `CREATE SCHEMA IF NOT EXISTS stint;
CREATE TABLE IF NOT EXISTS stint.settings (key text PRIMARY KEY, value text NOT NULL);`

/** The version of the tables; 0 for a new database. */
export const readVersion = async ({ query }: Connection): Promise<number> => {
  const [row] = await query(`SELECT value FROM stint.settings WHERE key = 'version'`)
  return row === undefined ? 0 : Number(row[0])
}

const migrate = async (connection: Connection, database: string) => {
  const [exists] = await connection.query(`SELECT to_regclass('stint.settings') IS NOT NULL`)
  if (exists?.[0] === true && (await readVersion(connection)) === Migrations.LATEST) return
  await connection.execute("BEGIN")
  await connection.query(`SELECT pg_advisory_xact_lock($1)`, [MIGRATION_LOCK])
  await connection.execute(SETTINGS)
  const version = await readVersion(connection)
  if (version > Migrations.LATEST) {
    throw new PostgresOpenError({ database, reason: new TablesNewer({ version, supported: Migrations.LATEST }) })
  }
  for (const step of Migrations.steps.slice(version)) await connection.execute(step)
  await connection.query(
    `INSERT INTO stint.settings (key, value) VALUES ('version', $1) ON CONFLICT (key) DO UPDATE SET value = excluded.value`,
    [String(Migrations.LATEST)]
  )
  await connection.execute("COMMIT")
}

const DEADLOCK = "40P01"

/** The maximum number of attempts at a migration. Transactions of older nodes lock the same tables in a different order, which can deadlock. */
const MAX_TRIES = 5

const migrateRepeatedly = async (connection: Connection, database: string) => {
  for (let attempt = 1;; attempt++) {
    try {
      return await migrate(connection, database)
    } catch (cause) {
      if (attempt === MAX_TRIES || sqlStateOf(cause) !== DEADLOCK) throw cause
      await connection.execute("ROLLBACK")
    }
  }
}

/** Brings the tables to the version of this program. */
export const migrateTables = async (connection: Connection, database: string): Promise<void> => {
  try {
    const [version] = await connection.query(
      `SELECT current_setting('server_version_num')::int, current_setting('server_version')`
    )
    if (Number(version?.[0]) < OLDEST_SERVER * 10_000) {
      throw new PostgresOpenError({ database, reason: new ServerTooOld({ version: String(version?.[1]) }) })
    }
    await migrateRepeatedly(connection, database)
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

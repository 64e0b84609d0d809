/**
 * The locks of a migration. It locks all tables that it changes before its first step: a step that locked a table in the middle of a migration would often
 * deadlock with transactions of older nodes, which use the same tables in another order.
 *
 * ```
 *   LOCK TABLE ... ──► all locked ──► the steps, which wait for nothing ──► COMMIT
 *        │
 *        └── not within the wait ──► ROLLBACK, a pause in which the transactions of older nodes run, and the next attempt (OpenTables.ts)
 * ```
 */
import { type Connection, sqlStateOf } from "./Connection.ts"

/** The existing tables whose names, or whose indexes' names, are in the steps. Identifiers in SQL, in one order. */
const tablesOf = async ({ query }: Connection, steps: ReadonlyArray<string>): Promise<ReadonlyArray<string>> => {
  const named = new Set(steps.flatMap((step) => Array.from(step.matchAll(/\bstint\.(\w+)/g), ([, name]) => name)))
  const rows = await query(
    `SELECT DISTINCT format('stint.%I', tables.relname) FROM pg_class named
     LEFT JOIN pg_index ON indexrelid = named.oid JOIN pg_class tables ON tables.oid = coalesce(indrelid, named.oid)
     WHERE named.relnamespace = 'stint'::regnamespace AND named.relname = ANY($1::text[]) AND tables.relkind = 'r' ORDER BY 1`,
    [[...named]]
  )
  return rows.map(([name]) => String(name))
}

/** The state of a statement that took longer than `statement_timeout`. */
const TIMED_OUT = "57014"

/** Locks the tables that the steps change. False: not within `waitMillis`, and the transaction must be rolled back. */
export const lock = async (connection: Connection, steps: ReadonlyArray<string>, waitMillis: number): Promise<boolean> => {
  const tables = await tablesOf(connection, steps)
  if (tables.length === 0) return true
  await connection.execute(`SET LOCAL statement_timeout = ${waitMillis}`)
  try {
    await connection.execute(`LOCK TABLE ${tables.join(", ")} IN ACCESS EXCLUSIVE MODE`)
  } catch (cause) {
    if (sqlStateOf(cause) === TIMED_OUT) return false
    throw cause
  }
  await connection.execute("SET LOCAL statement_timeout = DEFAULT")
  return true
}

/** The locks on what belongs to Stint in this database. */
const LOCKS = `pg_locks JOIN pg_class ON pg_class.oid = relation AND granted AND relnamespace = 'stint'::regnamespace
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`

/**
 * How long the migration must wait for the server to cancel an autovacuum that has locked a table: longer than `deadlock_timeout`. Milliseconds. Undefined
 * while no table is vacuumed. The transactions of nodes do not lock tables in this mode.
 */
export const vacuumWait = async ({ query }: Connection): Promise<number | undefined> => {
  const [row] = await query(
    `SELECT setting::int + 500 FROM pg_settings WHERE name = 'deadlock_timeout' AND EXISTS (
       SELECT FROM ${LOCKS} WHERE mode = 'ShareUpdateExclusiveLock')`
  )
  return row === undefined ? undefined : Number(row[0])
}

/** The other sessions that have locked a table of Stint, the one with the oldest transaction first. */
export const holders = async ({ query }: Connection): Promise<string> => {
  const rows = await query(
    `SELECT 'process ' || pid || coalesce(' (' || coalesce(nullif(min(application_name), ''), min(backend_type)) || ')', '')
       || coalesce(', for ' || extract(epoch FROM now() - min(xact_start))::int || ' s', '')
     FROM ${LOCKS} JOIN pg_stat_activity USING (pid) WHERE pid <> pg_backend_pid() AND relkind = 'r'
     GROUP BY pid ORDER BY min(xact_start) LIMIT 3`
  )
  return rows.map(([session]) => String(session)).join("; ")
}

/**
 * The target of a copy from another store (`Transfer` of `@stint/store`): a database that no node has used.
 *
 * ```
 *   open     refuses a database with other data, a live node, or another copy in progress; from then on, no node starts
 *   rows, replace
 *   finish   counts the jobs, moves the sequences past the copied numbers; from then on, nodes start
 * ```
 */
import { TABLES } from "@stint/store/StoredTables"
import type { TransferTarget } from "@stint/store/Transfer"
import { TargetFailed, TransferError } from "@stint/store/TransferError"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { connect, type Connection, type ConnectionOptions, type Query, sqlStateOf } from "./Connection.ts"
import * as ImportState from "./ImportState.ts"
import { STATE_TABLES, SUMMARY, toStateRow } from "./JobColumns.ts"
import { DEADLINE } from "./Migrate.ts"
import * as Migrations from "./Migrations.ts"
import { migrateTables, readVersion } from "./OpenTables.ts"
import * as Pooler from "./Pooler.ts"
import { nameOf, openError, type Options, PLANNER_SETTINGS, problemOf, transact } from "./PostgresDatabase.ts"
import { DEAD_AFTER } from "./PostgresNodes.ts"
import { ImportRefused, PostgresOpenError, TransactionPooler } from "./PostgresOpenError.ts"
import { put as putSetting } from "./PostgresSettings.ts"
import * as TallyRows from "./TallyRows.ts"
import { readKeys, readRows, removeRivals, replaceRows } from "./TransferTables.ts"

/** How a copy ends. */
export interface Ending {
  /** Whether the source was a backup of a platform that may have continued to run. Then no node starts until the platform itself has been copied. */
  readonly isBackup: boolean
  /** The shared settings of the platform, by name. */
  readonly settings: Readonly<Record<string, string>>
}

/** The database that receives the copy. */
export interface ImportTarget extends TransferTarget {
  /** The address without user and password. */
  readonly database: string
  /** Makes the database ready for nodes, in one transaction. */
  readonly finish: (ending: Ending) => Effect.Effect<void, PostgresOpenError>
}

/** The advisory lock of imports, held by the connection. */
const IMPORT_LOCK = 5_354_494_002

/** The tables with numbered rows, and the column with the number. */
const NUMBERED: Readonly<Record<string, string>> = {
  audit: "id",
  batch_requests: "seq",
  batches: "seq",
  deliveries: "seq",
  log_pieces: "seq",
  run_events: "seq",
  webhook_attempts: "seq"
}

const UNIQUE_VIOLATION = "23505"

/** How many jobs are counted at a time. */
const COUNT_ROWS = 1_000

const decodeNames = Schema.decodeUnknownSync(Schema.Array(Schema.Tuple([Schema.String])))
const decodeNodes = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int]))
const decodeLogs = Schema.decodeUnknownSync(Schema.Tuple([Schema.String, Schema.String, Schema.Int]))
const decodeLock = Schema.decodeUnknownSync(Schema.Tuple([Schema.Boolean]))

const FORBIDDEN = `SELECT c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = 'stint' AND CASE c.relkind
    WHEN 'r' THEN NOT (has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
      AND has_table_privilege(c.oid, 'UPDATE') AND has_table_privilege(c.oid, 'DELETE'))
    WHEN 'S' THEN NOT has_sequence_privilege(c.oid, 'UPDATE')
    ELSE false END
  ORDER BY 1`

/** The tables with the rows of a platform, in the order of a copy. An older version has fewer of them. */
const EXISTING = `SELECT name FROM unnest($1::text[]) WITH ORDINALITY AS t (name, place)
  WHERE to_regclass('stint.' || name) IS NOT NULL ORDER BY place`

const usedOf = (names: ReadonlyArray<string>): string =>
  names.map((name) => `SELECT '${name}'::text WHERE EXISTS (SELECT 1 FROM stint.${name})`).join(" UNION ALL ")

const namesOf = async (query: Query, text: string, values?: ReadonlyArray<unknown>): Promise<ReadonlyArray<string>> =>
  decodeNames(await query(text, values)).map(([name]) => name)

/** The greatest node number, and the number of live nodes. */
const nodesOf = async (query: Query) => {
  const [row] = await query(
    `SELECT coalesce(max(no), 0)::int, (count(*) FILTER (WHERE seen_at > now() - interval '${DEAD_AFTER}'))::int FROM stint.nodes`
  )
  const [last, live] = decodeNodes(row)
  return { last, live }
}

const refuse = (database: string, problem: string, advice: string) =>
  new PostgresOpenError({ database, reason: new ImportRefused({ problem, advice }) })

/** Refuses a database that a copy would damage. Returns the greatest node number. */
const check = async (query: Query, database: string, origin: number | null): Promise<number> => {
  const { last, live } = await nodesOf(query)
  if (live > 0) {
    throw refuse(database, "a Stint node uses it", "Import before the first node starts, into an empty database.")
  }
  const before = await ImportState.read(query)
  if (before === undefined) {
    const used = await namesOf(query, usedOf(await namesOf(query, EXISTING, [TABLES.map(({ name }) => name)])))
    if (used.length > 0) {
      throw refuse(
        database,
        `it is not empty: ${used.slice(0, 3).join(", ")}${used.length > 3 ? " and other tables" : ""} have rows`,
        "An import would mix the data of two platforms. Create an empty database: CREATE DATABASE name"
      )
    }
  } else if (before.nodes < last) {
    throw refuse(
      database,
      "a node has used it since an import",
      "Another import would undo what the node has changed. Create an empty database."
    )
  } else if (before.origin !== origin) {
    throw refuse(database, "it contains an import of another platform", "Create an empty database for this one.")
  }
  return last
}

/** Checks a database before its tables are migrated, because nodes of an older version could not start after that. */
const checkTables = async (connection: Connection, database: string, origin: number | null): Promise<void> => {
  if ((await namesOf(connection.query, EXISTING, [["nodes"]])).length === 0) return
  if ((await readVersion(connection)) < Migrations.LATEST) await check(connection.query, database, origin)
}

/** Marks a database after its check. Returns the greatest node number. */
const begin = async (connection: Connection, database: string, origin: number | null): Promise<number> => {
  const forbidden = await namesOf(connection.query, FORBIDDEN)
  if (forbidden.length > 0) {
    throw refuse(
      database,
      `the user of the address may not change ${forbidden.slice(0, 3).join(", ")}${forbidden.length > 3 ? " and others" : ""}`,
      "Import as the user who owns the tables."
    )
  }
  const [lock] = await connection.query(`SELECT pg_try_advisory_lock($1)`, [IMPORT_LOCK])
  if (!decodeLock(lock)[0]) throw refuse(database, "another import into it is running", "Wait until it ends.")
  return transact(connection, async (query) => {
    await ImportState.lock(query)
    const last = await check(query, database, origin)
    await ImportState.write(query, { state: "unfinished", origin, nodes: last })
    return last
  })
}

/** Counts the jobs and their log lines, as one node. */
const writeTallies = async (query: Query) => {
  const tallies = TallyRows.make(TallyRows.FOLDED).begin()
  for (const place of STATE_TABLES) {
    let after = ""
    while (true) {
      const rows = await query(
        `SELECT ${SUMMARY} FROM (SELECT * FROM stint.${place} WHERE id > $1 ORDER BY id LIMIT ${COUNT_ROWS}) s
         JOIN stint.jobs j ON j.id = s.id ORDER BY s.id`,
        [after]
      )
      for (const { chunkBytes, head, inputBytes, outcomeBytes } of rows.map(toStateRow)) {
        tallies.count(undefined, head, inputBytes + outcomeBytes + chunkBytes)
        after = head.id
      }
      if (rows.length < COUNT_ROWS) break
    }
  }
  const logs = await query(
    `SELECT j.endpoint, j.owner, sum(l.bytes)::bigint FROM stint.job_logs l JOIN stint.jobs j ON j.id = l.job GROUP BY 1, 2`
  )
  for (const row of logs) tallies.logged(...decodeLogs(row))
  // Counts are read through the node's row.
  await query(`INSERT INTO stint.nodes (no, started_at, seen_at) VALUES ($1, now(), 'epoch') ON CONFLICT DO NOTHING`, [
    TallyRows.FOLDED
  ])
  await query(`DELETE FROM stint.tallies WHERE node = $1`, [TallyRows.FOLDED])
  await tallies.send(query)
}

const moveSequences = async (query: Query) => {
  await query(`SELECT setval('stint.job_seq', coalesce(max(seq), 0) + 1, false) FROM stint.jobs`)
  for (const [table, column] of Object.entries(NUMBERED)) {
    await query(
      `SELECT setval(pg_get_serial_sequence('stint.${table}', '${column}'), coalesce(max(${column}), 0) + 1, false) FROM stint.${table}`
    )
  }
}

const make = (connection: Connection, database: string, origin: number | null, nodes: number): ImportTarget => {
  const ofTable = <A>(table: string, run: () => Promise<A>): Effect.Effect<A, TransferError> =>
    Effect.tryPromise({
      try: run,
      catch: (cause) =>
        cause instanceof TransferError
          ? cause
          : new TransferError({ table, reason: new TargetFailed({ problem: problemOf(cause) }) })
    })
  return {
    database,
    keys: (table, range, limit) => ofTable(table.name, () => readKeys(connection.query, table, range, limit)),
    rows: (table, range, limit) => ofTable(table.name, () => readRows(connection.query, table, range, limit)),
    replace: (table, removed, added) =>
      ofTable(table.name, async () => {
        try {
          await transact(connection, (query) => replaceRows(query, table, removed, added))
        } catch (cause) {
          if (sqlStateOf(cause) !== UNIQUE_VIOLATION) throw cause
          await transact(connection, async (query) => {
            await removeRivals(query, table, added)
            await replaceRows(query, table, removed, added)
          })
        }
      }),
    finish: ({ isBackup, settings }) =>
      Effect.tryPromise({
        try: () =>
          transact(connection, async (query) => {
            const { last, live } = await nodesOf(query)
            if (last > nodes || live > 0) {
              throw new PostgresOpenError({
                database,
                reason: new ImportRefused({
                  problem: "a node has started during the import",
                  advice: "Stop it, and import into an empty database."
                })
              })
            }
            await writeTallies(query)
            await moveSequences(query)
            for (const [name, value] of Object.entries(settings)) await putSetting(query, name, value)
            await ImportState.write(query, { state: isBackup ? "backup" : "complete", origin, nodes })
          }),
        catch: (cause) => openError(database, cause)
      })
  }
}

/** Creates the tables if necessary, and begins a copy. `origin` tells platforms apart. */
export const open = (
  { deadlineMs = DEADLINE, password, url }: Options,
  origin: number | null
): Effect.Effect<ImportTarget, PostgresOpenError, Scope.Scope> => {
  const address = Redacted.value(url)
  const database = nameOf(address)
  const options: ConnectionOptions = {
    url: address,
    ...(password === undefined ? {} : { password: Redacted.value(password) }),
    deadlineMs,
    prepare: true,
    settings: PLANNER_SETTINGS
  }
  const start = async (connection: Connection) => {
    // The lock belongs to a session.
    if (await Pooler.detect(() => connect({ ...options, prepare: false })) === "transaction") {
      throw new PostgresOpenError({ database, reason: new TransactionPooler() })
    }
    await checkTables(connection, database, origin)
    await migrateTables(connection, database)
    return make(connection, database, origin, await begin(connection, database, origin))
  }
  return Effect.acquireRelease(
    Effect.tryPromise({
      try: async (signal) => {
        const connection = await connect(options)
        if (signal.aborted) connection.destroy("the import was interrupted")
        return connection
      },
      catch: (cause) => openError(database, cause)
    }),
    // A statement may wait for minutes. The next import repeats what was interrupted.
    (connection, exit) =>
      Exit.hasInterrupts(exit)
        ? Effect.sync(() => connection.destroy("the import was interrupted"))
        : Effect.promise(() => connection.end()),
    { interruptible: true }
  ).pipe(
    Effect.flatMap((connection) =>
      Effect.tryPromise({ try: () => start(connection), catch: (cause) => openError(database, cause) })
    )
  )
}

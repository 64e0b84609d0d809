/**
 * Checks a database for conditions that make a platform slow, incorrect or unavailable. Changes nothing. Each result tells an operator the state and,
 * unless it is fine, what to do.
 */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { connect, type Connection, type ConnectionOptions, type Query } from "./Connection.ts"
import * as Migrations from "./Migrations.ts"
import * as Pooler from "./Pooler.ts"
import { nameOf, type Options, problemOf } from "./PostgresDatabase.ts"
import { CONNECTIONS, DEAD_AFTER } from "./PostgresNodes.ts"
import { OLDEST_SERVER } from "./PostgresOpenError.ts"

/** The result of a check. */
export interface Finding {
  readonly check: string
  /** `failed`: the platform does not start, becomes slow, or loses notifications or data. */
  readonly state: "ok" | "failed" | "skipped"
  readonly found: string
  /** What to do; empty when it is fine. */
  readonly advice: string
}

/** The thresholds of the checks. */
export interface Limits {
  /** How long a transaction may be open, in milliseconds. Default: 60,000. */
  readonly transactionMs?: number
  /** How much clocks may differ, in milliseconds. Default: 1,000. */
  readonly skewMs?: number
  /** The maximum number of dead rows in a table that has fewer live ones. Default: 50,000. */
  readonly deadRows?: number
  /** How long a notification may take, in milliseconds. Default: 5,000. */
  readonly notifyMs?: number
}

/** For tests: how connections are opened, and the time. */
interface Surroundings {
  readonly connect: typeof connect
  readonly now: () => number
}

const ok = (check: string, found: string): Finding => ({ check, state: "ok", found, advice: "" })
const failed = (check: string, found: string, advice: string): Finding => ({ check, state: "failed", found, advice })
const skipped = (check: string, found: string): Finding => ({ check, state: "skipped", found, advice: "" })

const { Boolean: Bool, Finite, Int, NullOr, String: Text, Tuple } = Schema
const decodeServer = Schema.decodeUnknownSync(Tuple([Int, Text, Bool, Bool]))
const decodeName = Schema.decodeUnknownSync(Tuple([Text]))
const decodeNode = Schema.decodeUnknownSync(Tuple([Int, NullOr(Text), Finite]))
const decodeTable = Schema.decodeUnknownSync(Tuple([Text, Finite, Finite]))
const decodeTransaction = Schema.decodeUnknownSync(Tuple([Int, Text, Finite]))
const decodeSettings = Schema.decodeUnknownSync(Tuple([Text, Text, Int, Int, Int]))

/** The indexes that a step creates, by name, with their statements. An index of a primary key has the name of its table. */
const createdIndexes = (step: string): ReadonlyArray<readonly [string, string]> => [
  ...[...step.matchAll(/CREATE (?:UNIQUE )?INDEX (\w+) ON [^;]+;/g)].map((found) =>
    [found[1] ?? "", found[0].replaceAll(/\s+/g, " ")] as const
  ),
  ...[...step.matchAll(/CREATE TABLE stint\.(\w+) \(([^;]+);/g)].flatMap(([, table = "", body = ""]) =>
    body.includes("PRIMARY KEY") ? [[`${table}_pkey`, ""] as const] : []
  )
]

const droppedIndexes = (step: string): ReadonlyArray<string> =>
  [...step.matchAll(/DROP INDEX stint\.(\w+);/g)].map(([, name = ""]) => name)

/** The indexes after all migrations. A step that drops an index and creates it again drops it first. */
const expectedIndexes: ReadonlyMap<string, string> = Migrations.steps.reduce((known, step) => {
  const dropped = new Set(droppedIndexes(step))
  return new Map([...[...known].filter(([name]) => !dropped.has(name)), ...createdIndexes(step)])
}, new Map<string, string>())

const seconds = (millis: number): string => `${(Math.abs(millis) / 1_000).toFixed(millis < 10_000 ? 1 : 0)} s`

const checkServer = async (query: Query): Promise<ReadonlyArray<Finding>> => {
  const [row] = await query(
    `SELECT current_setting('server_version_num')::int, current_setting('server_version'), pg_is_in_recovery(),
       current_setting('default_transaction_read_only')::boolean`
  )
  const [number, version, isStandby, isReadOnly] = decodeServer(row)
  const server = `PostgreSQL ${version}`
  return [
    number < OLDEST_SERVER * 10_000
      ? failed("server", server, `Stint needs PostgreSQL ${OLDEST_SERVER} or newer.`)
      : isStandby
      ? failed("server", `${server}, a standby, which accepts no changes`, "Use the address of the primary server.")
      : isReadOnly
      ? failed("server", `${server}, read-only`, "Set default_transaction_read_only to off for this user and database.")
      : ok("server", server)
  ]
}

/** The version of the tables; 0: there are none. */
const tablesOf = async (query: Query): Promise<number> => {
  const [exists] = await query(`SELECT to_regclass('stint.settings') IS NOT NULL`)
  if (exists?.[0] !== true) return 0
  const [row] = await query(`SELECT value FROM stint.settings WHERE key = 'version'`)
  return row === undefined ? 0 : Number(decodeName(row)[0])
}

const checkTables = (version: number): Finding => {
  const { LATEST } = Migrations
  if (version === 0) return skipped("tables", "none yet: the first node creates them")
  if (version > LATEST) {
    return failed(
      "tables",
      `version ${version}; this version of Stint supports up to ${LATEST}`,
      "Use the version of Stint that the nodes run."
    )
  }
  return version < LATEST
    ? failed(
      "tables",
      `version ${version}; this version of Stint uses ${LATEST}`,
      "Start a node of this version: it migrates the tables while the other nodes work."
    )
    : ok("tables", `version ${version}`)
}

/** The live nodes: their versions and clocks. */
const checkNodes = async (
  query: Query,
  limit: number
): Promise<{ readonly count: number; readonly findings: ReadonlyArray<Finding> }> => {
  const rows = (await query(
    `SELECT no, version, coalesce(clock - extract(epoch FROM seen_at) * 1000, 0)::float8 FROM stint.nodes
     WHERE seen_at > now() - interval '${DEAD_AFTER}' ORDER BY no`
  )).map((row) => decodeNode(row))
  const versions = [...new Set(rows.map(([, version]) => version ?? "an earlier version"))]
  const skewed = rows.filter(([, , skew]) => Math.abs(skew) > limit)
  const words = rows.length === 0 ? "no node is running" : `${rows.length} of version ${versions.join(", ")}`
  return {
    count: rows.length,
    findings: [
      versions.length > 1
        ? failed(
          "nodes",
          words,
          "An upgrade has not ended: stop the nodes of the older version, and start them with the newer one."
        )
        : ok("nodes", words),
      skewed.length > 0
        ? failed(
          "clocks of nodes",
          skewed.map(([no, , skew]) => `node ${no} is ${seconds(skew)} ${skew > 0 ? "ahead of" : "behind"} the database`).join(
            ", "
          ),
          "Synchronize the clocks of these machines (NTP). Leases and timeouts use the clock of the node that writes them."
        )
        : ok(
          "clocks of nodes",
          rows.length === 0
            ? "no node is running"
            : `at most ${seconds(Math.max(...rows.map(([, , skew]) => Math.abs(skew))))} apart`
        )
    ]
  }
}

const checkClock = async (query: Query, now: () => number, limit: number): Promise<Finding> => {
  const before = now()
  const [row] = await query(`SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8`)
  const after = now()
  const skew = (before + after) / 2 - Number(row?.[0])
  return Math.abs(skew) > limit + (after - before) / 2
    ? failed(
      "clock",
      `this machine is ${seconds(skew)} ${skew > 0 ? "ahead of" : "behind"} the database`,
      "Synchronize both clocks (NTP). Leases and timeouts use the clock of the node that writes them."
    )
    : ok("clock", `this machine and the database are less than ${seconds(limit)} apart; a statement takes ${after - before} ms`)
}

const checkIndexes = async (query: Query): Promise<Finding> => {
  const rows = await query(
    `SELECT c.relname FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname = 'stint' AND i.indisvalid AND i.indisready`
  )
  const found = new Set(rows.map((row) => decodeName(row)[0]))
  const missing = [...expectedIndexes].filter(([name]) => !found.has(name))
  return missing.length === 0
    ? ok("indexes", `all ${expectedIndexes.size} exist`)
    : failed(
      "indexes",
      `missing or invalid: ${missing.map(([name]) => name).join(", ")}`,
      [
        "Drop the invalid indexes, then create the missing ones. The platform can keep running:",
        ...missing.map(([name, statement]) =>
          statement === "" ? `the primary key ${name}` : statement.replace("INDEX", "INDEX CONCURRENTLY")
        )
      ].join("\n")
    )
}

const checkBloat = async (query: Query, limit: number): Promise<Finding> => {
  const rows = (await query(
    `SELECT relname, n_dead_tup::float8, n_live_tup::float8 FROM pg_stat_user_tables WHERE schemaname = 'stint' ORDER BY n_dead_tup DESC`
  )).map((row) => decodeTable(row))
  const bloated = rows.filter(([, dead, live]) => dead > limit && dead > live)
  const words = (some: typeof rows) =>
    some.map(([name, dead, live]) => `${name} has ${dead} dead rows and ${live} live ones`).join(", ")
  return bloated.length === 0
    ? ok("dead rows", rows[0] === undefined || rows[0][1] === 0 ? "none" : `few: ${words(rows.slice(0, 1))}`)
    : failed(
      "dead rows",
      words(bloated),
      "Every claim reads the dead rows again. Find out why autovacuum does not remove them: a long transaction (below), a replication slot, or " +
        `because autovacuum is off. Then run: VACUUM ${bloated.map(([name]) => `stint.${name}`).join(", ")}`
    )
}

const checkTransactions = async (query: Query, limit: number): Promise<Finding> => {
  const rows = (await query(
    `SELECT pid, coalesce(nullif(application_name, ''), usename, 'unknown'), (extract(epoch FROM now() - xact_start) * 1000)::float8
     FROM pg_stat_activity WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid() AND backend_type = 'client backend'
     ORDER BY xact_start LIMIT 5`
  )).map((row) => decodeTransaction(row))
  const long = rows.filter(([, , age]) => age > limit)
  return long.length === 0
    ? ok("long transactions", `none is older than ${seconds(limit)}`)
    : failed(
      "long transactions",
      long.map(([pid, name, age]) => `process ${pid} (${name}): ${seconds(age)}`).join(", "),
      "While it is open, no dead rows are removed, and claims become slower. End it in its program, or with SELECT pg_terminate_backend(PROCESS)."
    )
}

const checkSettings = async (query: Query, nodes: number): Promise<ReadonlyArray<Finding>> => {
  const [row] = await query(
    `SELECT current_setting('synchronous_commit'), current_setting('fsync'),
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
       (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend'),
       (SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'stint')`
  )
  const [commit, fsync, max, used, own] = decodeSettings(row)
  // The connections of the running nodes and of one more, which starts next, for example during an upgrade.
  const needed = (nodes + 1) * CONNECTIONS
  const others = used - own
  return [
    fsync === "off" || commit === "off" || commit === "local"
      ? failed(
        "durability",
        `fsync is ${fsync}, synchronous_commit is ${commit}`,
        fsync === "off" || commit === "off"
          ? "A crash of the server loses jobs that were confirmed to callers. Set both to on."
          : "If the primary server is lost, jobs that a standby should have are lost too. Set synchronous_commit to on, or run without standbys."
      )
      : ok("durability", `fsync is on, synchronous_commit is ${commit}`),
    needed + others > max
      ? failed(
        "connections",
        `the server allows ${max}, ${others} are used by others, and ${nodes + 1} nodes use up to ${needed}`,
        "Raise max_connections, or run fewer nodes or other clients."
      )
      : ok("connections", `the server allows ${max}, ${others} are used by others; each node uses up to ${CONNECTIONS}`)
  ]
}

const checkNotify = async (listener: Connection, sender: Connection, limit: number): Promise<Finding> => {
  const payload = randomUUID()
  const begun = performance.now()
  let timer: ReturnType<typeof setTimeout> | undefined
  const isReceived = new Promise<boolean>((resolve) => {
    listener.onNotification((text) => text === payload && resolve(true))
    timer = setTimeout(() => resolve(false), limit)
  })
  try {
    // A separate channel, to which the nodes do not listen.
    await listener.execute("LISTEN stint_doctor")
    await sender.query(`SELECT pg_notify('stint_doctor', $1)`, [payload])
    return await isReceived
      ? ok("notifications", `arrive after ${Math.round(performance.now() - begun)} ms`)
      : failed(
        "notifications",
        `none arrived within ${seconds(limit)}`,
        "Waiting calls notice changes by other nodes only after several seconds. Connect to the server itself: transaction poolers drop notifications."
      )
  } finally {
    clearTimeout(timer)
  }
}

const checkPooler = (pooling: Pooler.Pooling): Finding =>
  pooling === "transaction"
    ? failed("pooler", "a pooler in transaction mode", Pooler.ADVICE)
    : ok("pooler", pooling === "none" ? "none: this is the server itself" : "a pooler in session mode")

const run = async (
  { connect, now }: Surroundings,
  options: ConnectionOptions,
  limits: Limits
): Promise<ReadonlyArray<Finding>> => {
  const { deadRows = 50_000, notifyMs = 5_000, skewMs = 1_000, transactionMs = 60_000 } = limits
  const opened: Array<Connection> = []
  const open = async () => {
    const connection = await connect(options)
    opened.push(connection)
    return connection
  }
  try {
    const [one, two] = [await open(), await open()]
    const { query } = one
    const pooler = checkPooler(await Pooler.detect(() => connect(options)))
    const server = await checkServer(query)
    const clock = await checkClock(query, now, skewMs)
    const version = await tablesOf(query)
    const isCurrent = version === Migrations.LATEST
    const nodes = isCurrent ? await checkNodes(query, skewMs) : { count: 0, findings: [] }
    return [
      ...server,
      pooler,
      checkTables(version),
      ...nodes.findings,
      clock,
      ...(isCurrent ? [await checkIndexes(query)] : []),
      ...(version > 0 ? [await checkBloat(query, deadRows)] : []),
      await checkTransactions(query, transactionMs),
      ...await checkSettings(query, nodes.count),
      // A standby refuses to listen.
      server.some(({ state }) => state === "failed")
        ? skipped("notifications", "not checked, because of the server")
        : await checkNotify(two, one, notifyMs)
    ]
  } finally {
    await Promise.all(opened.map((connection) => connection.end()))
  }
}

/** Checks a database. Never fails: a database that cannot be reached is a finding. */
export const examine = (
  { deadlineMs = 10_000, password, url }: Options,
  limits: Limits = {},
  surroundings: Surroundings = { connect, now: Date.now }
): Effect.Effect<{ readonly database: string; readonly findings: ReadonlyArray<Finding> }> => {
  const address = Redacted.value(url)
  const connection: ConnectionOptions = {
    url: address,
    ...(password === undefined ? {} : { password: Redacted.value(password) }),
    deadlineMs,
    // Works even behind a pooler without support for prepared statements.
    prepare: false
  }
  return Effect.promise(() =>
    run(surroundings, connection, limits).catch((cause: unknown) => [
      failed(
        "connection",
        problemOf(cause),
        "Check that the server runs and accepts connections from this machine, and check the user, the password and the name of the database."
      )
    ])
  ).pipe(Effect.map((findings) => ({ database: nameOf(address), findings })))
}

/**
 * Database files as earlier versions left them behind (fixtures/schemas): with their rows from the year 1970, or with these and many more jobs of
 * now, for a platform that starts on the file.
 */
import { EndpointId } from "@stint/contract/Ids"
import { isTerminal, JobStatus } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import * as Schema from "effect/Schema"
import { mkdirSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { isDeepStrictEqual } from "node:util"
import * as MigrationCopy from "../src/MigrationCopy.ts"
import * as Migrations from "../src/Migrations.ts"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as TableVersions from "../src/TableVersions.ts"
import { ROWS } from "./fixtures/schemaRows.ts"
import { type Columns, rowsOf } from "./KeptRows.ts"

/** The folder with the SQL of each version. */
export const FOLDER = new URL("fixtures/schemas/", import.meta.url)

/** The names of the SQL of every version that a file can have, such as `v3.sql`. */
export const SCHEMAS: ReadonlyArray<string> = readdirSync(FOLDER)

/** The version of the tables in a file with this SQL. */
export const versionOf = (schema: string): number => Number(/^v(\d+)/.exec(schema)?.[1])

/** Writes a file as an earlier version left it behind. Returns its version. */
export const writeOld = (file: string, schema: string): number => {
  mkdirSync(dirname(file), { recursive: true })
  using db = new DatabaseSync(file)
  db.exec(`PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA application_id = ${SqliteDatabase.APPLICATION_ID}`)
  db.exec(readFileSync(new URL(schema, FOLDER), "utf8"))
  return versionOf(schema)
}

/** The tables, indexes and triggers of a file, in a comparable form. */
export const schemaOf = (file: string): ReadonlyArray<string> => {
  using db = new DatabaseSync(file, { readOnly: true })
  const found = db.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'").all()
  const version = db.prepare("PRAGMA user_version").get()?.["user_version"]
  return [...found.map(({ sql }) => String(sql).replaceAll(/\s+/g, " ")).sort(), `version ${String(version)}`]
}

/** The value of a PRAGMA. */
const pragmaOf = (file: string, name: string): unknown => {
  using db = new DatabaseSync(file, { readOnly: true })
  return db.prepare(`PRAGMA ${name}`).get()?.[name]
}

const columnsIn = (db: DatabaseSync, table: string): ReadonlyArray<string> =>
  db.prepare("SELECT name FROM pragma_table_info(?)").all(table).map(({ name }) => String(name))

/** The tables whose times belong to jobs. The others may be from long ago: a schedule is due, for example. */
const DATED = ["jobs", "tags", "deliveries", "webhook_attempts", "batches", "run_entries", "run_waits", "run_events"]

/** The times in `fixtures/schemaRows.ts` are below this. Milliseconds. */
const MAX_TIME = 1e9

const HOUR = 3_600_000

/** Moves the times of all jobs by `millis`, and lets jobs wait and run, and ended ones stay, for an hour more. */
const moveTimes = (db: DatabaseSync, millis: number): void => {
  const jobs = columnsIn(db, "jobs")
  db.exec(`
    UPDATE jobs SET
      due_at = CASE WHEN due_at IN (expires_at, finished_at + retention_ms) THEN due_at + ${HOUR} ELSE due_at END,
      expires_at = expires_at + ${HOUR}, execution_timeout_ms = execution_timeout_ms + ${HOUR},
      retention_ms = retention_ms + ${HOUR}
      ${jobs.includes("ttl_ms") ? `, ttl_ms = ttl_ms + ${HOUR}` : ""}`)
  if (columnsIn(db, "batches").length > 0) {
    db.exec(`UPDATE batches SET due_at = due_at + ${HOUR}, retention_ms = retention_ms + ${HOUR}`)
  }
  for (const table of DATED) {
    for (const column of columnsIn(db, table).filter((name) => /(^|_)at$|^until$|^not_before$/.test(name))) {
      db.exec(`UPDATE ${table} SET ${column} = ${column} + ${millis} WHERE ${column} BETWEEN 1 AND ${MAX_TIME}`)
    }
  }
}

/** The tables with rows of a job, and their column with its row number. */
const OF_JOB = [["inputs", "seq"], ["outcomes", "seq"], ["chunks", "job"], ["tags", "seq"]] as const

/** Adds `count` jobs that differ from the job `id` only in their ids, `<id>-1` and so on. Nothing where the version has no such job. */
const repeatJob = (db: DatabaseSync, id: string, count: number): void => {
  const seq = db.prepare("SELECT seq FROM jobs WHERE id = ?").get(id)?.["seq"]
  if (typeof seq !== "number") return
  const own = ["seq", "id", "idempotency_key", "fingerprint"]
  const list = columnsIn(db, "jobs").filter((column) => !own.includes(column)).join(", ")
  const insert = db.prepare(`INSERT INTO jobs (seq, id, ${list}) SELECT ?, ?, ${list} FROM jobs WHERE seq = ?`)
  for (let n = 1; n <= count; n++) {
    const copy = seq * 10_000 + n
    insert.run(copy, `${id}-${n}`, seq)
    for (const [table, key] of OF_JOB) {
      const columns = columnsIn(db, table)
      if (columns.length === 0) continue
      const rest = columns.filter((column) => column !== key).join(", ")
      db.prepare(`INSERT INTO ${table} (${key}, ${rest}) SELECT ?, ${rest} FROM ${table} WHERE ${key} = ?`).run(copy, seq)
    }
  }
  const tally = new Map([["waiting", "waiting"], ["running", "running"], ["later", "delayed"]]).get(id) ?? "waiting"
  db.exec(`UPDATE tallies SET ${tally} = ${tally} + ${count} WHERE endpoint = (SELECT endpoint FROM jobs WHERE seq = ${seq})`)
}

/** The job `later` may run from this time on. */
const LATER = 40_000

/**
 * Makes the jobs of a file those of a platform that stopped half a minute ago, and adds `count` waiting jobs, as many that run on a lost worker,
 * and as many in a backoff that ends in `backoffMs`.
 */
export const fillOld = (file: string, count: number, backoffMs: number): void => {
  using db = new DatabaseSync(file)
  db.exec("BEGIN")
  moveTimes(db, Date.now() + backoffMs - LATER)
  for (const id of ["waiting", "running", "later"]) repeatJob(db, id, count)
  if (columnsIn(db, "tallies").includes("isolated")) {
    db.exec("UPDATE tallies SET isolated = (SELECT sum(isolated) FROM jobs WHERE jobs.endpoint = tallies.endpoint)")
  }
  // The key of secrets is not in the database.
  if (columnsIn(db, "secrets").length > 0) db.exec("DELETE FROM secrets")
  if (columnsIn(db, "usage").length > 0) {
    db.exec("DELETE FROM usage")
    for (const { sql } of ROWS.filter(({ table }) => table === "usage")) db.exec(sql)
  }
  db.exec("COMMIT")
}

/** A job of an old file. */
export interface OldJob {
  readonly id: string
  readonly endpoint: EndpointId
  readonly input: JsonText
  readonly status: JobStatus
  readonly hasEnded: boolean
  readonly output: JsonText | null
  readonly error: string | null
  /** Whether it is the run of a pipeline whose definition no worker has, so that it does not continue. */
  readonly isHeld: boolean
}

const decodeJob = Schema.decodeUnknownSync(Schema.Struct({
  id: Schema.String,
  endpoint: EndpointId,
  status: JobStatus,
  input: JsonText,
  output: Schema.NullOr(JsonText),
  error: Schema.NullOr(Schema.String)
}))

/** The jobs in a file. */
export const oldJobs = (file: string): ReadonlyArray<OldJob> => {
  using db = new DatabaseSync(file, { readOnly: true })
  const held = columnsIn(db, "runs").length === 0 ? [] : db.prepare("SELECT run FROM runs WHERE held IS NOT NULL").all()
  return db.prepare(
    "SELECT id, endpoint, status, input, output, error FROM jobs JOIN inputs USING (seq) LEFT JOIN outcomes USING (seq)"
  ).all().map((row) => {
    const job = decodeJob({ ...row })
    return { ...job, hasEnded: isTerminal(job.status), isHeld: held.some(({ run }) => run === job.id) }
  })
}

/** The statements of a migration beside its steps: the copy, the start and end of the transaction, and two that record the versions. */
const STATEMENTS = 5

/** A statement of the migration of a file, for fixtures/dying.ts. */
export const statementFrom = (version: number, random: () => number): number =>
  1 + Math.floor(random() * (Migrations.LATEST - version + STATEMENTS))

/** What a migration that was killed after a statement has broken: it must have changed nothing, or be complete. `before`: the rows of the file. */
export const brokenByKill = (
  file: string,
  version: number,
  columns: Columns,
  before: ReturnType<typeof rowsOf>
): ReadonlyArray<string> => {
  const left = pragmaOf(file, "user_version")
  if (left === Migrations.LATEST) return []
  if (left !== version) return [`an interrupted migration left the version ${String(left)}`]
  return isDeepStrictEqual(rowsOf(file, columns), before) ? [] : ["an interrupted migration changed rows"]
}

/** What is wrong with a migrated file and the copy from before. `before`: the rows of the copied file. */
export const brokenByMigration = (
  file: string,
  version: number,
  columns: Columns,
  before: ReturnType<typeof rowsOf>
): ReadonlyArray<string> => {
  const copies = readdirSync(dirname(file)).filter((name) => /\.bak/.test(name))
  const copy = MigrationCopy.pathOf(file, version)
  const expected = version === Migrations.LATEST ? [] : [copy]
  if (!isDeepStrictEqual(copies.map((name) => join(dirname(file), name)), expected)) return [`the copies are ${copies.join()}`]
  const broken = [file, ...expected].filter((path) => pragmaOf(path, "integrity_check") !== "ok").map((path) =>
    `${path} is damaged`
  )
  const fresh = `${file}.fresh`
  writeOld(fresh, `v${Migrations.LATEST}.sql`)
  // The platform adds the tables of its text index.
  const found = schemaOf(file)
  if (schemaOf(fresh).some((sql) => !found.includes(sql))) broken.push("the tables are not those of a new file")
  if (version === Migrations.LATEST) return broken
  if (!isDeepStrictEqual(rowsOf(copy, columns), before)) broken.push("the copy differs from the file from before")
  using db = new DatabaseSync(file, { readOnly: true })
  if (TableVersions.versionOf(db, Migrations.LATEST) === null) broken.push("the file does not say which Stint migrated it")
  return broken
}

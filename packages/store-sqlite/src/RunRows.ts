/**
 * The rows of pipeline runs: their statements. `RunTransactions` of `@stint/store` uses them within the transactions of `SqliteJobStore`.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
import { EntryKind, RunPhase } from "@stint/contract/RunJournal"
import type { RunEntry, RunRecord } from "@stint/store/RunMachine"
import type { StoredDefinition } from "@stint/store/RunStore"
import type { RunTables } from "@stint/store/RunTables"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** The rows of runs, and which endpoints have them. */
export interface RunRows extends RunTables {
  /** Whether an endpoint may have runs: it has a definition. Reads no row. */
  readonly isPipeline: (endpoint: EndpointId) => boolean
  readonly definitions: (endpoint: EndpointId, limit: number) => ReadonlyArray<StoredDefinition>
  readonly openRuns: (endpoint: EndpointId, after: string, limit: number) => ReadonlyArray<RunRecord>
}

const decodeRun = Schema.decodeUnknownSync(Schema.Struct({
  run: JobId,
  endpoint: EndpointId,
  definition: Schema.String,
  phase: RunPhase,
  undo: Schema.BooleanFromBit,
  last: Schema.Int,
  wanted: Schema.Int,
  held: Schema.NullOr(Schema.String)
}))

const decodeEntry = Schema.decodeUnknownSync(Schema.Struct({
  path: Schema.String,
  kind: EntryKind,
  n: Schema.Int,
  at: Schema.Int,
  body: Schema.NullOr(JsonText),
  until: Schema.NullOr(Schema.Int),
  isOpen: Schema.BooleanFromBit,
  news: Schema.Literals([0, 1, 2]),
  ms: Schema.NullOr(Schema.Int),
  input: Schema.NullOr(JsonText)
}))

const decodePlace = Schema.decodeUnknownSync(Schema.Struct({ run: JobId, endpoint: EndpointId, path: Schema.String }))
const decodeChild = Schema.decodeUnknownSync(Schema.Struct({ id: JobId, endpoint: EndpointId }))
const decodeTime = Schema.decodeUnknownSync(Schema.Struct({ time: Schema.NullOr(Schema.Int) }))
const decodeUnseen = Schema.decodeUnknownSync(Schema.Struct({ count: Schema.Int, most: Schema.NullOr(Schema.Int) }))
const decodeKept = Schema.decodeUnknownSync(Schema.Struct({ count: Schema.Int, bytes: Schema.Int }))
const decodeEvent = Schema.decodeUnknownSync(Schema.Struct({ seq: Schema.Int, body: JsonText }))
const decodeGraph = Schema.decodeUnknownSync(Schema.Struct({ graph: JsonText }))
const decodeDefinition = Schema.decodeUnknownSync(Schema.Struct({ hash: Schema.String, at: Schema.Int }))
const decodeEndpoint = Schema.decodeUnknownSync(Schema.Struct({ endpoint: EndpointId }))

const RUN = `run, endpoint, definition, phase, undo, last, wanted, held`
const ENTRY = `path, kind, n, at, body, until, open AS isOpen, news, ms, input`

/** Without a limit. SQLite reads a negative limit as none. */
const limitOf = (limit: number): number => limit === Infinity ? -1 : limit

/** Prepares all statements. */
export const make = (db: SqliteDatabase["Service"]): RunRows => {
  const find = db.statement(`SELECT ${RUN} FROM runs WHERE run = ?`)
  const put = db.statement(`INSERT OR REPLACE INTO runs (${RUN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`)
  const remove = db.statement(`DELETE FROM runs WHERE run = ?`)
  const held = db.statement(`SELECT ${RUN} FROM runs INDEXED BY runs_held WHERE endpoint = ? AND held IS NOT NULL`)
  const entry = db.statement(`SELECT ${ENTRY} FROM run_entries WHERE run = ? AND path = ? AND kind = ?`)
  const settledBy = db.statement(
    `SELECT ${ENTRY} FROM run_entries WHERE run = ? AND path = ? AND kind IN ('step', 'failed', 'event', 'end') LIMIT 1`
  )
  const add = db.statement(
    `INSERT INTO run_entries (run, path, kind, n, at, body, until, open, news, ms, input) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
  )
  const close = db.statement(`UPDATE run_entries SET open = 0 WHERE run = ? AND path = ? AND open = 1`)
  const forget = db.statement(`DELETE FROM run_entries WHERE run = ? AND n = ?`)
  const removeEntries = db.statement(`DELETE FROM run_entries WHERE run = ?`)
  const after = db.statement(
    `SELECT ${ENTRY} FROM run_entries INDEXED BY run_entries_numbered WHERE run = ? AND n > ? ORDER BY n LIMIT ? + 0`
  )
  const open = db.statement(
    `SELECT ${ENTRY} FROM run_entries INDEXED BY run_entries_open WHERE run = ? AND open = 1 ORDER BY n LIMIT ? + 0`
  )
  const due = db.statement(
    `SELECT ${ENTRY} FROM run_entries INDEXED BY run_entries_open WHERE run = ? AND open = 1 AND until <= ? ORDER BY n`
  )
  const nextTimer = db.statement(
    `SELECT min(until) AS time FROM run_entries INDEXED BY run_entries_open WHERE run = ? AND open = 1 AND until IS NOT NULL`
  )
  const unseen = db.statement(
    `SELECT count(*) AS count, max(news) AS most FROM run_entries INDEXED BY run_entries_numbered WHERE run = ? AND n > ? AND news > 0`
  )
  const addChild = db.statement(`INSERT OR IGNORE INTO run_children (job, endpoint, run, path) VALUES (?, ?, ?, ?)`)
  const placeOf = db.statement(
    `SELECT run, runs.endpoint AS endpoint, path FROM run_children JOIN runs USING (run) WHERE job = ?`
  )
  const children = db.statement(`SELECT job AS id, endpoint FROM run_children INDEXED BY run_children_of WHERE run = ?`)
  const removeChildren = db.statement(`DELETE FROM run_children WHERE run = ?`)
  const addWait = db.statement(`INSERT OR REPLACE INTO run_waits (endpoint, name, key, at, run, path) VALUES (?, ?, ?, ?, ?, ?)`)
  const firstWait = db.statement(
    `SELECT run, endpoint, path FROM run_waits WHERE endpoint = ? AND name = ? AND key = ? ORDER BY at, run, path LIMIT 1`
  )
  const closeWait = db.statement(`DELETE FROM run_waits WHERE run = ? AND path = ?`)
  const removeWaits = db.statement(`DELETE FROM run_waits WHERE run = ?`)
  const addEvent = db.statement(`INSERT INTO run_events (endpoint, name, key, id, body, expires_at) VALUES (?, ?, ?, ?, ?, ?)`)
  const firstEvent = db.statement(
    `SELECT seq, body FROM run_events INDEXED BY run_events_kept
     WHERE endpoint = ? AND name = ? AND key = ? AND body IS NOT NULL AND expires_at > ? ORDER BY seq LIMIT 1`
  )
  const takeEvent = db.statement(`UPDATE run_events SET body = NULL WHERE seq = ? AND id IS NOT NULL`)
  const removeEvent = db.statement(`DELETE FROM run_events WHERE seq = ? AND id IS NULL`)
  // octet_length reads no data: it is known from the row's header.
  const keptEvents = db.statement(
    `SELECT count(*) AS count, coalesce(sum(octet_length(body)), 0) AS bytes FROM run_events INDEXED BY run_events_kept
     WHERE endpoint = ? AND body IS NOT NULL`
  )
  const hasEvent = db.statement(`SELECT 1 FROM run_events WHERE endpoint = ? AND id = ?`)
  const dropExpired = db.statement(`DELETE FROM run_events WHERE expires_at <= ?`)
  const graph = db.statement(`SELECT graph FROM definitions WHERE endpoint = ? AND hash = ?`)
  const define = db.statement(`INSERT OR IGNORE INTO definitions (endpoint, hash, graph, at) VALUES (?, ?, ?, ?)`)

  const definitions = db.statement(`SELECT hash, at FROM definitions WHERE endpoint = ? ORDER BY at DESC, hash LIMIT ? + 0`)
  // Sorts the open jobs of the endpoint, only when a person asks for them. An index would cost every run a write.
  const openRuns = db.statement(
    `SELECT run, runs.endpoint AS endpoint, definition, phase, undo, last, wanted, held
     FROM jobs INDEXED BY jobs_listed JOIN runs ON run = jobs.id
     WHERE jobs.id > ? AND jobs.endpoint = ? AND status IN ('IN_QUEUE', 'IN_PROGRESS') ORDER BY run LIMIT ? + 0`
  )

  /**
   * The endpoints with definitions. After a rolled-back transaction, the set may contain an endpoint without definitions, which only costs a read per
   * job.
   */
  const pipelines = new Set(
    db.statement(`SELECT DISTINCT endpoint FROM definitions`).all().map((row) => decodeEndpoint(row).endpoint)
  )

  const entryOf = (row: unknown): RunEntry | undefined => row === undefined ? undefined : decodeEntry(row)

  const toRun = (row: unknown): RunRecord => decodeRun(row)

  return {
    isPipeline: (endpoint) => pipelines.size > 0 && pipelines.has(endpoint),
    definitions: (endpoint, limit) => definitions.all(endpoint, limit).map((row) => decodeDefinition(row)),
    openRuns: (endpoint, after, limit) => openRuns.all(after, endpoint, limit).map(toRun),
    find: (run) => {
      const row = find.get(run)
      return row === undefined ? undefined : toRun(row)
    },
    put: (run) => {
      put.run(run.run, run.endpoint, run.definition, run.phase, run.undo ? 1 : 0, run.last, run.wanted, run.held)
    },
    remove: (run) => {
      for (const statement of [remove, removeEntries, removeChildren, removeWaits]) statement.run(run)
    },
    held: (endpoint) => held.all(endpoint).map(toRun),
    entry: (run, path, kind) => entryOf(entry.get(run, path, kind)),
    settledBy: (run, path) => entryOf(settledBy.get(run, path)),
    add: (run, { at, body, input, isOpen, kind, ms, n, news, path, until }) => {
      add.run(run, path, kind, n, at, body, until, isOpen ? 1 : 0, news, ms, input)
    },
    close: (run, path) => {
      const wasOpen = Number(close.run(run, path).changes) > 0
      if (wasOpen) closeWait.run(run, path)
      return wasOpen
    },
    forget: (run, entries) => {
      for (const { n, path } of entries) {
        forget.run(run, n)
        closeWait.run(run, path)
      }
    },
    after: function*(run, n, limit) {
      for (const row of after.iterate(run, n, limitOf(limit))) yield decodeEntry(row)
    },
    open: (run, limit) => open.all(run, limitOf(limit)).map((row) => decodeEntry(row)),
    due: (run, now) => due.all(run, now).map((row) => decodeEntry(row)),
    nextTimer: (run) => decodeTime(nextTimer.get(run)).time,
    unseen: (run, seen) => {
      const { count, most } = decodeUnseen(unseen.get(run, seen))
      return { count, urgent: most === 2 }
    },
    addChild: (child, { path, run }) => {
      addChild.run(child.id, child.endpoint, run, path)
    },
    placeOf: (child) => {
      const row = placeOf.get(child)
      return row === undefined ? undefined : decodePlace(row)
    },
    children: (run) => children.all(run).map((row) => decodeChild(row)),
    addWait: ({ endpoint, path, run }, name, key, at) => {
      addWait.run(endpoint, name, key, at, run, path)
    },
    firstWait: (endpoint, name, key) => {
      const row = firstWait.get(endpoint, name, key)
      return row === undefined ? undefined : decodePlace(row)
    },
    removeWaits: (run) => {
      removeWaits.run(run)
    },
    addEvent: (endpoint, { body, expiresAt, id, key, name }, isDelivered) => {
      addEvent.run(endpoint, name, key, id, isDelivered ? null : body, expiresAt)
    },
    takeEvent: (endpoint, name, key, now) => {
      const row = firstEvent.get(endpoint, name, key, now)
      if (row === undefined) return undefined
      const { body, seq } = decodeEvent(row)
      takeEvent.run(seq)
      removeEvent.run(seq)
      return body
    },
    keptEvents: (endpoint) => decodeKept(keptEvents.get(endpoint)),
    hasEvent: (endpoint, id) => hasEvent.get(endpoint, id) !== undefined,
    dropExpired: (now) => {
      dropExpired.run(now)
    },
    graph: (endpoint, hash) => {
      const row = graph.get(endpoint, hash)
      return row === undefined ? undefined : decodeGraph(row).graph
    },
    define: (endpoint, hash, text, now) => {
      define.run(endpoint, hash, text, now)
      pipelines.add(endpoint)
    }
  }
}

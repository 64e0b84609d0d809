/**
 * Effect's `PersistedQueue` over SQLite, embedded. Effect 4.1 has no SQLite driver, so this file contains a small one over `node:sqlite` that
 * prepares each statement once. `PersistedQueue` stores no results.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as PersistedQueue from "effect/persistence/PersistedQueue"
import * as Reactivity from "effect/reactivity/Reactivity"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { classifySqliteError, SqlError } from "effect/sql/SqlError"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { mkdtempSync } from "node:fs"
import { rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"
import { INPUT, type Load, serveSubject } from "../SubjectProcess.ts"

const folder = mkdtempSync(join(tmpdir(), "stint-persisted-queue-"))
const db = new DatabaseSync(join(folder, "jobs.db"))
db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${process.argv[2] === "D1" ? "NORMAL" : "FULL"}`)

const prepared = new Map<string, StatementSync>()

const statement = (sql: string): StatementSync => {
  const known = prepared.get(sql)
  if (known !== undefined) return known
  const fresh = db.prepare(sql)
  // Some statements contain a value in their text and are used only once.
  if (prepared.size < 100) prepared.set(sql, fresh)
  return fresh
}

const isValue = (value: unknown): value is SQLInputValue =>
  value === null || typeof value === "string" || typeof value === "number" || typeof value === "bigint" ||
  value instanceof Uint8Array

const rows = (sql: string, values: ReadonlyArray<unknown>) =>
  Effect.try({
    try: () => statement(sql).all(...values.filter(isValue)),
    catch: (cause) => new SqlError({ reason: classifySqliteError(cause) })
  })

const connection: Connection = {
  execute: (sql, values, transform) =>
    transform === undefined ? rows(sql, values) : Effect.map(rows(sql, values), (found) => transform(found)),
  executeRaw: rows,
  executeStream: (sql, values) => Stream.fromIterableEffect(rows(sql, values)),
  executeValues: (sql, values) => Effect.map(rows(sql, values), (found) => found.map((row) => Object.values(row))),
  executeValuesUnprepared: (sql, values) => Effect.map(rows(sql, values), (found) => found.map((row) => Object.values(row))),
  executeUnprepared: (sql, values) => rows(sql, values)
}

const client = Layer.effect(
  SqlClient.SqlClient,
  Effect.gen(function*() {
    // A transaction has exclusive use of the connection.
    const alone = yield* Semaphore.make(1)
    return yield* SqlClient.make({
      acquirer: Effect.succeed(connection),
      transactionAcquirer: Effect.as(Effect.acquireRelease(alone.take(1), () => alone.release(1)), connection),
      compiler: Statement.makeCompilerSqlite(),
      driver: "node:sqlite",
      spanAttributes: []
    })
  })
).pipe(Layer.provide(Reactivity.layer))

const runtime = ManagedRuntime.make(
  PersistedQueue.layer.pipe(
    Layer.provideMerge(PersistedQueue.layerStoreSql()),
    Layer.provide(client)
  )
)

const queue = await runtime.runPromise(
  PersistedQueue.make({ name: "bench", schema: Schema.Struct({ text: Schema.String }) })
)

const completed = () => Number(statement("SELECT count(*) AS n FROM effect_queue WHERE state = 'completed'").get()?.["n"])

const run = Effect.fnUntraced(function*({ jobs, lanes }: Load) {
  const before = completed()
  let sent = 0
  let done = 0
  const caller = Effect.whileLoop({
    while: () => sent < jobs,
    body: () => {
      sent += 1
      return queue.offer(INPUT)
    },
    step: () => {}
  })
  let claimed = 0
  const worker = Effect.whileLoop({
    while: () => claimed < jobs,
    body: () => {
      claimed += 1
      return queue.take(() => Effect.void)
    },
    step: () => {
      done += 1
    }
  })
  const lane = <E>(one: Effect.Effect<void, E>) =>
    Effect.all(Array.from({ length: lanes }, () => one), { concurrency: lanes, discard: true })
  const started = performance.now()
  yield* Effect.all([lane(caller), lane(worker)], { concurrency: 2, discard: true })
  const millis = performance.now() - started
  const stored = completed() - before
  if (stored !== jobs || done !== jobs) throw new Error(`${stored} of ${jobs} jobs are stored as completed`)
  return millis
})

serveSubject((load) => runtime.runPromise(run(load)), async () => {
  await runtime.dispose()
  db.close()
  await rm(folder, { recursive: true, force: true })
})

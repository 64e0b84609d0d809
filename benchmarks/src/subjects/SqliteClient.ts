/**
 * Effect's SQL client over `node:sqlite`, in a new file. Effect 4.1 has no SQLite driver, so this one prepares each statement once and runs it on the
 * event loop.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Reactivity from "effect/reactivity/Reactivity"
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
import { DatabaseSync, type SQLInputValue, type StatementSync } from "node:sqlite"

const isValue = (value: unknown): value is SQLInputValue =>
  value === null || typeof value === "string" || typeof value === "number" || typeof value === "bigint" ||
  value instanceof Uint8Array

/** Opens the file `jobs.db` in a new folder. `D2` survives a power failure, `D1` a killed process. */
export const openSqlite = (name: string, durability: "D1" | "D2") => {
  const folder = mkdtempSync(join(tmpdir(), `stint-${name}-`))
  const db = new DatabaseSync(join(folder, "jobs.db"))
  db.exec(`PRAGMA journal_mode = WAL; PRAGMA synchronous = ${durability === "D1" ? "NORMAL" : "FULL"}`)

  const prepared = new Map<string, StatementSync>()

  const statement = (sql: string): StatementSync => {
    const known = prepared.get(sql)
    if (known !== undefined) return known
    const fresh = db.prepare(sql)
    // Some statements contain a value in their text and are used only once.
    if (prepared.size < 100) prepared.set(sql, fresh)
    return fresh
  }

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

  return {
    client,
    statement,
    /** Closes the file and removes the folder. */
    end: async () => {
      db.close()
      await rm(folder, { recursive: true, force: true })
    }
  }
}

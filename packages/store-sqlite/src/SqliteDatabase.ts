/**
 * Opens, locks and migrates the database file, and closes it with the scope.
 *
 * All statements run on the main thread with `node:sqlite`. A statement takes about 2 µs, whereas a round trip to another thread takes 60
 * µs. A sync takes 0.1 to 0.2 ms and is shared by concurrent writes ({@link GroupCommit}). See
 * docs/decisions/0003-sqlite-without-sqlclient.md.
 *
 * Hot path: statements are prepared once and cached by their text. Preparing a statement for each call would triple the duration of an
 * indexed lookup (39 µs instead of 13 µs on a busy machine).
 *
 * The file is locked while it is open. Only one process can therefore use it, and its caches (counts, endpoints, keys) stay valid. To
 * inspect the file with other tools, stop the platform or copy the file together with its `-wal`.
 */
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdirSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import * as FilePermissions from "./FilePermissions.ts"
import * as GroupCommit from "./GroupCommit.ts"
import * as LockHolder from "./LockHolder.ts"
import * as Migrations from "./Migrations.ts"
import { FileLocked, FileNewer, FileUnusable, NotStintDatabase, SqliteOpenError } from "./SqliteOpenError.ts"

/** Path and durability of the database. */
export interface Options {
  /**
   * Path of the file. A missing directory is created, accessible only to its owner. The file and those that SQLite creates beside it are
   * readable only by their owner; wider permissions are corrected. `:memory:` stores nothing on disk.
   */
  readonly file: string
  /**
   * Default: `D2`, which syncs every commit to disk, so that it survives a power loss. `D1` syncs rarely: commits survive a killed process,
   * but not a power loss. With `D1`, a single writer is two to three times as fast; concurrent writers gain little.
   */
  readonly durability?: "D2" | "D1"
  /**
   * How long to wait for a file that another process has locked, in milliseconds. Default: 1000, which covers a restart. The wait blocks the
   * process.
   */
  readonly lockWaitMs?: number
}

export class SqliteDatabase extends Context.Service<SqliteDatabase, {
  readonly file: string
  readonly durability: "D2" | "D1"
  /** The prepared statement for an SQL text. Values must be bound, never be part of the text. */
  readonly statement: (sql: string) => StatementSync
  /** Reads committed data at once. When `run` throws, the effect fails with `StoreUnavailable`. */
  readonly read: <A>(operation: string, run: () => A) => Effect.Effect<A, StoreError>
  /**
   * Runs `run` in a transaction shared with other writes, and returns after the commit. When `run` throws or the commit fails, nothing is
   * stored and the effect fails with `StoreUnavailable`. `run` may run again after a rollback, so it must change only the database.
   */
  readonly write: <A>(operation: string, run: () => A) => Effect.Effect<A, StoreError>
  /** Adds a participant to all later transactions. */
  readonly join: (participant: GroupCommit.Participant) => void
  /** Number of transactions committed since the file was opened. */
  readonly commits: Effect.Effect<number>
}>()("@stint/store-sqlite/SqliteDatabase") {}

/** `STIN`: marks a file as a Stint database. Also shown by `file(1)`. */
export const APPLICATION_ID = 0x5354494e

/** Remedies by SQLite result code (the code's lowest byte). */
const HINTS: ReadonlyMap<number, string> = new Map([
  [8, "The process has no permission to write the file or its directory."],
  [10, "The disk reported an error. Check the system log."],
  [11, "The file is damaged. Keep a copy, and recover it with `sqlite3 FILE .recover`."],
  [13, "Free some disk space. Until then no job is accepted; accepted jobs are safe."]
])

const codeOf = (cause: unknown): number | undefined =>
  cause instanceof Error && "errcode" in cause && typeof cause.errcode === "number" ? cause.errcode & 0xff : undefined

const BUSY = 5
const NOT_A_DATABASE = 26

const unavailable = (file: string, operation: string, cause: unknown): StoreError => {
  const hint = HINTS.get(codeOf(cause) ?? -1)
  const explained = hint === undefined || !(cause instanceof Error)
    ? cause
    : new Error(`${file}: ${cause.message}. ${hint}`, { cause })
  return new StoreError({ reason: new StoreUnavailable({ operation, cause: explained }) })
}

/** The number returned by a PRAGMA. */
const pragma = (db: DatabaseSync, name: "application_id" | "user_version"): number => {
  const value = db.prepare(`PRAGMA ${name}`).get()?.[name]
  if (typeof value !== "number") throw new Error(`PRAGMA ${name} returned ${String(value)}`)
  return value
}

/** Locks, checks, configures and migrates the file. The caller closes the database when this throws. */
const prepare = (db: DatabaseSync, file: string, durability: "D2" | "D1"): void => {
  // With an exclusive lock, WAL mode needs no shared memory, and no other process can write between transactions.
  db.exec("PRAGMA locking_mode = EXCLUSIVE")
  const version = pragma(db, "user_version")
  const application = pragma(db, "application_id")
  const isEmpty = db.prepare("SELECT count(*) AS tables FROM sqlite_schema").get()?.["tables"] === 0
  // Nothing has been written so far, so another program's file stays unchanged.
  if (application !== APPLICATION_ID && !(isEmpty && application === 0 && version === 0)) {
    throw new SqliteOpenError({ file, reason: new NotStintDatabase() })
  }
  if (version > Migrations.LATEST) {
    throw new SqliteOpenError({ file, reason: new FileNewer({ version, supported: Migrations.LATEST }) })
  }
  // Before SQLite creates the WAL, which gets the file's permissions.
  if (file !== ":memory:") FilePermissions.restrict(file)

  // Lets SpaceReclaimer return pages to the file system. Can only be set before the first table is created.
  db.exec("PRAGMA auto_vacuum = INCREMENTAL")
  const mode = db.prepare("PRAGMA journal_mode = WAL").get()?.["journal_mode"]
  if (mode !== "wal" && mode !== "memory") throw new Error(`the journal mode is ${String(mode)} instead of WAL`)
  db.exec(`PRAGMA synchronous = ${durability === "D2" ? "FULL" : "NORMAL"}`)
  // Checkpoint after 16 MiB of WAL. With the default of 4 MiB, the same pages would be written and synced four times as often. A larger
  // value makes each checkpoint slower, and also the start after a crash.
  db.exec("PRAGMA wal_autocheckpoint = 4000")
  // Cache up to 64 MiB of pages, so that the frequently used pages of a large file stay in memory.
  db.exec("PRAGMA cache_size = -65536")
  // Lets the next checkpoint shrink a WAL that has grown under load.
  db.exec("PRAGMA journal_size_limit = 67108864")
  db.exec("PRAGMA temp_store = MEMORY")
  // Acquires the write lock as well.
  db.exec("BEGIN IMMEDIATE; COMMIT")
  if (application !== APPLICATION_ID) db.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
  Migrations.migrate(db, version)
}

const open = (file: string, durability: "D2" | "D1", lockWaitMs: number): DatabaseSync => {
  if (file !== ":memory:") mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const db = new DatabaseSync(file, { timeout: lockWaitMs })
  try {
    prepare(db, file, durability)
    return db
  } catch (cause) {
    db.close()
    throw cause
  }
}

const openError = (file: string, cause: unknown): SqliteOpenError => {
  if (cause instanceof SqliteOpenError) return cause
  const code = codeOf(cause)
  if (code === BUSY) return new SqliteOpenError({ file, reason: new FileLocked({ holder: LockHolder.read(file) }) })
  if (code === NOT_A_DATABASE) return new SqliteOpenError({ file, reason: new NotStintDatabase() })
  return new SqliteOpenError({ file, reason: new FileUnusable({ cause }) })
}

/** The database at `options.file`, which is open for as long as the layer's scope. Pending writes finish before the file is closed. */
export const layer = (options: Options): Layer.Layer<SqliteDatabase, SqliteOpenError> =>
  Layer.effect(
    SqliteDatabase,
    Effect.gen(function*() {
      const file = options.file === ":memory:" ? options.file : resolve(options.file)
      const durability = options.durability ?? "D2"
      const db = yield* Effect.acquireRelease(
        Effect.try({
          try: () => open(file, durability, options.lockWaitMs ?? 1_000),
          catch: (cause) => openError(file, cause)
        }),
        (db) => Effect.sync(() => db.close())
      )
      if (file !== ":memory:") {
        yield* Effect.acquireRelease(
          Effect.sync(() => LockHolder.write(file)),
          () => Effect.sync(() => LockHolder.remove(file))
        )
      }

      const statements = new Map<string, StatementSync>()
      const statement = (sql: string): StatementSync => {
        const known = statements.get(sql)
        if (known !== undefined) return known
        const prepared = db.prepare(sql)
        statements.set(sql, prepared)
        return prepared
      }

      const begin = statement("BEGIN IMMEDIATE")
      const commit = statement("COMMIT")
      const group = GroupCommit.make({
        begin: () => begin.run(),
        commit: () => commit.run(),
        // SQLite rolls back by itself after some errors, such as a full disk.
        rollback: () => {
          if (db.isOpen && db.isTransaction) db.exec("ROLLBACK")
        }
      })
      yield* Effect.addFinalizer(() => Effect.sync(group.flush))

      return SqliteDatabase.of({
        file,
        durability,
        statement,
        read: (operation, run) => Effect.try({ try: run, catch: (cause) => unavailable(file, operation, cause) }),
        write: <A>(operation: string, run: () => A) =>
          Effect.callback<A, StoreError>((resume) => {
            group.submit(
              run,
              (settled) =>
                resume(settled.ok ? Effect.succeed(settled.value) : Effect.fail(unavailable(file, operation, settled.cause)))
            )
          }),
        join: group.join,
        commits: Effect.sync(group.commits)
      })
    })
  )

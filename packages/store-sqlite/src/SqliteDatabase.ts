/**
 * The database file: opened, locked, migrated, and closed with its scope.
 *
 * All work is done on the main thread, by `node:sqlite`. A statement costs microseconds and a sync of the disk a fraction of a
 * millisecond, shared by all who write at that time ({@link GroupCommit}); handing a statement to another thread costs many times the
 * statement. docs/decisions/0003-sqlite-without-sqlclient.md has the figures.
 *
 * One process at a time: the file is locked for as long as it is open. What is kept in memory beside it (the tallies, the endpoints) is
 * true because nobody else can write. To look into the file with other tools, copy it together with its `-wal`, or stop the platform.
 */
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdirSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import * as GroupCommit from "./GroupCommit.ts"
import * as LockHolder from "./LockHolder.ts"
import * as Migrations from "./Migrations.ts"
import { FileLocked, FileNewer, FileUnusable, NotStintDatabase, SqliteOpenError } from "./SqliteOpenError.ts"

/** Where the file is and how safe a write is when it was acknowledged. */
export interface Options {
  /** The file; its directory is created, for its owner only, where it does not exist. `:memory:` keeps nothing. */
  readonly file: string
  /**
   * Default: `D2`, every commit is synced to disk and survives power loss. `D1` syncs only now and then: it survives the process being
   * killed, not the machine, and makes a lone writer two to three times as fast; many at once gain little.
   */
  readonly durability?: "D2" | "D1"
  /**
   * How long to wait for a file that another process still holds, in milliseconds. Default: 1000, for a platform that is just being
   * restarted. The process does nothing else meanwhile.
   */
  readonly lockWaitMs?: number
}

export class SqliteDatabase extends Context.Service<SqliteDatabase, {
  readonly file: string
  readonly durability: "D2" | "D1"
  /** A statement, prepared once for each text. Values are always bound, never written into the text. */
  readonly statement: (sql: string) => StatementSync
  /** Reads what is committed, at once. What `run` throws becomes `StoreUnavailable`. */
  readonly read: <A>(operation: string, run: () => A) => Effect.Effect<A, StoreError>
  /**
   * Runs `run` in a transaction, together with whatever else is written at that time, and returns when that is committed. When `run`
   * throws or the transaction cannot be committed, nothing of it is kept and it fails with `StoreUnavailable`. `run` may be run again
   * after a rollback, so it must change nothing but the database.
   */
  readonly write: <A>(operation: string, run: () => A) => Effect.Effect<A, StoreError>
  /** Makes somebody part of every transaction from now on. */
  readonly join: (participant: GroupCommit.Participant) => void
  /** How many transactions were committed since the file was opened. */
  readonly commits: Effect.Effect<number>
}>()("@stint/store-sqlite/SqliteDatabase") {}

/** `STIN`: marks a file as ours, for `file(1)` and for us. */
export const APPLICATION_ID = 0x5354494e

/** SQLite's result codes that people can do something about, by their lowest byte. */
const HINTS: ReadonlyMap<number, string> = new Map([
  [8, "The file, or its directory, may not be written to."],
  [10, "The disk reported an error; look at the system's log."],
  [11, "The file is damaged. Keep a copy, and recover it with `sqlite3 FILE .recover`."],
  [13, "Free some space: nothing is accepted until then, and all that was accepted is safe."]
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

/** The one number that a PRAGMA answers. */
const pragma = (db: DatabaseSync, name: "application_id" | "user_version"): number => {
  const value = db.prepare(`PRAGMA ${name}`).get()?.[name]
  if (typeof value !== "number") throw new Error(`PRAGMA ${name} answered ${String(value)}`)
  return value
}

/** Locks, looks whether the file is ours, configures and migrates. The caller closes the database when this throws. */
const prepare = (db: DatabaseSync, file: string, durability: "D2" | "D1"): void => {
  // With the lock held for good, WAL needs no shared memory, and nobody else can write between our transactions.
  db.exec("PRAGMA locking_mode = EXCLUSIVE")
  const version = pragma(db, "user_version")
  const application = pragma(db, "application_id")
  const isEmpty = db.prepare("SELECT count(*) AS tables FROM sqlite_schema").get()?.["tables"] === 0
  // Until here nothing was written: somebody else's file stays as it is.
  if (application !== APPLICATION_ID && !(isEmpty && application === 0 && version === 0)) {
    throw new SqliteOpenError({ file, reason: new NotStintDatabase() })
  }
  if (version > Migrations.LATEST) {
    throw new SqliteOpenError({ file, reason: new FileNewer({ version, supported: Migrations.LATEST }) })
  }

  // Before the first table, or never: lets SpaceReclaimer hand pages back to the file system.
  db.exec("PRAGMA auto_vacuum = INCREMENTAL")
  const mode = db.prepare("PRAGMA journal_mode = WAL").get()?.["journal_mode"]
  if (mode !== "wal" && mode !== "memory") throw new Error(`the journal mode is ${String(mode)} where WAL was asked for`)
  db.exec(`PRAGMA synchronous = ${durability === "D2" ? "FULL" : "NORMAL"}`)
  // At most 64 MiB of pages in memory, so that the hot parts of a large file stay there.
  // After 16 MiB of WAL its pages go into the file. The usual 4 MiB write the same page four times as often, and sync as often; more would
  // hold up everybody for longer each time, and a start after a crash.
  db.exec("PRAGMA wal_autocheckpoint = 4000")
  db.exec("PRAGMA cache_size = -65536")
  // A WAL that grew under load shrinks again at the next checkpoint.
  db.exec("PRAGMA journal_size_limit = 67108864")
  db.exec("PRAGMA temp_store = MEMORY")
  // Takes the lock for writing, too.
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

/** The database at `options.file`, for as long as the layer's scope is open. What is being written when it closes is written first. */
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
        // SQLite has rolled back by itself after some errors, a full disk among them.
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

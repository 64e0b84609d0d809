/**
 * Opens, locks and migrates the database file, and closes it with the scope.
 *
 * All statements run on the main thread with `node:sqlite`. A statement takes about 2 µs, whereas a round trip to another thread takes 60
 * µs. A sync takes 0.1 to 0.2 ms and is shared by concurrent writes ({@link GroupCommit}). See
 * docs/decisions/0003-sqlite-without-sqlclient.md.
 *
 * Hot path: statements are prepared once and cached by their text. Preparing a statement for each call would triple the duration of an
 * indexed lookup (39 µs instead of 13 µs on a busy machine). SQLite itself prepares a statement with `LIMIT ?` again whenever a value is
 * bound, because its plan depends on the limit. That takes 17 µs. So statements say `LIMIT ? + 0`, which the planner does not evaluate.
 *
 * The file is locked while it is open. Only one process can therefore use it, and its caches (counts, running jobs, endpoints, keys) stay
 * valid. To inspect the file with other tools, stop the platform or copy the file together with its `-wal`.
 */
import { CommitObserver } from "@stint/store/CommitObserver"
import type { StoreError } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdirSync, statSync } from "node:fs"
import { dirname, resolve } from "node:path"
import { DatabaseSync, type StatementSync } from "node:sqlite"
import * as DatabaseCondition from "./DatabaseCondition.ts"
import * as DatabaseWatch from "./DatabaseWatch.ts"
import * as DiskSpace from "./DiskSpace.ts"
import * as EarlierDatabase from "./EarlierDatabase.ts"
import * as FileIdentity from "./FileIdentity.ts"
import * as FilePermissions from "./FilePermissions.ts"
import * as GroupCommit from "./GroupCommit.ts"
import * as IntegrityCheck from "./IntegrityCheck.ts"
import * as LockHolder from "./LockHolder.ts"
import * as MigrationCopy from "./MigrationCopy.ts"
import * as Migrations from "./Migrations.ts"
import * as OnlineBackup from "./OnlineBackup.ts"
import {
  DatabaseLost,
  DiskFull,
  FileDamaged,
  FileLocked,
  FileNewer,
  FileUnusable,
  NotStintDatabase,
  SqliteOpenError
} from "./SqliteOpenError.ts"
import * as TableVersions from "./TableVersions.ts"
import * as WalSpace from "./WalSpace.ts"

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
  /**
   * Whether to write the whole WAL (16 MiB) at the start, which takes about 10 ms and makes the first commits twice as fast. Default: false, for databases
   * that are open briefly. Has no effect with `D1`, on a disk with little free space, and for `:memory:`.
   */
  readonly fullWal?: boolean
  /** The free space to keep on the disk. See {@link DiskSpace}. Default: no reserve, and at least 512 MiB or a twentieth of the disk free. */
  readonly space?: DiskSpace.Options
}

export class SqliteDatabase extends Context.Service<SqliteDatabase, {
  readonly file: string
  readonly durability: "D2" | "D1"
  /** The prepared statement for an SQL text. Values must be bound, never part of the text. */
  readonly statement: (sql: string) => StatementSync
  /** Reads committed data at once. When `run` throws, the effect fails with `StoreUnavailable`, or with `StoreBroken` for a damaged file. */
  readonly read: <A>(operation: string, run: () => A) => Effect.Effect<A, StoreError>
  /**
   * Runs `run` in a transaction shared with other writes, and returns after the commit. When `run` throws or the commit fails, nothing is
   * stored and the effect fails with `StoreUnavailable`, `StoreFull` or `StoreBroken`. `run` may run again after a rollback, so it must change
   * only the database.
   */
  readonly write: <A>(operation: string, run: () => A) => Effect.Effect<A, StoreError>
  /** Like `write`, for new data. Fails with `StoreFull` when the disk has too little free space. */
  readonly writeNew: <A>(operation: string, run: () => A) => Effect.Effect<A, StoreError>
  /** Whether `writeNew` fails for lack of space. */
  readonly isLow: () => boolean
  /** Like `read`, but also fails with `StoreBroken` when the file was deleted, replaced or damaged and only later reads would fail. */
  readonly readUsable: <A>(operation: string, run: () => A) => Effect.Effect<A, StoreError>
  /** Adds a participant to all later transactions. */
  readonly join: (participant: GroupCommit.Participant) => void
  /** Number of transactions committed since the file was opened. */
  readonly commits: Effect.Effect<number>
  /** Copies the database into another file. Writes continue meanwhile. See {@link OnlineBackup}. */
  readonly backup: (path: string) => Effect.Effect<OnlineBackup.DatabaseBackup, OnlineBackup.OnlineBackupError>
}>()("@stint/store-sqlite/SqliteDatabase") {}

/** `STIN`: marks a file as a Stint database. Also shown by `file(1)`. */
export const APPLICATION_ID = 0x5354494e

const BUSY = 5
const FULL = 13
const NOT_A_DATABASE = 26

/** The number returned by a PRAGMA. */
const pragma = (db: DatabaseSync, name: "application_id" | "page_count" | "page_size" | "user_version"): number => {
  const value = db.prepare(`PRAGMA ${name}`).get()?.[name]
  if (typeof value !== "number") throw new Error(`PRAGMA ${name} returned ${String(value)}`)
  return value
}

/** Throws when the structure of the file is damaged. Large files are checked after the start. */
const checkStructure = (db: DatabaseSync, file: string): void => {
  if (file === ":memory:" || statSync(file).size > IntegrityCheck.MAX_START_BYTES) return
  const problems = IntegrityCheck.checkNow(db)
  if (problems !== undefined) throw new SqliteOpenError({ file, reason: new FileDamaged({ problems }) })
}

/** A migration that was applied, and the copy of the file from before it. */
interface Migrated {
  readonly from: number
  readonly copy: MigrationCopy.MigrationCopy
}

/** What a file says about the program that wrote it. */
interface FileOrigin {
  /** The version of its tables; 0 for a new file. */
  readonly version: number
  readonly application: number
  readonly isEmpty: boolean
}

/** Throws when another program, or a newer version of this one, wrote the file. Only reads. */
export const checkOrigin = (db: DatabaseSync, file: string): FileOrigin => {
  const version = pragma(db, "user_version")
  const application = pragma(db, "application_id")
  const isEmpty = db.prepare("SELECT count(*) AS tables FROM sqlite_schema").get()?.["tables"] === 0
  if (application !== APPLICATION_ID && !(isEmpty && application === 0 && version === 0)) {
    throw new SqliteOpenError({ file, reason: new NotStintDatabase() })
  }
  if (version > Migrations.LATEST) {
    const copy = MigrationCopy.newestFor(file, Migrations.LATEST)
    throw new SqliteOpenError({
      file,
      reason: new FileNewer({ version, supported: Migrations.LATEST, stint: TableVersions.versionOf(db, version), copy })
    })
  }
  return { version, application, isEmpty }
}

/** Locks, checks, configures and migrates the file. The caller closes the database when this throws, which rolls the migration back. */
const prepare = (db: DatabaseSync, file: string, durability: "D2" | "D1"): Migrated | undefined => {
  // With an exclusive lock, WAL mode needs no shared memory, and no other process can write between transactions.
  db.exec("PRAGMA locking_mode = EXCLUSIVE")
  // Nothing has been written so far, so another program's file stays unchanged.
  const { application, isEmpty, version } = checkOrigin(db, file)
  // Before SQLite creates the WAL, which gets the file's permissions.
  if (file !== ":memory:") FilePermissions.restrict(file)

  // Lets SpaceReclaimer return pages to the file system. Can only be set before the first table is created. Later, it would have no effect but still
  // write, so the file could not be opened on a full disk.
  if (isEmpty) db.exec("PRAGMA auto_vacuum = INCREMENTAL")
  const mode = db.prepare("PRAGMA journal_mode = WAL").get()?.["journal_mode"]
  if (mode !== "wal" && mode !== "memory") throw new Error(`the journal mode is ${String(mode)} instead of WAL`)
  db.exec(`PRAGMA synchronous = ${durability === "D2" ? "FULL" : "NORMAL"}`)
  // Checkpoint after 16 MiB of WAL. With the default of 4 MiB, the same pages would be written and synced four times as often. A larger value makes
  // each checkpoint, and the start after a crash, slower.
  db.exec(`PRAGMA wal_autocheckpoint = ${DatabaseWatch.CHECKPOINT_PAGES}`)
  // Cache up to 64 MiB of pages, so that the frequently used pages of a large file stay in memory.
  db.exec("PRAGMA cache_size = -65536")
  // Lets the next checkpoint shrink a WAL that has grown under load.
  db.exec(`PRAGMA journal_size_limit = ${FileIdentity.WAL_LIMIT}`)
  db.exec("PRAGMA temp_store = MEMORY")
  // Acquires the write lock as well.
  db.exec("BEGIN IMMEDIATE; COMMIT")
  checkStructure(db, file)
  if (application !== APPLICATION_ID) db.exec(`PRAGMA application_id = ${APPLICATION_ID}`)
  if (version === Migrations.LATEST) return undefined
  const copy = version === 0 || file === ":memory:" ? undefined : MigrationCopy.write(db, file, version)
  db.exec("BEGIN IMMEDIATE")
  Migrations.migrate(db, Migrations.repair(db, version))
  TableVersions.record(db, Migrations.LATEST)
  db.exec("COMMIT")
  return copy === undefined ? undefined : { from: version, copy }
}

/** An open database, and the migration that opening it required. */
interface OpenDatabase {
  readonly db: DatabaseSync
  readonly migrated: Migrated | undefined
}

const open = (file: string, durability: "D2" | "D1", lockWaitMs: number): OpenDatabase => {
  if (file !== ":memory:") {
    const lost = EarlierDatabase.lostDatabase(file)
    if (lost !== undefined) throw new SqliteOpenError({ file, reason: new DatabaseLost(lost) })
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  }
  const db = new DatabaseSync(file, { timeout: lockWaitMs })
  try {
    return { db, migrated: prepare(db, file, durability) }
  } catch (cause) {
    db.close()
    throw cause
  }
}

/** The error for a failure to open the file. */
export const openError = (file: string, cause: unknown): SqliteOpenError => {
  if (cause instanceof SqliteOpenError) return cause
  const code = DatabaseCondition.codeOf(cause)
  if (code === FULL) return new SqliteOpenError({ file, reason: new DiskFull() })
  if (code === BUSY) return new SqliteOpenError({ file, reason: new FileLocked({ holder: LockHolder.read(file) }) })
  if (code === NOT_A_DATABASE && !EarlierDatabase.isKnown(file)) {
    return new SqliteOpenError({ file, reason: new NotStintDatabase() })
  }
  if (DatabaseCondition.isDamage(cause)) {
    return new SqliteOpenError({
      file,
      reason: new FileDamaged({ problems: cause instanceof Error ? cause.message : String(cause) })
    })
  }
  return new SqliteOpenError({ file, reason: new FileUnusable({ cause }) })
}

const logMigration = (file: string, { copy, from }: Migrated): Effect.Effect<void> =>
  copy._tag === "Copied"
    ? Effect.logInfo(
      `The tables of ${file} were migrated from version ${from} to ${Migrations.LATEST}. The database from before is ${copy.path}. ` +
        "An older Stint can only open that copy. Delete it when you no longer need it."
    )
    : Effect.logWarning(
      `The tables of ${file} were migrated from version ${from} to ${Migrations.LATEST} without a copy: a copy needs ${copy.needed} bytes, and ` +
        `the disk has ${copy.free} free. An older Stint can no longer open the file.`
    )

/** The database at `options.file`, which is open for as long as the layer's scope. Pending writes finish before the file is closed. */
export const layer = (options: Options): Layer.Layer<SqliteDatabase, SqliteOpenError> =>
  Layer.effect(
    SqliteDatabase,
    Effect.gen(function*() {
      const file = options.file === ":memory:" ? options.file : resolve(options.file)
      const durability = options.durability ?? "D2"
      const { db, migrated } = yield* Effect.acquireRelease(
        Effect.try({
          try: () => open(file, durability, options.lockWaitMs ?? 1_000),
          catch: (cause) => openError(file, cause)
        }),
        ({ db }) => Effect.sync(() => db.close())
      )
      const isFile = file !== ":memory:"
      if (isFile) {
        yield* Effect.acquireRelease(
          Effect.sync(() => {
            LockHolder.write(file)
            EarlierDatabase.record(file)
          }),
          () => Effect.sync(() => LockHolder.remove(file))
        )
      }
      if (migrated !== undefined) yield* logMigration(file, migrated)
      const space = isFile ? DiskSpace.make(file, options.space ?? {}) : undefined
      if (options.fullWal === true && durability === "D2" && space?.hasRoomFor(WalSpace.FULL_SIZE) === true) WalSpace.extend(file)
      const identity = isFile
        ? FileIdentity.make(file, () => pragma(db, "page_count") * pragma(db, "page_size"))
        : FileIdentity.inMemory
      const condition = DatabaseCondition.make(file, identity, space)

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
        begin: () => {
          condition.checkBegin()
          begin.run()
        },
        commit: () => commit.run(),
        confirm: condition.confirm,
        makeRoom: condition.makeRoom,
        // SQLite rolls back by itself after some errors, such as a full disk.
        rollback: () => {
          if (db.isOpen && db.isTransaction) db.exec("ROLLBACK")
        }
      }, yield* CommitObserver)
      yield* Effect.addFinalizer(() =>
        Effect.sync(() => {
          group.flush()
          condition.close()
        })
      )
      if (space !== undefined) {
        yield* DatabaseWatch.start({ db, file, condition, identity, space, intervalMs: options.space?.intervalMs })
      }

      const fail = (operation: string, cause: unknown): Effect.Effect<never, StoreError> => {
        const error = Effect.fail(condition.failed(operation, cause))
        return condition.hasNews() ? Effect.andThen(condition.log, error) : error
      }
      const read = <A>(operation: string, run: () => A): Effect.Effect<A, StoreError> =>
        Effect.suspend(() => {
          try {
            return Effect.succeed(run())
          } catch (cause) {
            return fail(operation, cause)
          }
        })
      const write = <A>(operation: string, run: () => A): Effect.Effect<A, StoreError> =>
        Effect.callback<A, StoreError>((resume) => {
          group.submit(run, (settled) => {
            if (!settled.ok) return resume(fail(operation, settled.cause))
            const done = Effect.succeed(settled.value)
            resume(condition.hasNews() ? Effect.andThen(condition.log, done) : done)
          })
        })

      return SqliteDatabase.of({
        file,
        durability,
        statement,
        read,
        readUsable: (operation, run) =>
          read(operation, () => {
            condition.checkBegin()
            return run()
          }),
        write,
        writeNew: (operation, run) =>
          write(operation, () => {
            condition.checkNew()
            return run()
          }),
        isLow: condition.isLow,
        join: group.join,
        commits: Effect.sync(group.commits),
        backup: (path) => OnlineBackup.write(db, file, path)
      })
    })
  )

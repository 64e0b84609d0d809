/**
 * Reads the database of a platform that is not running. Migrates nothing, so that a newer version can back up the data of an older one.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { existsSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import * as IntegrityCheck from "./IntegrityCheck.ts"
import * as Migrations from "./Migrations.ts"
import * as OnlineBackup from "./OnlineBackup.ts"
import { checkOrigin, openError } from "./SqliteDatabase.ts"
import { FileDamaged, FileUnusable, SqliteOpenError } from "./SqliteOpenError.ts"

/** The latest table version that this program can open. */
export const SUPPORTED_TABLES = Migrations.LATEST

const decodeNames = Schema.decodeUnknownSync(Schema.Array(Schema.Struct({ name: Schema.String })))

/** Opens and locks the file while the scope is open. Fails when a platform has locked the file, or another program wrote it. */
export const open = (file: string): Effect.Effect<DatabaseSync, SqliteOpenError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.try({
      try: () => {
        if (!existsSync(file)) throw new SqliteOpenError({ file, reason: new FileUnusable({ cause: "there is no such file" }) })
        const db = new DatabaseSync(file, { timeout: 0 })
        try {
          db.exec("PRAGMA locking_mode = EXCLUSIVE")
          checkOrigin(db, file)
          db.exec("BEGIN IMMEDIATE; COMMIT")
        } catch (cause) {
          db.close()
          throw cause
        }
        return db
      },
      catch: (cause) => openError(file, cause)
    }),
    (db) => Effect.sync(() => db.close())
  )

/** Copies the database into another file, like {@link OnlineBackup.write}. */
export const backup = (
  file: string,
  path: string
): Effect.Effect<OnlineBackup.DatabaseBackup, SqliteOpenError | OnlineBackup.OnlineBackupError> =>
  Effect.scoped(Effect.flatMap(open(file), (db) => OnlineBackup.write(db, file, path)))

/** Succeeds if no platform uses the file. */
export const checkUnused = (file: string): Effect.Effect<void, SqliteOpenError> => Effect.scoped(Effect.asVoid(open(file)))

/** Deletes all secrets, because their key is lost, and returns their names. */
export const discardSecrets = (file: string): Effect.Effect<ReadonlyArray<string>, SqliteOpenError> =>
  Effect.scoped(Effect.flatMap(open(file), (db) =>
    Effect.try({
      try: () => {
        // A version of Stint without secrets wrote the file.
        if (db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'secrets'").get() === undefined) return []
        return decodeNames(db.prepare("DELETE FROM secrets RETURNING name").all()).map(({ name }) => name).sort()
      },
      catch: (cause) => openError(file, cause)
    })))

/** Reads the whole file. Fails when it is damaged, or when this version of Stint cannot open it. */
export const check = (file: string): Effect.Effect<void, SqliteOpenError> =>
  Effect.scoped(Effect.flatMap(open(file), (db) => {
    const problems = IntegrityCheck.checkNow(db)
    return problems === undefined ? Effect.void : new SqliteOpenError({ file, reason: new FileDamaged({ problems }) })
  }))

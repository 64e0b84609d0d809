/**
 * Locks between processes that share a cache, such as two platforms on one machine.
 *
 * Node has no `flock`. A SQLite transaction locks its file with the operating system, so a lock is released when its process ends for any
 * reason, and no stale lock remains. The files stay empty.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import { mkdirSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { attemptSync, type CacheError } from "./CacheError.ts"

/** `shared`: any number at once. `exclusive`: no other lock. */
type Mode = "shared" | "exclusive"

/** How often a process tries to get a lock that another process holds. */
const RETRY = "250 millis"

const SQLITE_BUSY = 5

const isBusy = (error: unknown): boolean => error instanceof Error && "errcode" in error && error.errcode === SQLITE_BUSY

/** Locks the file at once, or returns undefined when another process or connection holds it. Throws when the file cannot be opened. */
const lockNow = (file: string, mode: Mode): DatabaseSync | undefined => {
  mkdirSync(dirname(file), { recursive: true })
  const database = new DatabaseSync(file)
  try {
    if (mode === "exclusive") database.exec("BEGIN EXCLUSIVE")
    // A read transaction takes its lock with the first statement.
    else database.exec("BEGIN; SELECT 1 FROM sqlite_master")
    return database
  } catch (error) {
    database.close()
    if (isBusy(error)) return undefined
    throw error
  }
}

/** Holds the lock until the scope closes. Returns whether it was free. */
export const tryLock = (file: string, mode: Mode): Effect.Effect<boolean, CacheError, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      attemptSync(file, () => lockNow(file, mode)),
      (database) => Effect.sync(() => database?.close())
    ),
    (database) => database !== undefined
  )

/** Waits for the lock, then holds it until the scope closes. */
export const lock = (file: string, mode: Mode): Effect.Effect<void, CacheError, Scope.Scope> =>
  Effect.asVoid(Effect.repeat(tryLock(file, mode), { until: (isLocked) => isLocked, schedule: Schedule.spaced(RETRY) }))

/**
 * Keeps the database's files readable only by their owner: they contain inputs, results and the secrets of endpoints.
 *
 * SQLite gives `-wal`, `-shm` and `-journal` the permissions of the database file, so the file itself must have the right ones before the
 * first write. Files of an earlier version, or with permissions that someone has widened, are corrected.
 */
import { chmodSync, statSync } from "node:fs"
import process from "node:process"
import { FileExposed, SqliteOpenError } from "./SqliteOpenError.ts"

/** Read and write, for the owner only. */
export const OWNER_ONLY = 0o600

const OTHERS = 0o077

/** The files beside the database that may exist when it is opened. */
const SUFFIXES = ["", "-wal", "-shm", "-journal", ".holder"]

/** The permissions of a file, as far as they concern other users; 0 when there is no such file. */
const exposureOf = (path: string): number => (statSync(path, { throwIfNoEntry: false })?.mode ?? 0) & OTHERS

const narrow = (path: string): void => {
  if (exposureOf(path) === 0) return
  try {
    chmodSync(path, OWNER_ONLY)
  } catch {
    // Usually because the file belongs to another user. The check below decides.
  }
  const left = statSync(path, { throwIfNoEntry: false })
  if (left !== undefined && (left.mode & OTHERS) !== 0) {
    throw new SqliteOpenError({ file: path, reason: new FileExposed({ mode: left.mode & 0o777, owner: left.uid }) })
  }
}

/**
 * Corrects the permissions of the files that exist. Throws `SqliteOpenError` for a file that stays accessible to other users. Does nothing
 * on Windows, where files inherit the permissions of the user's profile.
 */
export const restrict = (file: string): void => {
  if (process.platform === "win32") return
  for (const suffix of SUFFIXES) narrow(file + suffix)
}

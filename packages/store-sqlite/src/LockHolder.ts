/**
 * The description of the process that has the database file open, for the error that a second process gets.
 *
 * SQLite holds the lock, which is released when the process ends. The description is stored in the file `<file>.holder`. It is read only
 * while the lock is held, and each new holder overwrites it, so the description of a dead process is never shown.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { hostname } from "node:os"
import { OWNER_ONLY } from "./FilePermissions.ts"

const holderPath = (file: string): string => `${file}.holder`

/** Writes the description. Ignores failures. */
export const write = (file: string): void => {
  try {
    writeFileSync(holderPath(file), `process ${process.pid} on ${hostname()}, since ${new Date().toISOString()}\n`, {
      mode: OWNER_ONLY
    })
  } catch {
    // The lock works without the description.
  }
}

/** Reads the description; null when there is none. */
export const read = (file: string): string | null => {
  try {
    // Only shown in messages, so one short line is enough.
    return readFileSync(holderPath(file), "utf8").split("\n")[0]?.slice(0, 200) || null
  } catch {
    return null
  }
}

/** Removes the description. */
export const remove = (file: string): void => rmSync(holderPath(file), { force: true })

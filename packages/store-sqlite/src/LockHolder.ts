/**
 * Who has the database file open, in words, for the one who finds it locked.
 *
 * The lock itself is SQLite's and ends with the process, however it ends. This note beside the file (`<file>.holder`) is only read when
 * the lock is found taken, and whoever takes the lock writes it anew, so a note of a dead process misleads nobody.
 */
import { readFileSync, rmSync, writeFileSync } from "node:fs"
import { hostname } from "node:os"

const holderPath = (file: string): string => `${file}.holder`

/** Leaves the note. That it cannot be written is no reason not to start. */
export const write = (file: string): void => {
  try {
    writeFileSync(holderPath(file), `process ${process.pid} on ${hostname()}, since ${new Date().toISOString()}\n`)
  } catch {
    // The lock holds without it.
  }
}

/** What the note says; null when there is none. */
export const read = (file: string): string | null => {
  try {
    // Shown to a person and nothing else, so all that matters is that it is one short line.
    return readFileSync(holderPath(file), "utf8").split("\n")[0]?.slice(0, 200) || null
  } catch {
    return null
  }
}

/** Takes the note away. */
export const remove = (file: string): void => rmSync(holderPath(file), { force: true })

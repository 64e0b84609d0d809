/**
 * Saves the content of a database whose file was deleted or replaced while it is open.
 *
 * The open file still has all data, but the data is lost when the process ends. `<file>.rescued` is a complete copy: when it is moved into the file's
 * place, the platform starts with it.
 */
import { existsSync, mkdirSync } from "node:fs"
import { dirname } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import * as DatabaseCopy from "./DatabaseCopy.ts"

/** The path of the copy. */
export const pathOf = (file: string): string => `${file}.rescued`

/**
 * Writes the copy, and creates its folder if it is missing. Returns its path; undefined when a copy exists already. Throws when it cannot be
 * written, or when the open file is not complete either.
 */
export const write = (db: DatabaseSync, file: string): string | undefined => {
  const path = pathOf(file)
  if (existsSync(path)) return undefined
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  DatabaseCopy.write(db, path)
  return path
}

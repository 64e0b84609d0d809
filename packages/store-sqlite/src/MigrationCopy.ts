/**
 * Copies the database before a migration, because an older Stint cannot open the migrated file.
 */
import { existsSync, statfsSync, statSync } from "node:fs"
import { dirname } from "node:path"
import type { DatabaseSync } from "node:sqlite"
import * as DatabaseCopy from "./DatabaseCopy.ts"

/** The outcome: the copy, or the reason why there is none. `needed`, `free`: bytes. */
export type MigrationCopy =
  | { readonly _tag: "Copied"; readonly path: string }
  | { readonly _tag: "NoRoom"; readonly needed: number; readonly free: number }

/** The path of the copy of a file with this version of the tables. */
export const pathOf = (file: string, version: number): string => `${file}.v${version}.bak`

/** The newest copy that a program with this table version can open; null if there is none. */
export const newestFor = (file: string, supported: number): string | null => {
  for (let version = supported; version > 0; version--) {
    const path = pathOf(file, version)
    if (existsSync(path)) return path
  }
  return null
}

const SPARE = 64 * 1024 * 1024

/** The free bytes of the file system that contains a folder. */
const readFree = (folder: string): number => {
  const { bavail, bsize } = statfsSync(folder)
  return bavail * bsize
}

/**
 * Writes the copy, and replaces an earlier one of the same version. Writes nothing when the disk has no room for the file and 64 MiB more: a
 * full disk would stop the platform, and the migration itself needs space. Throws when the copy fails.
 */
export const write = (db: DatabaseSync, file: string, version: number, free = readFree(dirname(file))): MigrationCopy => {
  const needed = statSync(file).size + (statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0) + SPARE
  if (free < needed) return { _tag: "NoRoom", needed, free }
  const path = pathOf(file, version)
  DatabaseCopy.write(db, path)
  return { _tag: "Copied", path }
}

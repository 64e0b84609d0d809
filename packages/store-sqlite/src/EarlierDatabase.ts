/**
 * Refuses to create a new database where one existed before.
 *
 * When the database file is missing or empty, SQLite silently creates a new one. If files were deleted or only partly restored, the platform would
 * start without its jobs, endpoints and keys, and would remove the WAL, which may still contain the last jobs. So the store creates the file
 * `<file>.created` next to each database. When that file, a rescued copy or a WAL with content exists without a database, the start fails.
 *
 * A deleted folder leaves no trace: the next start creates a new database.
 */
import { rmSync, statSync, writeFileSync } from "node:fs"
import * as RescueCopy from "./RescueCopy.ts"

const markerPath = (file: string): string => `${file}.created`

const sizeOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.size

/**
 * The file that shows that a database was here, and whether that database is missing or empty; undefined when there is no such problem.
 * `rescued`: that file is a complete copy.
 */
export const lostDatabase = (
  file: string
): { readonly state: "missing" | "empty"; readonly evidence: string; readonly rescued: boolean } | undefined => {
  const size = sizeOf(file)
  if (size !== undefined && size > 0) return undefined
  const state = size === undefined ? "missing" : "empty"
  const evidence = [RescueCopy.pathOf(file), `${file}-wal`, markerPath(file)].find((path) => (sizeOf(path) ?? 0) > 0)
  return evidence === undefined ? undefined : { state, evidence, rescued: evidence === RescueCopy.pathOf(file) }
}

/** Whether a database was created here before. */
export const isKnown = (file: string): boolean => sizeOf(markerPath(file)) !== undefined

/** Records that the database exists. Ignores failures: the file is only a safeguard, and a full disk must not prevent the start. */
export const record = (file: string): void => {
  if (isKnown(file)) return
  try {
    writeFileSync(
      markerPath(file),
      `Stint created the database ${file} at ${new Date().toISOString()}.\n` +
        "If the database is missing, restore a backup. To start with an empty database, delete this file.\n",
      { mode: 0o600 }
    )
  } catch {
    rmSync(markerPath(file), { force: true })
  }
}

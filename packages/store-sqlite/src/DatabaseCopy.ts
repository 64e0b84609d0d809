/**
 * Copies an open database into a new file.
 *
 * `VACUUM INTO` writes a consistent copy that includes the WAL. Copying the file itself would be faster, but closing any descriptor of the
 * file releases the locks of this process.
 */
import { closeSync, fsyncSync, openSync, renameSync, rmSync } from "node:fs"
import type { DatabaseSync } from "node:sqlite"

/** Writes the copy, readable only by its owner. Replaces an existing file when the copy is complete. Throws when it fails. */
export const write = (db: DatabaseSync, path: string): void => {
  const unfinished = `${path}.new`
  rmSync(unfinished, { force: true })
  // VACUUM INTO accepts an empty file. Creating it here restricts its permissions before it has content.
  closeSync(openSync(unfinished, "wx", 0o600))
  try {
    db.prepare("VACUUM INTO ?").run(unfinished)
    const handle = openSync(unfinished, "r+")
    fsyncSync(handle)
    closeSync(handle)
    renameSync(unfinished, path)
  } catch (cause) {
    rmSync(unfinished, { force: true })
    throw cause
  }
}

/**
 * Detects that the database file was deleted, replaced or truncated while it is open.
 *
 * SQLite continues to write to a file that no longer has a name, and reports success. Every transaction would be lost with the process. So
 * each transaction compares the files at their paths with the open ones: before BEGIN, and after COMMIT before the commands are
 * acknowledged. This takes four `stat` calls of 0.7 µs, compared with 100 to 200 µs for the commit.
 *
 * | change | detected by |
 * |---|---|
 * | the file, its WAL or their folder is deleted or moved away | the path does not exist |
 * | another file is moved or restored to the path | the inode or the device differs |
 * | the file or its WAL is truncated | it is smaller than after the last commit |
 * | another program writes into the file | its modification time differs ({@link FileIdentity.wasTouched}) |
 *
 * A modification time alone is not proof: a network file system may set it late. It causes a check of the file's structure instead
 * ({@link IntegrityCheck}).
 */
import { type Stats, statSync } from "node:fs"

/** What happened to the file. */
export type FileProblem = "missing" | "replaced"

/** Compares the files at the paths with the open ones. */
export interface FileIdentity {
  /** Before a transaction. Undefined when the file is in place. */
  readonly check: () => FileProblem | undefined
  /** After a commit. Undefined when the file and its WAL are in place; then it also records the file's size and modification time. */
  readonly checkCommitted: () => FileProblem | undefined
  /** Whether the files use more space since the last commit than before it. */
  readonly hasGrown: () => boolean
  /** Whether the modification time has changed since the last commit. True once per change. */
  readonly wasTouched: () => boolean
}

const stat = (path: string): Stats | undefined => statSync(path, { throwIfNoEntry: false })

const compare = (known: Stats | undefined, found: Stats | undefined): FileProblem | undefined => {
  if (found === undefined) return "missing"
  return found.ino !== known?.ino || found.dev !== known.dev ? "replaced" : undefined
}

/** Records the open files. Called after the file has been opened and locked. */
export const make = (file: string): FileIdentity => {
  const walFile = `${file}-wal`
  let main = stat(file)
  let wal = stat(walFile)
  let grown = true

  return {
    check: () => {
      const found = stat(file)
      const problem = compare(main, found)
      if (problem !== undefined) return problem
      if ((found?.size ?? 0) < (main?.size ?? 0)) return "replaced"
      if (wal === undefined) return undefined
      const foundWal = stat(walFile)
      return compare(wal, foundWal) ?? ((foundWal?.size ?? 0) < wal.size ? "replaced" : undefined)
    },
    checkCommitted: () => {
      const found = stat(file)
      const foundWal = stat(walFile)
      const problem = compare(main, found) ?? compare(wal ?? foundWal, foundWal)
      if (problem !== undefined) return problem
      grown = (found?.size ?? 0) > (main?.size ?? 0) || (foundWal?.size ?? 0) > (wal?.size ?? 0)
      main = found
      wal = foundWal
      return undefined
    },
    hasGrown: () => grown,
    wasTouched: () => {
      const found = stat(file)
      if (found === undefined || main === undefined || found.mtimeMs === main.mtimeMs) return false
      main = found
      return true
    }
  }
}

/** For a database in memory, which has no file. */
export const inMemory: FileIdentity = {
  check: () => undefined,
  checkCommitted: () => undefined,
  hasGrown: () => false,
  wasTouched: () => false
}

/**
 * Detects that the database file was deleted, replaced or truncated while it is open.
 *
 * SQLite continues to write to a file that no longer has a name, and reports success. Every transaction would be lost with the process. So
 * the files at their paths are compared with the open ones: the database file after each COMMIT, before the commands are acknowledged, and its folder and WAL
 * before BEGIN and after COMMIT, unless that was done less than 2 ms ago. A system call takes 5 to 10 µs between two commits of 200 µs.
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
 *
 * **The WAL is rarely read with `stat`.** Since Linux 6.13, a file whose times were read gets a new, precise time with its next write, which goes through the
 * file system's journal: a `stat` of the WAL makes the next commit 60 µs slower. So a transaction looks at the folder instead, whose
 * modification time changes when a name in it does, and reads the WAL's last known byte:
 *
 * ```
 *   before BEGIN    confirmed less than 2 ms ago: nothing. Otherwise:
 *                   stat file, read the first and the last known byte of the WAL       zero or missing: replaced
 *   after COMMIT    stat file, and unless confirmed less than 2 ms ago:
 *                   stat folder --unchanged--> confirmed
 *                       `--changed, changed just now, or not looked at the WAL for 100 ms--> stat the WAL
 * ```
 *
 * A WAL that was cut grows with the next commit, after a hole of zeros. So its first byte is compared too: it is part of a constant.
 */
import { closeSync, constants, openSync, readSync, type Stats, statSync } from "node:fs"
import { dirname } from "node:path"

/** What happened to the file. */
export type FileProblem = "missing" | "replaced"

/** Compares the files at the paths with the open ones. */
export interface FileIdentity {
  /** Before a transaction. Undefined when the file is in place, or was 2 ms ago. */
  readonly check: () => FileProblem | undefined
  /** After a commit. Undefined when the file and its WAL are in place; then it also records the file's size and modification time. */
  readonly checkCommitted: () => FileProblem | undefined
  /** Whether the files were found to use more space at the last commit. Detects growth within {@link LOOK_MILLIS}. */
  readonly hasGrown: () => boolean
  /** Whether the modification time has changed since the last commit. True once per change. */
  readonly wasTouched: () => boolean
  readonly close: () => void
}

/** The maximum size of the WAL after a checkpoint, in bytes. Only a larger one may become smaller by itself (`journal_size_limit`). */
export const WAL_LIMIT = 64 * 1024 * 1024

/** For this long, the folder and the WAL count as confirmed. Milliseconds. */
const RECENT_MILLIS = 2

/** The maximum time between two looks at the WAL at its path, while transactions commit. Milliseconds. */
const LOOK_MILLIS = 100

/** A time of modification that is not older than this may stay the same with another modification. Milliseconds. */
const PRECISION_MILLIS = 20

const stat = (path: string): Stats | undefined => statSync(path, { throwIfNoEntry: false })

const isSame = (known: Stats | undefined, found: Stats): boolean => found.ino === known?.ino && found.dev === known.dev

const compare = (known: Stats | undefined, found: Stats | undefined): FileProblem | undefined => {
  if (found === undefined) return "missing"
  return isSame(known, found) ? undefined : "replaced"
}

/** Opens a file so that reading does not change its time of access. Undefined if it cannot be opened so. */
const openUntouched = (path: string): number | undefined => {
  try {
    return openSync(path, constants.O_RDONLY | constants.O_NOATIME)
  } catch {
    return undefined
  }
}

/**
 * Records the open files. Called after the file has been opened and locked. `databaseSize`: the size of the database in bytes, which is that of the file after a
 * checkpoint.
 */
export const make = (file: string, databaseSize: () => number): FileIdentity => {
  const walFile = `${file}-wal`
  const folder = dirname(file)
  const byte = new Uint8Array(1)
  let home = stat(folder)
  let main = stat(file)
  let wal = stat(walFile)
  let reader = openUntouched(walFile)
  let grown = true
  let lookedAt = -Infinity
  let confirmedAt = -Infinity
  /** Whether the WAL begins with its header. A WAL without frames may consist of zeros. */
  let hasHeader = false

  const isRecent = (): boolean => performance.now() - confirmedAt < RECENT_MILLIS

  /** Whether the file is smaller than it was, and not because a checkpoint gave free pages back. */
  const isCut = (found: Stats | undefined): boolean => {
    const size = found?.size ?? 0
    return size < (main?.size ?? 0) && size !== databaseSize()
  }

  /** Whether the WAL is smaller than it was, or was meanwhile. */
  const isWalCut = (): boolean => {
    const size = Math.min(wal?.size ?? 0, WAL_LIMIT)
    if (size === 0) return false
    if (reader === undefined) return (stat(walFile)?.size ?? 0) < size
    if (readSync(reader, byte, 0, 1, size - 1) === 0) return true
    const hadHeader = hasHeader
    hasHeader = readSync(reader, byte, 0, 1, 0) === 1 && byte[0] !== 0
    return hadHeader && !hasHeader
  }

  /** Whether no name in the folder has changed since the last look at the WAL. */
  const isUntouched = (found: Stats): boolean =>
    isSame(home, found) && found.mtimeMs === home?.mtimeMs && found.mtimeMs < Date.now() - PRECISION_MILLIS

  return {
    check: () => {
      if (isRecent()) return undefined
      const found = stat(file)
      const problem = compare(main, found)
      if (problem !== undefined) return problem
      if (isCut(found)) return "replaced"
      if (wal === undefined) return undefined
      if (performance.now() - lookedAt > LOOK_MILLIS) {
        const moved = compare(wal, stat(walFile))
        if (moved !== undefined) return moved
      }
      return isWalCut() ? "replaced" : undefined
    },
    checkCommitted: () => {
      const found = stat(file)
      const problem = compare(main, found)
      if (problem !== undefined || isCut(found)) {
        confirmedAt = -Infinity
        return problem ?? "replaced"
      }
      grown = (found?.size ?? 0) > (main?.size ?? 0)
      main = found
      if (isRecent()) return undefined
      const foundHome = stat(folder)
      const now = performance.now()
      if (foundHome === undefined || !isUntouched(foundHome) || now - lookedAt > LOOK_MILLIS) {
        const foundWal = stat(walFile)
        const walProblem = compare(wal ?? foundWal, foundWal)
        if (walProblem !== undefined) {
          lookedAt = -Infinity
          return walProblem
        }
        if ((foundWal?.size ?? 0) > (wal?.size ?? 0)) grown = true
        wal = foundWal
        home = foundHome
        lookedAt = now
        reader ??= openUntouched(walFile)
      }
      confirmedAt = now
      return undefined
    },
    hasGrown: () => grown,
    wasTouched: () => {
      const found = stat(file)
      if (found === undefined || main === undefined || found.mtimeMs === main.mtimeMs) return false
      main = found
      return true
    },
    close: () => {
      if (reader !== undefined) closeSync(reader)
      reader = undefined
    }
  }
}

/** For a database in memory, which has no file. */
export const inMemory: FileIdentity = {
  check: () => undefined,
  checkCommitted: () => undefined,
  hasGrown: () => false,
  wasTouched: () => false,
  close: () => {}
}

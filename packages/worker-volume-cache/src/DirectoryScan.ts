/**
 * Lists the current contents of a configured directory.
 *
 * It finds only regular files, directories, and links to targets inside the directory. Sockets, pipes and devices cannot be mirrored, and a
 * link to a target outside has another meaning on another machine.
 */
import * as Effect from "effect/Effect"
import type { Dirent } from "node:fs"
import { relative, resolve } from "node:path"
import type { Exclude } from "./ExcludePatterns.ts"
import { LocalFiles } from "./LocalFiles.ts"
import { parentOf } from "./Manifest.ts"
import { unsafeLinkReason, unsafeReason } from "./RelativePath.ts"
import * as TimeSlice from "./TimeSlice.ts"

/** A regular file at the time of the scan. */
export interface ScannedFile {
  readonly kind: "file"
  readonly path: string
  readonly size: number
  /** Microseconds since 1970. */
  readonly mtime: number
  readonly mode: number
  /** The inode and ctime detect that a file was replaced or modified even if its mtime was reset. */
  readonly inode: number
  readonly ctimeMs: number
}

/** One entry of the directory. */
export type ScanEntry =
  | ScannedFile
  | { readonly kind: "directory"; readonly path: string; readonly mode: number }
  | { readonly kind: "link"; readonly path: string; readonly target: string }

/** The result of a scan. */
export interface ScanResult {
  /** Directories come before their contents. */
  readonly found: ReadonlyArray<ScanEntry>
  /** The number of entries skipped for reasons other than a pattern: links to targets outside, sockets, unreadable entries. */
  readonly skipped: number
  /** Whether the directory has more than `maxFiles` entries, so that the scan stopped. */
  readonly truncated: boolean
}

/** The fields of `lstat` for a regular file. */
export interface FileStat {
  readonly size: number
  readonly mtimeMs: number
  readonly mode: number
  readonly ino: number
  readonly ctimeMs: number
}

/** Converts an mtime to microseconds. */
export const micros = (mtimeMs: number): number => Math.max(0, Math.round(mtimeMs * 1000))

/** Creates the scan entry of a file. */
export const foundFile = (path: string, stat: FileStat): ScannedFile => ({
  kind: "file",
  path,
  size: stat.size,
  mtime: micros(stat.mtimeMs),
  mode: stat.mode & 0o777,
  inode: stat.ino,
  ctimeMs: stat.ctimeMs
})

/** Whether a file is unchanged since the scan. */
export const unchanged = (found: ScannedFile, stat: FileStat): boolean =>
  found.size === stat.size && found.inode === stat.ino && found.ctimeMs === stat.ctimeMs && found.mtime === micros(stat.mtimeMs)

const sameStat = (one: FileStat, other: FileStat): boolean =>
  one.mtimeMs === other.mtimeMs && one.ctimeMs === other.ctimeMs && one.ino === other.ino

/** Compares times with a tolerance, because `utimes` rounds. Microseconds. */
export const sameTime = (left: number, right: number): boolean => Math.abs(left - right) <= 2

/** Converts an absolute link target to one relative to the link. */
const relativeTarget = (root: string, path: string, target: string): string =>
  target.startsWith("/") ? relative(resolve(root, parentOf(path)), target) : target

/** The state of a directory at the last scan, and its contents. */
interface CachedScan {
  readonly stat: FileStat
  readonly found: ReadonlyArray<ScanEntry>
  readonly skipped: number
}

/**
 * The results of earlier scans by directory, for `trustDirectories`: if the modification time of a directory has not changed, its contents
 * are unchanged, except for files modified in place.
 */
export type ScanCache = Map<string, CachedScan>

/** A directory modified this shortly before its scan may change again in the same clock tick, so it is not cached. Milliseconds. */
const RECENT_WRITE = 50

/**
 * Scans a directory. A missing directory is empty. Unreadable entries are skipped and counted.
 *
 * With a cache, the contents of unchanged directories come from the cache, which is updated.
 */
export const scan = Effect.fnUntraced(function*(root: string, exclude: Exclude, maxFiles: number, cache?: ScanCache) {
  const local = yield* LocalFiles
  const found: Array<ScanEntry> = []
  const pending: Array<string> = [""]
  let skipped = 0
  const limit = { reached: false }

  const inspect = (directory: string, entry: Dirent): ScanEntry | "skipped" | undefined => {
    const { name } = entry
    const path = directory === "" ? name : `${directory}/${name}`
    if (exclude(path, name)) return undefined
    if (unsafeReason(path) !== undefined) return "skipped"
    const at = `${root}/${path}`
    if (entry.isFile()) {
      const stat = local.lstatSync(at, { throwIfNoEntry: false })
      return stat?.isFile() === true ? foundFile(path, stat) : undefined
    }
    if (entry.isDirectory()) {
      const stat = local.lstatSync(at, { throwIfNoEntry: false })
      return stat?.isDirectory() === true ? { kind: "directory", path, mode: stat.mode & 0o777 } : undefined
    }
    if (!entry.isSymbolicLink()) return "skipped"
    const target = relativeTarget(root, path, local.readlinkSync(at))
    return unsafeLinkReason(path, target) === undefined ? { kind: "link", path, target } : "skipped"
  }

  const addEntry = (one: ScanEntry): void => {
    if (found.length >= maxFiles) {
      limit.reached = true
      return
    }
    found.push(one)
    if (one.kind === "directory") pending.push(one.path)
  }

  /** Yields the work in small steps, so that it can run in time slices. */
  function* steps(): Generator<() => void> {
    for (let directory = pending.pop(); directory !== undefined && !limit.reached; directory = pending.pop()) {
      const at = directory === "" ? root : `${root}/${directory}`
      let stat: FileStat | undefined
      let names: ReadonlyArray<Dirent> = []
      const cached = cache?.get(directory)
      try {
        if (cache !== undefined) stat = local.lstatSync(at, { throwIfNoEntry: false })
        if (cached !== undefined && stat !== undefined && sameStat(cached.stat, stat)) {
          skipped += cached.skipped
          yield () => {
            for (const one of cached.found) addEntry(one.kind === "directory" ? restat(one) : one)
          }
          continue
        }
        names = local.readdirSync(at, { withFileTypes: true })
      } catch {
        if (directory !== "") skipped++
      }
      const here: Array<ScanEntry> = []
      let skippedHere = 0
      for (const entry of names) {
        yield () => {
          let one: ScanEntry | "skipped" | undefined = "skipped"
          try {
            one = inspect(directory, entry)
          } catch {
            // Counted as skipped.
          }
          if (one === "skipped") {
            skippedHere++
          } else if (one !== undefined) {
            addEntry(one)
            here.push(one)
          }
        }
      }
      skipped += skippedHere
      if (cache === undefined) continue
      if (stat === undefined || limit.reached || Date.now() - stat.mtimeMs < RECENT_WRITE) cache.delete(directory)
      else cache.set(directory, { stat, found: here, skipped: skippedHere })
    }
  }

  /** Updates a cached directory's mode, which can change without a change to its parent. */
  const restat = (directory: ScanEntry & { readonly kind: "directory" }): ScanEntry => {
    const stat = local.lstatSync(`${root}/${directory.path}`, { throwIfNoEntry: false })
    return stat?.isDirectory() === true && (stat.mode & 0o777) !== directory.mode
      ? { ...directory, mode: stat.mode & 0o777 }
      : directory
  }

  yield* TimeSlice.forEach(steps(), (step) => step())
  const scanned: ScanResult = { found, skipped, truncated: limit.reached }
  return scanned
})

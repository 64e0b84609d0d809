/**
 * What is in a configured directory right now.
 *
 * Only regular files, directories, and links that stay inside are found. Sockets, pipes and devices cannot be mirrored; links that
 * lead outside would mean something else on another machine.
 */
import * as Effect from "effect/Effect"
import type { Dirent } from "node:fs"
import { relative, resolve } from "node:path"
import type { Exclude } from "./ExcludePatterns.ts"
import { LocalFiles } from "./LocalFiles.ts"
import { parentOf } from "./Manifest.ts"
import { unsafeLinkReason, unsafeReason } from "./RelativePath.ts"
import * as TimeSlice from "./TimeSlice.ts"

/** A regular file, as it was when it was seen. */
export interface ScannedFile {
  readonly kind: "file"
  readonly path: string
  readonly size: number
  /** Microseconds since 1970. */
  readonly mtime: number
  readonly mode: number
  /** These two tell that a file was replaced or written to, whatever was done to its mtime. */
  readonly inode: number
  readonly ctimeMs: number
}

/** One thing in the directory. */
export type ScanEntry =
  | ScannedFile
  | { readonly kind: "directory"; readonly path: string; readonly mode: number }
  | { readonly kind: "link"; readonly path: string; readonly target: string }

/** All of it. */
export interface ScanResult {
  /** A directory stands before what is in it. */
  readonly found: ReadonlyArray<ScanEntry>
  /** What was left out though no pattern says so: links that lead outside, sockets, what cannot be read. */
  readonly left: number
  /** There is more than `maxFiles`; the rest was not looked at. */
  readonly truncated: boolean
}

/** What `lstat` tells of a regular file. */
export interface FileStat {
  readonly size: number
  readonly mtimeMs: number
  readonly mode: number
  readonly ino: number
  readonly ctimeMs: number
}

/** An mtime in microseconds. */
export const micros = (mtimeMs: number): number => Math.max(0, Math.round(mtimeMs * 1000))

/** A file of this path and state. */
export const foundFile = (path: string, stat: FileStat): ScannedFile => ({
  kind: "file",
  path,
  size: stat.size,
  mtime: micros(stat.mtimeMs),
  mode: stat.mode & 0o777,
  inode: stat.ino,
  ctimeMs: stat.ctimeMs
})

/** Whether a file is still what it was when it was found. */
export const unchanged = (found: ScannedFile, stat: FileStat): boolean =>
  found.size === stat.size && found.inode === stat.ino && found.ctimeMs === stat.ctimeMs && found.mtime === micros(stat.mtimeMs)

const sameStat = (one: FileStat, other: FileStat): boolean =>
  one.mtimeMs === other.mtimeMs && one.ctimeMs === other.ctimeMs && one.ino === other.ino

/** `utimes` and back may lose a microsecond to rounding. */
export const sameTime = (left: number, right: number): boolean => Math.abs(left - right) <= 2

/** A target that is given from the root of the machine, and leads into the directory, as one from the link itself. */
const relativeTarget = (root: string, path: string, target: string): string =>
  target.startsWith("/") ? relative(resolve(root, parentOf(path)), target) : target

/** What a directory looked like, and what was in it. */
interface CachedScan {
  readonly stat: FileStat
  readonly found: ReadonlyArray<ScanEntry>
  readonly left: number
}

/**
 * What earlier scans found, by directory, for scans that trust directories: one whose own time has not changed has nothing new in it, apart
 * from files that were written to in place.
 */
export type ScanCache = Map<string, CachedScan>

/** A directory that was changed so shortly before it was read may have changed again in the same tick of the clock. Milliseconds. */
const RECENT_WRITE = 50

/**
 * Walks the directory. One that is not there is empty. What cannot be read is left out and counted.
 *
 * With a memory, what is in directories that have not changed is taken from there; it is brought up to date.
 */
export const scan = Effect.fnUntraced(function*(root: string, exclude: Exclude, maxFiles: number, memory?: ScanCache) {
  const local = yield* LocalFiles
  const found: Array<ScanEntry> = []
  const pending: Array<string> = [""]
  let left = 0
  const limit = { reached: false }

  const look = (directory: string, entry: Dirent): ScanEntry | "left" | undefined => {
    const { name } = entry
    const path = directory === "" ? name : `${directory}/${name}`
    if (exclude(path, name)) return undefined
    if (unsafeReason(path) !== undefined) return "left"
    const at = `${root}/${path}`
    if (entry.isFile()) {
      const stat = local.lstatSync(at, { throwIfNoEntry: false })
      return stat?.isFile() === true ? foundFile(path, stat) : undefined
    }
    if (entry.isDirectory()) {
      const stat = local.lstatSync(at, { throwIfNoEntry: false })
      return stat?.isDirectory() === true ? { kind: "directory", path, mode: stat.mode & 0o777 } : undefined
    }
    if (!entry.isSymbolicLink()) return "left"
    const target = relativeTarget(root, path, local.readlinkSync(at))
    return unsafeLinkReason(path, target) === undefined ? { kind: "link", path, target } : "left"
  }

  const keep = (one: ScanEntry): void => {
    if (found.length >= maxFiles) {
      limit.reached = true
      return
    }
    found.push(one)
    if (one.kind === "directory") pending.push(one.path)
  }

  /** What is in directories that must be read; steps of it are cheap enough to be cut into slices. */
  function* steps(): Generator<() => void> {
    for (let directory = pending.pop(); directory !== undefined && !limit.reached; directory = pending.pop()) {
      const at = directory === "" ? root : `${root}/${directory}`
      let stat: FileStat | undefined
      let names: ReadonlyArray<Dirent> = []
      const remembered = memory?.get(directory)
      try {
        if (memory !== undefined) stat = local.lstatSync(at, { throwIfNoEntry: false })
        if (remembered !== undefined && stat !== undefined && sameStat(remembered.stat, stat)) {
          left += remembered.left
          yield () => {
            for (const one of remembered.found) keep(one.kind === "directory" ? restat(one) : one)
          }
          continue
        }
        names = local.readdirSync(at, { withFileTypes: true })
      } catch {
        if (directory !== "") left++
      }
      const here: Array<ScanEntry> = []
      let leftHere = 0
      for (const entry of names) {
        yield () => {
          let one: ScanEntry | "left" | undefined = "left"
          try {
            one = look(directory, entry)
          } catch {
            // Left out, and counted.
          }
          if (one === "left") {
            leftHere++
          } else if (one !== undefined) {
            keep(one)
            here.push(one)
          }
        }
      }
      left += leftHere
      if (memory === undefined) continue
      if (stat === undefined || limit.reached || Date.now() - stat.mtimeMs < RECENT_WRITE) memory.delete(directory)
      else memory.set(directory, { stat, found: here, left: leftHere })
    }
  }

  /** A directory's mode may change without anything in its parent changing. */
  const restat = (directory: ScanEntry & { readonly kind: "directory" }): ScanEntry => {
    const stat = local.lstatSync(`${root}/${directory.path}`, { throwIfNoEntry: false })
    return stat?.isDirectory() === true && (stat.mode & 0o777) !== directory.mode
      ? { ...directory, mode: stat.mode & 0o777 }
      : directory
  }

  yield* TimeSlice.forEach(steps(), (step) => step())
  const scanned: ScanResult = { found, left, truncated: limit.reached }
  return scanned
})

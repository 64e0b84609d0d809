/**
 * What is in a configured directory right now.
 *
 * Only regular files, directories, and links that stay inside are found. Sockets, pipes and devices cannot be mirrored; links that
 * lead outside would mean something else on another machine.
 */
import * as Effect from "effect/Effect"
import type { Dirent } from "node:fs"
import { relative, resolve } from "node:path"
import type { Exclude } from "./Exclude.ts"
import { LocalFiles } from "./LocalFiles.ts"
import { parentOf } from "./Manifest.ts"
import { whyUnsafe, whyUnsafeLink } from "./RelativePath.ts"
import * as Slice from "./Slice.ts"

/** A regular file, as it was when it was seen. */
export interface FoundFile {
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
export type Found =
  | FoundFile
  | { readonly kind: "directory"; readonly path: string; readonly mode: number }
  | { readonly kind: "link"; readonly path: string; readonly target: string }

/** All of it. */
export interface Scanned {
  /** A directory stands before what is in it. */
  readonly found: ReadonlyArray<Found>
  /** What was left out though no pattern says so: links that lead outside, sockets, what cannot be read. */
  readonly left: number
  /** There is more than `maxFiles`; the rest was not looked at. */
  readonly cut: boolean
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
export const foundFile = (path: string, stat: FileStat): FoundFile => ({
  kind: "file",
  path,
  size: stat.size,
  mtime: micros(stat.mtimeMs),
  mode: stat.mode & 0o777,
  inode: stat.ino,
  ctimeMs: stat.ctimeMs
})

/** Whether a file is still what it was when it was found. */
export const unchanged = (found: FoundFile, stat: FileStat): boolean =>
  found.size === stat.size && found.inode === stat.ino && found.ctimeMs === stat.ctimeMs && found.mtime === micros(stat.mtimeMs)

/** `utimes` and back may lose a microsecond to rounding. */
export const sameTime = (left: number, right: number): boolean => Math.abs(left - right) <= 2

/** A target that is given from the root of the machine, and leads into the directory, as one from the link itself. */
const relativeTarget = (root: string, path: string, target: string): string =>
  target.startsWith("/") ? relative(resolve(root, parentOf(path)), target) : target

/** Walks the directory. One that is not there is empty. What cannot be read is left out and counted. */
export const scan = Effect.fnUntraced(function*(root: string, exclude: Exclude, maxFiles: number) {
  const local = yield* LocalFiles
  const found: Array<Found> = []
  const pending: Array<string> = [""]
  let left = 0
  const limit = { reached: false }

  const take = (directory: string, entry: Dirent): void => {
    const { name } = entry
    const path = directory === "" ? name : `${directory}/${name}`
    if (exclude(path, name)) return
    if (found.length >= maxFiles) {
      limit.reached = true
      return
    }
    if (whyUnsafe(path) !== undefined) {
      left++
      return
    }
    const at = `${root}/${path}`
    if (entry.isFile()) {
      const stat = local.lstatSync(at, { throwIfNoEntry: false })
      if (stat?.isFile() === true) found.push(foundFile(path, stat))
    } else if (entry.isDirectory()) {
      const stat = local.lstatSync(at, { throwIfNoEntry: false })
      if (stat?.isDirectory() !== true) return
      found.push({ kind: "directory", path, mode: stat.mode & 0o777 })
      pending.push(path)
    } else if (entry.isSymbolicLink()) {
      const target = relativeTarget(root, path, local.readlinkSync(at))
      if (whyUnsafeLink(path, target) === undefined) found.push({ kind: "link", path, target })
      else left++
    } else {
      left++
    }
  }

  /** The entries of all directories, one after the other; steps of it are cheap enough to be cut into slices. */
  function* entries() {
    for (let directory = pending.pop(); directory !== undefined && !limit.reached; directory = pending.pop()) {
      let names: ReadonlyArray<Dirent> = []
      try {
        names = local.readdirSync(directory === "" ? root : `${root}/${directory}`, { withFileTypes: true })
      } catch {
        if (directory !== "") left++
      }
      for (const entry of names) yield { directory, entry }
    }
  }

  yield* Slice.forEach(entries(), ({ directory, entry }) => {
    try {
      take(directory, entry)
    } catch {
      left++
    }
  })
  const scanned: Scanned = { found, left, cut: limit.reached }
  return scanned
})

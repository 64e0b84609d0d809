/**
 * The guard: which names of a manifest may become files in a configured directory.
 *
 * A mirror is written by other workers, and by whoever else can write to the volume. So nothing of it is believed:
 *
 * - a path is relative, has no empty part, no `.` and no `..`, no NUL, and no part that belongs to a hydration in progress;
 * - a link leads to a place inside its directory: some `..` in front, no more than the link is deep, and none later. A `..` behind a
 *   name would be taken from wherever that name leads, if it is a link itself, and so nothing could be said about it;
 * - links are made last, and no file is ever written through one (file://./Staging.ts).
 *
 * Names that differ by case or by Unicode form only are two names here. Where the file system takes them for one, the second is found
 * to exist and is left alone, like everything that exists.
 */
import { sep } from "node:path"

/** The most bytes of a path, and of a link's target. Linux allows no more. */
export const MAX_PATH = 4096
/** The most bytes of one name. Linux allows no more. */
export const MAX_NAME = 255

/** How the folders begin in which a hydration prepares its files. No file of a mirror has such a name. */
export const STAGING_PREFIX = ".~stint-"

const EMPTY_OR_DOTS = /(?:^|\/)\.{0,2}(?:\/|$)/
const STAGING = /(?:^|\/)\.~stint-/
const FOREIGN = sep === "\\" ? /[\\:]/ : undefined

/** Why this is no path of a file inside a directory; undefined when it is one. */
export const unsafeReason = (path: string): string | undefined => {
  if (path === "") return "it is empty"
  if (path.includes("\0")) return "it contains NUL"
  if (EMPTY_OR_DOTS.test(path)) return "it is absolute, or has an empty part, \".\" or \"..\""
  if (!path.isWellFormed()) return "it is no Unicode text"
  if (STAGING.test(path)) return `names that begin with ${STAGING_PREFIX} are taken`
  if (FOREIGN?.test(path) === true) return "it contains \\ or :"
  // A character has three bytes at most in UTF-8, per unit of the string: most paths need no counting.
  if (path.length * 3 > MAX_NAME) {
    if (Buffer.byteLength(path) > MAX_PATH) return `it is longer than ${MAX_PATH} bytes`
    if (path.split("/").some((name) => Buffer.byteLength(name) > MAX_NAME)) return `a name is longer than ${MAX_NAME} bytes`
  }
  return undefined
}

const UP = /^(?:\.\.(?:\/|$))*/

/** Why a link at this (safe) path with this target may lead out of the directory; undefined when it cannot. */
export const unsafeLinkReason = (path: string, target: string): string | undefined => {
  const up = UP.exec(target)?.[0] ?? ""
  const rest = target.slice(up.length)
  if (target === "") return "its target is empty"
  if (Buffer.byteLength(target) > MAX_PATH) return `its target is longer than ${MAX_PATH} bytes`
  if (up.split("..").length - 1 > path.split("/").length - 1) return "its target is outside of the directory"
  const why = rest === "" ? undefined : unsafeReason(rest)
  return why === undefined ? undefined : `its target is not plain: ${why}`
}

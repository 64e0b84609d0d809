/**
 * Checks the paths and link targets of a manifest (docs/spec/volume-cache.md#rules).
 *
 * Other workers, and anyone else with access to the volume, can write the mirror, so it is untrusted:
 *
 * - A path is relative and contains no empty part, no `.`, no `..`, no NUL, and no staging folder of a hydration.
 * - The target of a link is inside the directory. It may start with `..` parts, at most as many as the depth of the link, and contains none
 *   later: a `..` after a name that is itself a link would be relative to that link's target, which cannot be checked.
 * - Links are created last, and no file is written through a link (file://./Staging.ts).
 *
 * Names that differ only by case or Unicode form are different names. If the file system treats them as the same name, the second one
 * already exists and is not changed.
 */
import { sep } from "node:path"

/** The maximum length of a path and of a link target, as on Linux. Bytes. */
const MAX_PATH = 4096
/** The maximum length of one name, as on Linux. Bytes. */
const MAX_NAME = 255

/** The prefix of the staging folders of hydrations. No file of a mirror may have it. */
export const STAGING_PREFIX = ".~stint-"

const EMPTY_OR_DOTS = /(?:^|\/)\.{0,2}(?:\/|$)/
const STAGING = /(?:^|\/)\.~stint-/
const FOREIGN = sep === "\\" ? /[\\:]/ : undefined

/** Returns why this is not a safe path inside a directory, or undefined if it is. */
export const unsafeReason = (path: string): string | undefined => {
  if (path === "") return "it is empty"
  if (path.includes("\0")) return "it contains NUL"
  if (EMPTY_OR_DOTS.test(path)) return "it is absolute, or has an empty part, \".\" or \"..\""
  if (!path.isWellFormed()) return "it is not valid Unicode"
  if (STAGING.test(path)) return `names that start with ${STAGING_PREFIX} are reserved`
  if (FOREIGN?.test(path) === true) return "it contains \\ or :"
  // A UTF-16 code unit takes at most three bytes in UTF-8, so most paths need no exact count.
  if (path.length * 3 > MAX_NAME) {
    if (Buffer.byteLength(path) > MAX_PATH) return `it is longer than ${MAX_PATH} bytes`
    if (path.split("/").some((name) => Buffer.byteLength(name) > MAX_NAME)) return `a name is longer than ${MAX_NAME} bytes`
  }
  return undefined
}

const UP = /^(?:\.\.(?:\/|$))*/

/** Returns why a link at this safe path may have a target outside the directory, or undefined if it cannot. */
export const unsafeLinkReason = (path: string, target: string): string | undefined => {
  const up = UP.exec(target)?.[0] ?? ""
  const rest = target.slice(up.length)
  if (target === "") return "its target is empty"
  if (Buffer.byteLength(target) > MAX_PATH) return `its target is longer than ${MAX_PATH} bytes`
  if (up.split("..").length - 1 > path.split("/").length - 1) return "its target is outside the directory"
  const why = rest === "" ? undefined : unsafeReason(rest)
  return why === undefined ? undefined : `its target is invalid: ${why}`
}

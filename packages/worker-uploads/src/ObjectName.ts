/**
 * Names of objects and of local files, made safe. Pure.
 *
 * A name may come from a caller's input. The result is always one path segment: no separator, no `..`, no character that a terminal or a file
 * system interprets, and short enough for every file system. Letters of any script stay, because people read names.
 */

/** The maximum number of bytes in one segment. File systems allow 255; the rest is reserved for the suffixes of temporary files. */
const MAX_SEGMENT = 200

/** The maximum number of bytes in an object's key in S3. */
export const MAX_KEY = 1024

const bytes = (text: string) => Buffer.byteLength(text)

/** Control, formatting and unassigned characters, line ends, path separators, and what Windows forbids. */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}/\\:*?"<>|]/gu

/** Device names on Windows, with any extension. */
const DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i

/** The extension of a file name with its dot, if it is short and not the whole name. */
const ending = (name: string): string => /(?<=.)\.[^.\s]{1,16}$/u.exec(name)?.[0] ?? ""

const cut = (text: string, room: number): string => {
  let kept = ""
  let used = 0
  for (const character of text) {
    used += bytes(character)
    if (used > room) break
    kept += character
  }
  return kept
}

/** Windows drops trailing dots and spaces, so that two names can become one. */
const trimmed = (name: string): string => name.trim().replace(/[.\s]+$/, "")

/** Makes one path segment safe. Two different names can become the same segment. */
export const segment = (name: string): string => {
  const clean = trimmed(name.toWellFormed().normalize("NFC").replaceAll(UNSAFE, "_"))
  const named = clean === "" || DEVICE.test(clean) ? `_${clean}` : clean
  if (bytes(named) <= MAX_SEGMENT) return named
  const tail = ending(named)
  return trimmed(cut(named.slice(0, named.length - tail.length), MAX_SEGMENT - bytes(tail)) + tail)
}

/** Makes a key of several segments safe. Drops empty segments, `.` and `..`. Empty when nothing is left. */
export const path = (key: string): string => key.split(/[/\\]/).filter((one) => !/^[\s.]*$/.test(one)).map(segment).join("/")

/** Joins segments and keys; skips empty ones. */
export const join = (...parts: ReadonlyArray<string>): string => parts.filter((part) => part !== "").join("/")

/** The last segment of a path, made safe: the name of the file. */
export const fileName = (location: string): string => segment(location.split(/[/\\]/).findLast((one) => one.trim() !== "") ?? "")

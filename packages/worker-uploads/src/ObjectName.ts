/**
 * Names of objects and of local files, made safe. Pure.
 *
 * A name may come from a caller's input. Whatever it is, what comes out is one segment of a path: no separator, no `..`, nothing
 * that a terminal or a file system takes for a command, and short enough for every file system. Letters of any script stay, because
 * people read names.
 */

/** The most bytes of one segment. File systems allow 255; the rest is for the endings of temporary files. */
const MAX_SEGMENT = 200

/** The most bytes of an object's key in S3. */
export const MAX_KEY = 1024

const bytes = (text: string) => Buffer.byteLength(text)

/** Control, formatting and unassigned characters, line ends, separators of paths, and what Windows forbids. */
const UNSAFE = /[\p{C}\p{Zl}\p{Zp}/\\:*?"<>|]/gu

/** Names of devices on Windows, whatever their ending. */
const DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i

/** The ending of a file's name with its dot, if it is one: short, and not the whole name. */
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

/** Windows drops dots and spaces at the end of a name, and two names become one. */
const trimmed = (name: string): string => name.trim().replace(/[.\s]+$/, "")

/** One segment of a path that means nothing but itself. Two different names can become the same one. */
export const segment = (name: string): string => {
  const clean = trimmed(name.toWellFormed().normalize("NFC").replaceAll(UNSAFE, "_"))
  const named = clean === "" || DEVICE.test(clean) ? `_${clean}` : clean
  if (bytes(named) <= MAX_SEGMENT) return named
  const tail = ending(named)
  return trimmed(cut(named.slice(0, named.length - tail.length), MAX_SEGMENT - bytes(tail)) + tail)
}

/** A key of several segments: empty ones, `.` and `..` are dropped, the others made safe. Empty when nothing is left. */
export const path = (key: string): string => key.split(/[/\\]/).filter((one) => !/^[\s.]*$/.test(one)).map(segment).join("/")

/** Segments and keys put together; what is empty counts for nothing. */
export const join = (...parts: ReadonlyArray<string>): string => parts.filter((part) => part !== "").join("/")

/** The last segment of a path, made safe: the name of the file. */
export const fileName = (location: string): string => segment(location.split(/[/\\]/).findLast((one) => one.trim() !== "") ?? "")

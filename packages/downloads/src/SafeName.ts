/**
 * File names that a stranger proposed, made harmless on every system.
 *
 * ```
 *   "../../etc/passwd"  -> "passwd"        "CON.txt"  -> "_CON.txt"       ".bashrc" -> "bashrc"
 *   "a\0b\r\n.png"      -> "ab.png"        "-rf"      -> "_rf"            ""        -> "download"
 * ```
 *
 * A safe name is one part of a path, never `.` or `..`, shows what it is (no controls, nothing that turns the reading direction
 * around), can be written on Windows too, is no option to a program that gets it as an argument, and leaves room for a number.
 */

/** What a file is called when nothing remains of its name. */
export const FALLBACK = "download"

/** The longest name. Bytes of UTF-8; file systems take 255, and `-12` may have to be added. */
const MAX_BYTES = 200

/** The longest ending that is kept when a name is shortened. Bytes. */
const MAX_ENDING = 20

/** Separators, and what stands before the last of them. */
const FOLDERS = /^.*[/\\]/su

/** Controls, invisible characters and those that change how the rest is read: all categories of "other". */
const INVISIBLE = /\p{C}|\p{Zl}|\p{Zp}|\u115f|\u1160|\u3164|\uffa0/gu

/** What Windows forbids in a name. */
const FORBIDDEN = /[<>:"|?*]/gu

/** Names of devices, with or without an ending. */
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:\s*\.|\s*$)/iu

/** Dots and spaces: Windows drops them at the end, and at the start they hide a file. */
const EDGES = /^[.\s]+|[.\s]+$/gu

const bytes = (text: string): number => Buffer.byteLength(text)

/** As many whole characters from the start as fit. */
const cut = (text: string, most: number): string => {
  let fitting = ""
  let size = 0
  for (const character of text) {
    size += bytes(character)
    if (size > most) break
    fitting += character
  }
  return fitting
}

/** The name without its ending, and the ending with its dot. */
export const split = (name: string): readonly [stem: string, ending: string] => {
  const dot = name.lastIndexOf(".")
  return dot <= 0 ? [name, ""] : [name.slice(0, dot), name.slice(dot)]
}

const shorten = (name: string): string => {
  if (bytes(name) <= MAX_BYTES) return name
  const [stem, ending] = split(name)
  const kept = bytes(ending) <= MAX_ENDING ? ending : ""
  // A cut may end at a space or a dot.
  return (kept === "" ? cut(name, MAX_BYTES) : cut(stem, MAX_BYTES - bytes(kept))).replace(EDGES, "") + kept
}

const escapeReserved = (name: string): string => {
  const plain = name.replace(/^[-~]/u, "_")
  return DEVICE.test(plain) ? `_${plain}` : plain
}

/** The name, made safe; {@link FALLBACK} when nothing remains. Safe names stay as they are. */
export const safe = (name: string): string => {
  const visible = name.toWellFormed().replace(INVISIBLE, "").normalize("NFC")
  const last = visible.replace(FOLDERS, "").replace(FORBIDDEN, "_").replace(EDGES, "")
  return last === "" ? FALLBACK : escapeReserved(shorten(last))
}

/** The last part of the URL's path, decoded; undefined when it has none. */
export const fromUrl = (url: URL): string | undefined => {
  const last = url.pathname.slice(url.pathname.lastIndexOf("/") + 1)
  if (last === "") return undefined
  try {
    return decodeURIComponent(last)
  } catch {
    return last
  }
}

/** Endings of what a handler is likely to look at by its ending. Text is left alone: `README` is not `README.txt`. */
const ENDINGS: { readonly [contentType: string]: string } = {
  "application/gzip": ".gz",
  "application/json": ".json",
  "application/pdf": ".pdf",
  "application/zip": ".zip",
  "audio/flac": ".flac",
  "audio/mpeg": ".mp3",
  "audio/ogg": ".ogg",
  "audio/wav": ".wav",
  "image/avif": ".avif",
  "image/gif": ".gif",
  "image/jpeg": ".jpg",
  "image/png": ".png",
  "image/svg+xml": ".svg",
  "image/webp": ".webp",
  "video/mp4": ".mp4",
  "video/quicktime": ".mov",
  "video/webm": ".webm"
}

/** Adds the ending of the content type to a name that has none: `https://host/200` is a picture, too. */
export const withEnding = (name: string, contentType: string | undefined): string => {
  const ending = contentType === undefined || !Object.hasOwn(ENDINGS, contentType) ? undefined : ENDINGS[contentType]
  return ending === undefined || name.includes(".") ? name : `${name}${ending}`
}

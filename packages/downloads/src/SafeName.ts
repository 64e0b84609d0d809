/**
 * Makes proposed file names harmless on every system.
 *
 * ```
 *   "../../etc/passwd"  -> "passwd"        "CON.txt"  -> "_CON.txt"       ".bashrc" -> "bashrc"
 *   "a\0b\r\n.png"      -> "ab.png"        "-rf"      -> "_rf"            ""        -> "download"
 * ```
 *
 * A safe name is one path segment and never `.` or `..`. It is readable (no control characters, no bidirectional overrides), valid on
 * Windows, cannot be mistaken for a command-line option, and leaves room for a numeric suffix.
 */

/** The name of a file when nothing remains of the proposed name. */
export const FALLBACK = "download"

/** The maximum length of a name. Bytes of UTF-8. File systems allow 255, and a suffix such as `-12` may be appended. */
const MAX_BYTES = 200

/** The maximum length of an extension that is preserved when a name is shortened. Bytes. */
const MAX_ENDING = 20

/** Separators, and the text before the last of them. */
const FOLDERS = /^.*[/\\]/su

/** Control characters, invisible characters and those that change the direction of the text after them: the Unicode category "other". */
const INVISIBLE = /\p{C}|\p{Zl}|\p{Zp}|\u115f|\u1160|\u3164|\uffa0/gu

/** Characters that Windows forbids in names. */
const FORBIDDEN = /[<>:"|?*]/gu

/** Device names, with or without an extension. */
const DEVICE = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?:\s*\.|\s*$)/iu

/** Dots and spaces: Windows drops them at the end, and a leading dot hides a file. */
const EDGES = /^[.\s]+|[.\s]+$/gu

const bytes = (text: string): number => Buffer.byteLength(text)

/** The longest prefix of whole characters that fits. */
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

/** The name without its extension, and the extension with its dot. */
export const split = (name: string): readonly [stem: string, ending: string] => {
  const dot = name.lastIndexOf(".")
  return dot <= 0 ? [name, ""] : [name.slice(0, dot), name.slice(dot)]
}

const shorten = (name: string): string => {
  if (bytes(name) <= MAX_BYTES) return name
  const [stem, ending] = split(name)
  const kept = bytes(ending) <= MAX_ENDING ? ending : ""
  // The truncated name may end with a space or a dot.
  return (kept === "" ? cut(name, MAX_BYTES) : cut(stem, MAX_BYTES - bytes(kept))).replace(EDGES, "") + kept
}

const escapeReserved = (name: string): string => {
  const plain = name.replace(/^[-~]/u, "_")
  return DEVICE.test(plain) ? `_${plain}` : plain
}

/** Makes the name safe; {@link FALLBACK} if nothing remains. Safe names do not change. */
export const safe = (name: string): string => {
  const visible = name.toWellFormed().replace(INVISIBLE, "").normalize("NFC")
  const last = visible.replace(FOLDERS, "").replace(FORBIDDEN, "_").replace(EDGES, "")
  return last === "" ? FALLBACK : escapeReserved(shorten(last))
}

/** The last segment of the URL's path, decoded; undefined if it has none. */
export const fromUrl = (url: URL): string | undefined => {
  const last = url.pathname.slice(url.pathname.lastIndexOf("/") + 1)
  if (last === "") return undefined
  try {
    return decodeURIComponent(last)
  } catch {
    return last
  }
}

/** Extensions for types that handlers often recognize by extension. Text is not included: `README` must not become `README.txt`. */
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

/** Appends the extension of the content type to a name without one: `https://host/200` can be a picture. */
export const withEnding = (name: string, contentType: string | undefined): string => {
  const ending = contentType === undefined || !Object.hasOwn(ENDINGS, contentType) ? undefined : ENDINGS[contentType]
  return ending === undefined || name.includes(".") ? name : `${name}${ending}`
}

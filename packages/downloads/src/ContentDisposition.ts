/**
 * The file name that a server proposes (RFC 6266, with the encodings of RFC 8187, formerly 5987).
 *
 * ```
 *   attachment; filename="EURO rates.txt"; filename*=UTF-8''%e2%82%ac%20rates.txt
 *                                                    ^ wins
 * ```
 *
 * Servers write many things that are not in the RFC; whatever can be read is read, and the name is made safe afterwards.
 */

/** One parameter: name, then a quoted text or everything up to the next semicolon. */
const PARAMETER = /;\s*([^=;\s]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))/gsu

const EXTENDED = /^([^']*)'[^']*'(.*)$/su

const bytesOf = (escaped: string): Buffer | undefined => {
  if (/%(?![0-9a-f]{2})/iu.test(escaped)) return undefined
  return Buffer.from(
    escaped.replaceAll(/%([0-9a-f]{2})/giu, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    "latin1"
  )
}

const utf8 = (bytes: Uint8Array): string | undefined => {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes)
  } catch {
    return undefined
  }
}

const extended = (value: string): string | undefined => {
  const [, charset = "", escaped = ""] = EXTENDED.exec(value.trim()) ?? []
  const bytes = bytesOf(escaped)
  if (bytes === undefined) return undefined
  if (/^utf-8$/iu.test(charset)) return utf8(bytes)
  return /^iso-8859-1$/iu.test(charset) ? bytes.toString("latin1") : undefined
}

/** Headers are Latin-1 on the wire, and yet many servers write UTF-8 there. What reads as UTF-8 is. */
const plain = (value: string): string => utf8(Buffer.from(value, "latin1")) ?? value

/** The proposed name as it was meant, anything but safe; undefined when there is none. */
export const fileName = (header: string | undefined): string | undefined => {
  const found = new Map<string, string>()
  for (const [, name = "", quoted, bare = ""] of (header ?? "").matchAll(PARAMETER)) {
    const key = name.toLowerCase()
    // A parameter that comes twice is an attempt to be read in two ways; the first counts.
    if (!found.has(key)) found.set(key, quoted === undefined ? bare.trim() : quoted.replaceAll(/\\(.)/gsu, "$1"))
  }
  const encoded = found.get("filename*")
  const name = found.get("filename")
  return (encoded === undefined ? undefined : extended(encoded)) ?? (name === undefined ? undefined : plain(name))
}

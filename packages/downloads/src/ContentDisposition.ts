/**
 * The file name that a server proposes (RFC 6266, with the encodings of RFC 8187, formerly 5987).
 *
 * ```
 *   attachment; filename="EURO rates.txt"; filename*=UTF-8''%e2%82%ac%20rates.txt
 *                                                    ^ wins
 * ```
 *
 * Servers send many forms that are not in the RFC. This parser is lenient, and the name is made safe afterwards.
 */

/** One parameter: a name, then quoted text or everything up to the next semicolon. */
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

/** Headers are Latin-1 on the wire, but many servers send UTF-8. Text that is valid UTF-8 is decoded as UTF-8. */
const plain = (value: string): string => utf8(Buffer.from(value, "latin1")) ?? value

/** The proposed name, decoded but not safe; undefined if there is none. */
export const fileName = (header: string | undefined): string | undefined => {
  const found = new Map<string, string>()
  for (const [, name = "", quoted, bare = ""] of (header ?? "").matchAll(PARAMETER)) {
    const key = name.toLowerCase()
    // A repeated parameter may be an attempt to make two parsers read different names. The first value is used.
    if (!found.has(key)) found.set(key, quoted === undefined ? bare.trim() : quoted.replaceAll(/\\(.)/gsu, "$1"))
  }
  const encoded = found.get("filename*")
  const name = found.get("filename")
  return (encoded === undefined ? undefined : extended(encoded)) ?? (name === undefined ? undefined : plain(name))
}

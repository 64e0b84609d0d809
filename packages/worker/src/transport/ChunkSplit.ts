/**
 * Splits a streamed string that is too large for one chunk (docs/spec/streaming.md#chunks).
 */

const isHighSurrogate = (unit: number) => unit >= 0xd800 && unit <= 0xdbff
const isLowSurrogate = (unit: number) => unit >= 0xdc00 && unit <= 0xdfff

/** The maximum number of bytes of one UTF-16 code unit in a JSON string: the length of an escape sequence. */
const MAX_UNIT_BYTES = 6

/** The UTF-8 bytes of one UTF-16 code unit in a JSON string. */
const unitBytes = (unit: number): number => {
  // \b, \t, \n, \f and \r have short escape sequences.
  if (unit >= 0x08 && unit <= 0x0d && unit !== 0x0b) return 2
  if (unit < 0x20 || (unit >= 0xd800 && unit <= 0xdfff)) return MAX_UNIT_BYTES
  if (unit < 0x80) return unit === 0x22 || unit === 0x5c ? 2 : 1
  return unit < 0x800 ? 2 : 3
}

/** Pieces of `text` in order, none of which has more than `limit` bytes as JSON. Never separates the halves of a surrogate pair. */
export const splitText = (text: string, limit: number): ReadonlyArray<string> => {
  if (text.length * MAX_UNIT_BYTES + 2 <= limit) return [text]
  const pieces: Array<string> = []
  let from = 0
  // The quotes.
  let bytes = 2
  for (let at = 0; at < text.length;) {
    const pair = isHighSurrogate(text.charCodeAt(at)) && isLowSurrogate(text.charCodeAt(at + 1))
    const size = pair ? 4 : unitBytes(text.charCodeAt(at))
    if (bytes + size > limit && at > from) {
      pieces.push(text.slice(from, at))
      from = at
      bytes = 2
    }
    bytes += size
    at += pair ? 2 : 1
  }
  pieces.push(text.slice(from))
  return pieces
}

/**
 * Splits a streamed text that exceeds the maximum size of a chunk (docs/spec/streaming.md#chunks).
 *
 * It cuts the JSON text that the worker sent, and does not parse it: the cost is a few comparisons per piece, so that a text of many
 * megabytes does not hold up other requests.
 */
import { JsonText } from "@stint/contract/Json"

/** The longest escape sequence is `\uXXXX`. */
const ESCAPE_LENGTH = 6

const HIGH_SURROGATE_ESCAPE = /^\\u[dD][89abAB]/

const isHighSurrogate = (unit: number) => unit >= 0xD8_00 && unit <= 0xDB_FF

/** `at`, or the start of the escape sequence that contains it. */
const outsideEscape = (json: string, at: number): number => {
  const last = json.lastIndexOf("\\", at - 1)
  if (last < at - ESCAPE_LENGTH) return at
  let before = last
  while (json[before - 1] === "\\") before--
  // In a row of backslashes, each pair is an escaped backslash. An odd one begins another escape sequence.
  if ((last - before) % 2 === 1) return at
  const end = last + (json[last + 1] === "u" ? ESCAPE_LENGTH : 2)
  return end > at ? last : at
}

/** The last position up to `at` that does not split an escape sequence or a surrogate pair. */
const cutBefore = (json: string, at: number): number => {
  const cut = outsideEscape(json, at)
  if (isHighSurrogate(json.charCodeAt(cut - 1))) return cut - 1
  return HIGH_SURROGATE_ESCAPE.test(json.slice(cut - ESCAPE_LENGTH, cut)) ? outsideEscape(json, cut - ESCAPE_LENGTH) : cut
}

/** The JSON text of a string as JSON texts of at most `limit` bytes each, in order. Joined, they are the string. `limit` is 50 or more. */
export const splitText = (json: JsonText, limit: number): ReadonlyArray<JsonText> => {
  const ascii = Buffer.byteLength(json) === json.length
  // A UTF-16 code unit has at most three bytes in UTF-8.
  const most = Math.floor((limit - 2) / (ascii ? 1 : 3))
  const pieces: Array<JsonText> = []
  const end = json.length - 1
  for (let from = 1; from < end || pieces.length === 0;) {
    const to = from + most < end ? cutBefore(json, from + most) : end
    pieces.push(JsonText.make(`"${json.slice(from, to)}"`))
    from = to
  }
  return pieces
}

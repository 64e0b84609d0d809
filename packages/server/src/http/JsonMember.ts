/**
 * Extracts a member of a JSON object as the exact text that was sent.
 *
 * A payload must pass through the platform unchanged. Parsing and printing would change it: `18446744073709551615` becomes another number,
 * `1e400` becomes `null`, and keys like `"1"` move to the front. So the server parses a body to validate it, and cuts the payload out of
 * the text.
 */
import { JsonText } from "@stint/contract/Json"

const QUOTE = 0x22
const BACKSLASH = 0x5C
const COMMA = 0x2C
const OPEN_BRACE = 0x7B
const CLOSE_BRACE = 0x7D
const OPEN_BRACKET = 0x5B
const CLOSE_BRACKET = 0x5D

const isSpace = (code: number) => code === 0x20 || code === 0x0A || code === 0x0D || code === 0x09

const skipSpace = (json: string, from: number): number => {
  let at = from
  while (isSpace(json.charCodeAt(at))) at++
  return at
}

/** The index after the string that starts at `from`. */
const endOfString = (json: string, from: number): number => {
  let quote = from
  while (true) {
    quote = json.indexOf("\"", quote + 1)
    if (quote === -1) return json.length
    let before = quote - 1
    while (json.charCodeAt(before) === BACKSLASH) before--
    // With an even number of backslashes, they escape each other; with an odd number, the last one escapes the quote.
    if ((quote - before) % 2 === 1) return quote + 1
  }
}

/** The index after the value that starts at `from`. */
const endOfValue = (json: string, from: number): number => {
  let depth = 0
  let at = from
  while (at < json.length) {
    const code = json.charCodeAt(at)
    if (code === QUOTE) {
      at = endOfString(json, at)
      if (depth === 0) return at
      continue
    }
    if (code === OPEN_BRACE || code === OPEN_BRACKET) depth++
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) {
      // The end of the enclosing object, after a number or a literal.
      if (depth === 0) return at
      depth--
      if (depth === 0) return at + 1
    } else if (depth === 0 && (code === COMMA || isSpace(code))) return at
    at++
  }
  return at
}

/**
 * The value of a member of a JSON object, as text; undefined when there is no such member or the text is not an object. Duplicate members
 * yield the last, as with `JSON.parse`. The text must be valid JSON; otherwise the result is unspecified.
 */
export const memberText = (json: string, name: string): JsonText | undefined => {
  let at = skipSpace(json, 0)
  if (json.charCodeAt(at) !== OPEN_BRACE) return undefined
  at = skipSpace(json, at + 1)
  const wanted = JSON.stringify(name)
  let found: string | undefined
  while (at < json.length && json.charCodeAt(at) !== CLOSE_BRACE) {
    const afterKey = endOfString(json, at)
    const key = json.slice(at, afterKey)
    const start = skipSpace(json, skipSpace(json, afterKey) + 1)
    const end = endOfValue(json, start)
    if (key === wanted || (key.includes("\\") && JSON.parse(key) === name)) found = json.slice(start, end)
    at = skipSpace(json, end)
    if (json.charCodeAt(at) === COMMA) at = skipSpace(json, at + 1)
  }
  return found === undefined ? undefined : JsonText.make(found)
}

/** The elements of a JSON array, each as text; empty when the text is not an array. The text must be valid JSON. */
export const elementTexts = (json: string): ReadonlyArray<JsonText> => {
  const texts: Array<JsonText> = []
  let at = skipSpace(json, 0)
  if (json.charCodeAt(at) !== OPEN_BRACKET) return texts
  at = skipSpace(json, at + 1)
  while (at < json.length && json.charCodeAt(at) !== CLOSE_BRACKET) {
    const end = endOfValue(json, at)
    texts.push(JsonText.make(json.slice(at, end)))
    at = skipSpace(json, end)
    if (json.charCodeAt(at) === COMMA) at = skipSpace(json, at + 1)
  }
  return texts
}

/**
 * Parses the output of Python's `repr` for plain data: `{'message': "can't", 'code': 400, 'param': None}`.
 *
 * Existing SDKs convert a generator's error object to text in this format (docs/spec/openai-route.md#errors), which JSON parsers reject.
 */

/** Maximum nesting depth. Errors are flat; the limit keeps hostile input from overflowing the stack. */
const MAX_DEPTH = 32

const ESCAPES: Readonly<Record<string, string>> = {
  "\\": "\\",
  "'": "'",
  "\"": "\"",
  n: "\n",
  r: "\r",
  t: "\t",
  a: "\u0007",
  b: "\b",
  f: "\f",
  v: "\v",
  "0": "\0"
}

const WORDS: ReadonlyMap<string, unknown> = new Map<string, unknown>([["None", null], ["True", true], ["False", false]])

const NUMBER = /[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y
const WORD = /[A-Za-z_]\w*/y
const SPACE = /\s*/y
const HEX = /x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})/y

/** The text is not the repr of plain data. Does not leave this file. */
class ReprSyntaxError extends Error {}

const reader = (text: string) => {
  let at = 0

  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at
    const found = pattern.exec(text)
    if (found !== null) at = pattern.lastIndex
    return found
  }

  /** Consumes the character if it is next, after white space. */
  const take = (character: string): boolean => {
    match(SPACE)
    if (text[at] !== character) return false
    at += 1
    return true
  }

  const string = (quote: string): string => {
    let value = ""
    while (at < text.length) {
      const character = text[at++]
      if (character === quote) return value
      if (character !== "\\") {
        value += character
        continue
      }
      const hex = match(HEX)
      const code = hex === null ? undefined : Number.parseInt(hex[1] ?? hex[2] ?? hex[3] ?? "", 16)
      if (code !== undefined && code <= 0x10FFFF) {
        value += String.fromCodePoint(code)
        continue
      }
      const escaped = ESCAPES[text[at++] ?? ""]
      if (escaped === undefined) throw new ReprSyntaxError()
      value += escaped
    }
    throw new ReprSyntaxError()
  }

  const items = (end: string, depth: number): Array<unknown> => {
    const found: Array<unknown> = []
    while (!take(end)) {
      found.push(value(depth))
      if (!take(",")) {
        if (take(end)) return found
        throw new ReprSyntaxError()
      }
    }
    return found
  }

  const dict = (depth: number): Record<string, unknown> => {
    const found: Array<readonly [string, unknown]> = []
    while (!take("}")) {
      const key = value(depth)
      if (!take(":")) throw new ReprSyntaxError()
      found.push([String(key), value(depth)])
      if (!take(",")) {
        if (take("}")) break
        throw new ReprSyntaxError()
      }
    }
    return Object.fromEntries(found)
  }

  const value = (depth: number): unknown => {
    if (depth > MAX_DEPTH) throw new ReprSyntaxError()
    if (take("{")) return dict(depth + 1)
    if (take("[")) return items("]", depth + 1)
    if (take("(")) return items(")", depth + 1)
    if (take("'")) return string("'")
    if (take("\"")) return string("\"")
    const number = match(NUMBER)
    if (number !== null) return Number(number[0])
    const word = match(WORD)?.[0]
    if (word === undefined || !WORDS.has(word)) throw new ReprSyntaxError()
    return WORDS.get(word)
  }

  return {
    read: (): unknown => {
      const found = value(0)
      match(SPACE)
      if (at < text.length) throw new ReprSyntaxError()
      return found
    }
  }
}

/** The value whose repr is this text; undefined if the text is not the repr of plain data. Tuples become arrays, keys become strings. */
export const parse = (text: string): unknown => {
  try {
    return reader(text).read()
  } catch (error) {
    if (error instanceof ReprSyntaxError) return undefined
    throw error
  }
}

/**
 * Checks JSON text and cuts members out of it, without building its values.
 *
 * ```
 *   text --> scan --> the kind of value, the wanted members or the elements, each as the exact text that was sent
 *                \--> JsonFault: the position and what is wrong there
 * ```
 *
 * `JSON.parse` blocks the process for a second and uses 300 MB for 10 MB of nested brackets. A scan of any text uses a few bytes per level of
 * nesting, and it is a generator that pauses regularly, so that other requests are served during the scan of a large body.
 *
 * Cutting also keeps payloads unchanged. Parsing and printing would change them: `18446744073709551615` becomes another number, and keys
 * like `"1"` move to the front.
 *
 * The scan accepts the same texts as `JSON.parse`, except for two kinds that break the programs behind the platform:
 *
 * - Values nested more than {@link MAX_DEPTH} levels deep. Python's parser and others fail on them, and a job that no worker can parse would
 *   fail attempt after attempt.
 * - Numbers that a double cannot hold, such as `1e400`. JavaScript reads them as Infinity and prints them as `null`.
 */
import { JsonText } from "@stint/contract/Json"

/** The maximum nesting of arrays and objects. Half of the depth at which Python's `json` fails by default. */
export const MAX_DEPTH = 512

/** The maximum length of a number. Every shorter number is converted in no time, and no program prints a longer number. */
const MAX_NUMBER_LENGTH = 1_000

/** Every finite number without an exponent is shorter than this. */
const MIN_INFINITE_LENGTH = 309

/** The number of characters between two pauses: at most about a millisecond of work. */
const SLICE = 65_536

/** Longer keys are not compared with the wanted names. Escapes make a key at most six times as long. */
const MAX_KEY_LENGTH = 256

/** What is wrong with a text, and at which index. */
export interface JsonFault {
  readonly _tag: "JsonFault"
  readonly at: number
  readonly reason: "syntax" | "depth" | "number"
}

/** A part of a text. */
export interface JsonPart {
  readonly text: JsonText
  /** The number of values in it, including itself but not the keys of objects. */
  readonly values: number
}

/** A valid JSON text. */
export interface JsonScan {
  readonly _tag: "JsonScan"
  readonly kind: "object" | "array" | "string" | "number" | "boolean" | "null"
  readonly values: number
  /** The wanted members of an object. Of members with the same name, the last one, as with `JSON.parse`. */
  readonly members: ReadonlyMap<string, JsonPart>
  /** The first elements of an array. */
  readonly elements: ReadonlyArray<JsonPart>
}

/** The parts to cut out of a text. */
export interface Wanted {
  /** Names of members of the object. Default: none. */
  readonly members?: ReadonlySet<string>
  /** The maximum number of elements of the array to cut out. Default: 0. */
  readonly elements?: number
}

/** Strings are compared character by character up to this length, and searched with {@link NOT_PLAIN} beyond it, which is faster. */
const SHORT_STRING = 24

/** The characters that end a string, begin an escape sequence, or are not allowed in a string. */
// oxlint-disable-next-line no-control-regex
const NOT_PLAIN = /["\\\u0000-\u001f]/

const QUOTE = 0x22
const PLUS = 0x2B
const COMMA = 0x2C
const MINUS = 0x2D
const DOT = 0x2E
const SLASH = 0x2F
const ZERO = 0x30
const NINE = 0x39
const COLON = 0x3A
const OPEN_BRACKET = 0x5B
const BACKSLASH = 0x5C
const CLOSE_BRACKET = 0x5D
const OPEN_BRACE = 0x7B
const CLOSE_BRACE = 0x7D

const isDigit = (code: number): boolean => code >= ZERO && code <= NINE

/** Setting the bit 0x20 makes a letter lowercase. */
const isHexDigit = (code: number): boolean => isDigit(code) || ((code | 0x20) >= 0x61 && (code | 0x20) <= 0x66)

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0A || code === 0x0D || code === 0x09

/** The index after an escape sequence that starts at `from`; -1 when it is invalid. */
const endOfEscape = (text: string, from: number): number => {
  switch (text.charCodeAt(from + 1)) {
    case QUOTE:
    case BACKSLASH:
    case SLASH:
    case 0x62: // b
    case 0x66: // f
    case 0x6E: // n
    case 0x72: // r
    case 0x74: // t
      return from + 2
    case 0x75: // u
      return isHexDigit(text.charCodeAt(from + 2)) && isHexDigit(text.charCodeAt(from + 3)) &&
          isHexDigit(text.charCodeAt(from + 4)) &&
          isHexDigit(text.charCodeAt(from + 5))
        ? from + 6
        : -1
    default:
      return -1
  }
}

/** The index after the digits that start at `from`. Stops at the maximum length of a number. */
const endOfDigits = (text: string, from: number): number => {
  const end = from + MAX_NUMBER_LENGTH
  let at = from
  while (at < end && isDigit(text.charCodeAt(at))) at++
  return at
}

/** The index after the number that starts at `from`, or what is wrong with it. */
const endOfNumber = (text: string, from: number): number | JsonFault => {
  const syntax = (at: number): JsonFault => ({ _tag: "JsonFault", at, reason: "syntax" })
  const first = text.charCodeAt(from) === MINUS ? from + 1 : from
  if (!isDigit(text.charCodeAt(first))) return syntax(first)
  let at = text.charCodeAt(first) === ZERO ? first + 1 : endOfDigits(text, first)
  if (text.charCodeAt(at) === DOT) {
    const fraction = at + 1
    at = endOfDigits(text, fraction)
    if (at === fraction) return syntax(at)
  }
  const code = text.charCodeAt(at)
  const hasExponent = code === 0x65 || code === 0x45
  if (hasExponent) {
    const sign = text.charCodeAt(at + 1)
    const exponent = sign === PLUS || sign === MINUS ? at + 2 : at + 1
    at = endOfDigits(text, exponent)
    if (at === exponent) return syntax(at)
  }
  const length = at - from
  if (!hasExponent && length < MIN_INFINITE_LENGTH) return at
  return length <= MAX_NUMBER_LENGTH && Number.isFinite(Number(text.slice(from, at)))
    ? at
    : { _tag: "JsonFault", at: from, reason: "number" }
}

const kindOf = (code: number): JsonScan["kind"] => {
  switch (code) {
    case OPEN_BRACE:
      return "object"
    case OPEN_BRACKET:
      return "array"
    case QUOTE:
      return "string"
    case 0x74:
    case 0x66:
      return "boolean"
    case 0x6E:
      return "null"
    default:
      return "number"
  }
}

/** The key in a key's text, without its quotes. */
const keyIn = (text: string, from: number, to: number): string => {
  const key = text.slice(from + 1, to - 1)
  return key.includes("\\") ? String(JSON.parse(text.slice(from, to))) : key
}

/** What is due at a position. `first` is the position after an opening bracket. */
type Due = "value" | "first" | "key" | "colon" | "next"

/** Scans a text. Yields about once a millisecond. */
export function* scan(text: string, wanted: Wanted = {}): Generator<undefined, JsonScan | JsonFault, void> {
  const { elements: mostElements = 0, members: names } = wanted
  const end = text.length
  const members = new Map<string, JsonPart>()
  const elements: Array<JsonPart> = []
  /** Whether each open container is an object. */
  const open: Array<boolean> = []
  let kind: JsonScan["kind"] = "null"
  let due: Due = "value"
  let at = 0
  let pause = SLICE
  let values = 0
  /** The name of the current member of the outermost object, if it is wanted. */
  let name: string | undefined
  let partStart = 0
  let partEnd = 0
  let valuesBefore = 0

  const fault = (at: number, reason: JsonFault["reason"] = "syntax"): JsonFault => ({ _tag: "JsonFault", at, reason })

  while (true) {
    let code = text.charCodeAt(at)
    if (isSpace(code) || at >= pause) {
      if (at >= pause) {
        yield
        pause = at + SLICE
      }
      while (at < pause && isSpace(code = text.charCodeAt(at))) at++
      if (at === pause) continue
    }
    const inObject = open[open.length - 1] === true

    if (due === "colon") {
      if (code !== COLON) return fault(at)
      at++
      due = "value"
      continue
    }

    if (due === "next" && open.length === 0) {
      return at < end ? fault(at) : { _tag: "JsonScan", kind, values, members, elements }
    }
    if (due === "next" && open.length === 1 && (inObject ? name !== undefined : elements.length < mostElements)) {
      const part = { text: JsonText.make(text.slice(partStart, partEnd)), values: values - valuesBefore }
      if (name === undefined) elements.push(part)
      else members.set(name, part)
      name = undefined
    }
    if (due === "next" && code === COMMA) {
      at++
      due = inObject ? "key" : "value"
      continue
    }
    if ((due === "next" || due === "first") && code === (inObject ? CLOSE_BRACE : CLOSE_BRACKET)) {
      open.pop()
      at++
      partEnd = at
      due = "next"
      continue
    }
    if (due === "next") return fault(at)

    // A key or a value begins.
    const isKey = inObject && due !== "value"
    const start = at
    if (isKey && code !== QUOTE) return fault(at)
    if (!isKey) {
      if (open.length === 0) kind = kindOf(code)
      else if (open.length === 1) {
        partStart = at
        valuesBefore = values
      }
      values++
    }
    if (code === QUOTE) {
      at++
      while (true) {
        const near = Math.min(at + SHORT_STRING, pause, end)
        while (at < near && (code = text.charCodeAt(at)) !== QUOTE && code !== BACKSLASH && code >= 0x20) at++
        if (at === near && at < pause) {
          const found = text.slice(at, pause).search(NOT_PLAIN)
          at = found === -1 ? pause : at + found
          code = text.charCodeAt(at)
        }
        if (at >= end) return fault(end)
        if (at >= pause) {
          yield
          pause = at + SLICE
          continue
        }
        if (code === QUOTE) break
        const after = code === BACKSLASH ? endOfEscape(text, at) : -1
        if (after === -1) return fault(at)
        at = after
      }
      at++
    } else if (code === OPEN_BRACE || code === OPEN_BRACKET) {
      if (open.length === MAX_DEPTH) return fault(at, "depth")
      open.push(code === OPEN_BRACE)
      at++
      due = "first"
      continue
    } else if (code === MINUS || isDigit(code)) {
      const after = endOfNumber(text, at)
      if (typeof after !== "number") return after
      at = after
    } else {
      const literal = code === 0x74 ? "true" : code === 0x66 ? "false" : "null"
      if (!text.startsWith(literal, at)) return fault(at)
      at += literal.length
    }
    if (isKey) {
      if (open.length === 1 && names !== undefined && at - start <= MAX_KEY_LENGTH) {
        const key = keyIn(text, start, at)
        name = names.has(key) ? key : undefined
      }
      due = "colon"
    } else {
      partEnd = at
      due = "next"
    }
  }
}

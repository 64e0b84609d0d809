/**
 * Finds the concurrency key of a job in its input (docs/spec/endpoints.md#concurrency-keys).
 *
 * Inputs are validated JSON that may be megabytes long, so the value is cut out of the text and nothing else is parsed.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { JsonText } from "@stint/contract/Json"
import type { JobHead } from "@stint/store/JobRecord"
import { createHash } from "node:crypto"

/** Longer keys are replaced with their digest, so that index entries stay small. */
const MAX_KEY_LENGTH = 200

const isSpace = (code: number): boolean => code === 0x20 || code === 0x0A || code === 0x0D || code === 0x09

const skipSpaces = (text: string, from: number): number => {
  let at = from
  while (isSpace(text.charCodeAt(at))) at++
  return at
}

/** The index after the string that starts at `from`. */
const endOfString = (text: string, from: number): number => {
  let at = from + 1
  while (true) {
    const quote = text.indexOf("\"", at)
    if (quote === -1) return text.length
    let escapes = 0
    while (text[quote - 1 - escapes] === "\\") escapes++
    if (escapes % 2 === 0) return quote + 1
    at = quote + 1
  }
}

/** The index after the value that starts at `from`. */
const endOfValue = (text: string, from: number): number => {
  let depth = 0
  let at = from
  while (at < text.length) {
    const character = text[at]
    if (character === "\"") {
      at = endOfString(text, at)
      if (depth === 0) return at
      continue
    }
    if (character === "{" || character === "[") depth += 1
    else if (character === "}" || character === "]") {
      if (depth === 0) return at
      depth -= 1
      if (depth === 0) return at + 1
    } else if (character === "," && depth === 0) return at
    at += 1
  }
  return at
}

/** The text of a member of an object; undefined if the text is not an object or lacks the member. Of duplicate names, the last one counts. */
const memberOf = (text: string, name: string): string | undefined => {
  let at = skipSpaces(text, 0)
  if (text[at] !== "{") return undefined
  let found: string | undefined
  at = skipSpaces(text, at + 1)
  while (text[at] === "\"") {
    const keyEnd = endOfString(text, at)
    const key: unknown = JSON.parse(text.slice(at, keyEnd))
    const start = skipSpaces(text, skipSpaces(text, keyEnd) + 1)
    const end = endOfValue(text, start)
    if (key === name) found = text.slice(start, end)
    at = skipSpaces(text, end)
    if (text[at] !== ",") break
    at = skipSpaces(text, at + 1)
  }
  return found
}

/** A string's content, and any other value as JSON. Empty for null and for a missing value. */
const keyText = (value: string | undefined): string => {
  const text = value?.trim() ?? "null"
  if (text === "null") return ""
  if (!text.startsWith("\"")) return text
  const content = String(JSON.parse(text)).toWellFormed()
  // A control character would end the text in some databases and break a line of an explanation.
  return /\p{Cc}/u.test(content) ? text : content
}

/**
 * The key of an input. A setting `input` or `input.PATH` names a value of the input: a string as it is, any other value as JSON, and the empty string
 * for null or a missing value. Any other setting is itself the key of all jobs.
 */
export const concurrencyKey = (setting: string, input: JsonText): string => {
  if (setting !== "input" && !setting.startsWith("input.")) return setting
  const path = setting.split(".").slice(1)
  const value = path.reduce<string | undefined>((text, name) => text === undefined ? undefined : memberOf(text, name), input)
  const key = keyText(value)
  return key.length <= MAX_KEY_LENGTH ? key : `sha256:${createHash("sha256").update(key).digest("hex")}`
}

/** The concurrency key and limit of a new job; null when its endpoint has none. */
export const concurrencyOf = ({ concurrency }: Pick<Endpoint, "concurrency">, input: JsonText): JobHead["concurrency"] =>
  concurrency === undefined ? null : { key: concurrencyKey(concurrency.key, input), limit: concurrency.limit, held: false }

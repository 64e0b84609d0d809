/**
 * What is wrong with an input, in words for the person who sent it.
 *
 * ```
 *   width should be an integer, not a string: got "wide".
 *   |____| |_______________________________|       |____|
 *    path                says                       got
 * ```
 *
 * Paths and values come from outside: whatever their size, what is shown of them is short.
 */

/** One thing that is wrong. */
export interface Problem {
  /** Where: keys and indexes, from the top of the input. Empty: the input as a whole. */
  readonly path: ReadonlyArray<PropertyKey>
  /** What is wrong there, without the path and without the value. */
  readonly says: string
  /** Why, where there is more to say: a sentence of its own, or nothing. */
  readonly hint?: string
  /** The value that is there. */
  readonly got?: { readonly value: unknown }
  /** There is no rule for the key. */
  readonly unexpected?: true
}

const MAX_TEXT = 60
const MAX_ENTRIES = 3
const MAX_DEPTH = 2

/** The beginning of a text, and the dots that say that there is more. */
export const shortened = (text: string, max = MAX_TEXT): string => text.length > max ? `${text.slice(0, max)}...` : text

const PLAIN_KEY = /^[A-Za-z_$][\w$]*$/

const segment = (key: PropertyKey, first: boolean): string => {
  if (typeof key === "number") return `[${key}]`
  const text = shortened(String(key))
  if (first) return text
  return PLAIN_KEY.test(text) ? `.${text}` : `[${JSON.stringify(text)}]`
}

/** A path as one writes it: `images[2].url`. */
export const pathText = (path: ReadonlyArray<PropertyKey>): string =>
  path.length === 0 ? "The input" : path.map((key, index) => segment(key, index === 0)).join("")

const entries = (shown: ReadonlyArray<string>, total: number): string =>
  [...shown, ...(total > shown.length ? [`... ${total - shown.length} more`] : [])].join(", ")

/** A value as JSON shows it, short: the first few entries, the first few letters. */
export const shownValue = (value: unknown, depth = 0): string => {
  if (typeof value === "string") return JSON.stringify(shortened(value))
  if (typeof value === "bigint") return `${shortened(value.toString())}n`
  if (typeof value === "function") return "a function"
  if (typeof value !== "object" || value === null) return String(value)
  if (Array.isArray(value)) {
    if (value.length > 0 && depth >= MAX_DEPTH) return "[...]"
    const items: ReadonlyArray<unknown> = value.slice(0, MAX_ENTRIES)
    return `[${entries(items.map((item) => shownValue(item, depth + 1)), value.length)}]`
  }
  const keys = Object.keys(value)
  if (keys.length > 0 && depth >= MAX_DEPTH) return "{...}"
  const shown = keys.slice(0, MAX_ENTRIES).map((key) =>
    `${JSON.stringify(shortened(key))}: ${shownValue(Reflect.get(value, key), depth + 1)}`
  )
  return `{${entries(shown, keys.length)}}`
}

/** What a value is, with its article: `a string`. */
export const describe = (value: unknown): string => {
  if (value === null) return "null"
  if (value === undefined) return "undefined"
  if (Array.isArray(value)) return "an array"
  if (typeof value !== "number") return typeof value === "object" ? "an object" : `a ${typeof value}`
  if (Number.isNaN(value)) return "NaN"
  if (!Number.isFinite(value)) return "an infinite number"
  if (!Number.isInteger(value)) return "a fraction"
  return Number.isSafeInteger(value) ? "an integer" : "a number too large to be exact"
}

/** Several of them, as one says it: `a string, an integer or null`. */
export const either = (all: ReadonlyArray<string>): string =>
  all.length < 2 ? all.join("") : `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`

/** A problem as a sentence that stands alone. */
export const sentence = ({ got, hint, path, says, unexpected }: Problem): string =>
  [
    ...(unexpected === true ? ["Unexpected input. "] : []),
    `${pathText(path)} ${says}`,
    got === undefined ? "." : `: got ${shownValue(got.value)}.`,
    ...(hint === undefined ? [] : [` ${hint}`])
  ].join("")

/** A problem as a message beside its path, for those who show path and value by themselves. */
export const message = ({ hint, says }: Problem): string => hint === undefined ? says : `${says} (${hint})`

/** That not all is shown. */
export const moreThan = (shown: number): string => `There are more problems. These are the first ${shown}.`

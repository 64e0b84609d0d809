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

import { previewValue, truncate } from "@stint/worker/ValuePreview"

/** One thing that is wrong. */
export interface ValidationProblem {
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

const PLAIN_KEY = /^[A-Za-z_$][\w$]*$/

const segment = (key: PropertyKey, first: boolean): string => {
  if (typeof key === "number") return `[${key}]`
  const text = truncate(String(key))
  if (first) return text
  return PLAIN_KEY.test(text) ? `.${text}` : `[${JSON.stringify(text)}]`
}

/** A path as one writes it: `images[2].url`. */
export const pathText = (path: ReadonlyArray<PropertyKey>): string =>
  path.length === 0 ? "The input" : path.map((key, index) => segment(key, index === 0)).join("")

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
export const joinWithOr = (all: ReadonlyArray<string>): string =>
  all.length < 2 ? all.join("") : `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`

/** A problem as a sentence that stands alone. */
export const formatProblem = ({ got, hint, path, says, unexpected }: ValidationProblem): string =>
  [
    ...(unexpected === true ? ["Unexpected input. "] : []),
    `${pathText(path)} ${says}`,
    got === undefined ? "." : `: got ${previewValue(got.value)}.`,
    ...(hint === undefined ? [] : [` ${hint}`])
  ].join("")

/** A problem as a message beside its path, for those who show path and value by themselves. */
export const message = ({ hint, says }: ValidationProblem): string => hint === undefined ? says : `${says} (${hint})`

/** That not all is shown. */
export const truncationNotice = (shown: number): string => `There are more problems. These are the first ${shown}.`

/**
 * One problem in an input, and its text for the caller who sent it.
 *
 * ```
 *   width should be an integer, not a string: got "wide".
 *   |____| |_______________________________|       |____|
 *    path                text                       got
 * ```
 *
 * Paths and values come from the caller and may be huge, so their text is truncated.
 */

import { previewValue, truncate } from "@stint/worker/ValuePreview"

/** One problem in an input. */
export interface ValidationProblem {
  /** The keys and indexes that lead to the value. Empty for the input as a whole. */
  readonly path: ReadonlyArray<PropertyKey>
  /** The problem, without the path and the value. */
  readonly text: string
  /** A further sentence: the cause, or a suggestion. */
  readonly hint?: string
  /** The invalid value. */
  readonly got?: { readonly value: unknown }
  /** Set for a key that has no rule. */
  readonly unexpected?: true
}

const PLAIN_KEY = /^[A-Za-z_$][\w$]*$/

const segment = (key: PropertyKey, first: boolean): string => {
  if (typeof key === "number") return `[${key}]`
  const name = truncate(String(key))
  if (first) return name
  return PLAIN_KEY.test(name) ? `.${name}` : `[${JSON.stringify(name)}]`
}

/** Formats a path: `images[2].url`. */
const pathText = (path: ReadonlyArray<PropertyKey>): string =>
  path.length === 0 ? "The input" : path.map((key, index) => segment(key, index === 0)).join("")

/** Names the type of a value, with its article: `a string`. */
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

/** Joins alternatives: `a string, an integer or null`. */
export const joinWithOr = (all: ReadonlyArray<string>): string =>
  all.length < 2 ? all.join("") : `${all.slice(0, -1).join(", ")} or ${all.at(-1)}`

/** Formats a problem as a complete sentence. */
export const formatProblem = ({ got, hint, path, text, unexpected }: ValidationProblem): string =>
  [
    ...(unexpected === true ? ["Unexpected input. "] : []),
    `${pathText(path)} ${text}`,
    got === undefined ? "." : `: got ${previewValue(got.value)}.`,
    ...(hint === undefined ? [] : [` ${hint}`])
  ].join("")

/** Formats a problem without its path and value, for callers that print them separately. */
export const message = ({ hint, text }: ValidationProblem): string => hint === undefined ? text : `${text} (${hint})`

/** The sentence that follows a truncated list of problems. */
export const truncationNotice = (shown: number): string => `There are more problems. These are the first ${shown}.`

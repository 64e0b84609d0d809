/**
 * Replaces the values of secrets in text from workers: output lines, errors and tracebacks.
 *
 * A value is also found as it appears inside JSON, in other languages' escapes (`\u00fc`), encoded in a URL, and line by line if it
 * has several lines. It is not found if a program transforms it in another way, for example to base64.
 */
import { SHORTEST_MASKED } from "@stint/contract/Secret"

/** Masks the secrets in a text. */
export type Mask = (text: string) => string

const escapeRegExp = (text: string): string => text.replaceAll(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`)

const inJson = (text: string): string => JSON.stringify(text).slice(1, -1)

/** JSON as Python writes it: ASCII only. */
const inAsciiJson = (text: string): string =>
  inJson(text).replaceAll(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`)

const inUrl = (text: string): string => encodeURIComponent(text.toWellFormed())

/** The forms in which a value may appear. */
const formsOf = (value: string): ReadonlyArray<string> => {
  const parts = new Set([value, ...value.split(/\r?\n/).map((line) => line.trim())])
  const forms = [...parts].filter((part) => part.length >= SHORTEST_MASKED)
    .flatMap((part) => [part, inJson(part), inAsciiJson(part), inUrl(part)])
  return [...new Set(forms)]
}

/** A mask for values, each with the name of its secret. Undefined when there is nothing to mask: values shorter than 8 characters are not masked. */
export const make = (secrets: Iterable<readonly [value: string, name: string]>): Mask | undefined => {
  const names = new Map<string, string>()
  for (const [value, name] of secrets) for (const form of formsOf(value)) names.set(form, name)
  if (names.size === 0) return undefined
  // A single expression for all values, longest first, so that replacements are not masked again and a value that contains another one is masked
  // completely.
  const forms = [...names.keys()].sort((a, b) => b.length - a.length)
  const pattern = new RegExp(forms.map(escapeRegExp).join("|"), "g")
  return (text) => text.replace(pattern, (form) => `[secret ${names.get(form)}]`)
}

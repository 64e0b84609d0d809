/**
 * Formats what a deployment changes. Pure.
 *
 * ```
 *   words  at release 3
 *     ~ workers.max    3 -> 5
 *     + env.LOG_LEVEL  "debug"
 *     ~ env.API_TOKEN  ********
 *     code 3fa2b1c0d9e8 -> 77aa01b2c3d4
 *       ~ words.ts
 *       + stop-words.ts
 * ```
 */
import type { ReleasePreview } from "@stint/contract/Release"
import * as Output from "../output/Output.ts"
import { MASK, maskChange } from "./HiddenVariables.ts"

/** The settings and the code of a preview, or of a comparison of two releases. */
export type Changes = Pick<ReleasePreview, "settings" | "code">

/** The number of characters of a hash that are printed. */
const HASH_LENGTH = 12

/** A value on one line. A long value, such as a JSON document in a variable, is shortened. */
const valueText = (value: unknown): string => {
  const text = JSON.stringify(value)
  return Output.inline(text.length <= 120 ? text : `${text.slice(0, 117)}...`)
}

const change = (before: unknown, after: unknown): string => {
  // Both values are hidden; the line only shows that they differ.
  if (before === MASK && after === MASK) return `${MASK} (changed)`
  const value = (of: unknown) => of === MASK ? MASK : valueText(of)
  return before === undefined ? value(after) : after === undefined ? value(before) : `${value(before)} -> ${value(after)}`
}

const sign = (before: unknown, after: unknown): string => before === undefined ? "+" : after === undefined ? "-" : "~"

/** Whether the value is an empty group, such as `env: {}`, which needs no line of its own. */
const isEmptyGroup = (value: unknown): boolean => JSON.stringify(value) === "{}"

const named = (settings: Changes["settings"]): Changes["settings"] =>
  settings.filter(({ after, before }) => !(isEmptyGroup(before ?? {}) && isEmptyGroup(after ?? {})))

const settingLines = (all: Changes["settings"]): ReadonlyArray<string> => {
  const settings = named(all)
  const width = Math.max(0, ...settings.map(({ path }) => path.length))
  return settings.map(maskChange).map(({ after, before, path }) =>
    `  ${sign(before, after)} ${Output.inline(path.padEnd(width))}  ${change(before, after)}`
  )
}

const shortHash = (hash: string): string => hash.slice(0, HASH_LENGTH)

const codeLines = ({ added, after, before, changed, removed }: Changes["code"]): ReadonlyArray<string> => {
  if (before === after) return []
  const hashes = [before, after].flatMap((hash) => hash === undefined ? [] : [shortHash(hash)]).join(" -> ")
  const files = [
    ...changed.map((path) => ["~", path] as const),
    ...added.map((path) => ["+", path] as const),
    ...removed.map((path) => ["-", path] as const)
  ]
  return [
    `  code ${hashes}${
      before === undefined ? "" : after === undefined ? " removed" : files.length === 0 ? " (only packages that it imports)" : ""
    }`,
    ...files.map(([mark, path]) => `    ${mark} ${Output.inline(path)}`)
  ]
}

/** The changed settings and files, one per line. */
export const changeLines = ({ code, settings }: Changes): ReadonlyArray<string> => [...settingLines(settings), ...codeLines(code)]

/** The changes in a few words, for a list of releases: `workers.max, 2 files`. */
export const summaryOf = ({ code, settings }: Changes): string => {
  const paths = named(settings).map(({ path }) => path)
  const files = code.added.length + code.changed.length + code.removed.length
  const parts = [
    ...paths.slice(0, 3),
    ...(paths.length > 3 ? [`${paths.length - 3} more`] : []),
    ...(code.before === code.after ? [] : [files === 0 ? "code" : files === 1 ? "1 file" : `${files} files`])
  ]
  return parts.length === 0 ? "nothing" : parts.join(", ")
}

/**
 * Short previews of untrusted values of any size, for use in messages.
 */

const MAX_TEXT = 60
const MAX_ENTRIES = 3
const MAX_DEPTH = 2

/** The first `max` characters of a string, with `...` when it is longer. */
export const truncate = (text: string, max = MAX_TEXT): string => text.length > max ? `${text.slice(0, max)}...` : text

const entries = (shown: ReadonlyArray<string>, total: number): string =>
  [...shown, ...(total > shown.length ? [`... ${total - shown.length} more`] : [])].join(", ")

/** The value in JSON notation, truncated to its first entries and characters. */
export const previewValue = (value: unknown, depth = 0): string => {
  if (typeof value === "string") return JSON.stringify(truncate(value))
  if (typeof value === "bigint") return `${truncate(value.toString())}n`
  if (typeof value === "function") return "a function"
  if (typeof value !== "object" || value === null) return String(value)
  if (Array.isArray(value)) {
    if (value.length > 0 && depth >= MAX_DEPTH) return "[...]"
    const items: ReadonlyArray<unknown> = value.slice(0, MAX_ENTRIES)
    return `[${entries(items.map((item) => previewValue(item, depth + 1)), value.length)}]`
  }
  const keys = Object.keys(value)
  if (keys.length > 0 && depth >= MAX_DEPTH) return "{...}"
  const shown = keys.slice(0, MAX_ENTRIES).map((key) =>
    `${JSON.stringify(truncate(key))}: ${previewValue(Reflect.get(value, key), depth + 1)}`
  )
  return `{${entries(shown, keys.length)}}`
}

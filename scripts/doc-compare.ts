/**
 * Compares the output of a command with the block that shows it on a page. In the block, `…` stands for text that varies within a line, and
 * a line that contains only `…` for any number of lines.
 */

const escape = (text: string) => text.replaceAll(/[\\^$.*+?()[\]{}|]/g, "\\$&")

const lineOf = (line: string) => line.trimEnd().split("…").map(escape).join("[^\\n]+?")

const patternOf = (lines: ReadonlyArray<string>) =>
  lines.map((line) => line.trim() === "…" ? "(?:[^\\n]*\\n)*?" : `${lineOf(line)}[ \\t]*\\n`).join("")

const trimmed = (text: string) => `${text.replace(/^\n+/, "").trimEnd()}\n`

/** Whether the output contains exactly these lines. */
export const isText = (expected: ReadonlyArray<string>, output: string): boolean =>
  new RegExp(`^${patternOf(trimmed(expected.join("\n")).slice(0, -1).split("\n"))}$`).test(trimmed(output))

/** Whether a running program has printed these lines, possibly with other lines before or after them. */
export const containsText = (expected: ReadonlyArray<string>, output: string): boolean =>
  new RegExp(`(?:^|\\n)${patternOf(trimmed(expected.join("\n")).slice(0, -1).split("\n"))}`).test(output)

/** The keys whose values differ on each run, with the range of numeric values: `id, delayTime 1..5000`. */
type Varying = ReadonlyMap<string, readonly [from: number, to: number] | undefined>

/** Reads the value of a `varies` comment. */
export const varyingOf = (text: string): Varying =>
  new Map(
    text.split(",").filter((one) => one.trim() !== "").map((one) => {
      const [, key = "", from, to] = /^\s*(\S+)(?: +([\d.]+)\.\.([\d.]+))?\s*$/.exec(one) ?? []
      if (key === "") {
        throw new Error(`\`varies: ${text}\` must be a list of keys, each with an optional range: \`id, delayTime 1..5000\`.`)
      }
      return [key, from === undefined ? undefined : [Number(from), Number(to)]]
    })
  )

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** The first difference between two JSON values, as one line. Returns undefined when they match. */
export const jsonDifference = (expected: unknown, actual: unknown, varying: Varying, path = ""): string | undefined => {
  const at = path === "" ? "the value" : path
  const shown = JSON.stringify(actual)
  const key = path.split(".").at(-1)?.replaceAll(/\[\d+\]/g, "") ?? ""
  if (varying.has(key)) {
    if (typeof expected !== typeof actual) return `${at} has another type: ${shown}`
    const range = varying.get(key)
    return range !== undefined && typeof actual === "number" && !(actual >= range[0] && actual <= range[1])
      ? `${at} is ${actual}, not from ${range[0]} to ${range[1]}`
      : undefined
  }
  if (Array.isArray(expected) && Array.isArray(actual)) {
    if (expected.length !== actual.length) return `${at} has ${actual.length} items, not ${expected.length}`
    return expected.map((one, index) => jsonDifference(one, actual[index], varying, `${path}[${index}]`)).find((one) =>
      one !== undefined
    )
  }
  if (isObject(expected) && isObject(actual)) {
    const missing = Object.keys(expected).find((key) => !(key in actual))
    if (missing !== undefined) return `${at} has no key "${missing}"`
    const added = Object.keys(actual).find((key) => !(key in expected))
    if (added !== undefined) return `${at} also has the key "${added}"`
    return Object.entries(expected)
      .map(([key, value]) => jsonDifference(value, actual[key], varying, path === "" ? key : `${path}.${key}`))
      .find((one) => one !== undefined)
  }
  if (typeof expected === "string" && typeof actual === "string") {
    return new RegExp(`^${expected.split("…").map(escape).join("[^]+?")}$`).test(actual) ? undefined : `${at} is ${shown}`
  }
  return expected === actual ? undefined : `${at} is ${shown}`
}

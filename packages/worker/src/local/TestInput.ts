/**
 * The `test_input.json` of a handler: what local test mode runs, and what the local API offers to try (docs/spec/local-test-mode.md#one-job).
 */
import * as Predicate from "effect/Predicate"
import { readFileSync } from "node:fs"
import { dirname, join } from "node:path"

/** The file's name. */
export const FILE = "test_input.json"

/** A job for handlers that have no such file. */
export const EXAMPLE = `{"input":{"name":"Ada"}}`

/** Where it is looked for: in the working directory, then beside the program. */
export const folders = (): ReadonlyArray<string> => {
  const program = process.argv[1]
  return [...new Set([process.cwd(), ...(program === undefined ? [] : [dirname(program)])])]
}

/** The first one that can be read. */
export const find = (): { readonly path: string; readonly text: string } | undefined => {
  for (const folder of folders()) {
    const path = join(folder, FILE)
    try {
      return { path, text: readFileSync(path, "utf8") }
    } catch {
      // Not there: the next.
    }
  }
  return undefined
}

/** A longer input is no line to paste. Characters. */
const MAX_SAMPLE = 400

/** A body to try the handler with: that of the file where it is short, else {@link EXAMPLE}. */
export const sample = (): string => {
  const text = find()?.text
  if (text === undefined) return EXAMPLE
  try {
    const value: unknown = JSON.parse(text)
    const body = Predicate.isObject(value) && "input" in value ? JSON.stringify({ input: value["input"] }) : EXAMPLE
    return body.length <= MAX_SAMPLE ? body : EXAMPLE
  } catch {
    return EXAMPLE
  }
}

/** A text as one word of a shell's command line. */
export const shellWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

/**
 * The `test_input.json` of a handler: the job of local test mode, and the example of the local API (docs/spec/local-test-mode.md#one-job).
 */
import * as Predicate from "effect/Predicate"
import { dirname, join } from "node:path"

/** The file's name. */
export const FILE = "test_input.json"

/** The example for handlers without the file. */
export const EXAMPLE = `{"input":{"name":"Ada"}}`

/** The folders to search for the file: the working directory, then the program's folder. */
export const folders = (): ReadonlyArray<string> => {
  const program = process.argv[1]
  return [...new Set([process.cwd(), ...(program === undefined ? [] : [dirname(program)])])]
}

/** The first readable file. */
export const find = (): { readonly path: string; readonly text: string } | undefined => {
  // `import "node:fs"` reads all its exports, which loads Node's streams and adds 3 ms to a cold start.
  const { readFileSync } = process.getBuiltinModule("node:fs")
  for (const folder of folders()) {
    const path = join(folder, FILE)
    try {
      return { path, text: readFileSync(path, "utf8") }
    } catch {
      // Missing or unreadable: try the next folder.
    }
  }
  return undefined
}

/** The longest input that is shown as one line to paste. Characters. */
const MAX_SAMPLE = 400

/** An example request body for the handler: the content of the file if it is short, otherwise {@link EXAMPLE}. */
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

/** Quotes a string as one word of a shell command. */
export const shellWord = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`

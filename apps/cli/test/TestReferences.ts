/**
 * References to tests in the tables of a page: `[name](path) "title"`.
 */
import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"

/** A test in a cell: `[name](path) "title"`. The title may be a prefix. */
export const REFERENCE = /\[[^\]]+\]\(([^)]+)\) "([^"]+)"/g

/** The tests that a cell names. */
export const referencesIn = (cell: string) =>
  Array.from(cell.matchAll(REFERENCE), ([, path = "", title = ""]) => ({ path, title }))

/**
 * Whether a test file or suite, whose path is relative to a page, contains a test whose title has this prefix. Long titles are concatenated from two
 * strings.
 */
export const hasTest = (page: string, path: string, title: string): boolean => {
  const file = join(page, "..", path)
  if (!/(?:\.test|\/src\/testing\/\w+|-testing\/src\/(?:\w+\/)*\w+)\.ts$/.test(file) || !existsSync(file)) return false
  const source = readFileSync(file, "utf8").replaceAll(/["`] \+\s+["`]/g, "")
  return source.includes(`"${title}`) || source.includes(`\`${title}`)
}

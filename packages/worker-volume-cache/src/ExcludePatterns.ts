/**
 * What is never mirrored: locks, and files that somebody is still writing.
 *
 * A pattern without `/` is compared with every name on the way to a file, one with `/` with its path from the configured directory.
 * `*` is anything but `/`, `**` anything, `?` one character.
 */
import { STAGING_PREFIX } from "./RelativePath.ts"

/**
 * The names that downloaders and editors give to what is not finished, and locks. A lock that came from another machine would never be
 * released; half a file would be taken for a whole one.
 */
export const defaultExcludes: ReadonlyArray<string> = [
  "*.lock",
  "*.incomplete",
  "*.part",
  "*.partial",
  "*.tmp",
  "*.temp",
  "*.crdownload",
  "*.aria2",
  "*.pid",
  "*.swp",
  ".~*",
  ".nfs*",
  ".fuse_hidden*"
]

/** Whether a file or directory is left out: its path from the configured directory, and its name, which is the end of it. */
export type Exclude = (path: string, name: string) => boolean

const SPECIAL = /[.+^${}()|[\]\\]/g

const source = (pattern: string): string =>
  pattern
    .replaceAll(SPECIAL, String.raw`\$&`)
    .split(/(\*\*\/?|\*|\?)/)
    .map((part) => {
      switch (part) {
        case "**":
          return ".*"
        case "**/":
          return "(?:.*/)?"
        case "*":
          return "[^/]*"
        case "?":
          return "[^/]"
        default:
          return part
      }
    })
    .join("")

const any = (patterns: ReadonlyArray<string>): RegExp | undefined =>
  patterns.length === 0 ? undefined : new RegExp(`^(?:${patterns.map(source).join("|")})$`, "su")

/** A predicate for these patterns. What a hydration prepares is always left out. */
export const make = (patterns: ReadonlyArray<string>): Exclude => {
  const names = any(patterns.filter((pattern) => !pattern.includes("/")))
  const paths = any(patterns.filter((pattern) => pattern.includes("/")).map((pattern) => pattern.replace(/^\.?\//, "")))
  return (path, name) => name.startsWith(STAGING_PREFIX) || names?.test(name) === true || paths?.test(path) === true
}

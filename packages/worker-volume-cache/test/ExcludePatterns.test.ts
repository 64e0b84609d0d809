import { describe, expect, it } from "@effect/vitest"
import * as ExcludePatterns from "../src/ExcludePatterns.ts"

const excluded = (patterns: ReadonlyArray<string>, path: string) =>
  ExcludePatterns.make(patterns)(path, path.slice(path.lastIndexOf("/") + 1))

describe("exclude patterns", () => {
  it.each([
    "a.lock",
    ".lock",
    "models/x.incomplete",
    "x.part",
    "x.partial",
    "x.tmp",
    "x.crdownload",
    ".~x",
    ".nfs0001",
    "x.swp",
    "x.pid"
  ])("exclude %s by default", (path) => {
    expect(excluded(ExcludePatterns.defaultExcludes, path)).toBe(true)
  })

  it.each(["a", "lock", "a.locked", "model.safetensors", "tmp", "x.parts", "~x", "a.tmp.bin"])(
    "do not exclude %s by default",
    (path) => {
      expect(excluded(ExcludePatterns.defaultExcludes, path)).toBe(false)
    }
  )

  it.each<[string, string, boolean]>([
    ["*.log", "a/b/c.log", true],
    ["*.log", "a.log/b", false],
    ["logs/*", "logs/a", true],
    ["logs/*", "x/logs/a", false],
    ["logs/*", "logs/a/b", false],
    ["logs/**", "logs/a/b", true],
    ["**/logs/*.txt", "logs/a.txt", true],
    ["**/logs/*.txt", "x/y/logs/a.txt", true],
    ["/top", "top", true],
    ["/top", "a/top", false],
    ["a?c", "abc", true],
    ["a?c", "abbc", false],
    ["a.c", "abc", false],
    ["[a]", "a", false],
    ["(", "(", true],
    ["*", "line\nfeed", true]
  ])("pattern %j, path %j: %s", (pattern, path, expected) => {
    expect(excluded([pattern], path)).toBe(expected)
  })

  it("always exclude the staging folders of hydrations", () => {
    expect(excluded([], ".~stint-1")).toBe(true)
  })
})

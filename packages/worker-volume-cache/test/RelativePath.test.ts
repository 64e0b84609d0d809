import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { resolve } from "node:path"
import { unsafeLinkReason, unsafeReason } from "../src/RelativePath.ts"

const ROOT = "/srv/cache"
const inside = (path: string) => path === ROOT || path.startsWith(`${ROOT}/`)

const part = fc.constantFrom("..", ".", "", "a", "b", "...", "..a", "a..", " ", "~", "c:", "\\", "é", "\u202e", "%2e%2e")
const crafted = fc.array(part, { maxLength: 6 }).map((parts) => parts.join("/"))

// docs/spec/volume-cache.md#rules
describe("the check of paths", () => {
  it.each([
    "",
    ".",
    "..",
    "/",
    "//",
    "/etc/passwd",
    "../etc/passwd",
    "a/../b",
    "a/..",
    "a/../../b",
    "./a",
    "a/./b",
    "a//b",
    "a/",
    "a\0b",
    "\0",
    "a/\0/../../b",
    "\ud800",
    "a/\udc00b",
    ".~stint-1/a",
    "a/.~stint-1",
    "x".repeat(256),
    "é".repeat(128),
    `${"a/".repeat(2100)}a`
  ])("rejects %j", (path) => {
    expect(unsafeReason(path)).toEqual(expect.any(String))
  })

  it.each([
    "a",
    "a/b",
    "...",
    "..a",
    "a..",
    "a b",
    "-rf",
    "a\nb",
    "日本",
    "x".repeat(255),
    "C",
    "c",
    "%2e%2e/a",
    "~root",
    "a:b",
    "a\\b"
  ])(
    "classifies %j correctly",
    (path) => {
      expect(unsafeReason(path)).toBeUndefined()
    }
  )

  it("property: accepts only normalized paths inside the directory", () => {
    fc.assert(fc.property(fc.oneof(crafted, fc.string({ unit: "binary", maxLength: 30 })), (path) => {
      if (unsafeReason(path) !== undefined) return
      const at = resolve(ROOT, path)
      expect(at).toBe(`${ROOT}/${path}`)
      expect(inside(at)).toBe(true)
    }))
  })
})

describe("the check of links", () => {
  it.each([
    ["snapshots/1/model.bin", "../../blobs/abc"],
    ["a", "b"],
    ["a/b", ".."],
    ["a/b/c", "../.."],
    ["a/b", "../c/d"]
  ])("accepts a link %j to %j", (path, target) => {
    expect(unsafeLinkReason(path, target)).toBeUndefined()
  })

  it.each([
    ["a", ""],
    ["a", "/etc/passwd"],
    ["a", ".."],
    ["a", "../a"],
    ["a/b", "../../x"],
    ["a/b", "../.."],
    // If `d` is itself a link to a parent directory, this target is outside.
    ["a/b", "d/../../x"],
    ["a/b", "../d/.."],
    ["a", "b\0"],
    ["a", "./b"],
    ["a", "b/"],
    ["a", "\ud800"],
    ["a", ".~stint-1/f0"]
  ])("rejects a link %j to %j", (path, target) => {
    expect(unsafeLinkReason(path, target)).toEqual(expect.any(String))
  })

  it("property: accepts only targets inside the directory", () => {
    const path = fc.array(fc.constantFrom("a", "b"), { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"))
    fc.assert(fc.property(path, crafted, (link, target) => {
      if (unsafeLinkReason(link, target) !== undefined) return
      expect(inside(resolve(ROOT, link, "..", target))).toBe(true)
      expect(target.replace(/^(\.\.\/?)*/, "")).not.toMatch(/(^|\/)\.\.(\/|$)/)
    }))
  })
})

import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import { basename, join, relative, sep } from "node:path"
import * as ObjectName from "../src/ObjectName.ts"

describe("an object name", () => {
  it.each([
    ["photo.png", "photo.png"],
    ["/tmp/out/photo.png", "photo.png"],
    ["C:\\out\\photo.png", "photo.png"],
    ["Übersicht 2026 – 猫.pdf", "Übersicht 2026 – 猫.pdf"],
    ["../../etc/passwd", "passwd"],
    ["..", "_"],
    [".", "_"],
    ["", "_"],
    ["///", "_"],
    ["a\u0000b\u001b[2Jc", "a_b_[2Jc"],
    ["evil\u202Egnp.exe", "evil_gnp.exe"],
    ["what?*<is>|this\":.txt", "what___is__this__.txt"],
    ["con", "_con"],
    ["NUL.txt", "_NUL.txt"],
    ["console.txt", "console.txt"],
    ["trailing. . ", "trailing"],
    ["-rf", "-rf"],
    [".hidden", ".hidden"],
    ["\uD800broken", "\uFFFDbroken"]
  ])("%j becomes %j", (name, safe) => {
    expect(ObjectName.fileName(name)).toBe(safe)
  })

  it("keeps its extension when it is truncated", () => {
    const name = ObjectName.segment(`${"猫".repeat(200)}.tar.gz`)
    expect(name.endsWith(".gz")).toBe(true)
    expect(Buffer.byteLength(name)).toBeLessThanOrEqual(200)
  })

  it.each([
    ["a/b/c.png", "a/b/c.png"],
    ["/a//b/", "a/b"],
    ["../a/./../b", "a/b"],
    ["a\\..\\b", "a/b"],
    ["..", ""]
  ])("of several parts: %j becomes %j", (key, safe) => {
    expect(ObjectName.path(key)).toBe(safe)
  })
})

const hostile = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.constantFrom("..", ".", "/", "\\", "\u0000", " ", "a", ":", "~", "%2e", "%2f", "CON", "\n") }),
  fc.string({ unit: "grapheme", minLength: 100, maxLength: 400 })
)

describe("any name", () => {
  it("stays one segment, in its folder, short and visible", () => {
    fc.assert(fc.property(hostile, (name) => {
      const safe = ObjectName.segment(name)
      expect(safe).not.toMatch(/[\p{C}/\\]/u)
      expect(Buffer.byteLength(safe)).toBeLessThanOrEqual(200)
      expect(basename(safe)).toBe(safe)
      expect(["", ".", ".."]).not.toContain(safe)
    }))
  })

  it("stays in its folder and its URL as a key", () => {
    fc.assert(fc.property(hostile, (key) => {
      const safe = ObjectName.path(key)
      fc.pre(safe !== "")
      const inside = relative("/folder", join("/folder", safe))
      expect(inside.split(sep)).toEqual(safe.split("/"))
      expect(inside === ".." || inside.startsWith(`..${sep}`)).toBe(false)
      const address = new URL(`http://h/b/${safe.split("/").map(encodeURIComponent).join("/")}`)
      expect(decodeURIComponent(address.pathname)).toBe(`/b/${safe}`)
    }))
  })

  it("does not change when it is made safe twice", () => {
    fc.assert(fc.property(hostile, (name) => {
      expect(ObjectName.segment(ObjectName.segment(name))).toBe(ObjectName.segment(name))
      expect(ObjectName.path(ObjectName.path(name))).toBe(ObjectName.path(name))
    }))
  })
})

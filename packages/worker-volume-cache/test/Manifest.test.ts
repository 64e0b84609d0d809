import { describe, expect, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as fc from "fast-check"
import * as Manifest from "../src/Manifest.ts"
import * as Trees from "./FileTrees.ts"

const LIMITS: Manifest.Limits = { maxFiles: 1000, maxBytes: 1e9 }
const id = fc.stringMatching(/^[0-9a-f]{32}$/)
const natural = fc.nat()
const mode = fc.integer({ min: 0, max: 0o777 })

const manifest: fc.Arbitrary<Manifest.Manifest> = fc.record({
  packs: fc.uniqueArray(fc.tuple(id.map((one) => `${one}.pack`), fc.integer({ min: 0, max: Manifest.MAX_PACK })), {
    minLength: 1,
    maxLength: 4,
    selector: ([name]) => name
  }),
  dropped: fc.array(fc.tuple(id.map((one) => `${one}.copy`), natural), { maxLength: 3 }),
  rows: fc.uniqueArray(
    fc.record({
      path: Trees.path.filter((path) => !path.includes("/")),
      kind: fc.constantFrom("directory", "packed", "copied", "link"),
      mode,
      mtime: natural,
      copy: id,
      which: fc.nat({ max: 3 }),
      crc: fc.integer({ min: 0, max: 0xffff_ffff }),
      from: fc.double({ min: 0, max: 1, noNaN: true })
    }),
    { maxLength: 8, selector: ({ path }) => path }
  )
}).map(({ dropped, packs, rows }) => {
  const entries = new Map<string, Manifest.Entry>()
  for (const { copy, crc, from, kind, mode, mtime, path, which } of rows) {
    const [pack, bytes] = packs[which % packs.length] ?? ["", 0]
    const offset = Math.floor(bytes * from)
    const file = { mode, mtime, size: bytes - offset }
    if (kind === "directory") entries.set(path, { kind, mode })
    else if (kind === "packed") entries.set(path, { ...file, kind, pack, offset, crc })
    else if (kind === "copied") entries.set(path, { ...file, kind, copy: `${copy}.copy`, sample: crc })
    else entries.set(path, { kind: "link", target: "a" })
  }
  return { entries, packs: new Map(packs), dropped: new Map(dropped) }
})

const NAME = `${"0".repeat(32)}.pack`
const COPY = `${"0".repeat(32)}.copy`
const good = {
  format: 1,
  generation: 7,
  packs: [{ name: NAME, bytes: 10 }],
  directories: [{ path: "d", mode: 0o755 }],
  packed: [{ path: "d/small", size: 4, mtime: 1, mode: 0o644, pack: 0, offset: 6, crc: 1 }],
  copied: [{ path: "d/large", size: 4, mtime: 1, mode: 0o644, copy: COPY, sample: 1 }],
  links: [{ path: "d/link", target: "small" }],
  dropped: [{ name: COPY, at: 1 }]
}
const packed = good.packed[0]!
const copied = good.copied[0]!

describe("a manifest", () => {
  it("property: decodes to the encoded value", () => {
    fc.assert(fc.property(manifest, fc.integer({ min: 1, max: Manifest.MAX_GENERATION }), (written, generation) => {
      const read = Manifest.decode(Manifest.encode(written, generation), generation, { maxFiles: 1e6, maxBytes: 1e15 })
      expect(Result.getOrThrow(read)).toEqual(written)
    }))
  })

  it("is valid here, which shows that the following ones are rejected for their own reason", () => {
    expect(Result.isSuccess(Manifest.decode(JSON.stringify(good), 7, LIMITS))).toBe(true)
  })

  it.each<[string, unknown]>([
    ["is not JSON", "{"],
    ["is not an object", []],
    ["has another format", { ...good, format: 2 }],
    ["has another generation", { ...good, generation: 8 }],
    ["lacks a part", { ...good, links: undefined }],
    ["has a path outside the directory", { ...good, packed: [{ ...packed, path: "../x" }] }],
    ["has an absolute path", { ...good, directories: [{ path: "/etc", mode: 0o755 }] }],
    ["has a path with NUL", { ...good, copied: [{ ...copied, path: "a\0" }] }],
    ["has setuid bits", { ...good, packed: [{ ...packed, mode: 0o4755 }] }],
    ["has a negative size", { ...good, packed: [{ ...packed, size: -1 }] }],
    ["has a size that is not a number", { ...good, packed: [{ ...packed, size: "4" }] }],
    ["has a broken offset", { ...good, packed: [{ ...packed, offset: 0.5 }] }],
    ["reads past its pack", { ...good, packed: [{ ...packed, offset: 7 }] }],
    ["reads past the largest number", { ...good, packed: [{ ...packed, offset: Number.MAX_SAFE_INTEGER }] }],
    ["names no pack", { ...good, packed: [{ ...packed, pack: 1 }] }],
    ["has a pack elsewhere", { ...good, packs: [{ name: "../../etc/passwd", bytes: 10 }] }],
    ["has a pack that is too large", { ...good, packs: [{ name: NAME, bytes: Manifest.MAX_PACK + 1 }] }],
    ["has a copy elsewhere", { ...good, copied: [{ ...copied, copy: "../x.copy" }] }],
    ["has an absolute copy", { ...good, copied: [{ ...copied, copy: "/etc/passwd" }] }],
    ["drops a file elsewhere", { ...good, dropped: [{ name: "../../x", at: 1 }] }],
    ["contains a path twice", { ...good, copied: [{ ...copied, path: "d/small" }] }],
    ["has a file below a file", { ...good, copied: [{ ...copied, path: "d/small/x" }] }],
    ["has a file below a link", { ...good, copied: [{ ...copied, path: "d/link/x" }] }],
    ["has a file far below a link", { ...good, copied: [{ ...copied, path: "d/link/x/y/z" }] }],
    ["has a link to a target outside", { ...good, links: [{ path: "d/link", target: "../../x" }] }],
    ["has a link to an absolute path", { ...good, links: [{ path: "d/link", target: "/etc" }] }],
    ["has too many bytes", { ...good, copied: [{ ...copied, size: 1e9 }] }]
  ])("that %s is rejected as a whole", (_name, document) => {
    const text = typeof document === "string" ? document : JSON.stringify(document)
    expect(Result.isFailure(Manifest.decode(text, 7, LIMITS))).toBe(true)
  })

  it("with more files than maxFiles is rejected", () => {
    const read = Manifest.decode(JSON.stringify(good), 7, { ...LIMITS, maxFiles: 3 })
    expect(Result.getOrThrow(Result.flip(read))).toBe("it has 4 files, but maxFiles is 3")
  })

  it("property: of any text is decoded or rejected without an exception", () => {
    fc.assert(fc.property(fc.oneof(fc.string(), fc.json(), fc.json().map((json) => `{"format":1,"packed":${json}}`)), (text) => {
      expect(Result.isResult(Manifest.decode(text, 7, LIMITS))).toBe(true)
    }))
  })

  it("has the generation in its name", () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: Manifest.MAX_GENERATION }), (generation) => {
      expect(Manifest.generationOf(Manifest.fileName(generation))).toMatchObject({ value: generation })
    }))
  })
})

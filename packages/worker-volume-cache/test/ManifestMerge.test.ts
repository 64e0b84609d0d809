import { describe, expect, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as Manifest from "../src/Manifest.ts"
import * as ManifestMerge from "../src/ManifestMerge.ts"

const GRACE = 1000
const pack = (writer: string, number = 0) => `${writer}${number}`.padEnd(32, "0") + ".pack"

const entry = (writer: string, mtime: number, number = 0): Manifest.PackedEntry => ({
  kind: "packed",
  size: 10,
  mtime,
  mode: 0o644,
  pack: pack(writer, number),
  offset: 0,
  crc: 0
})

const add = (path: string, made: Manifest.Entry, base?: Manifest.Entry): [string, ManifestMerge.Change] => [
  path,
  { entry: made, base, strict: false }
]

const changes = (...paths: ReadonlyArray<[string, ManifestMerge.Change]>): ManifestMerge.Changes => ({
  paths: new Map(paths),
  packs: new Map(paths.flatMap(([, { entry }]) => entry?.kind === "packed" ? [[entry.pack, 10] as const] : []))
})

const merged = (held: Manifest.Manifest, what: ManifestMerge.Changes, now = 0) => {
  const result = ManifestMerge.merge(held, what, now, GRACE)
  if (result === undefined) throw new Error("nothing has changed")
  return result
}

/** Checks that the listed packs are exactly the used ones, and that none of them is dropped. */
const expectWhole = (manifest: Manifest.Manifest) => {
  const used = new Set([...manifest.entries.values()].flatMap((one) => one.kind === "packed" ? [one.pack] : []))
  expect(new Set(manifest.packs.keys())).toEqual(used)
  for (const name of used) expect(manifest.dropped.has(name)).toBe(false)
}

describe("merging", () => {
  it("property: keeps the additions of two writers in either order, and one version of each common path", () => {
    const paths = fc.uniqueArray(fc.constantFrom("a", "b", "c", "d", "e"))
    fc.assert(fc.property(paths, paths, fc.nat(), fc.nat(), (one, two, timeOne, timeTwo) => {
      const first = changes(...one.map((path, index) => add(path, entry("a", timeOne, index))))
      const second = changes(...two.map((path, index) => add(path, entry("b", timeTwo, index))))
      const apply = (all: ReadonlyArray<ManifestMerge.Changes>) =>
        all.reduce<Manifest.Manifest>((held, what) => ManifestMerge.merge(held, what, 0, GRACE) ?? held, Manifest.empty)
      for (const order of [[first, second], [second, first]]) {
        const result = apply(order)
        expect(new Set(result.entries.keys())).toEqual(new Set([...one, ...two]))
        for (const path of one.filter((path) => two.includes(path))) {
          const winner = result.entries.get(path)
          if (timeOne !== timeTwo) expect(winner).toMatchObject({ mtime: Math.max(timeOne, timeTwo) })
        }
        expectWhole(result)
      }
    }))
  })

  it("accepts a change to the known version even with an earlier mtime", () => {
    const old = entry("a", 9)
    const held = merged(Manifest.empty, changes(add("x", old)))
    const restored = entry("b", 1)
    const result = merged(held, changes(add("x", restored, old)), 5)
    expect(result.entries.get("x")).toEqual(restored)
    expect(result.dropped).toEqual(new Map([[pack("a"), 5]]))
  })

  it("accepts a conflicting change only with the later mtime", () => {
    const old = entry("a", 1)
    const theirs = entry("b", 5)
    const held = merged(merged(Manifest.empty, changes(add("x", old))), changes(add("x", theirs, old)))
    expect(merged(held, changes(add("x", entry("c", 6), old))).entries.get("x")).toEqual(entry("c", 6))
    expect(ManifestMerge.merge(held, changes(add("x", entry("c", 4), old)), 0, GRACE)).toBeUndefined()
  })

  it("removes only the version that the writer knew", () => {
    const old = entry("a", 1)
    const held = merged(Manifest.empty, changes(add("x", old)))
    const removal: ManifestMerge.Changes = {
      paths: new Map([["x", { entry: undefined, base: old, strict: true }]]),
      packs: new Map()
    }
    expect(merged(held, removal).entries.size).toBe(0)
    const changed = merged(held, changes(add("x", entry("b", 2), old)))
    expect(ManifestMerge.merge(changed, removal, 0, GRACE)).toBeUndefined()
  })

  it("replaces neither another worker's directory with a file nor a file with a directory", () => {
    const held = merged(Manifest.empty, changes(add("d/x", entry("a", 1)), add("d", { kind: "directory", mode: 0o755 })))
    expect(ManifestMerge.merge(held, changes(add("d", entry("b", 9))), 0, GRACE)).toBeUndefined()
    const file = merged(Manifest.empty, changes(add("d", entry("a", 1))))
    expect(ManifestMerge.merge(file, changes(add("d/x", entry("b", 9))), 0, GRACE)).toBeUndefined()
  })

  it("lists unused packs until the end of the grace period", () => {
    const old = entry("a", 1)
    const held = merged(merged(Manifest.empty, changes(add("x", old))), changes(add("x", entry("b", 2), old)), 100)
    expect(held.dropped).toEqual(new Map([[pack("a"), 100]]))
    expect(ManifestMerge.merge(held, changes(), 100 + GRACE, GRACE)).toBeUndefined()
    expect(merged(held, changes(), 101 + GRACE).dropped.size).toBe(0)
  })
})

describe("compaction", () => {
  const held = (packs: ReadonlyArray<readonly [string, number]>, live: ReadonlyArray<readonly [string, number]>) => ({
    packs: new Map(packs),
    entries: new Map(live.map(([name, size], index) => [`${index}`, { ...entry("a", 1), pack: name, size }])),
    dropped: new Map()
  })

  it("selects packs that are more than half unused", () => {
    const manifest = held([["a", 1e7], ["b", 1e7], ["c", 1e7]], [["a", 4e6], ["b", 6e6], ["c", 2e6], ["c", 2e6]])
    expect(ManifestMerge.packsToCompact(manifest)).toEqual(new Set(["a", "c"]))
  })

  it("selects small packs when there are many", () => {
    const small = (count: number) => {
      const packs = Array.from({ length: count }, (_, index) => [`p${index}`, 1000] as const)
      return held(packs, packs)
    }
    expect(ManifestMerge.packsToCompact(small(31)).size).toBe(0)
    expect(ManifestMerge.packsToCompact(small(32)).size).toBe(32)
  })

  it("selects packs up to a total size", () => {
    const packs = Array.from({ length: 20 }, (_, index) => [`p${index}`, 32 * 1024 * 1024] as const)
    expect(ManifestMerge.packsToCompact(held(packs, packs.map(([name]) => [name, 1]))).size).toBe(8)
  })
})

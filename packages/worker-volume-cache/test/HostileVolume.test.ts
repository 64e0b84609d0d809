/**
 * Crafted mirrors that try to make the worker read or write outside its directories (docs/spec/volume-cache.md#rules).
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import * as fs from "node:fs"
import { dirname, join } from "node:path"
import { crc32 } from "node:zlib"
import * as Kit from "./CacheHarness.ts"
import * as Trees from "./FileTrees.ts"

const PACK = `${"a".repeat(32)}.pack`
const COPY = `${"b".repeat(32)}.copy`
const EVIL = "evil"

interface Row {
  readonly kind: "packed" | "copied" | "directory" | "link"
  readonly path: string
  readonly target?: string
}

/** Writes a mirror by hand, without the checks of the product. */
const forge = (kit: Kit.Kit, rows: ReadonlyArray<Row>) =>
  Effect.gen(function*() {
    const first = yield* kit.start("forger")
    Trees.write(first.root, { x: { text: "x" } })
    yield* first.sync
    const mirror = kit.mirror()
    for (const folder of ["packs", "copies", "manifests"]) {
      fs.rmSync(join(mirror, folder), { recursive: true })
      fs.mkdirSync(join(mirror, folder))
    }
    fs.writeFileSync(join(mirror, "packs", PACK), EVIL)
    fs.writeFileSync(join(mirror, "copies", COPY), EVIL)
    const file = { size: EVIL.length, mtime: 1, mode: 0o644 }
    const block = Buffer.from(EVIL)
    let sample = crc32(String(EVIL.length))
    for (let number = 0; number < 16; number++) sample = crc32(block, sample)
    const of = (kind: Row["kind"]) => rows.filter((row) => row.kind === kind)
    fs.writeFileSync(
      join(mirror, "manifests", "manifest-000000000001.json"),
      JSON.stringify({
        format: 1,
        generation: 1,
        packs: [{ name: PACK, bytes: EVIL.length }],
        directories: of("directory").map(({ path }) => ({ path, mode: 0o755 })),
        packed: of("packed").map(({ path }) => ({ ...file, path, pack: 0, offset: 0, crc: crc32(EVIL) })),
        copied: of("copied").map(({ path }) => ({ ...file, path, copy: COPY, sample })),
        links: of("link").map(({ path, target }) => ({ path, target })),
        dropped: []
      })
    )
    return mirror
  })

/** Reads the test's folder without the directory of a worker. */
const outside = (kit: Kit.Kit, name: string) =>
  Object.fromEntries(
    Object.entries(Trees.read(kit.folder)).filter(([path]) => path !== `${name}/cache` && !path.startsWith(`${name}/cache/`))
  )

describe("a crafted manifest", () => {
  it.effect("with valid rows is hydrated, which shows that the following ones are rejected for their own reason", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      yield* forge(kit, [{ kind: "packed", path: "p" }, { kind: "copied", path: "c" }, { kind: "link", path: "l", target: "p" }])
      const { hydrated, root } = yield* kit.cold()
      expect(hydrated).toMatchObject({ files: 3, firstError: undefined })
      expect(Object.keys(Trees.read(root))).toEqual(["c", "l", "p"])
    }))

  it.effect.each<[string, ReadonlyArray<Row>]>([
    ["a path with ..", [{ kind: "packed", path: "../canary" }]],
    ["a path with .. in the middle", [{ kind: "copied", path: "d/../../canary" }]],
    ["an absolute path", [{ kind: "packed", path: "/tmp/stint-canary" }]],
    ["a directory outside", [{ kind: "directory", path: "../made" }]],
    ["a link to the parent and a file below it", [
      { kind: "link", path: "up", target: ".." },
      { kind: "packed", path: "up/canary" }
    ]],
    ["a link inside and a file below it", [{ kind: "link", path: "l", target: "d" }, { kind: "packed", path: "l/canary" }]],
    ["two links that together lead outside", [
      { kind: "directory", path: "a/b" },
      { kind: "link", path: "a/b/up", target: "../.." },
      { kind: "link", path: "out", target: "a/b/up/../.." }
    ]],
    ["an absolute link", [{ kind: "link", path: "l", target: "/etc" }]],
    ["a path with NUL", [{ kind: "packed", path: "a\0/../../canary" }]],
    ["a path in a staging folder", [{ kind: "packed", path: ".~stint-x/a" }]]
  ])("with %s changes no file", ([_name, rows]) =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      yield* forge(kit, rows)
      fs.mkdirSync(join(kit.folder, "victim"))
      const before = outside(kit, "victim")
      const victim = yield* kit.start("victim")
      expect(victim.hydrated[0]).toMatchObject({ files: 0, firstError: expect.stringMatching(/manifest is rejected/) })
      expect(outside(kit, "victim")).toEqual(before)
      expect(fs.existsSync("/tmp/stint-canary")).toBe(false)
    }))

  it.effect("cannot write through a link that the user created", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      yield* forge(kit, [
        { kind: "packed", path: "models/packed" },
        { kind: "copied", path: "models/copied" },
        { kind: "directory", path: "models/sub" },
        { kind: "packed", path: "models/sub/packed" },
        { kind: "link", path: "models/link", target: "packed" },
        { kind: "packed", path: "fine" }
      ])
      Trees.write(join(kit.folder, "elsewhere"), { kept: { text: "kept" } })
      Trees.write(kit.disk("victim"), { models: { link: join(kit.folder, "elsewhere") } })
      const before = outside(kit, "victim")
      const victim = yield* kit.start("victim")
      expect(victim.hydrated[0]).toMatchObject({ files: 1, differing: 4 })
      expect(outside(kit, "victim")).toEqual(before)
    }))

  it("property: never changes a file outside the directory", async () => {
    const part = fc.constantFrom("..", ".", "", "a", "b", "A", "canary", "in", "out", "\0", "é", "e\u0301", ".~stint-x")
    const crafted = fc.array(part, { minLength: 1, maxLength: 4 }).map((parts) => parts.join("/"))
    const plain = fc.array(fc.constantFrom("a", "b", "in", "out"), { minLength: 1, maxLength: 3 }).map((parts) => parts.join("/"))
    const path = fc.oneof({ weight: 1, arbitrary: crafted }, { weight: 4, arbitrary: plain })
    const row: fc.Arbitrary<Row> = fc.record({
      kind: fc.constantFrom("packed", "copied", "directory", "link"),
      path,
      target: fc.oneof(crafted, plain)
    })
    let hydrations = 0
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(row, { minLength: 1, maxLength: 4, selector: ({ path }) => path }),
        (rows) =>
          Kit.run((kit) =>
            Effect.gen(function*() {
              yield* forge(kit, rows)
              // The user's entries: a link inside, a link outside, a directory, a file.
              Trees.write(kit.disk("victim"), { in: { link: "a" }, out: { link: "../.." }, "b/b": { text: "mine" } })
              fs.writeFileSync(join(dirname(kit.disk("victim")), "canary"), "canary")
              const before = outside(kit, "victim")
              const victim = yield* kit.start("victim")
              hydrations += victim.hydrated[0]?.files ?? 0
              expect(outside(kit, "victim")).toEqual(before)
              expect(Trees.read(victim.root)).toMatchObject({
                in: "-> a",
                out: "-> ../..",
                "b/b": expect.stringMatching(/"mine"/)
              })
            })
          )
      ),
      { numRuns: 150, endOnFailure: true }
    )
    // The property proves nothing if all manifests were rejected.
    expect(hydrations).toBeGreaterThan(20)
  })
})

describe("a crafted mirror", () => {
  const rows: ReadonlyArray<Row> = [{ kind: "packed", path: "p" }, { kind: "copied", path: "c" }]

  it.effect.each<[string, (mirror: string, secret: string) => void]>([
    ["a pack and a copy that are links", (mirror, secret) => {
      for (const path of [join(mirror, "packs", PACK), join(mirror, "copies", COPY)]) {
        fs.rmSync(path)
        fs.symlinkSync(join(secret, "file"), path)
      }
    }],
    ["folders of packs and copies that are links", (mirror, secret) => {
      for (const folder of ["packs", "copies"]) {
        fs.rmSync(join(mirror, folder), { recursive: true })
        fs.symlinkSync(secret, join(mirror, folder))
      }
    }],
    ["a pack and a copy that are pipes", (mirror) => {
      for (const path of [join(mirror, "packs", PACK), join(mirror, "copies", COPY)]) {
        fs.rmSync(path)
        Trees.makePipe(path)
      }
    }],
    ["a pack and a copy that are directories", (mirror) => {
      for (const path of [join(mirror, "packs", PACK), join(mirror, "copies", COPY)]) {
        fs.rmSync(path)
        fs.mkdirSync(path)
      }
    }]
  ])("with %s neither reads the machine's files nor hangs", ([_name, craft]) =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const mirror = yield* forge(kit, rows)
      // The names and contents are valid; only the links are not.
      const secret = join(kit.folder, "secret")
      Trees.write(secret, { file: { text: EVIL }, [PACK]: { text: EVIL }, [COPY]: { text: EVIL } })
      craft(mirror, secret)
      const { hydrated, root } = yield* kit.cold()
      expect(hydrated).toMatchObject({ files: 0, damaged: 2 })
      expect(Trees.read(root)).toEqual({})
    }))

  it.effect.each<[string, (path: string, real: string) => void]>([
    ["link", (path, real) => fs.symlinkSync(real, path)],
    ["pipe", (path) => Trees.makePipe(path)]
  ])("whose manifest is a %s is rejected", ([_kind, craft]) =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const path = join(yield* forge(kit, rows), "manifests", "manifest-000000000001.json")
      fs.renameSync(path, join(kit.folder, "real"))
      craft(path, join(kit.folder, "real"))
      const { hydrated } = yield* kit.cold()
      expect(hydrated).toMatchObject({ files: 0, firstError: expect.stringMatching(/manifest is rejected/) })
    }))

  it.effect.each(["", "manifests", "packs", "copies"])(
    "whose folder %j is a link is not written, and neither is the target of the link",
    (folder) =>
      Effect.gen(function*() {
        const kit = yield* Kit.make
        const mirror = join(yield* forge(kit, rows), folder)
        fs.renameSync(mirror, join(kit.folder, "real"))
        fs.symlinkSync(join(kit.folder, "real"), mirror)
        const victim = yield* kit.start("victim")
        Trees.write(victim.root, { new: { text: "new" }, large: { text: "large".repeat(100) } })
        const before = outside(kit, "victim")
        expect((yield* victim.sync)[0]).toMatchObject({
          complete: false,
          files: 0,
          firstError: expect.stringMatching(/is not a directory \(links are not followed\)/)
        })
        expect(outside(kit, "victim")).toEqual(before)
      })
  )
})

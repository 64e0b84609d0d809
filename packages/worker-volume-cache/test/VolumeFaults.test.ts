/**
 * Best effort (docs/spec/volume-cache.md#best-effort): after any failure the worker starts cold without an error, and the log contains the remedy.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as fs from "node:fs"
import { join } from "node:path"
import * as Kit from "./CacheHarness.ts"
import * as Faults from "./FaultyVolume.ts"
import * as Trees from "./FileTrees.ts"

const LARGE = "0123456789".repeat(100)
const tree: Trees.Tree = {
  small: { text: "small", mtime: 1_600_000_000 },
  "d/other": { text: "other", mtime: 1_600_000_000 },
  "d/large": { text: LARGE, mtime: 1_600_000_000 }
}

/** A volume after the sync of a first worker. */
const synced = Effect.gen(function*() {
  const kit = yield* Kit.make
  const a = yield* kit.start("a")
  Trees.write(a.root, tree)
  yield* a.sync
  return { kit, a }
})

const warnings = (kit: Kit.Kit) => kit.log.filter(({ level }) => level === "WARN").map(({ message }) => message)
const only = (folder: string) => join(folder, fs.readdirSync(folder)[0] ?? "")
const newestManifest = (kit: Kit.Kit) =>
  join(kit.mirror(), "manifests", fs.readdirSync(join(kit.mirror(), "manifests")).sort().at(-1) ?? "")

describe("a volume with a failing operation", () => {
  it.effect.each(
    ["EACCES", "ENOSPC", "EIO", "ESTALE", "EROFS"].flatMap((code) =>
      (["realPath", "stat", "makeDirectory", "list", "readAll", "read", "write", "link", "copyIn", "copyOut"] as const).map((
        operation
      ) => [code, operation] as const)
    )
  )("%s at %s raises no error and leaves the mirror valid", ([code, operation]) =>
    Effect.gen(function*() {
      const { a, kit } = yield* synced
      const b = yield* kit.start("b", { files: Faults.failing(code, (one) => one === operation) })
      Trees.write(b.root, { new: { text: "new" }, "d/more": { text: `${LARGE}!` } })
      yield* b.sync
      yield* b.close
      // Existing folders are not created again; every failed attempt is logged.
      if (operation !== "makeDirectory") {
        expect(warnings(kit).join("\n")).toMatch(
          code === "EACCES" || code === "EROFS"
            ? /Let the worker's user write|cannot be used|no network volume/
            : /Free some|Check the mount|cannot be used|no network volume/
        )
      }
      const { hydrated, root } = yield* kit.cold()
      expect(hydrated).toMatchObject({ damaged: 0, complete: true, firstError: undefined })
      expect(Trees.read(root)).toMatchObject(Trees.read(a.root))
    }))

  it.effect("that is full is logged with the remedy", () =>
    Effect.gen(function*() {
      const { kit } = yield* synced
      const b = yield* kit.start("b", { files: Faults.failing("ENOSPC", (operation) => operation === "write") })
      Trees.write(b.root, { new: { text: "new" } })
      expect((yield* b.sync)[0]).toMatchObject({ complete: false, files: 0, firstError: expect.stringMatching(/ENOSPC/) })
      expect(warnings(kit).at(-1)).toMatch(/ENOSPC.*Free some space there, or lower maxBytes\. The mirror is /)
    }))
})

describe("a disk with a failing operation", () => {
  it.effect("that is full receives complete files and skips the rest", () =>
    Effect.gen(function*() {
      const { kit } = yield* synced
      let writes = 0
      const writeSync: typeof fs.writeSync = (...args: ReadonlyArray<unknown>) => {
        if (writes++ > 0) throw new Error("ENOSPC: no space left on device, write")
        return Reflect.apply(fs.writeSync, fs, args)
      }
      const { hydrated, root } = yield* kit.cold({ local: { writeSync } })
      expect(hydrated).toMatchObject({ files: 1, skipped: 2, firstError: expect.stringMatching(/ENOSPC/) })
      expect(Object.values(Trees.read(root, { times: false })).filter((node) => node.startsWith("file"))).toHaveLength(1)
      expect(fs.readdirSync(root).filter((name) => name.startsWith(".~"))).toEqual([])
    }))

  it.effect("that has a file instead of the directory is not hydrated", () =>
    Effect.gen(function*() {
      const { kit } = yield* synced
      fs.mkdirSync(join(kit.folder, "b"))
      fs.writeFileSync(kit.disk("b"), "a file")
      const b = yield* kit.start("b")
      expect(b.hydrated[0]).toMatchObject({ files: 0, complete: false })
      yield* b.sync
      expect(fs.readFileSync(kit.disk("b"), "utf8")).toBe("a file")
    }))

  it.effect("with unreadable files syncs the other files", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const openSync: typeof fs.openSync = (path, ...rest) => {
        if (String(path).endsWith("secret")) throw new Error("EACCES: permission denied, open")
        return fs.openSync(path, ...rest)
      }
      const a = yield* kit.start("a", { local: { openSync } })
      Trees.write(a.root, { secret: { text: "1" }, open: { text: "2" } })
      expect((yield* a.sync)[0]).toMatchObject({
        files: 1,
        skipped: 1,
        complete: true,
        firstError: expect.stringMatching(/secret: EACCES/)
      })
      expect(Object.keys(Trees.read((yield* kit.cold()).root))).toEqual(["open"])
    }))

  it.effect("keeps the staging folder of a killed hydration until it is old", () =>
    Effect.gen(function*() {
      const { kit } = yield* synced
      const [old, fresh] = [join(kit.disk("b"), ".~stint-old"), join(kit.disk("b"), ".~stint-fresh")]
      for (const folder of [old, fresh]) Trees.write(folder, { x: { text: "1" } })
      fs.utimesSync(old, Date.now() / 1000 - 90_000, Date.now() / 1000 - 90_000)
      yield* kit.start("b")
      expect([fs.existsSync(old), fs.existsSync(fresh)]).toEqual([false, true])
    }))
})

describe("damage", () => {
  const repairs = (kit: Kit.Kit, a: { readonly root: string }) =>
    Effect.gen(function*() {
      // The worker creates the files itself and restores them in the mirror, even with the same times.
      const b = yield* kit.start("b")
      Trees.write(b.root, tree)
      yield* b.sync
      const { hydrated, root } = yield* kit.cold()
      expect(hydrated).toMatchObject({ damaged: 0, firstError: undefined })
      expect(Trees.read(root)).toEqual(Trees.read(a.root))
    })

  it.effect.each<[string, (kit: Kit.Kit) => void, number]>([
    ["a missing pack", (kit) => fs.rmSync(only(join(kit.mirror(), "packs"))), 2],
    ["a truncated pack", (kit) => fs.truncateSync(only(join(kit.mirror(), "packs")), 7), 2],
    ["a pack with a wrong byte", (kit) => {
      const pack = only(join(kit.mirror(), "packs"))
      const bytes = fs.readFileSync(pack)
      bytes[0] = (bytes[0] ?? 0) ^ 1
      fs.writeFileSync(pack, bytes)
    }, 1],
    ["a missing copy", (kit) => fs.rmSync(only(join(kit.mirror(), "copies"))), 1],
    ["a truncated copy", (kit) => fs.truncateSync(only(join(kit.mirror(), "copies")), 7), 1],
    ["a copy of zeros", (kit) => fs.writeFileSync(only(join(kit.mirror(), "copies")), Buffer.alloc(LARGE.length)), 1]
  ])("%s does not affect the other files, and the next sync repairs it", ([_name, harm, damaged]) =>
    Effect.gen(function*() {
      const { a, kit } = yield* synced
      harm(kit)
      const { hydrated, root } = yield* kit.cold()
      expect(hydrated).toMatchObject({
        files: 3 - damaged,
        damaged,
        complete: true,
        firstError: expect.stringMatching(/damaged/)
      })
      expect(Trees.read(a.root)).toMatchObject(Trees.read(root))
      expect(warnings(kit)).toHaveLength(1)
      yield* repairs(kit, a)
    }))

  it.effect.each(["", "{", "null", "{\"format\":1}", "\0\0\0\0"])(
    "a newest manifest of %j is ignored, and the next sync replaces it",
    (text) =>
      Effect.gen(function*() {
        const { a, kit } = yield* synced
        Trees.write(a.root, { small: { text: "newer" } })
        yield* a.sync
        fs.writeFileSync(newestManifest(kit), text)
        const { hydrated, root } = yield* kit.cold()
        expect(hydrated).toMatchObject({ files: 3, firstError: expect.stringMatching(/manifest is rejected/) })
        expect(fs.readFileSync(join(root, "small"), "utf8")).toBe("small")
        Trees.write(a.root, { small: { text: "newest" } })
        yield* a.sync
        const again = yield* kit.cold()
        expect(again.hydrated).toMatchObject({ files: 3, firstError: undefined })
        expect(Trees.read(again.root)).toEqual(Trees.read(a.root))
      })
  )

  it.effect("of all manifests leaves a cold worker, and the next sync starts from scratch", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* synced
      const manifests = join(kit.mirror(), "manifests")
      for (const name of fs.readdirSync(manifests)) fs.writeFileSync(join(manifests, name), "garbage")
      const { hydrated, root } = yield* kit.cold()
      expect(hydrated).toMatchObject({ files: 0, complete: true, firstError: expect.stringMatching(/manifest is rejected/) })
      expect(fs.existsSync(root)).toBe(false)
      const b = yield* kit.start("a")
      yield* b.sync
      const again = yield* kit.cold()
      expect(again.hydrated).toMatchObject({ firstError: undefined })
      expect(Trees.read(again.root)).toEqual(Trees.read(a.root))
    }))
})

describe("a volume that does not respond", () => {
  it.effect("at the first access is not used after the access limit", () =>
    Effect.gen(function*() {
      const { kit } = yield* synced
      const { files, hangs } = Faults.hanging(() => true)
      const starting = yield* Effect.forkChild(kit.start("b", { files }))
      yield* until(hangs)
      yield* TestClock.adjust("15 seconds")
      const b = yield* Fiber.join(starting)
      expect(b).toMatchObject({ active: false })
      expect(warnings(kit)).toEqual([expect.stringMatching(/did not answer within 15s\. Check its mount/)])
    }))

  it.effect.each(["read", "copyOut"] as const)(
    "at %s: the worker continues after the hydrate limit, with what has arrived",
    (operation) =>
      Effect.gen(function*() {
        const { a, kit } = yield* synced
        const { files, hangs } = Faults.hanging((one) => one === operation)
        const starting = yield* Effect.forkChild(kit.start("b", { files }))
        yield* until(hangs)
        yield* TestClock.adjust("10 minutes")
        const b = yield* Fiber.join(starting)
        expect(b.hydrated[0]).toMatchObject({
          complete: false,
          firstError: "it was not finished after 10m",
          files: operation === "read" ? 0 : 2
        })
        expect(Trees.read(a.root)).toMatchObject(Trees.read(b.root))
      })
  )

  it.effect("at a write delays the worker's end only until the sync limit", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* synced
      const { files, hangs } = Faults.hanging((one) => one === "write")
      const b = yield* kit.start("b", { files, syncLimit: "20 seconds" })
      Trees.write(b.root, { new: { text: "new" } })
      const closing = yield* Effect.forkChild(b.close)
      yield* until(hangs)
      yield* TestClock.adjust("20 seconds")
      yield* Fiber.join(closing)
      expect(warnings(kit)[0]).toMatch(/it was not finished after 20s/)
      expect(Trees.read((yield* kit.cold()).root)).toEqual(Trees.read(a.root))
    }))
})

/** Waits in real time, because file system operations do, for a condition that another fiber fulfils. */
const until = (holds: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() =>
    holds()
      ? Effect.void
      : Effect.andThen(Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 5))), until(holds))
  )

import { afterAll, beforeAll, describe, expect, it, vi } from "@effect/vitest"
import { LogMemory } from "@stint/worker/testing"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as TestClock from "effect/testing/TestClock"
import * as fs from "node:fs"
import { createServer } from "node:net"
import { join } from "node:path"
import type { LocalFiles } from "../src/LocalFiles.ts"
import { VolumeCacheTest } from "../src/testing/index.ts"
import * as VolumeCache from "../src/VolumeCache.ts"
import * as Kit from "./CacheHarness.ts"
import * as Faults from "./FaultyVolume.ts"
import * as Trees from "./FileTrees.ts"

const LARGE = "0123456789".repeat(100)

const tree: Trees.Tree = {
  "small.txt": { text: "small", mode: 0o640, mtime: 1_600_000_000.123456 },
  "empty.txt": { text: "", mtime: 1_600_000_001 },
  "models/run.sh": { text: "#!/bin/sh", mode: 0o755, mtime: 1_600_000_002 },
  "models/large.bin": { text: LARGE, mode: 0o444, mtime: 1_500_000_000 },
  "blobs/abc": { text: LARGE, mtime: 1_600_000_003 },
  "snapshots/1/model.bin": { link: "../../blobs/abc" },
  "nothing/here": { directory: true }
}

const started = Effect.gen(function*() {
  const kit = yield* Kit.make
  Trees.write(kit.disk("a"), tree)
  const a = yield* kit.start("a")
  return { kit, a }
})

// docs/spec/volume-cache.md#using-a-cache
describe("hydrate and sync", () => {
  it.effect("restore bytes, modes, times, links and empty directories in the next cold worker", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      const [synced] = yield* a.sync
      expect(synced).toMatchObject({ files: 6, unchanged: 0, skipped: 0, complete: true, firstError: undefined, generation: 2 })
      const { hydrated, root } = yield* kit.cold()
      expect(hydrated).toMatchObject({ files: 6, bytes: 2014, damaged: 0, skipped: 0, complete: true, firstError: undefined })
      expect(Trees.read(root)).toEqual(Trees.read(a.root))
      expect(fs.statSync(join(root, "small.txt")).mtimeMs).toBeCloseTo(1_600_000_000_123.456, 2)
      expect(fs.readdirSync(root).filter((name) => name.startsWith(".~"))).toEqual([])
    }))

  it.effect("sync when the scope closes", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      expect(Trees.read((yield* kit.cold()).root)).toEqual(Trees.read(a.root))
    }))

  it.effect("separate the mirrors of endpoints", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const { hydrated } = yield* kit.cold({ endpoint: "other" })
      expect(hydrated).toMatchObject({ files: 0, firstError: undefined })
    }))

  it.effect("use one mirror per directory", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const dirs = ["models", "compiled"].map((name) => join(kit.folder, name))
      const options = { dirs, volume: kit.volume, endpoint: "endpoint" }
      for (const dir of dirs) Trees.write(dir, { "x.txt": { text: dir } })
      yield* Effect.scoped(VolumeCache.scoped(options))
      const before = dirs.map((dir) => Trees.read(dir))
      for (const dir of dirs) fs.rmSync(dir, { recursive: true })
      yield* Effect.scoped(VolumeCache.scoped(options))
      expect(dirs.map((dir) => Trees.read(dir))).toEqual(before)
    }))

  it.effect("create a missing directory only when there is a file for it", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const empty = yield* kit.cold()
      yield* empty.cache.close
      expect(fs.existsSync(empty.root)).toBe(false)
    }))

  it.effect("do not change an existing file", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      Trees.write(kit.disk("b"), {
        "small.txt": { text: "mine" },
        "blobs/abc": { link: "elsewhere" },
        snapshots: { text: "a file" }
      })
      const b = yield* kit.start("b")
      expect(b.hydrated[0]).toMatchObject({ files: 3, differing: 3, firstError: undefined })
      expect(fs.readFileSync(join(b.root, "small.txt"), "utf8")).toBe("mine")
      expect(fs.readlinkSync(join(b.root, "blobs/abc"))).toBe("elsewhere")
      expect(fs.readFileSync(join(b.root, "snapshots"), "utf8")).toBe("a file")
      expect(fs.readFileSync(join(b.root, "models/large.bin"), "utf8")).toBe(LARGE)
      // The existing file does not replace another worker's version either.
      yield* b.close
      expect(Object.keys(Trees.read((yield* kit.cold()).root))).toEqual(Object.keys(Trees.read(a.root)))
    }))

  it.effect("copy nothing to a warm directory", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const again = yield* kit.start("a")
      expect(again.hydrated[0]).toMatchObject({ files: 0, present: 6, differing: 0 })
      expect((yield* again.sync)[0]).toMatchObject({ files: 0, unchanged: 5 })
    }))
})

describe("an incremental sync", () => {
  it.effect("without changes neither writes nor reads the manifest", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const volume = Faults.counting()
      const { cache } = yield* kit.cold({ files: volume.files })
      volume.log.length = 0
      expect((yield* cache.sync)[0]).toMatchObject({ files: 0, unchanged: 5 })
      expect(volume.log.filter(({ operation }) => operation !== "stat" && operation !== "list")).toEqual([])
    }))

  it.effect("writes one small pack and one manifest for one new small file", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const volume = Faults.counting()
      const { cache, root } = yield* kit.cold({ files: volume.files })
      fs.writeFileSync(join(root, "small.txt"), "other")
      const packs = new Set(fs.readdirSync(join(kit.mirror(), "packs")))
      volume.log.length = 0
      expect((yield* cache.sync)[0]).toMatchObject({ files: 1, bytes: 5, unchanged: 4 })
      expect(volume.writes().map(({ operation }) => operation)).toEqual(["write", "write", "link", "remove"])
      const [added, ...rest] = fs.readdirSync(join(kit.mirror(), "packs")).filter((name) => !packs.has(name))
      expect(rest).toEqual([])
      expect(fs.readFileSync(join(kit.mirror(), "packs", added ?? ""), "utf8")).toBe("other")
      expect(fs.readFileSync(join((yield* kit.cold()).root, "small.txt"), "utf8")).toBe("other")
    }))

  it.effect("copies only the changed large file", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const volume = Faults.counting()
      const { cache, root } = yield* kit.cold({ files: volume.files })
      fs.appendFileSync(join(root, "blobs/abc"), "!")
      yield* cache.sync
      expect(volume.log.filter(({ operation }) => operation === "copyIn")).toHaveLength(1)
    }))

  it.effect("changes a mode without copying bytes", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const volume = Faults.counting()
      const { cache, root } = yield* kit.cold({ files: volume.files })
      fs.chmodSync(join(root, "blobs/abc"), 0o600)
      fs.chmodSync(join(root, "small.txt"), 0o600)
      expect((yield* cache.sync)[0]).toMatchObject({ files: 2 })
      expect(volume.writes().map(({ operation }) => operation)).toEqual(["write", "link", "remove"])
      expect(Trees.read((yield* kit.cold()).root)).toEqual(Trees.read(root))
    }))

  it.effect("detects a change of the same size within one clock tick", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const a = yield* kit.start("a")
      const file = join(a.root, "x")
      Trees.write(a.root, { x: { text: "one" } })
      const now = Date.now() / 1000
      fs.utimesSync(file, now, now)
      yield* a.sync
      fs.writeFileSync(file, "two")
      fs.utimesSync(file, now, now)
      yield* a.sync
      expect(fs.readFileSync(join((yield* kit.cold()).root, "x"), "utf8")).toBe("two")
      // After a later read, its mtime is trusted.
      const before = now - 1
      fs.utimesSync(file, before, before)
      yield* a.sync
      expect((yield* a.sync)[0]).toMatchObject({ files: 0, unchanged: 1 })
    }))

  it.effect("with trustDirectories scans only changed directories and finds renamed files", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      let looked = 0
      const lstatSync: typeof fs.lstatSync = Object.assign((...args: ReadonlyArray<unknown>) => {
        looked++
        return Reflect.apply(fs.lstatSync, fs, args)
      })
      const age = (folder: string) => fs.utimesSync(folder, 1_600_000_000, 1_600_000_000)
      const { cache, root } = yield* kit.cold({ local: { lstatSync }, trustDirectories: true })
      for (const folder of ["", "models", "blobs", "snapshots", "snapshots/1", "nothing", "nothing/here"]) age(join(root, folder))
      yield* cache.sync
      looked = 0
      expect((yield* cache.sync)[0]).toMatchObject({ files: 0, unchanged: 5, skipped: 0 })
      const quiet = looked
      // Seven directories, the six below the first twice.
      expect(quiet).toBe(13)
      fs.writeFileSync(join(root, "models/.new"), "renamed into place")
      fs.renameSync(join(root, "models/.new"), join(root, "models/run.sh"))
      fs.mkdirSync(join(root, "blobs/deep/er"), { recursive: true })
      fs.writeFileSync(join(root, "blobs/deep/er/x"), "new")
      fs.rmSync(join(root, "small.txt"))
      fs.chmodSync(join(root, "nothing"), 0o700)
      expect((yield* cache.sync)[0]).toMatchObject({ files: 2, removed: 0 })
      const after = yield* kit.cold()
      expect(fs.readFileSync(join(after.root, "models/run.sh"), "utf8")).toBe("renamed into place")
      expect(fs.readFileSync(join(after.root, "blobs/deep/er/x"), "utf8")).toBe("new")
      expect(fs.statSync(join(after.root, "nothing")).mode & 0o777).toBe(0o700)
    }))

  it.effect("compacts the packs of many small syncs", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const a = yield* kit.start("a")
      fs.mkdirSync(a.root)
      for (let turn = 0; turn < 70; turn++) {
        fs.writeFileSync(join(a.root, `f${turn}`), `text ${turn}`)
        yield* a.sync
      }
      const { hydrated, root } = yield* kit.cold()
      expect(hydrated).toMatchObject({ files: 70 })
      expect(Trees.read(root)).toEqual(Trees.read(a.root))
      const newest = fs.readdirSync(join(kit.mirror(), "manifests")).sort().at(-1) ?? ""
      const manifest: { packs: ReadonlyArray<unknown> } = JSON.parse(
        fs.readFileSync(join(kit.mirror(), "manifests", newest), "utf8")
      )
      expect(manifest.packs.length).toBeLessThan(32)
    }))

  it.effect("deletes unused files only after the grace period", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const a = yield* kit.start("a")
      Trees.write(a.root, { x: { text: "one" }, y: { text: LARGE } })
      yield* a.sync
      const held = ["packs", "copies"].flatMap((folder) =>
        fs.readdirSync(join(kit.mirror(), folder)).map((name) => join(folder, name))
      )
      expect(held).toHaveLength(2)
      Trees.write(a.root, { x: { text: "other" }, y: { text: `${LARGE}!` } })
      yield* a.sync
      const there = () => held.filter((name) => fs.existsSync(join(kit.mirror(), name)))
      expect(there()).toEqual(held)
      // More than an hour passes, for the workers' clocks and the file times on the volume.
      yield* TestClock.adjust("2 hours")
      const old = Date.now() / 1000 - 7200
      const folders = ["packs", "copies", "manifests"].map((folder) => join(kit.mirror(), folder))
      for (const folder of folders) for (const name of fs.readdirSync(folder)) fs.utimesSync(join(folder, name), old, old)
      fs.writeFileSync(join(kit.mirror(), "packs", `${"f".repeat(32)}.pack`), "of a killed worker, just now")
      Trees.write(a.root, { z: { text: "new" } })
      yield* a.sync
      expect(there()).toEqual([])
      expect(fs.readdirSync(join(kit.mirror(), "packs"))).toContain(`${"f".repeat(32)}.pack`)
      expect(fs.readdirSync(join(kit.mirror(), "manifests"))).toHaveLength(2)
      expect(Trees.read((yield* kit.cold()).root)).toEqual(Trees.read(a.root))
    }))
})

describe("a sync skips", () => {
  it.effect("locks, partial files, and links to targets outside", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const a = yield* kit.start("a")
      Trees.write(a.root, {
        "a.lock": { text: "1" },
        "b.incomplete": { text: "1" },
        "c.part": { text: "1" },
        ".~d": { text: "1" },
        "half.tmp/e": { text: "1" },
        outside: { link: "../secret" },
        absolute: { link: "/etc/passwd" },
        around: { link: "sub/../../secret" },
        kept: { text: "1" },
        "sub/link": { link: join(a.root, "kept") }
      })
      expect((yield* a.sync)[0]).toMatchObject({ files: 2, skipped: 3, firstError: undefined })
      expect(Object.keys(Trees.read((yield* kit.cold()).root))).toEqual(["kept", "sub", "sub/link"])
    }))

  it.effect("no absolute link whose target is in the directory, but makes it relative", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const a = yield* kit.start("a")
      Trees.write(a.root, { kept: { text: "1" }, "sub/link": { link: join(a.root, "kept") } })
      yield* a.sync
      const { root } = yield* kit.cold()
      expect(fs.readlinkSync(join(root, "sub/link"))).toBe("../kept")
    }))

  it.effect("sockets and pipes", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const a = yield* kit.start("a")
      Trees.write(a.root, { kept: { text: "1" } })
      Trees.makePipe(join(a.root, "pipe"))
      yield* Effect.acquireRelease(
        Effect.callback<ReturnType<typeof createServer>>((resume) => {
          const server = createServer().listen(join(a.root, "socket"), () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
      )
      expect((yield* a.sync)[0]).toMatchObject({ files: 1, skipped: 2, firstError: undefined })
    }))

  it.effect("the option's patterns instead of the defaults", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const options = { exclude: [...VolumeCache.defaultExcludes, "*.log", "private/**"] }
      const a = yield* kit.start("a", options)
      Trees.write(a.root, { "x.log": { text: "1" }, "private/y": { text: "1" }, kept: { text: "1" }, "z.lock": { text: "1" } })
      yield* a.sync
      expect(Object.keys(Trees.read((yield* kit.cold()).root))).toEqual(["kept", "private"])
      // Excluded files in the mirror of an earlier worker version are not hydrated either.
      const { hydrated } = yield* kit.cold({ exclude: ["kept"] })
      expect(hydrated).toMatchObject({ files: 0 })
    }))

  it.effect.each(["small", "large"])(
    "a %s file that is written to while it is read waits for the next sync",
    (size) =>
      Effect.gen(function*() {
        const kit = yield* Kit.make
        const path = join(kit.disk("a"), "x")
        const text = size === "small" ? "before" : LARGE
        let touched = false
        const touch = () => {
          if (touched) return
          touched = true
          fs.appendFileSync(path, "!")
        }
        const local: Partial<LocalFiles> = size === "large" ? {} : {
          fstatSync: Object.assign((fd: number) => {
            touch()
            return fs.fstatSync(fd)
          })
        }
        const files = Faults.around((operation, _path, run) =>
          Effect.tap(run, () => operation === "copyIn" ? Effect.sync(touch) : Effect.void)
        )
        const a = yield* kit.start("a", { local, files })
        Trees.write(a.root, { x: { text } })
        expect((yield* a.sync)[0]).toMatchObject({ files: 0, changing: 1 })
        expect(Object.keys(Trees.read((yield* kit.cold()).root))).toEqual([])
        expect((yield* a.sync)[0]).toMatchObject({ files: 1, changing: 0 })
        expect(Trees.read((yield* kit.cold()).root)).toEqual(Trees.read(a.root))
      })
  )
})

describe("deleted files", () => {
  it.effect("stay in the mirror", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.sync
      const all = Trees.read(a.root)
      fs.rmSync(join(a.root, "models"), { recursive: true })
      expect((yield* a.sync)[0]).toMatchObject({ files: 0, removed: 0 })
      expect(Trees.read((yield* kit.cold()).root)).toEqual(all)
    }))

  it.effect("are removed with deletions: \"propagate\", except for files that another worker has added or changed", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const [b, c] = [yield* kit.start("b", { deletions: "propagate" }), yield* kit.start("c", { deletions: "propagate" })]
      fs.writeFileSync(join(c.root, "models/run.sh"), "changed by c")
      fs.writeFileSync(join(c.root, "models/new"), "added by c")
      yield* c.sync
      fs.rmSync(join(b.root, "models"), { recursive: true })
      expect((yield* b.sync)[0]).toMatchObject({ removed: 2 })
      const { root } = yield* kit.cold()
      expect(fs.readdirSync(join(root, "models")).sort()).toEqual(["new", "run.sh"])
      expect(fs.readFileSync(join(root, "models/run.sh"), "utf8")).toBe("changed by c")
      // The sync of c does not restore the files that b has removed.
      expect((yield* c.sync)[0]).toMatchObject({ files: 0 })
    }))

  it.effect("allow a file to replace a deleted directory", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const b = yield* kit.start("b", { deletions: "propagate" })
      fs.rmSync(join(b.root, "models"), { recursive: true })
      fs.writeFileSync(join(b.root, "models"), "a file")
      yield* b.sync
      expect(Trees.read((yield* kit.cold()).root)).toEqual(Trees.read(b.root))
    }))
})

describe("limits", () => {
  it.effect("bound the mirror by maxBytes and maxFiles, with a log line", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const a = yield* kit.start("a", { maxBytes: 8, maxFiles: 3 })
      Trees.write(a.root, { one: { text: "12345" }, two: { text: "12345" } })
      expect((yield* a.sync)[0]).toMatchObject({ files: 1, skipped: 1, complete: true })
      expect(kit.log.at(-1)).toMatchObject({
        level: "WARN",
        message: expect.stringMatching(/does not fit.*Raise maxFiles or maxBytes/)
      })
      Trees.write(a.root, { a: { text: "" }, b: { text: "" }, c: { text: "" } })
      const [synced] = yield* a.sync
      expect(synced?.firstError).toMatch(/more than 3 files/)
    }))

  it.effect("skip the files of the mirror that do not fit on the disk", () =>
    Effect.gen(function*() {
      const { a, kit } = yield* started
      yield* a.close
      const statfsSync: typeof fs.statfsSync = Object.assign(() => Object.assign(fs.statfsSync("/"), { bavail: 110, bsize: 10 }))
      const { hydrated, root } = yield* kit.cold({ local: { statfsSync } })
      expect(hydrated).toMatchObject({ skipped: 1, firstError: expect.stringMatching(/no space.*ENOSPC/) })
      expect(Object.keys(Trees.read(root)).length).toBeGreaterThan(5)
    }))
})

// docs/spec/volume-cache.md#without-a-volume
describe("without a volume", () => {
  it.effect.each<[string, { volume?: string; endpoint?: string }, string, RegExp]>([
    ["no volume", { endpoint: "e" }, "DEBUG", /neither \/platform-volume nor \/runpod-volume/],
    ["no endpoint id", { volume: "/" }, "DEBUG", /neither PLATFORM_ENDPOINT_ID nor RUNPOD_ENDPOINT_ID is set/],
    [
      "a volume path that does not exist",
      { volume: "/nowhere", endpoint: "e" },
      "WARN",
      /"\/nowhere", which is not a directory/
    ],
    ["an endpoint id with a path outside the volume", { volume: "/", endpoint: "../x" }, "WARN", /is not a folder name/],
    ["an endpoint id that is ..", { volume: "/", endpoint: ".." }, "WARN", /is not a folder name/]
  ])("%s: every operation does nothing and logs one line", ([_name, options, level, message]) =>
    Effect.gen(function*() {
      const folder = yield* VolumeCacheTest.folder
      const log = LogMemory.make()
      yield* Effect.scoped(Effect.gen(function*() {
        const cache = yield* VolumeCache.scoped({ dirs: [join(folder, "x")], ...options })
        expect(cache).toMatchObject({ active: false, hydrated: [] })
        expect(yield* cache.sync).toEqual([])
      })).pipe(Effect.provide(log.layer))
      expect(log.lines).toEqual([{ level, message: expect.stringMatching(message), requestId: undefined }])
      expect(fs.existsSync(join(folder, "x"))).toBe(false)
    }))

  it.effect("a directory that contains the volume is not cached, but the others are", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const log = LogMemory.make()
      const volume = join(kit.folder, "outer/volume")
      fs.mkdirSync(volume, { recursive: true })
      const options = { dirs: [join(kit.folder, "outer"), join(kit.folder, "fine")], volume, endpoint: "e" }
      const cache = yield* VolumeCache.scoped(options).pipe(Effect.provide(log.layer))
      expect(cache.hydrated.map(({ directory }) => directory)).toEqual([join(kit.folder, "fine")])
      expect(log.lines[0]).toMatchObject({ level: "WARN", message: expect.stringMatching(/overlap, so it is not cached/) })
    }))
})

describe("options", () => {
  it.effect("a string as dirs is one directory, and namespace is the owner of the mirror", () =>
    Effect.gen(function*() {
      const kit = yield* Kit.make
      const volume = join(kit.folder, "mount")
      const dirs = join(kit.folder, "models")
      fs.mkdirSync(volume)
      const cache = yield* VolumeCache.scoped({ dirs, volume, namespace: "mine" })
      expect(cache.hydrated.map(({ directory }) => directory)).toEqual([dirs])
      fs.mkdirSync(dirs)
      fs.writeFileSync(join(dirs, "weights"), "1")
      expect(yield* cache.sync).toMatchObject([{ directory: dirs, complete: true }])
      expect(fs.readdirSync(join(volume, "volume-cache"))).toEqual(["mine"])
    }))

  it.effect.each<[string, Parameters<typeof VolumeCache.layer>[0], RegExp]>([
    ["no directory", { dirs: [] }, /dirs is empty or contains an empty path/],
    ["an empty directory", { dirs: ["a", " "] }, /dirs is empty or contains an empty path/],
    ["an empty text", { dirs: " " }, /dirs is empty or contains an empty path/],
    [
      "a namespace of another endpoint",
      { dirs: "/a", endpoint: "e", namespace: "f" },
      /namespace is "f"; it must be the same as endpoint/
    ],
    ["the same directory twice", { dirs: ["/a", "/a/"] }, /which overlap/],
    ["a directory in another", { dirs: ["/a/b", "/a"] }, /dirs has \/a and \/a\/b, which overlap/],
    ["a relative directory in an absolute one", { dirs: [process.cwd(), "x"] }, /which overlap/],
    ["a concurrency of 0", { dirs: ["/a"], concurrency: 0 }, /concurrency is 0; it must be an integer from 1 to 64/],
    ["a fraction of a byte", { dirs: ["/a"], maxBytes: 0.5 }, /maxBytes is 0.5/],
    ["a time limit of 0", { dirs: ["/a"], hydrateLimit: 0 }, /hydrateLimit is 0; it must be a positive duration/],
    [
      "a grace period that is too short",
      { dirs: ["/a"], grace: "1 minute" },
      /grace is 60000 ms; it must be at least hydrateLimit/
    ]
  ])("%s is an error when the layer is built", ([_name, options, message]) =>
    Effect.gen(function*() {
      const exit = yield* Effect.exit(Effect.scoped(Layer.build(VolumeCache.layer(options))))
      const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
      expect(error).toBeInstanceOf(VolumeCache.VolumeCacheError)
      expect(error).toMatchObject({ message: expect.stringMatching(message) })
    }))

  it.effect("directories whose names share a prefix do not overlap", () =>
    Effect.gen(function*() {
      const log = LogMemory.make()
      yield* Effect.scoped(VolumeCache.scoped({ dirs: ["/nowhere/a", "/nowhere/ab"] })).pipe(Effect.provide(log.layer))
      expect(log.lines).toHaveLength(1)
    }))
})

describe("plain code", () => {
  beforeAll(() => void vi.stubEnv("PLATFORM_LOG_LEVEL", "ERROR"))
  afterAll(() => void vi.unstubAllEnvs())

  it("opens, syncs and closes with `await using`", async () => {
    await Kit.run((kit) =>
      Effect.promise(async () => {
        const options = { dirs: [kit.disk("a")], volume: kit.volume, endpoint: "e" }
        {
          await using cache = await VolumeCache.open(options)
          expect(cache.active).toBe(true)
          Trees.write(kit.disk("a"), tree)
          expect((await cache.sync())[0]).toMatchObject({ files: 6 })
          Trees.write(kit.disk("a"), { last: { text: "last" } })
        }
        const before = Trees.read(kit.disk("a"))
        fs.rmSync(kit.disk("a"), { recursive: true })
        const again = await VolumeCache.open(options)
        expect(again.hydrated[0]).toMatchObject({ files: 7 })
        expect(Trees.read(kit.disk("a"))).toEqual(before)
        await again.close()
        await again.close()
      })
    )
  })

  it("rejects invalid options with a TypeError", async () => {
    await expect(VolumeCache.open({ dirs: [] })).rejects.toThrow(TypeError)
  })
})

describe("in tests of programs", () => {
  it.effect("the recorder counts syncs, including the final one", () =>
    Effect.gen(function*() {
      const recorder = VolumeCacheTest.recorder()
      yield* VolumeCache.sync.pipe(Effect.provide(recorder.layer))
      expect(recorder.syncs()).toBe(2)
    }))

  it.effect("a temporary volume stores files", () =>
    Effect.gen(function*() {
      const dir = join(yield* VolumeCacheTest.folder, "x")
      Trees.write(dir, { a: { text: "1" } })
      const [synced] = yield* VolumeCache.sync.pipe(Effect.provide(VolumeCacheTest.layerTemporary({ dirs: [dir] })))
      expect(synced).toMatchObject({ files: 1 })
    }))
})

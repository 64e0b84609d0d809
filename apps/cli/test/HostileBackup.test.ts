/**
 * A corpus of archives that try to write outside the folders of a restore, to exhaust memory, or to hide a file from the digests. Each is refused, and
 * changes nothing.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Sqlite from "@stint/store-sqlite"
import * as StoppedDatabase from "@stint/store-sqlite/StoppedDatabase"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { hash } from "node:crypto"
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import * as Restore from "../src/backup/Restore.ts"
import * as TarArchive from "../src/backup/TarArchive.ts"
import { CliFailure } from "../src/CliFailure.ts"

/** An entry. `change` alters its header, whose checksum is then computed again. */
interface Entry {
  readonly name: string
  readonly body: string | Uint8Array
  readonly change?: (header: Buffer) => void
}

const CODE = "a".repeat(64)

let root: string
let database: Buffer

const manifest = (changes: Readonly<Record<string, unknown>> = {}, payloads: Readonly<Record<string, unknown>> = {}): Entry => ({
  name: "stint-backup.json",
  body: JSON.stringify({
    format: 2,
    stint: "0.0.0",
    tables: StoppedDatabase.SUPPORTED_TABLES,
    moment: "2026-11-29T00:00:00.000Z",
    payloads: { owner: "stint-1", location: "dir:/srv/payloads", included: true, ...payloads },
    settings: {},
    secrets: [],
    ...changes
  })
})

const databaseEntry = (): Entry => ({ name: "stint.db", body: database })

/** The digests of all entries, as a writer without bad intentions would list them. */
const sumsOf = (entries: ReadonlyArray<Entry>): Entry => ({
  name: "SHA256SUMS",
  body: entries.map(({ body, name }) => `${hash("sha256", body, "hex")}  ${name}\n`).join("")
})

const withChecksum = (block: Buffer): Buffer => {
  block.fill(" ", 148, 156)
  const sum = block.reduce((all, byte) => all + byte, 0)
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148)
  return block
}

const archiveOf = (entries: ReadonlyArray<Entry>): Buffer =>
  Buffer.concat([
    ...entries.flatMap(({ body, change, name }) => {
      const bytes = Buffer.from(body)
      // Names that the writer would refuse are written into the header as they are.
      const header = TarArchive.header("x", bytes.length, 0)
      header.fill(0, 0, 100).write(name, 0)
      change?.(header)
      return [withChecksum(header), bytes, TarArchive.padding(bytes.length)]
    }),
    TarArchive.END
  ])

/** All files and folders below a folder, with their content. */
const treeOf = async (folder: string): Promise<Readonly<Record<string, string>>> => {
  const found: Record<string, string> = {}
  for (const name of (await readdir(folder, { recursive: true })).sort()) {
    const path = join(folder, name)
    found[name] = (await stat(path)).isFile() ? hash("sha256", await readFile(path), "hex") : "folder"
  }
  return found
}

let count = 0

/** Restores an archive into an empty data folder beside other files. Returns the error, and what the restore changed. */
const restore = async (entries: ReadonlyArray<Entry>) => {
  const world = join(root, `world-${++count}`)
  const dataDir = join(world, "inner", "data")
  const payloads = join(world, "inner", "payloads")
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  await mkdir(join(payloads, "stint-other"), { recursive: true })
  await writeFile(join(payloads, "stint-other", "object"), "of another platform")
  await mkdir(join(world, "victim"))
  await writeFile(join(world, "victim", "file"), "not part of the platform")
  const archive = join(root, `archive-${count}.tar`)
  await writeFile(archive, archiveOf(entries))
  const before = await treeOf(world)
  const result = await Effect.runPromise(Effect.result(Effect.provide(
    Restore.run({
      file: archive,
      dataDir,
      payloads: Option.some({ _tag: "Directory", folder: payloads }),
      replace: false
    }),
    NodeServices.layer
  )))
  return { result, before, after: await treeOf(world) }
}

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "stint-hostile-"))
  const file = join(root, "stint.db")
  await Effect.runPromise(Effect.void.pipe(Effect.provide(Sqlite.layer({ file, durability: "D1" }))))
  database = await readFile(file)
})
afterAll(() => rm(root, { recursive: true, force: true }))

const named = (name: string): Entry => ({ name, body: "hostile" })
const typed = (type: string, target = "../../victim"): Entry => ({
  name: "payloads/link",
  body: "",
  change: (header) => {
    header.write(type, 156)
    header.write(target, 157)
  }
})
const sized = (write: (header: Buffer) => void): Entry => ({ name: "payloads/sized", body: "hostile", change: write })
const sizeText = (text: string): Entry => sized((header) => void header.fill(0, 124, 136).write(text, 124))
const sizeBytes = (bytes: ReadonlyArray<number>): Entry => sized((header) => header.set(bytes, 124))

/** Entries between the database and the digests. */
const CORPUS: Readonly<Record<string, ReadonlyArray<Entry>>> = {
  "a name above the folder": [named("../../victim/file")],
  "a name above the folder, after ./": [named("./../victim/file")],
  "an absolute name": [named("/victim/file")],
  "a payload above the folder": [named("payloads/../../../victim/file")],
  "a payload in the folder of another platform": [named("payloads/../stint-other/object")],
  "a segment of one point": [named("payloads/./file")],
  "an empty segment": [named("payloads//file")],
  "a name that ends with a slash": [named("payloads/file/")],
  "a hidden payload": [named("payloads/.hidden")],
  "the folder itself": [named("payloads")],
  backslashes: [named("payloads\\..\\..\\victim")],
  "a line break, which would add a line to the digests": [named("payloads/a\npayloads/b")],
  "control characters": [named("payloads/\u001b[2J")],
  "another case": [named("Payloads/file")],
  "letters that look alike": [named("p\u0430yloads/file")],
  "an invalid UTF-8 sequence": [{ name: "payloads/x", body: "", change: (header) => header.set([0xff, 0xfe], 9) }],
  "code above its folder": [named(`releases/${CODE}/../../../victim/file`)],
  "code outside a release": [named("releases/worker.mjs")],
  "hidden code": [named(`releases/${CODE}/.npmrc`)],
  "a file of the platform that no backup contains": [named("api-key")],
  "the marker of the database": [named("stint.db.created")],
  "the log of the database": [named("stint.db-wal")],
  "the folder of another restore": [named("restore-new/file")],
  "a prefix above the folder": [{ ...named("victim/file"), change: (header) => void header.write("../..", 345) }],
  "a prefix that makes a payload leave its folder": [{
    ...named("../victim"),
    change: (header) => void header.write("payloads", 345)
  }],
  "a hard link": [typed("1")],
  "a symbolic link": [typed("2")],
  "a character device": [typed("3")],
  "a block device": [typed("4")],
  "a named pipe": [typed("6")],
  "a contiguous file": [typed("7")],
  "a long name of GNU tar": [typed("L")],
  "a long link of GNU tar": [typed("K")],
  "a sparse file": [typed("S")],
  "extended attributes": [{
    name: "payloads/pax",
    body: "26 path=../../victim/file\n",
    change: (header) => void header.write("x", 156)
  }],
  "global attributes": [{
    name: "payloads/pax",
    body: "26 path=../../victim/file\n",
    change: (header) => void header.write("g", 156)
  }],
  "a negative size": [sizeText("-7")],
  "a size with letters": [sizeText("hostile")],
  "a size beyond the end": [sizeText("77777777777")],
  "a binary size of 2^63": [sizeBytes([0x80, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0])],
  "a negative binary size": [sizeBytes([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])],
  "the same file twice": [named("payloads/file"), named("payloads/file")],
  "a file in the place of a folder": [named("payloads/file"), named("payloads/file/below")],
  "a folder in the place of a file": [named("payloads/file/below"), named("payloads/file")]
}

describe("an archive of the corpus", () => {
  it.each(Object.entries(CORPUS))("is refused, and changes nothing: %s", async (_, hostile) => {
    const entries = [manifest(), databaseEntry(), ...hostile]
    const { after, before, result } = await restore([...entries, sumsOf(entries)])
    expect(Result.isFailure(result) && result.failure).toBeInstanceOf(CliFailure)
    expect(after).toEqual(before)
  })

  it.each([
    ["an owner above the folder", manifest({}, { owner: "../../victim" })],
    ["an owner with an absolute path", manifest({}, { owner: "/victim" })],
    ["an owner that is the folder", manifest({}, { owner: "." })],
    ["an owner that is the folder above", manifest({}, { owner: ".." })],
    ["a hidden owner", manifest({}, { owner: ".parts" })],
    ["an owner with a zero byte", manifest({}, { owner: "stint-1\0" })],
    ["tables of version -1", manifest({ tables: -1 })],
    ["a format of version 0", manifest({ format: 0 })],
    ["settings that are not strings", manifest({ settings: { PORT: { a: 1 } } })],
    ["a prototype instead of fields", { name: "stint-backup.json", body: `{"__proto__":{"format":2},"format":"2"}` }],
    ["deep nesting", { name: "stint-backup.json", body: "[".repeat(1_000_000) }],
    [
      "a size of 300 MB",
      { ...manifest(), change: (header: Buffer) => void header.write(`${(300 * 2 ** 20).toString(8).padStart(11, "0")}\0`, 124) }
    ]
  ])("is refused for its manifest, and changes nothing: %s", async (_, first) => {
    const entries = [first, databaseEntry(), named("payloads/file")]
    const { after, before, result } = await restore([...entries, sumsOf(entries)])
    expect(Result.isFailure(result) && result.failure).toBeInstanceOf(CliFailure)
    expect(after).toEqual(before)
  })

  it.each([
    ["a file that they do not list", (entries: ReadonlyArray<Entry>) => [...entries, named("payloads/more"), sumsOf(entries)]],
    ["a file after them", (entries: ReadonlyArray<Entry>) => [...entries, sumsOf(entries), named("payloads/more")]],
    ["a second list", (entries: ReadonlyArray<Entry>) => [...entries, sumsOf(entries), sumsOf([])]],
    [
      "a list before the files",
      (entries: ReadonlyArray<Entry>) => [entries[0] ?? manifest(), sumsOf(entries), ...entries.slice(1)]
    ],
    [
      "a listed file that is missing",
      (entries: ReadonlyArray<Entry>) => [...entries, sumsOf([...entries, named("payloads/more")])]
    ],
    ["a second manifest", (entries: ReadonlyArray<Entry>) => [...entries, manifest(), sumsOf(entries)]],
    ["no database", (entries: ReadonlyArray<Entry>) => [entries[0] ?? manifest(), sumsOf([manifest()])]]
  ])("is refused for its digests, and changes nothing: %s", async (_, change) => {
    const { after, before, result } = await restore(change([manifest(), databaseEntry()]))
    expect(Result.isFailure(result) && result.failure).toBeInstanceOf(CliFailure)
    expect(after).toEqual(before)
  })

  it("is the only difference: the archive without it is restored", async () => {
    const entries = [
      manifest(),
      databaseEntry(),
      { name: "payloads/file", body: "a payload" },
      named(`releases/${CODE}/worker.mjs`)
    ]
    const { after, result } = await restore([...entries, sumsOf(entries)])
    expect(Result.isSuccess(result)).toBe(true)
    expect(after).toMatchObject({
      "inner/data/stint.db": hash("sha256", database, "hex"),
      "inner/payloads/stint-1/file": hash("sha256", "a payload", "hex"),
      "inner/payloads/stint-other/object": hash("sha256", "of another platform", "hex"),
      "victim/file": hash("sha256", "not part of the platform", "hex")
    })
  })
})

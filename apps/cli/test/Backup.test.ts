/**
 * What a backup contains, and what a restore refuses.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { EndpointSpec } from "@stint/contract/Endpoint"
import * as Sqlite from "@stint/store-sqlite"
import * as StoppedDatabase from "@stint/store-sqlite/StoppedDatabase"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { execFileSync } from "node:child_process"
import { createWriteStream } from "node:fs"
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { pipeline } from "node:stream/promises"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { settingsOf } from "../src/backup/BackupFormat.ts"
import * as BackupReader from "../src/backup/BackupReader.ts"
import * as BackupWriter from "../src/backup/BackupWriter.ts"
import * as Restore from "../src/backup/Restore.ts"
import * as TarArchive from "../src/backup/TarArchive.ts"
import { SECRET_SETTING_NAMES, SETTING_NAMES } from "../src/config/SettingNames.ts"

const OWNER = "stint-0a1b2c3d"

/** One of the platform's objects, on an endpoint whose id makes the longest possible name. */
const OBJECT = `${
  "e".repeat(63)
}/sync-01a202fe-95d1-7a3f-95a4-683e645d93df/input.1795346568658.a90b5521-c7f6-4db2-b5ad-86848e3ac340`

const resultOf = (read: Effect.Effect<unknown, unknown>) =>
  Effect.runPromise(Effect.result(Effect.provide(read, NodeServices.layer)))

/** Writes a file and its folders. */
const put = async (path: string, content: string | Uint8Array) => {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  await writeFile(path, content, { mode: 0o600 })
}

let root: string
let original: string
let archive: string

/** A data folder with an endpoint in its database, its keys and one payload. */
const makePlatform = async (dataDir: string, payloads: string): Promise<void> => {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const endpoint = Schema.decodeUnknownSync(EndpointSpec)({ id: "kept", source: { type: "external" } })
  await Effect.runPromise(
    Effect.flatMap(EndpointStore, (store) => store.put({ ...endpoint, createdAt: 1 })).pipe(
      Effect.provide(Sqlite.layer({ file: join(dataDir, "stint.db"), durability: "D1" }))
    )
  )
  await put(join(dataDir, "admin-key.json"), "{\"source\":\"STINT_API_KEY\"}\n")
  await put(join(dataDir, "worker-secret"), "a-secret\n")
  await put(join(dataDir, "payloads.json"), JSON.stringify({ owner: OWNER, location: `dir:${payloads}` }))
  await put(join(payloads, OWNER, OBJECT), "{\"large\":true}")
  await put(join(payloads, ".parts", "unfinished"), "x")
}

const writeArchive = async (dataDir: string, file: string): Promise<void> => {
  const copy = join(dataDir, "stint.db.backup-test")
  const database = await Effect.runPromise(StoppedDatabase.backup(join(dataDir, "stint.db"), copy))
  const settings = settingsOf({ STINT_DURABILITY: "D1", STINT_API_KEY: "not-for-a-backup", PORT: "4700", HOME: "/root" })
  await pipeline(BackupWriter.write({ dataDir, database, settings }), createWriteStream(file))
  await rm(copy)
}

describe("the settings in a backup", () => {
  it("omit every setting that must not be shown, but name it", () => {
    const values = Object.fromEntries(SETTING_NAMES.map((name) => [name, `https://user:of-${name}@host/?token=of-${name}`]))
    const { secrets, settings } = settingsOf(values)
    for (const name of SECRET_SETTING_NAMES) {
      expect(secrets).toContain(name)
      expect(JSON.stringify(settings)).not.toContain(`of-${name}@`)
    }
    expect(Object.keys(settings)).toEqual(expect.arrayContaining(["PORT", "STINT_ALERT_WINDOW", "STINT_DURABILITY"]))
  })
})

const restore = (dataDir: string, options: Partial<Restore.Options> = {}) =>
  resultOf(Restore.run({
    file: archive,
    dataDir,
    payloads: Option.some({ _tag: "Directory", folder: join(dataDir, "..", "payloads") }),
    replace: false,
    ...options
  }))

/** The ids of the endpoints in a restored database. */
const endpointsIn = (dataDir: string): ReadonlyArray<unknown> => {
  const db = new DatabaseSync(join(dataDir, "stint.db"))
  const rows = db.prepare("SELECT id FROM endpoints").all()
  db.close()
  return rows.map(({ id }) => id)
}

/** The archive with one change to its bytes. */
const changed = async (name: string, change: (bytes: Buffer) => Buffer): Promise<string> => {
  const file = join(root, name)
  await writeFile(file, change(await readFile(archive)))
  return file
}

const NAMES = [
  "stint-backup.json",
  "admin-key.json",
  "worker-secret",
  "payloads.json",
  "stint.db",
  `payloads/${OBJECT}`,
  "SHA256SUMS"
]

beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "stint-backup-"))
  original = join(root, "original", "data")
  archive = join(root, "stint.tar")
  await makePlatform(original, join(root, "original", "payloads"))
  await writeArchive(original, archive)
})
afterAll(() => rm(root, { recursive: true, force: true }))

describe("the archive of a backup", () => {
  it("can be read by tar, and its digests by sha256sum", async () => {
    expect(execFileSync("tar", ["tf", archive], { encoding: "utf8" }).trim().split("\n")).toEqual(NAMES)
    const folder = join(root, "by-tar")
    await mkdir(folder)
    execFileSync("tar", ["xf", archive, "-C", folder])
    expect(execFileSync("sha256sum", ["-c", "SHA256SUMS"], { cwd: folder, encoding: "utf8" }).match(/: OK/g)).toHaveLength(6)
  })

  it("contains the settings without secrets, and names the secret ones", async () => {
    expect(await resultOf(BackupReader.read(archive, BackupReader.verifyOnly))).toMatchObject({
      success: {
        files: 1,
        manifest: {
          format: 2,
          tables: StoppedDatabase.SUPPORTED_TABLES,
          settings: { STINT_DURABILITY: "D1", PORT: "4700" },
          secrets: ["STINT_API_KEY"],
          payloads: { owner: OWNER, included: true }
        }
      }
    })
    expect((await readFile(archive)).includes("not-for-a-backup")).toBe(false)
  })

  it("keeps names of up to 255 bytes and sizes above 8 GiB, and refuses entries that are neither files nor folders", async () => {
    const entriesOf = async (...blocks: ReadonlyArray<Buffer>) => {
      const names: Array<[string, number]> = []
      const source = async function*() {
        yield* blocks
      }
      for await (const { name, size } of TarArchive.entries(source())) names.push([name, size])
      return names
    }
    const name = `payloads/${OBJECT}`
    const huge = 9 * 1024 ** 3
    expect(await entriesOf(TarArchive.header(name, 0, 0), TarArchive.END)).toEqual([[name, 0]])
    await expect(entriesOf(TarArchive.header(name, huge, 0))).rejects.toThrow(`${name} was not read to its end`)
    expect(() => TarArchive.header("x".repeat(101), 0, 0)).toThrow("too long")
    const link = Buffer.from(TarArchive.header("link", 0, 0))
    link.write("2", 156)
    link.write("0015432\0", 148)
    await expect(entriesOf(link)).rejects.toThrow("damaged")
  })
})

describe("a restore", () => {
  it("creates a platform with the database, the keys and the payloads, readable only by its owner", async () => {
    const dataDir = join(root, "new", "data")
    expect(await restore(dataDir)).toMatchObject({ _tag: "Success", success: { files: 1, moved: undefined } })
    expect(endpointsIn(dataDir)).toEqual(["kept"])
    expect(await readFile(join(dataDir, "worker-secret"), "utf8")).toBe("a-secret\n")
    const payloads = join(root, "new", "payloads")
    expect(await readFile(join(payloads, OWNER, OBJECT), "utf8")).toBe("{\"large\":true}")
    expect(JSON.parse(await readFile(join(dataDir, "payloads.json"), "utf8"))).toEqual({
      owner: OWNER,
      location: `dir:${payloads}`
    })
    expect((await readdir(dataDir)).sort()).toEqual([
      "admin-key.json",
      "payloads.json",
      "stint.db",
      "stint.db.created",
      "worker-secret"
    ])
    expect(await readdir(payloads)).toEqual([OWNER])
    for (const path of [join(dataDir, "stint.db"), join(dataDir, "worker-secret"), join(payloads, OWNER, OBJECT)]) {
      expect((await stat(path)).mode & 0o777).toBe(0o600)
    }
  })

  it("is refused where a platform exists, and with --replace moves that platform's files and payloads aside", async () => {
    const dataDir = join(root, "present", "data")
    const payloads = join(root, "present", "payloads")
    await makePlatform(dataDir, payloads)
    await put(join(dataDir, "worker-secret"), "the secret from before\n")
    await put(join(payloads, OWNER, "newer", "object"), "1")
    const before = (await readdir(dataDir)).sort()
    expect(await restore(dataDir)).toMatchObject({
      failure: {
        message: expect.stringContaining("already contains a platform (admin-key.json, "),
        hint: expect.stringContaining("--replace")
      }
    })
    expect((await readdir(dataDir)).sort()).toEqual(before)
    expect(await readFile(join(dataDir, "worker-secret"), "utf8")).toBe("the secret from before\n")

    const result = await restore(dataDir, { replace: true })
    expect(result).toMatchObject({ success: { moved: expect.stringContaining("before-restore-") } })
    const [aside = ""] = (await readdir(dataDir)).filter((name) => name.startsWith("before-restore-"))
    expect(await readFile(join(dataDir, aside, "worker-secret"), "utf8")).toBe("the secret from before\n")
    expect(await readFile(join(dataDir, "worker-secret"), "utf8")).toBe("a-secret\n")
    expect(endpointsIn(join(dataDir, aside))).toEqual(["kept"])
    expect((await readdir(join(payloads, OWNER), { recursive: true })).filter((name) => name.endsWith("object"))).toEqual([])
    const kept = (await readdir(payloads)).find((name) => name.includes(".before-restore-")) ?? ""
    expect(await readFile(join(payloads, kept, "newer", "object"), "utf8")).toBe("1")
  })

  it("is refused while a platform uses the database, even with --replace", async () => {
    const dataDir = join(root, "used", "data")
    await makePlatform(dataDir, join(root, "used", "payloads"))
    const result = await Effect.runPromise(
      Effect.promise(() => restore(dataDir, { replace: true })).pipe(
        Effect.provide(Sqlite.layer({ file: join(dataDir, "stint.db"), durability: "D1" }))
      )
    )
    expect(result).toMatchObject({
      failure: { message: expect.stringContaining("is in use by process"), hint: expect.stringContaining("Stop") }
    })
    expect((await readdir(dataDir)).filter((name) => name.startsWith("before") || name === "restore-new")).toEqual([])
  })

  it("is refused when a byte of any file has changed, the archive ends early or it is not a backup, and leaves nothing behind", async () => {
    const positions = ["worker-secret", "stint.db", `payloads/${OBJECT}`].map((name) => ({ name, at: 0 }))
    const bytes = await readFile(archive)
    let offset = 0
    let sums = 0
    const source = async function*() {
      yield bytes
    }
    for await (const { body, name, size } of TarArchive.entries(source())) {
      for await (const chunk of body) void chunk
      if (name === "SHA256SUMS") sums = offset
      const found = positions.find((one) => one.name === name)
      if (found !== undefined) found.at = offset + 512 + Math.floor(size / 2)
      offset += 512 + size + TarArchive.padding(size).length
    }
    const dataDir = join(root, "damaged", "data")
    for (const { at, name } of positions) {
      const file = await changed("flipped.tar", (all) => {
        all[at] = (all[at] ?? 0) ^ 1
        return all
      })
      expect(await restore(dataDir, { file }), name).toMatchObject({
        failure: { message: `The backup cannot be used: the content of ${name} does not match its SHA-256.` }
      })
    }
    const refusals: ReadonlyArray<readonly [(all: Buffer) => Buffer, string]> = [
      [(all) => all.subarray(0, 5_000), "it ends in the middle of a file"],
      [(all) => Buffer.concat([all.subarray(0, sums), TarArchive.END]), "SHA256SUMS is missing"],
      [() => Buffer.from("PK".repeat(2_000)), "not an uncompressed tar archive"],
      [() => Buffer.concat([TarArchive.header("other.txt", 0, 0), TarArchive.END]), "its first file is other.txt"]
    ]
    for (const [change, problem] of refusals) {
      expect(await restore(dataDir, { file: await changed("other.tar", change) }), problem).toMatchObject({
        failure: { message: expect.stringContaining(problem), hint: expect.stringContaining("Nothing was changed") }
      })
    }
    expect(await restore(dataDir, { file: join(root, "none.tar") })).toMatchObject({
      failure: { message: expect.stringContaining("no such file or directory") }
    })
    expect(await readdir(dataDir)).toEqual([])
    expect(await readdir(join(root, "damaged", "payloads"))).toEqual([])
  })

  it("is refused for a backup from a newer version, and names that version, before it reads the database", async () => {
    const dataDir = join(root, "newer", "data")
    const rewritten = (from: string, to: string) =>
      changed("newer.tar", (all) => Buffer.from(all.toString("latin1").replace(from, to), "latin1"))
    expect(
      await restore(dataDir, { file: await rewritten(`"tables": ${StoppedDatabase.SUPPORTED_TABLES}`, "\"tables\": 99") })
    ).toMatchObject({
      failure: {
        message: expect.stringContaining("its tables have version 99"),
        hint: expect.stringMatching(/Restore it with Stint \d/)
      }
    })
    expect(await restore(dataDir, { file: await rewritten("\"format\": 2", "\"format\": 3") })).toMatchObject({
      failure: { message: "The backup has format 3; this version of Stint supports up to 2." }
    })
  })

  it("requires a folder for payloads, or the bucket with the payloads that are not in the archive", async () => {
    const dataDir = join(root, "unset", "data")
    expect(await restore(dataDir, { payloads: Option.none() })).toMatchObject({
      failure: { hint: expect.stringContaining(`STINT_PAYLOADS=dir:${join(root, "original", "payloads")}`) }
    })
    const bucket = join(root, "bucket", "data")
    await makePlatform(bucket, join(root, "bucket", "payloads"))
    await put(join(bucket, "payloads.json"), JSON.stringify({ owner: OWNER, location: "s3://payloads/stint" }))
    const file = join(root, "bucket.tar")
    await writeArchive(bucket, file)
    expect(await restore(dataDir, { file })).toMatchObject({
      failure: { message: "The large payloads of this platform are in s3://payloads/stint, which is not part of the backup." }
    })
    expect(await readdir(dataDir)).toEqual([])
  })
})

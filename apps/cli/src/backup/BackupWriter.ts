/**
 * Writes the archive of a backup from a copy of the database and the files beside it.
 */
import { hash, createHash } from "node:crypto"
import { createReadStream } from "node:fs"
import { readdir, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import * as Schema from "effect/Schema"
import manifest from "../../package.json" with { type: "json" }
import { DATABASE, FORMAT, folderOf, KEY_FILES, MANIFEST, Manifest, PAYLOADS, PayloadsFile, SUMS } from "./BackupFormat.ts"
import * as TarArchive from "./TarArchive.ts"

/** The parts of a backup. */
export interface Options {
  /** The data folder of the platform. */
  readonly dataDir: string
  /** A complete copy of the database. */
  readonly database: { readonly path: string; readonly moment: number; readonly tables: number }
  readonly settings: Pick<Manifest, "settings" | "secrets">
}

/** Large enough to keep the overhead per read small, and small enough to hash without delaying other requests. */
const CHUNK_BYTES = 256 * 1024

const decodePayloads = Schema.decodeUnknownSync(Schema.fromJsonString(PayloadsFile))
const encodeManifest = Schema.encodeSync(Manifest)

const isMissing = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "ENOENT"

/** The content of a small file; undefined when it does not exist. */
const contentOf = (path: string): Promise<Buffer | undefined> =>
  readFile(path).catch((error: unknown) => isMissing(error) ? undefined : Promise.reject(error))

const exists = (path: string): Promise<boolean> =>
  stat(path).then(() => true, (error: unknown) => isMissing(error) ? false : Promise.reject(error))

/** The paths of the files below a folder. Skips hidden ones, as the payload store does. */
const filesBelow = async function*(folder: string, path = ""): AsyncGenerator<string> {
  const found = await readdir(join(folder, path), { withFileTypes: true }).catch((error: unknown) =>
    isMissing(error) ? [] : Promise.reject(error)
  )
  for (const entry of found) {
    if (entry.name.startsWith(".")) continue
    const below = path === "" ? entry.name : `${path}/${entry.name}`
    if (entry.isDirectory()) yield* filesBelow(folder, below)
    else if (entry.isFile()) yield below
  }
}

/**
 * The bytes of the archive. The database must have been copied before: a payload is written before the row that refers to it, so the
 * payloads that exist now include all that the copy refers to. No payload may be removed until the archive is complete.
 */
export const write = async function*({ database, dataDir, settings }: Options): AsyncGenerator<Uint8Array> {
  const sums: Array<string> = []
  const now = Date.now()

  const small = function*(name: string, content: Buffer) {
    sums.push(`${hash("sha256", content, "hex")}  ${name}\n`)
    yield TarArchive.header(name, content.length, now)
    yield content
    yield TarArchive.padding(content.length)
  }
  const large = async function*(name: string, path: string) {
    const { mtimeMs, size } = await stat(path)
    yield TarArchive.header(name, size, mtimeMs)
    const digest = createHash("sha256")
    let read = 0
    for await (const chunk of createReadStream(path, { highWaterMark: CHUNK_BYTES })) {
      if (!(chunk instanceof Uint8Array)) continue
      digest.update(chunk)
      read += chunk.length
      yield chunk
    }
    if (read !== size) throw new Error(`${path} changed while it was read`)
    sums.push(`${digest.digest("hex")}  ${name}\n`)
    yield TarArchive.padding(size)
  }

  const recorded = await contentOf(join(dataDir, "payloads.json"))
  const payloads = recorded === undefined ? undefined : decodePayloads(recorded.toString("utf8"))
  const folder = payloads === undefined ? undefined : folderOf(payloads.location)
  const about = encodeManifest({
    format: FORMAT,
    stint: manifest.version,
    tables: database.tables,
    moment: new Date(database.moment).toISOString(),
    payloads: payloads === undefined ? null : { ...payloads, included: folder !== undefined },
    ...settings
  })
  yield* small(MANIFEST, Buffer.from(`${JSON.stringify(about, null, 2)}\n`))
  for (const name of KEY_FILES) {
    const content = await contentOf(join(dataDir, name))
    if (content !== undefined) yield* small(name, content)
  }
  yield* large(DATABASE, database.path)
  if (payloads !== undefined && folder !== undefined) {
    const root = join(folder, payloads.owner)
    for await (const path of filesBelow(root)) {
      // The object of a rejected submission is removed at once, and no row refers to it.
      if (await exists(join(root, path))) yield* large(`${PAYLOADS}${path}`, join(root, path))
    }
  }
  yield* small(SUMS, Buffer.from(sums.join("")))
  yield TarArchive.END
}

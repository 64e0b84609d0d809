/**
 * Writes the archive of a backup from a copy of the database and the files beside it.
 */
import * as Schema from "effect/Schema"
import { createHash, hash } from "node:crypto"
import { createReadStream } from "node:fs"
import { readdir, readFile, stat } from "node:fs/promises"
import { join } from "node:path"
import manifest from "../../package.json" with { type: "json" }
import {
  DATABASE,
  folderOf,
  FORMAT,
  KEY_FILES,
  MANIFEST,
  Manifest,
  PAYLOADS,
  PayloadsFile,
  RELEASES,
  SUMS
} from "./BackupFormat.ts"
import * as TarArchive from "./TarArchive.ts"

/** The parts of a backup. */
export interface Options {
  /** The data folder of the platform. */
  readonly dataDir: string
  /** A complete copy of the database. */
  readonly database: { readonly path: string; readonly moment: number; readonly tables: number }
  readonly settings: Pick<Manifest, "settings" | "secrets">
}

/** Yields to requests between chunks. Hashing a chunk takes about a millisecond. */
const CHUNK_BYTES = 1024 * 1024

const decodePayloads = Schema.decodeUnknownSync(Schema.fromJsonString(PayloadsFile))
const encodeManifest = Schema.encodeSync(Manifest)

/** The result; `fallback` when there is no such file or folder. */
const unlessMissing = async <A, B>(result: Promise<A>, fallback: B): Promise<A | B> => {
  try {
    return await result
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return fallback
    throw error
  }
}

/** The paths of the files below a folder. Skips hidden ones, as the payload store does. */
const filesBelow = async function*(folder: string, path = ""): AsyncGenerator<string> {
  const found = await unlessMissing(readdir(join(folder, path), { withFileTypes: true }), [])
  for (const entry of found) {
    if (entry.name.startsWith(".")) continue
    const below = path === "" ? entry.name : `${path}/${entry.name}`
    if (entry.isDirectory()) yield* filesBelow(folder, below)
    else if (entry.isFile()) yield below
  }
}

/**
 * The bytes of the archive. The database must already have been copied. A payload is written before the row that refers to it, so all payloads to
 * which the copy refers exist now. No payload may be removed until the archive is complete.
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

  const recorded = await unlessMissing(readFile(join(dataDir, "payloads.json")), undefined)
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
    const content = await unlessMissing(readFile(join(dataDir, name)), undefined)
    if (content !== undefined) yield* small(name, content)
  }
  yield* large(DATABASE, database.path)
  for await (const path of filesBelow(join(dataDir, RELEASES))) {
    // Code that no release refers to may be removed at any time.
    if ((await unlessMissing(stat(join(dataDir, RELEASES, path)), undefined)) !== undefined) {
      yield* large(`${RELEASES}${path}`, join(dataDir, RELEASES, path))
    }
  }
  if (payloads !== undefined && folder !== undefined) {
    const root = join(folder, payloads.owner)
    for await (const path of filesBelow(root)) {
      // The object of a rejected submission is removed at once, and no row refers to it.
      if ((await unlessMissing(stat(join(root, path)), undefined)) !== undefined) {
        yield* large(`${PAYLOADS}${path}`, join(root, path))
      }
    }
  }
  yield* small(SUMS, Buffer.from(sums.join("")))
  yield TarArchive.END
}

/**
 * What a mirror holds, as one document: every file's path, size, time, mode, and where its bytes are.
 *
 * ```
 *   manifest-000000000012.json
 *     directories   path, mode
 *     packed        path, size, mtime, mode, pack (its place in `packs`), offset, crc     small files, many in one pack
 *     copied        path, size, mtime, mode, copy (a name in copies/), sample             large files, one each
 *     links         path, target
 *     packs         name, bytes                                                          every pack that is in use
 *     dropped       name, at                                                             no longer in use; deleted after the grace
 * ```
 *
 * It is decoded with a Schema and then checked as a whole, because somebody else wrote it. One bad row refuses all of it: a manifest
 * that was not written by us is not worth a guess, and the next sync makes a good one.
 */
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { unsafeLinkReason, unsafeReason } from "./RelativePath.ts"

/** The version of the format. A mirror of another one is not read, and replaced by the next sync. */
export const FORMAT = 1

/** A directory. */
export interface DirectoryEntry {
  readonly kind: "directory"
  /** Permission bits, at most 0o777: no setuid, no setgid, no sticky bit. */
  readonly mode: number
}

interface FileEntry {
  readonly size: number
  /** Microseconds since 1970; more than that does not survive `utimes`. */
  readonly mtime: number
  readonly mode: number
}

/** A small file: a part of a pack. */
export interface PackedEntry extends FileEntry {
  readonly kind: "packed"
  readonly pack: string
  readonly offset: number
  /** CRC-32 of its bytes. */
  readonly crc: number
}

/** A large file: a file of its own. */
export interface CopiedEntry extends FileEntry {
  readonly kind: "copied"
  readonly copy: string
  /** CRC-32 of some blocks of it (file://./Checksum.ts). */
  readonly sample: number
}

/** A symbolic link to something in the same directory. */
export interface LinkEntry {
  readonly kind: "link"
  readonly target: string
}

/** What a mirror knows of one path. */
export type Entry = DirectoryEntry | PackedEntry | CopiedEntry | LinkEntry

/** A decoded and checked manifest. */
export interface Manifest {
  readonly entries: ReadonlyMap<string, Entry>
  /** Sizes of the packs in bytes, by name. */
  readonly packs: ReadonlyMap<string, number>
  /** When a pack or copy went out of use, by name. Milliseconds since 1970. */
  readonly dropped: ReadonlyMap<string, number>
}

/** A mirror without files. */
export const empty: Manifest = { entries: new Map(), packs: new Map(), dropped: new Map() }

/** What is believed of a manifest at most. */
export interface Limits {
  /** Entries of any kind. */
  readonly maxFiles: number
  /** Sum of all sizes. */
  readonly maxBytes: number
}

/** The largest pack. Ours have half of it; a reader holds a few of them in memory. */
export const MAX_PACK = 32 * 1024 * 1024

const PACK_NAME = /^[0-9a-f]{32}\.pack$/
const COPY_NAME = /^[0-9a-f]{32}\.copy$/

const natural = (maximum: number) => Schema.Int.check(Schema.isBetween({ minimum: 0, maximum }))
const Path = Schema.String.check(Schema.makeFilter((path: string) => unsafeReason(path)))
const Bytes = natural(Number.MAX_SAFE_INTEGER)
const Mode = natural(0o777)
const Crc = natural(0xffff_ffff)
const PackName = Schema.String.check(Schema.isPattern(PACK_NAME))
const CopyName = Schema.String.check(Schema.isPattern(COPY_NAME))

const file = { path: Path, size: Bytes, mtime: Bytes, mode: Mode }

const Document = Schema.Struct({
  format: Schema.Literal(FORMAT),
  generation: Bytes,
  packs: Schema.Array(Schema.Struct({ name: PackName, bytes: natural(MAX_PACK) })),
  directories: Schema.Array(Schema.Struct({ path: Path, mode: Mode })),
  packed: Schema.Array(Schema.Struct({ ...file, pack: Bytes, offset: Bytes, crc: Crc })),
  copied: Schema.Array(Schema.Struct({ ...file, copy: CopyName, sample: Crc })),
  links: Schema.Array(Schema.Struct({ path: Path, target: Schema.String })),
  dropped: Schema.Array(Schema.Struct({ name: Schema.Union([PackName, CopyName]), at: Bytes }))
})

const decodeDocument = Schema.decodeUnknownResult(Schema.fromJsonString(Document))

/** Whether two entries are the same bytes at the same place of the mirror. */
export const same = (left: Entry | undefined, right: Entry | undefined): boolean => {
  if (left === undefined || right === undefined || left.kind !== right.kind) return left === right
  switch (left.kind) {
    case "directory":
      return right.kind === "directory" && left.mode === right.mode
    case "packed":
      return right.kind === "packed" && left.pack === right.pack && left.offset === right.offset && left.mode === right.mode
    case "copied":
      return right.kind === "copied" && left.copy === right.copy && left.mode === right.mode
    case "link":
      return right.kind === "link" && left.target === right.target
  }
}

/** The name of the file of the mirror that holds the bytes of an entry, if it has any. */
export const storedFileName = (entry: Entry): string | undefined =>
  entry.kind === "packed" ? entry.pack : entry.kind === "copied" ? entry.copy : undefined

/** The size of an entry's bytes. */
export const sizeOf = (entry: Entry): number => entry.kind === "packed" || entry.kind === "copied" ? entry.size : 0

/** The path of the directory that this path is in; empty for the configured directory. */
export const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf("/")))

/** A file or link on the way to this path, if there is one. */
export const obstacle = (entries: ReadonlyMap<string, Entry>, path: string): string | undefined => {
  for (let parent = parentOf(path); parent !== ""; parent = parentOf(parent)) {
    const entry = entries.get(parent)
    if (entry !== undefined && entry.kind !== "directory") return parent
  }
  return undefined
}

/** What is wrong between the rows of a document, each of which is good by itself. */
const whyInconsistent = (document: typeof Document.Type, limits: Limits): string | undefined => {
  const count = document.directories.length + document.packed.length + document.copied.length + document.links.length
  if (count > limits.maxFiles) return `it names ${count} files; maxFiles is ${limits.maxFiles}`
  let total = 0
  for (const { size } of document.packed) total += size
  for (const { size } of document.copied) total += size
  if (total > limits.maxBytes) return `its files have ${total} bytes; maxBytes is ${limits.maxBytes}`
  for (const { offset, pack, path, size } of document.packed) {
    const bytes = document.packs[pack]?.bytes
    if (bytes === undefined || offset + size > bytes) return `${JSON.stringify(path)} is not within its pack`
  }
  for (const { path, target } of document.links) {
    const why = unsafeLinkReason(path, target)
    if (why !== undefined) return `the link ${JSON.stringify(path)} is refused: ${why}`
  }
  return undefined
}

/** The manifest of this text, or why it is refused. */
export const decode = (text: string, generation: number, limits: Limits): Result.Result<Manifest, string> => {
  const decoded = decodeDocument(text)
  if (Result.isFailure(decoded)) return Result.fail(decoded.failure.message)
  const document = decoded.success
  if (document.generation !== generation) return Result.fail(`it says that it is generation ${document.generation}`)
  const why = whyInconsistent(document, limits)
  if (why !== undefined) return Result.fail(why)

  const entries = new Map<string, Entry>()
  for (const { mode, path } of document.directories) entries.set(path, { kind: "directory", mode })
  for (const { crc, mode, mtime, offset, pack, path, size } of document.packed) {
    entries.set(path, { kind: "packed", size, mtime, mode, pack: document.packs[pack]?.name ?? "", offset, crc })
  }
  for (const { copy, mode, mtime, path, sample, size } of document.copied) {
    entries.set(path, { kind: "copied", size, mtime, mode, copy, sample })
  }
  for (const { path, target } of document.links) entries.set(path, { kind: "link", target })
  const rows = document.directories.length + document.packed.length + document.copied.length + document.links.length
  if (entries.size !== rows) return Result.fail("it names a path twice")
  const clear = new Set<string>([""])
  for (const path of entries.keys()) {
    const parent = parentOf(path)
    if (clear.has(parent)) continue
    const file = obstacle(entries, path)
    if (file !== undefined) {
      return Result.fail(`${JSON.stringify(path)} is below ${JSON.stringify(file)}, which is no directory`)
    }
    clear.add(parent)
  }
  return Result.succeed({
    entries,
    packs: new Map(document.packs.map(({ bytes, name }) => [name, bytes])),
    dropped: new Map(document.dropped.map(({ at, name }) => [name, at]))
  })
}

/** The text of a manifest. */
export const encode = (manifest: Manifest, generation: number): string => {
  const packs = Array.from(manifest.packs, ([name, bytes]) => ({ name, bytes }))
  const places = new Map(packs.map(({ name }, place) => [name, place]))
  const directories: Array<unknown> = []
  const packed: Array<unknown> = []
  const copied: Array<unknown> = []
  const links: Array<unknown> = []
  for (const [path, entry] of manifest.entries) {
    switch (entry.kind) {
      case "directory":
        directories.push({ path, mode: entry.mode })
        break
      case "packed": {
        const { crc, mode, mtime, offset, size } = entry
        packed.push({ path, size, mtime, mode, pack: places.get(entry.pack), offset, crc })
        break
      }
      case "copied": {
        const { copy, mode, mtime, sample, size } = entry
        copied.push({ path, size, mtime, mode, copy, sample })
        break
      }
      case "link":
        links.push({ path, target: entry.target })
        break
    }
  }
  const dropped = Array.from(manifest.dropped, ([name, at]) => ({ name, at }))
  return JSON.stringify({ format: FORMAT, generation, packs, directories, packed, copied, links, dropped })
}

const FILE_NAME = /^manifest-(\d{12})\.json$/

/** The largest generation: twelve digits. At one a second it is reached after 31,000 years. */
export const MAX_GENERATION = 999_999_999_999

/** The name of the file of a generation. */
export const fileName = (generation: number): string => `manifest-${String(generation).padStart(12, "0")}.json`

/** The generation of a file of this name; none for any other file. */
export const generationOf = (name: string): Option.Option<number> => {
  const digits = FILE_NAME.exec(name)?.[1]
  return digits === undefined ? Option.none() : Option.some(Number(digits))
}

/**
 * The contents of a mirror as one document: each file's path, size, modification time and mode, and the location of its bytes.
 *
 * ```
 *   manifest-000000000012.json
 *     directories   path, mode
 *     packed        path, size, mtime, mode, pack (index in `packs`)    , offset, crc     small files, many in one pack
 *     copied        path, size, mtime, mode, copy (a name in copies/), sample             large files, one each
 *     links         path, target
 *     packs         name, bytes                                                          every pack in use
 *     dropped       name, at                                                             no longer in use; deleted after the grace period
 * ```
 *
 * It is decoded with a Schema and then checked as a whole, because it is untrusted (docs/spec/volume-cache.md#rules). One invalid row
 * rejects the whole manifest, and the next sync writes a valid one.
 */
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { unsafeLinkReason, unsafeReason } from "./RelativePath.ts"

/** The version of the format. A mirror with another version is not read, and the next sync replaces it. */
const FORMAT = 1

/** A directory. */
export interface DirectoryEntry {
  readonly kind: "directory"
  /** Permission bits, at most 0o777: no setuid, no setgid, no sticky bit. */
  readonly mode: number
}

interface FileEntry {
  readonly size: number
  /** Microseconds since 1970, the precision of `utimes`. */
  readonly mtime: number
  readonly mode: number
}

/** A small file: a part of a pack. */
export interface PackedEntry extends FileEntry {
  readonly kind: "packed"
  readonly pack: string
  readonly offset: number
  /** The CRC-32 of its bytes. */
  readonly crc: number
}

/** A large file: a separate file on the volume. */
export interface CopiedEntry extends FileEntry {
  readonly kind: "copied"
  readonly copy: string
  /** The CRC-32 of some of its blocks (file://./Checksum.ts). */
  readonly sample: number
}

/** A symbolic link to something in the same directory. */
export interface LinkEntry {
  readonly kind: "link"
  readonly target: string
}

/** The entry of one path. */
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

/** The limits of a valid manifest. */
export interface Limits {
  /** Entries of any kind. */
  readonly maxFiles: number
  /** The sum of all file sizes. */
  readonly maxBytes: number
}

/** The maximum size of a pack. Syncs write packs of half this size; a reader holds a few packs in memory. Bytes. */
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

/** Whether two entries have the same bytes at the same location in the mirror. */
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

/** The name of the pack or copy that contains the bytes of an entry, if it has any. */
export const storedFileName = (entry: Entry): string | undefined =>
  entry.kind === "packed" ? entry.pack : entry.kind === "copied" ? entry.copy : undefined

/** The size of an entry's bytes. */
export const sizeOf = (entry: Entry): number => entry.kind === "packed" || entry.kind === "copied" ? entry.size : 0

/** The path of the parent directory; empty for the configured directory. */
export const parentOf = (path: string): string => path.slice(0, Math.max(0, path.lastIndexOf("/")))

/** The ancestor of this path that is a file or link, if there is one. */
export const blockingAncestor = (entries: ReadonlyMap<string, Entry>, path: string): string | undefined => {
  for (let parent = parentOf(path); parent !== ""; parent = parentOf(parent)) {
    const entry = entries.get(parent)
    if (entry !== undefined && entry.kind !== "directory") return parent
  }
  return undefined
}

/** Checks the rows of a document against each other, and returns an error or undefined. */
const whyInconsistent = (document: typeof Document.Type, limits: Limits): string | undefined => {
  const count = document.directories.length + document.packed.length + document.copied.length + document.links.length
  if (count > limits.maxFiles) return `it has ${count} files, but maxFiles is ${limits.maxFiles}`
  let total = 0
  for (const { size } of document.packed) total += size
  for (const { size } of document.copied) total += size
  if (total > limits.maxBytes) return `its files have ${total} bytes, but maxBytes is ${limits.maxBytes}`
  for (const { offset, pack, path, size } of document.packed) {
    const bytes = document.packs[pack]?.bytes
    if (bytes === undefined || offset + size > bytes) return `${JSON.stringify(path)} is outside its pack`
  }
  for (const { path, target } of document.links) {
    const why = unsafeLinkReason(path, target)
    if (why !== undefined) return `the link ${JSON.stringify(path)} is rejected: ${why}`
  }
  return undefined
}

/** Decodes and checks a manifest, or returns the reason why it is rejected. */
export const decode = (text: string, generation: number, limits: Limits): Result.Result<Manifest, string> => {
  const decoded = decodeDocument(text)
  if (Result.isFailure(decoded)) return Result.fail(decoded.failure.message)
  const document = decoded.success
  if (document.generation !== generation) return Result.fail(`its generation is ${document.generation} instead of ${generation}`)
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
  if (entries.size !== rows) return Result.fail("it contains a path twice")
  const checkedParents = new Set<string>([""])
  for (const path of entries.keys()) {
    const parent = parentOf(path)
    if (checkedParents.has(parent)) continue
    const file = blockingAncestor(entries, path)
    if (file !== undefined) {
      return Result.fail(`${JSON.stringify(path)} is below ${JSON.stringify(file)}, which is not a directory`)
    }
    checkedParents.add(parent)
  }
  return Result.succeed({
    entries,
    packs: new Map(document.packs.map(({ bytes, name }) => [name, bytes])),
    dropped: new Map(document.dropped.map(({ at, name }) => [name, at]))
  })
}

/** Encodes a manifest. */
export const encode = (manifest: Manifest, generation: number): string => {
  const packs = Array.from(manifest.packs, ([name, bytes]) => ({ name, bytes }))
  const indexes = new Map(packs.map(({ name }, index) => [name, index]))
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
        packed.push({ path, size, mtime, mode, pack: indexes.get(entry.pack), offset, crc })
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

/** The maximum generation: twelve digits, or 31,000 years at one per second. */
export const MAX_GENERATION = 999_999_999_999

/** The file name of a generation. */
export const fileName = (generation: number): string => `manifest-${String(generation).padStart(12, "0")}.json`

/** Parses the generation from a file name; none for other files. */
export const generationOf = (name: string): Option.Option<number> => {
  const digits = FILE_NAME.exec(name)?.[1]
  return digits === undefined ? Option.none() : Option.some(Number(digits))
}

/**
 * Directory -> mirror: what is new, so that the next cold worker has it.
 *
 * ```
 *   scan --> compare --+-- the same ------------------------------------------------ nothing
 *                      +-- small, changed --> packs, one written while the next is read --+
 *                      |                                                                  +--> publish --> compact --> collect
 *                      +-- large, changed --> copies, several at a time ------------------+
 *                             4 GiB, publish, 4 GiB, publish, ...
 * ```
 *
 * A file is copied as it was found, or not at all: after its bytes were read, its size, times and inode must be what the scan saw.
 * Otherwise somebody is writing to it, and the next sync takes it. Nothing that was written counts before a manifest says so, which is the
 * last thing that happens (file://./Mirror.ts).
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import { constants } from "node:fs"
import { type CachedDirectory, matches } from "./CachedDirectory.ts"
import * as Checksum from "./Checksum.ts"
import * as Compaction from "./Compaction.ts"
import { micros, scan, type ScanEntry, type ScannedFile, unchanged } from "./DirectoryScan.ts"
import { LocalFiles } from "./LocalFiles.ts"
import * as Manifest from "./Manifest.ts"
import * as ManifestMerge from "./ManifestMerge.ts"
import * as Mirror from "./Mirror.ts"
import * as TimeSlice from "./TimeSlice.ts"
import { VolumeFiles } from "./VolumeFiles.ts"

/** Packs of this size: large enough that a network volume streams, small enough that two fit into any worker's memory. Bytes. */
export const PACK = 16 * 1024 * 1024

/** After so many bytes of large files what has arrived is published: a worker that is killed loses no more than this. */
const BATCH = 4 * 1024 * 1024 * 1024

/** A file that was written to so shortly before it was read may have been written to twice in a tick of the clock. Microseconds. */
const RECENT_WRITE = 50_000

const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)

/** Counts while it goes on, so that they are right whenever it ends. */
export interface SyncProgress {
  files: number
  bytes: number
  unchanged: number
  removed: number
  changing: number
  skipped: number
  firstError: string | undefined
}

/** Nothing yet. */
export const progress = (): SyncProgress => ({
  files: 0,
  bytes: 0,
  unchanged: 0,
  removed: 0,
  changing: 0,
  skipped: 0,
  firstError: undefined
})

interface Candidate {
  readonly file: ScannedFile
  readonly base: Manifest.Entry | undefined
}

const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)
const isRecentlyModified = (file: ScannedFile) => micros(Date.now()) - file.mtime < RECENT_WRITE

/** What has to be done, by comparing what is here with what this worker knew and what the mirror holds. */
const compare = (directory: CachedDirectory, held: Manifest.Manifest, counts: SyncProgress) => {
  const { damaged, known, settings } = directory
  const small: Array<Candidate> = []
  const large: Array<Candidate> = []
  const paths = new Map<string, ManifestMerge.Change>()
  let count = held.entries.size
  let bytes = 0
  for (const entry of held.entries.values()) bytes += Manifest.sizeOf(entry)

  /** Whether the mirror may still grow by this. */
  const fits = (path: string, size: number): boolean => {
    const there = held.entries.get(path)
    const added = size - (there === undefined ? 0 : Manifest.sizeOf(there))
    if (count >= settings.limits.maxFiles && there === undefined || bytes + added > settings.limits.maxBytes) {
      counts.skipped++
      counts.firstError ??= `${path} does not fit: the mirror has ${count} files and ${bytes} bytes. Raise maxFiles or maxBytes`
      return false
    }
    if (there === undefined) count++
    bytes += added
    return true
  }

  /** Not changed here since this worker knew it. If the mirror has lost it, it is given back, unless somebody took it out. */
  const isOld = (path: string, same: boolean): boolean => same && (held.entries.has(path) || settings.deletions === "propagate")

  const take = (file: ScannedFile, base: Manifest.Entry | undefined): void => {
    if (!fits(file.path, file.size)) return
    const candidates = file.size < settings.packBelow ? small : large
    candidates.push({ file, base })
  }

  const file = (found: ScannedFile): void => {
    const { path } = found
    const mine = known.get(path)
    const theirs = held.entries.get(path)
    if (mine === undefined && theirs !== undefined && Manifest.same(theirs, damaged.get(path))) {
      return take(found, theirs)
    }
    if (mine?.recentlyModified !== true) {
      if (isOld(path, matches(mine?.entry, found))) {
        counts.unchanged++
        return
      }
      if (theirs !== undefined && matches(theirs, found)) {
        known.set(path, { entry: theirs, recentlyModified: false })
        counts.unchanged++
        return
      }
    }
    const fileThere = theirs?.kind === "packed" || theirs?.kind === "copied" ? theirs : undefined
    if (mine === undefined && theirs !== undefined && (fileThere === undefined || fileThere.mtime > found.mtime)) {
      counts.unchanged++
      return
    }
    if (
      fileThere !== undefined && mine?.recentlyModified === false && Manifest.same(mine.entry, theirs) &&
      matches(fileThere, { ...found, mode: fileThere.mode })
    ) {
      // Only its mode has changed.
      paths.set(path, { entry: { ...fileThere, mode: found.mode }, base: fileThere, strict: true })
      return
    }
    take(found, mine?.entry)
  }

  const other = (entry: Manifest.DirectoryEntry | Manifest.LinkEntry, path: string): void => {
    const mine = known.get(path)?.entry
    const theirs = held.entries.get(path)
    if (Manifest.same(entry, theirs)) known.set(path, { entry, recentlyModified: false })
    else if (!isOld(path, Manifest.same(mine, entry)) && (mine !== undefined || theirs === undefined) && fits(path, 0)) {
      paths.set(path, { entry, base: mine, strict: false })
    }
  }

  const one = (found: ScanEntry): void => {
    switch (found.kind) {
      case "file":
        return file(found)
      case "directory":
        return other({ kind: "directory", mode: found.mode }, found.path)
      case "link":
        return other({ kind: "link", target: found.target }, found.path)
    }
  }
  return { one, small, large, paths }
}

/** What this worker knew and no longer has. */
const vanished = (directory: CachedDirectory, found: ReadonlyArray<ScanEntry>, local: LocalFiles): ReadonlyArray<string> => {
  const here = new Set(found.map(({ path }) => path))
  return [...directory.known.keys()].filter((path) => {
    if (here.has(path)) return false
    try {
      return local.lstatSync(`${directory.root}/${path}`, { throwIfNoEntry: false }) === undefined
    } catch (cause) {
      return /ENOTDIR/.test(messageOf(cause))
    }
  })
}

/** Mirrors what is new in the directory, counting into `counts`. The answer is the generation that holds it. */
export const sync = Effect.fn("VolumeCache.sync")(function*(directory: CachedDirectory, counts: SyncProgress) {
  const local = yield* LocalFiles
  const files = yield* VolumeFiles
  const { known, mirror, root, settings } = directory

  const scanned = yield* scan(
    root,
    settings.exclude,
    settings.limits.maxFiles,
    settings.trustDirectories ? directory.memory : undefined
  )
  counts.skipped += scanned.left
  if (scanned.truncated) counts.firstError ??= `there are more than ${settings.limits.maxFiles} files. Raise maxFiles`

  if (directory.held === undefined || !(yield* mirror.isNewest(directory.held))) {
    directory.held = yield* mirror.read
    for (const why of directory.held.refused) counts.firstError ??= `the mirror's manifest is refused, and replaced: ${why}`
  }
  const { large, one, paths, small } = compare(directory, directory.held.manifest, counts)
  yield* TimeSlice.forEach(scanned.found, one)

  const gone = scanned.truncated ? [] : vanished(directory, scanned.found, local)
  const removals = new Map<string, ManifestMerge.Change>()
  for (const path of gone) {
    const base = known.get(path)?.entry
    if (settings.deletions === "propagate") removals.set(path, { entry: undefined, base, strict: true })
    known.delete(path)
  }

  const recentlyModified = new Set<string>()
  let packs = new Map<string, number>()
  // What goes comes first, so that a file can take the place of a directory.
  let pending = new Map<string, ManifestMerge.Change>([...removals, ...paths])
  let published = false
  let prepared = false
  const prepare = Effect.suspend(() =>
    prepared ? Effect.void : Effect.tap(mirror.prepare, () => Effect.sync(() => prepared = true))
  )

  /** A file that was not taken has to be looked at again. */
  const forget = (path: string) => directory.memory.delete(Manifest.parentOf(path))

  const failed = (path: string, cause: unknown) => {
    forget(path)
    counts.skipped++
    counts.firstError ??= `${path}: ${messageOf(cause)}`
  }

  const markRecentlyModified = (path: string) => {
    recentlyModified.add(path)
    forget(path)
  }

  /** Publishes what has been written, and remembers what of it the mirror took. */
  const publish = Effect.gen(function*() {
    const changes: ManifestMerge.Changes = { paths: pending, packs }
    pending = new Map()
    packs = new Map()
    if (changes.paths.size > 0) yield* prepare
    const done = yield* mirror.publish(directory.held, (held, now) => ManifestMerge.merge(held, changes, now, settings.grace))
    directory.held = done.snapshot
    published ||= done.published
    const { entries } = done.snapshot.manifest
    for (const [path, { entry }] of changes.paths) {
      if (entry === undefined) {
        if (!entries.has(path)) counts.removed++
      } else if (Manifest.same(entries.get(path), entry)) {
        known.set(path, { entry, recentlyModified: recentlyModified.has(path) })
        if (entry.kind !== "directory") counts.files++
        counts.bytes += Manifest.sizeOf(entry)
      } else {
        known.delete(path)
      }
    }
  })

  /** Reads a small file into a pack that is being made; its entry without the pack's name, or undefined. */
  const readInto = (buffer: Buffer, offset: number, { base, file }: Candidate): Manifest.PackedEntry | undefined => {
    const { mode, mtime, path, size } = file
    const fd = local.openSync(`${root}/${path}`, READ)
    try {
      let done = 0
      while (done < size) {
        const read = local.readSync(fd, buffer, offset + done, size - done, done)
        if (read === 0) break
        done += read
      }
      if (done < size || !unchanged(file, local.fstatSync(fd))) {
        forget(path)
        counts.changing++
        return undefined
      }
    } finally {
      local.closeSync(fd)
    }
    const crc = Checksum.sum(buffer.subarray(offset, offset + size))
    if (isRecentlyModified(file)) markRecentlyModified(path)
    const there = Manifest.same(directory.held?.manifest.entries.get(path), base)
    if (
      base?.kind === "packed" && there && base.crc === crc && matches(base, file) && known.get(path)?.recentlyModified === true
    ) {
      // It was read again only because it was hot, and is what it was.
      known.set(path, { entry: base, recentlyModified: recentlyModified.has(path) })
      counts.unchanged++
      return undefined
    }
    return { kind: "packed", size, mtime, mode, pack: "", offset, crc }
  }

  const packAll = Effect.gen(function*() {
    const wanted = small.values()
    let next = wanted.next()
    const buffers = [0, 1].map(() => ({ bytes: Buffer.alloc(0) }))
    let writing: Fiber.Fiber<void, Effect.Error<ReturnType<typeof files.write>>> | undefined
    for (let turn = 0; next.done !== true; turn++) {
      const name = `${Mirror.uniqueName()}.pack`
      const chunk: Array<Candidate> = []
      let bytes = 0
      for (; next.done !== true && (bytes === 0 || bytes + next.value.file.size <= PACK); next = wanted.next()) {
        chunk.push(next.value)
        bytes += next.value.file.size
      }
      const buffer = buffers[turn % 2] ?? { bytes: Buffer.alloc(0) }
      if (buffer.bytes.length < bytes) buffer.bytes = Buffer.allocUnsafeSlow(bytes)
      let end = 0
      let count = 0
      yield* TimeSlice.forEach(chunk, (candidate) => {
        const { path } = candidate.file
        try {
          const entry = readInto(buffer.bytes, end, candidate)
          if (entry === undefined) return
          end += entry.size
          count++
          pending.set(path, { entry: { ...entry, pack: name }, base: candidate.base, strict: false })
        } catch (cause) {
          if (/ENOENT|ENOTDIR/.test(messageOf(cause))) {
            forget(path)
            counts.changing++
          } else failed(path, cause)
        }
      })
      if (writing !== undefined) yield* Fiber.join(writing)
      if (count === 0) {
        writing = undefined
        continue
      }
      yield* prepare
      packs.set(name, end)
      writing = yield* Effect.forkChild(files.write(mirror.pack(name), [buffer.bytes.subarray(0, end)], { durable: false }))
    }
    if (writing !== undefined) yield* Fiber.join(writing)
  })

  const copy = Effect.fnUntraced(function*({ base, file }: Candidate) {
    const { mode, mtime, path, size } = file
    const name = `${Mirror.uniqueName()}.copy`
    const copied = yield* Effect.result(files.copyIn(`${root}/${path}`, mirror.copy(name)))
    if (Result.isFailure(copied)) {
      const { code } = copied.failure
      if (code === "ENOENT" || code === "ELOOP") {
        forget(path)
        counts.changing++
      } else if (code === "EACCES" || code === "EPERM") failed(path, copied.failure)
      else return yield* copied.failure
      return
    }
    try {
      const stat = local.lstatSync(`${root}/${path}`, { throwIfNoEntry: false })
      if (stat?.isFile() === true && unchanged(file, stat)) {
        const sample = Checksum.sample(local, `${root}/${path}`, size)
        if (isRecentlyModified(file)) markRecentlyModified(path)
        pending.set(path, { entry: { kind: "copied", size, mtime, mode, copy: name, sample }, base, strict: false })
        return
      }
      forget(path)
      counts.changing++
    } catch (cause) {
      failed(path, cause)
    }
    yield* Effect.ignore(files.remove(mirror.copy(name)))
  })

  yield* packAll
  yield* publish
  for (let index = 0; index < large.length;) {
    const batch: Array<Candidate> = []
    let bytes = 0
    for (; index < large.length && bytes < BATCH; index++) {
      const candidate = large[index]
      if (candidate === undefined) break
      batch.push(candidate)
      bytes += candidate.file.size
    }
    yield* prepare
    yield* Effect.forEach(batch, copy, { concurrency: settings.concurrency, discard: true })
    yield* publish
  }
  if (published) {
    yield* Compaction.compact(directory)
    yield* mirror.collect(directory.held)
  }
  return directory.held.generation
})

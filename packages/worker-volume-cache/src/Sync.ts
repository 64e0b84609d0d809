/**
 * Copies new and changed files of the directory to the mirror, for the next cold worker.
 *
 * ```
 *   scan --> compare --+-- unchanged ----------------------------------------------- nothing
 *                      +-- small, changed --> packs, one written while the next is read --+
 *                      |                                                                  +--> publish --> compact --> collect
 *                      +-- large, changed --> copies, concurrently -----------------------+
 *                             4 GiB, publish, 4 GiB, publish, ...
 * ```
 *
 * A file is copied consistently or not at all: after its bytes are read, its size, times and inode must be the same as in the scan. Otherwise it is
 * being modified, and the next sync copies it. Written files take effect only when a manifest lists them, which is the last step
 * (file://./Mirror.ts).
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

/** The size of a pack: large enough to stream to a network volume, small enough that two fit into memory. Bytes. */
const PACK = 16 * 1024 * 1024

/** Large files are published after this number of bytes, which is the most that a killed worker can lose. */
const BATCH = 4 * 1024 * 1024 * 1024

/** A file modified this shortly before it was read may be modified again in the same clock tick. Microseconds. */
const RECENT_WRITE = 50_000

const READ = constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0)

/** The counters of a sync. They are updated as it proceeds, so that they are correct if it is interrupted. */
export interface SyncProgress {
  files: number
  bytes: number
  unchanged: number
  removed: number
  changing: number
  skipped: number
  firstError: string | undefined
}

/** Creates counters at zero. */
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

/** Determines the changes by comparing the directory with the known state and the mirror. */
const compare = (directory: CachedDirectory, manifest: Manifest.Manifest, counts: SyncProgress) => {
  const { damaged, known, settings } = directory
  const small: Array<Candidate> = []
  const large: Array<Candidate> = []
  const paths = new Map<string, ManifestMerge.Change>()
  let count = manifest.entries.size
  let bytes = 0
  for (const entry of manifest.entries.values()) bytes += Manifest.sizeOf(entry)

  /** Whether the file fits into the limits of the mirror; if so, it is counted. */
  const fits = (path: string, size: number): boolean => {
    const existing = manifest.entries.get(path)
    const added = size - (existing === undefined ? 0 : Manifest.sizeOf(existing))
    if (count >= settings.limits.maxFiles && existing === undefined || bytes + added > settings.limits.maxBytes) {
      counts.skipped++
      counts.firstError ??= `${path} does not fit: the mirror has ${count} files and ${bytes} bytes. Raise maxFiles or maxBytes`
      return false
    }
    if (existing === undefined) count++
    bytes += added
    return true
  }

  /** Whether the path needs no copy: it is unchanged locally, and the mirror has it or has removed it on purpose. */
  const isUpToDate = (path: string, same: boolean): boolean =>
    same && (manifest.entries.has(path) || settings.deletions === "propagate")

  const addCandidate = (file: ScannedFile, base: Manifest.Entry | undefined): void => {
    if (!fits(file.path, file.size)) return
    const candidates = file.size < settings.packBelow ? small : large
    candidates.push({ file, base })
  }

  const compareFile = (found: ScannedFile): void => {
    const { path } = found
    const mine = known.get(path)
    const theirs = manifest.entries.get(path)
    if (mine === undefined && theirs !== undefined && Manifest.same(theirs, damaged.get(path))) {
      return addCandidate(found, theirs)
    }
    if (mine?.recentlyModified !== true) {
      if (isUpToDate(path, matches(mine?.entry, found))) {
        counts.unchanged++
        return
      }
      if (theirs !== undefined && matches(theirs, found)) {
        known.set(path, { entry: theirs, recentlyModified: false })
        counts.unchanged++
        return
      }
    }
    const mirrored = theirs?.kind === "packed" || theirs?.kind === "copied" ? theirs : undefined
    if (mine === undefined && theirs !== undefined && (mirrored === undefined || mirrored.mtime > found.mtime)) {
      counts.unchanged++
      return
    }
    if (
      mirrored !== undefined && mine?.recentlyModified === false && Manifest.same(mine.entry, theirs) &&
      matches(mirrored, { ...found, mode: mirrored.mode })
    ) {
      // Only the mode has changed, so the bytes are not copied.
      paths.set(path, { entry: { ...mirrored, mode: found.mode }, base: mirrored, strict: true })
      return
    }
    addCandidate(found, mine?.entry)
  }

  const compareOther = (entry: Manifest.DirectoryEntry | Manifest.LinkEntry, path: string): void => {
    const mine = known.get(path)?.entry
    const theirs = manifest.entries.get(path)
    if (Manifest.same(entry, theirs)) known.set(path, { entry, recentlyModified: false })
    else if (!isUpToDate(path, Manifest.same(mine, entry)) && (mine !== undefined || theirs === undefined) && fits(path, 0)) {
      paths.set(path, { entry, base: mine, strict: false })
    }
  }

  const compareEntry = (found: ScanEntry): void => {
    switch (found.kind) {
      case "file":
        return compareFile(found)
      case "directory":
        return compareOther({ kind: "directory", mode: found.mode }, found.path)
      case "link":
        return compareOther({ kind: "link", target: found.target }, found.path)
    }
  }
  return { compareEntry, small, large, paths }
}

/** The known paths that no longer exist locally. */
const deletedPaths = (directory: CachedDirectory, found: ReadonlyArray<ScanEntry>, local: LocalFiles): ReadonlyArray<string> => {
  const present = new Set(found.map(({ path }) => path))
  return [...directory.known.keys()].filter((path) => {
    if (present.has(path)) return false
    try {
      return local.lstatSync(`${directory.root}/${path}`, { throwIfNoEntry: false }) === undefined
    } catch (cause) {
      return /ENOTDIR/.test(messageOf(cause))
    }
  })
}

/** Copies the changes of the directory to the mirror and updates `counts`. Returns the resulting generation. */
export const sync = Effect.fn("VolumeCache.sync")(function*(directory: CachedDirectory, counts: SyncProgress) {
  const local = yield* LocalFiles
  const files = yield* VolumeFiles
  const { known, mirror, root, settings } = directory

  const scanned = yield* scan(
    root,
    settings.exclude,
    settings.limits.maxFiles,
    settings.trustDirectories ? directory.scanCache : undefined
  )
  counts.skipped += scanned.skipped
  if (scanned.truncated) counts.firstError ??= `there are more than ${settings.limits.maxFiles} files. Raise maxFiles`

  if (directory.lastSnapshot === undefined || !(yield* mirror.isNewest(directory.lastSnapshot))) {
    directory.lastSnapshot = yield* mirror.read
    for (const why of directory.lastSnapshot.rejected) {
      counts.firstError ??= `the mirror's manifest is rejected and will be replaced: ${why}`
    }
  }
  const { compareEntry, large, paths, small } = compare(directory, directory.lastSnapshot.manifest, counts)
  yield* TimeSlice.forEach(scanned.found, compareEntry)

  const deleted = scanned.truncated ? [] : deletedPaths(directory, scanned.found, local)
  const removals = new Map<string, ManifestMerge.Change>()
  for (const path of deleted) {
    const base = known.get(path)?.entry
    if (settings.deletions === "propagate") removals.set(path, { entry: undefined, base, strict: true })
    known.delete(path)
  }

  const recentlyModified = new Set<string>()
  let packs = new Map<string, number>()
  // Removals come first, so that a file can replace a deleted directory.
  let pending = new Map<string, ManifestMerge.Change>([...removals, ...paths])
  let published = false
  let prepared = false
  const prepare = Effect.suspend(() =>
    prepared ? Effect.void : Effect.tap(mirror.prepare, () => Effect.sync(() => prepared = true))
  )

  /** Invalidates the scan cache for a file that was not copied, so that the next sync checks it again. */
  const rescan = (path: string) => directory.scanCache.delete(Manifest.parentOf(path))

  const failed = (path: string, cause: unknown) => {
    rescan(path)
    counts.skipped++
    counts.firstError ??= `${path}: ${messageOf(cause)}`
  }

  const markRecentlyModified = (path: string) => {
    recentlyModified.add(path)
    rescan(path)
  }

  /** Publishes the written files, and records those that the mirror accepted. */
  const publish = Effect.gen(function*() {
    const changes: ManifestMerge.Changes = { paths: pending, packs }
    pending = new Map()
    packs = new Map()
    if (changes.paths.size > 0) yield* prepare
    const result = yield* mirror.publish(
      directory.lastSnapshot,
      (current, now) => ManifestMerge.merge(current, changes, now, settings.grace)
    )
    directory.lastSnapshot = result.snapshot
    published ||= result.published
    const { entries } = result.snapshot.manifest
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

  /** Reads a small file into a pack buffer. Returns its entry without the name of the pack, or undefined if it is not packed. */
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
        rescan(path)
        counts.changing++
        return undefined
      }
    } finally {
      local.closeSync(fd)
    }
    const crc = Checksum.sum(buffer.subarray(offset, offset + size))
    if (isRecentlyModified(file)) markRecentlyModified(path)
    const isCurrent = Manifest.same(directory.lastSnapshot?.manifest.entries.get(path), base)
    if (
      base?.kind === "packed" && isCurrent && base.crc === crc && matches(base, file) &&
      known.get(path)?.recentlyModified === true
    ) {
      // The file was read again only because of its recent modification, and it has not changed.
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
            rescan(path)
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
        rescan(path)
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
      rescan(path)
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
    yield* mirror.collect(directory.lastSnapshot)
  }
  return directory.lastSnapshot.generation
})

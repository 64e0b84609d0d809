/**
 * Copies the mirror to the directory when a worker starts.
 *
 * ```
 *   manifest --> plan -----> packs: read one, unpack the previous one --> copies, concurrently --> links --> adopt
 *                 |
 *                 +- exists already: recorded for the next sync                    (never overwritten)
 *                 +- excluded, no space, blocked by a file or a link: skipped
 * ```
 *
 * An error with one file skips that file. An error with the volume ends the hydration; the files copied so far stay, each of them complete.
 */
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { type CachedDirectory, matches } from "./CachedDirectory.ts"
import * as Checksum from "./Checksum.ts"
import { foundFile } from "./DirectoryScan.ts"
import { LocalFiles } from "./LocalFiles.ts"
import * as Manifest from "./Manifest.ts"
import { Staging } from "./Staging.ts"
import * as TimeSlice from "./TimeSlice.ts"
import { VolumeFiles } from "./VolumeFiles.ts"

/** The directory cannot be hydrated at all. */
export class HydrateError extends Schema.TaggedError<HydrateError>()("HydrateError", { message: Schema.String }) {}

interface PlannedFile<E> {
  readonly path: string
  readonly entry: E
}

/** The share of the disk's free space that is not used. */
const FREE_SPACE_RESERVE = 0.05

/** Errors after which every further write would fail too. */
const DISK_FULL = /ENOSPC|EDQUOT|EROFS/

/** The counters of a hydration. They are updated as it proceeds, so that they are correct if it is interrupted. */
export interface HydrateProgress {
  files: number
  bytes: number
  present: number
  differing: number
  damaged: number
  skipped: number
  firstError: string | undefined
}

/** Creates counters at zero. */
export const progress = (): HydrateProgress => ({
  files: 0,
  bytes: 0,
  present: 0,
  differing: 0,
  damaged: 0,
  skipped: 0,
  firstError: undefined
})

const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)

/** Checks a path and its parents against the patterns. The results of parents are cached, because many paths share them. */
const excluder = ({ settings: { exclude } }: CachedDirectory) => {
  const folders = new Map<string, boolean>([["", false]])
  const excluded = (path: string): boolean => {
    const parent = Manifest.parentOf(path)
    let parentExcluded = folders.get(parent)
    if (parentExcluded === undefined) {
      parentExcluded = excluded(parent)
      folders.set(parent, parentExcluded)
    }
    return parentExcluded || exclude(path, path.slice(path.lastIndexOf("/") + 1))
  }
  return excluded
}

/** Hydrates the directory and updates `counts`. */
export const hydrate = Effect.fn("VolumeCache.hydrate")(function*(directory: CachedDirectory, counts: HydrateProgress) {
  const local = yield* LocalFiles
  const files = yield* VolumeFiles
  const { known, mirror, root, settings } = directory
  const snapshot = yield* mirror.read
  directory.lastSnapshot = snapshot
  for (const why of snapshot.rejected) counts.firstError ??= `the mirror's manifest is rejected: ${why}`
  const { manifest } = snapshot
  if (manifest.entries.size === 0) return

  const staging = new Staging(local, root)
  const excluded = excluder(directory)
  let freeBytes = 0
  let full = false

  const failed = (path: string, cause: unknown) => {
    counts.skipped++
    counts.firstError ??= `${path}: ${messageOf(cause)}`
    full ||= DISK_FULL.test(messageOf(cause))
  }
  const damaged = ({ entry, path }: PlannedFile<Manifest.Entry>, why: string) => {
    counts.damaged++
    directory.damaged.set(path, entry)
    counts.firstError ??= `${path} is damaged in the mirror: ${why}`
  }
  const placed = (path: string, entry: Manifest.Entry, arrived: boolean) => {
    if (!arrived) {
      counts.differing++
      return
    }
    counts.files++
    counts.bytes += Manifest.sizeOf(entry)
    known.set(path, { entry, recentlyModified: false })
  }

  const packed = new Map<string, Array<PlannedFile<Manifest.PackedEntry>>>()
  const copied: Array<PlannedFile<Manifest.CopiedEntry>> = []
  const links: Array<PlannedFile<Manifest.LinkEntry>> = []

  const want = (path: string, entry: Manifest.Entry): void => {
    if (full || Manifest.sizeOf(entry) > freeBytes) {
      counts.skipped++
      counts.firstError ??= `there is no space for ${path} (${Manifest.sizeOf(entry)} bytes): ENOSPC`
      return
    }
    freeBytes -= Manifest.sizeOf(entry)
    switch (entry.kind) {
      case "packed": {
        const same = packed.get(entry.pack)
        if (same === undefined) packed.set(entry.pack, [{ path, entry }])
        else same.push({ path, entry })
        break
      }
      case "copied":
        copied.push({ path, entry })
        break
      case "link":
        links.push({ path, entry })
        break
      case "directory":
        break
    }
  }

  const plan = ([path, entry]: readonly [string, Manifest.Entry]): void => {
    if (excluded(path)) return
    try {
      if (entry.kind === "directory") {
        if (staging.directory(path, entry.mode)) known.set(path, { entry, recentlyModified: false })
        return
      }
      const existing = staging.existing(path)
      if (existing === undefined) return want(path, entry)
      const agrees = existing !== "blocked" && (entry.kind === "link"
        ? existing.isSymbolicLink() && local.readlinkSync(`${root}/${path}`) === entry.target
        : existing.isFile() && matches(entry, foundFile(path, existing)))
      if (!agrees) {
        counts.differing++
        return
      }
      counts.present++
      known.set(path, { entry, recentlyModified: false })
    } catch (cause) {
      failed(path, cause)
    }
  }

  /** Reads the part of a pack that contains all wanted files. */
  const readPack = (name: string, wanted: ReadonlyArray<PlannedFile<Manifest.PackedEntry>>) => {
    let [from, to] = [Infinity, 0]
    for (const { entry: { offset, size } } of wanted) {
      from = Math.min(from, offset)
      to = Math.max(to, offset + size)
    }
    return files.read(mirror.pack(name), from, to - from).pipe(
      Effect.map((bytes) => ({ bytes, from })),
      Effect.result
    )
  }

  const unpack = (bytes: Buffer, from: number) => (wanted: PlannedFile<Manifest.PackedEntry>): void => {
    const { entry, path } = wanted
    if (full) {
      counts.skipped++
      return
    }
    const content = bytes.subarray(entry.offset - from, entry.offset - from + entry.size)
    if (Checksum.sum(content) !== entry.crc) return damaged(wanted, "its checksum is wrong")
    try {
      placed(path, entry, staging.write(path, content, entry))
    } catch (cause) {
      failed(path, cause)
    }
  }

  const unpackAll = Effect.gen(function*() {
    const packs = [...packed]
    const fork = (index: number) => {
      const next = packs[index]
      return next === undefined ? Effect.undefined : Effect.forkChild(readPack(...next))
    }
    let reading = yield* fork(0)
    for (const [index, [, wanted]] of packs.entries()) {
      if (reading === undefined) return
      const read = yield* Fiber.join(reading)
      reading = yield* fork(index + 1)
      if (Result.isSuccess(read)) yield* TimeSlice.forEach(wanted, unpack(read.success.bytes, read.success.from))
      else for (const file of wanted) damaged(file, read.failure.message)
    }
  })

  const copy = Effect.fnUntraced(function*(wanted: PlannedFile<Manifest.CopiedEntry>) {
    const { entry, path } = wanted
    if (full) {
      counts.skipped++
      return
    }
    let reserved = ""
    const out = yield* Effect.result(Effect.suspend(() => {
      reserved = staging.reserve()
      return files.copyOut(mirror.copy(entry.copy), reserved, entry.size)
    }))
    if (Result.isFailure(out)) {
      const { code, message } = out.failure
      if (code === "ENOENT" || code === "REFUSED" || code === "ELOOP") damaged(wanted, message)
      else failed(path, out.failure)
      return
    }
    try {
      if (Checksum.sample(local, reserved, entry.size) !== entry.sample) {
        local.unlinkSync(reserved)
        return damaged(wanted, "its checksum is wrong")
      }
      placed(path, entry, staging.commit(reserved, path, entry))
    } catch (cause) {
      failed(path, cause)
    }
  })

  const link = ({ entry, path }: PlannedFile<Manifest.LinkEntry>): void => {
    try {
      placed(path, entry, staging.link(path, entry.target))
    } catch (cause) {
      failed(path, cause)
    }
  }

  const fill = Effect.gen(function*() {
    yield* Effect.try({
      try: () => {
        local.mkdirSync(root, { recursive: true })
        staging.removeStale(Date.now())
        const { bavail, bsize } = local.statfsSync(root)
        freeBytes = bavail * bsize * (1 - FREE_SPACE_RESERVE)
      },
      catch: messageOf
    }).pipe(Effect.mapError((message) => new HydrateError({ message })))
    yield* TimeSlice.forEach(manifest.entries, plan)
    yield* unpackAll
    yield* Effect.forEach(copied, copy, { concurrency: settings.concurrency, discard: true })
    yield* TimeSlice.forEach(links, link)
  })

  /** Runs after an interruption too, because complete files are useful. */
  const finish = Effect.sync(() => {
    try {
      staging.adopt()
    } catch (cause) {
      failed(root, cause)
    }
    try {
      staging.discard()
    } catch (cause) {
      failed(root, cause)
    }
  })

  yield* Effect.ensuring(fill, finish)
})

/**
 * Mirror -> directory: what a cold worker begins with.
 *
 * ```
 *   manifest --> plan -----> packs: read one, unpack the one before --> copies, several at a time --> links --> adopt
 *                 |
 *                 +- there already: remembered, so that the next sync knows it     (never overwritten)
 *                 +- excluded, no room, blocked by a file or a link: left out
 * ```
 *
 * Whatever goes wrong with one file leaves that file out. Whatever goes wrong with the volume ends the hydration; what has arrived by
 * then stays, each file whole.
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

/** The directory cannot be filled at all. */
export class HydrateError extends Schema.TaggedError<HydrateError>()("HydrateError", { message: Schema.String }) {}

interface PlannedFile<E> {
  readonly path: string
  readonly entry: E
}

/** The part of a disk's free space that is left free. */
const FREE_SPACE_RESERVE = 0.05

/** With these, every further write would fail as well. */
const DISK_FULL = /ENOSPC|EDQUOT|EROFS/

/** Counts while it goes on, so that they are right whenever it ends. */
export interface HydrateProgress {
  files: number
  bytes: number
  present: number
  differing: number
  damaged: number
  skipped: number
  firstError: string | undefined
}

/** Nothing yet. */
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

/** The parents of many paths are few. */
const excluder = ({ settings: { exclude } }: CachedDirectory) => {
  const folders = new Map<string, boolean>([["", false]])
  const excluded = (path: string): boolean => {
    const parent = Manifest.parentOf(path)
    let folder = folders.get(parent)
    if (folder === undefined) {
      folder = excluded(parent)
      folders.set(parent, folder)
    }
    return folder || exclude(path, path.slice(path.lastIndexOf("/") + 1))
  }
  return excluded
}

/** Fills the directory, counting into `counts`. */
export const hydrate = Effect.fn("VolumeCache.hydrate")(function*(directory: CachedDirectory, counts: HydrateProgress) {
  const local = yield* LocalFiles
  const files = yield* VolumeFiles
  const { known, mirror, root, settings } = directory
  const snapshot = yield* mirror.read
  directory.held = snapshot
  for (const why of snapshot.refused) counts.firstError ??= `the mirror's manifest is refused: ${why}`
  const { manifest } = snapshot
  if (manifest.entries.size === 0) return

  const staging = new Staging(local, root)
  const excluded = excluder(directory)
  let room = 0
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
    if (full || Manifest.sizeOf(entry) > room) {
      counts.skipped++
      counts.firstError ??= `there is no room for ${path} (${Manifest.sizeOf(entry)} bytes): ENOSPC`
      return
    }
    room -= Manifest.sizeOf(entry)
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
      const there = staging.existing(path)
      if (there === undefined) return want(path, entry)
      const agrees = there !== "blocked" && (entry.kind === "link"
        ? there.isSymbolicLink() && local.readlinkSync(`${root}/${path}`) === entry.target
        : there.isFile() && matches(entry, foundFile(path, there)))
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

  /** The bytes of a pack from the first to the last that is wanted. */
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
      else for (const one of wanted) damaged(one, read.failure.message)
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
        room = bavail * bsize * (1 - FREE_SPACE_RESERVE)
      },
      catch: messageOf
    }).pipe(Effect.mapError((message) => new HydrateError({ message })))
    yield* TimeSlice.forEach(manifest.entries, plan)
    yield* unpackAll
    yield* Effect.forEach(copied, copy, { concurrency: settings.concurrency, discard: true })
    yield* TimeSlice.forEach(links, link)
  })

  /** Even when it is cut short: what is complete is of use. */
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

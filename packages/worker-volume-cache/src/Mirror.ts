/**
 * One mirrored directory on the volume: its files, and the lock-free protocol by which several workers write it.
 *
 * ```
 *   <volume>/volume-cache/<endpoint>/<directory>/
 *     manifests/   manifest-000000000012.json    generations; the highest readable one is the current state
 *                  .<id>.tmp                     a manifest being written
 *     packs/       <id>.pack                     small files, end to end
 *     copies/      <id>.copy                     large files
 *
 *   worker A                          worker B
 *   read generation 12                read generation 12
 *   write <a>.pack                    write <b>.pack               unique names: no other worker writes or changes them
 *   write .<a>.tmp, fsync             write .<b>.tmp, fsync
 *   link -> manifest-...13  ok        link -> manifest-...13  EEXIST
 *                                     read generation 13, merge
 *                                     link -> manifest-...14  ok
 * ```
 *
 * `link` is the compare-and-swap: it fails when the name exists, and it is atomic on NFS too, where `flock` is unreliable. Therefore every reader
 * sees a complete manifest, a killed writer leaves the previous one, and the loser of a race only has to merge again. On a volume without hard
 * links, a writer checks the name and then renames: of two simultaneous writers, one may lose its additions until its next sync.
 *
 * Deletion is delayed, because a slower worker may still read an unused file. The manifest lists unused files with the time, and they are
 * deleted after the grace period. So are files that no manifest lists, which killed writers leave.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { join } from "node:path"
import * as Manifest from "./Manifest.ts"
import { VolumeFiles } from "./VolumeFiles.ts"

/** The location and the limits of a mirror. */
export interface Options {
  /** The volume. */
  readonly volume: string
  /** The folders below the volume; the last one is the mirror's own. */
  readonly folders: ReadonlyArray<string>
  readonly limits: Manifest.Limits
  /** The time that unused files stay. Milliseconds. */
  readonly grace: number
}

/** The state of a mirror. */
export interface Snapshot {
  /** The highest existing generation, readable or not; 0 if there is none. The next one follows it. */
  readonly generation: number
  readonly manifest: Manifest.Manifest
  /**
   * The inode of that generation's file; 0 if unknown. Without hard links a generation can be overwritten, so its number alone does not
   * show whether it has changed.
   */
  readonly inode: number
  /** The reasons why generations newer than the manifest's were rejected. */
  readonly rejected: ReadonlyArray<string>
}

/** The mirror cannot be used in its current state. */
export class MirrorError extends Schema.TaggedError<MirrorError>()("MirrorError", { message: Schema.String }) {}

const MANIFESTS = "manifests"
const PACKS = "packs"
const COPIES = "copies"

/** The maximum size of a manifest, three times the size for a million files. Larger ones are not read into memory. Bytes. */
const MAX_MANIFEST = 400 * 1024 * 1024

/** The number of generations to try, newest first, before the mirror counts as empty. */
const GENERATIONS_TRIED = 5

/** The number of generations that are never deleted, because a reader that has just listed them must find the newest. */
const GENERATIONS_KEPT = 2

/**
 * The number of attempts to publish. Each failed attempt means that another writer published first. After the last one the sync fails, and
 * its packs become unused files.
 */
const ATTEMPTS = 100

/** Creates a unique name. */
export const uniqueName = (): string => crypto.randomUUID().replaceAll("-", "")

/** The error codes of file systems that do not support this hard link. */
const WITHOUT_LINKS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EXDEV", "EINVAL"])

/** Opens the mirror at this location, which may not exist yet. */
export const make = Effect.fnUntraced(function*({ folders, grace, limits, volume }: Options) {
  const files = yield* VolumeFiles
  const root = yield* files.realPath(volume)
  const directory = join(root, ...folders)
  const folderOf = (name: string) => join(directory, name)

  /** Checks that each of these folders, starting at the volume, is a directory. False if one does not exist. */
  const check = Effect.fnUntraced(function*(path: ReadonlyArray<string>, create: boolean) {
    let at = root
    for (const name of path) {
      at = join(at, name)
      let stat = yield* files.stat(at)
      if (stat === undefined && create) {
        yield* files.makeDirectory(at)
        stat = yield* files.stat(at)
      }
      if (stat === undefined) return false
      if (stat.kind !== "directory") {
        return yield* new MirrorError({ message: `${at} is not a directory (links are not followed). Delete it` })
      }
    }
    return true
  })

  const generations = Effect.gen(function*() {
    const names = yield* files.list(folderOf(MANIFESTS))
    return names.flatMap((name) => Option.toArray(Manifest.generationOf(name))).sort((left, right) => right - left)
  })

  const exists = check([...folders, MANIFESTS], false)

  const inodeOf = (generation: number) =>
    Effect.map(files.stat(join(folderOf(MANIFESTS), Manifest.fileName(generation))), (stat) => stat?.inode ?? 0)

  /** Whether the mirror is unchanged since the snapshot. It does not read the manifest. */
  const isNewest = Effect.fnUntraced(function*({ generation, inode }: Snapshot) {
    if (!(yield* exists)) return generation === 0
    const [newest] = yield* generations
    return newest === undefined ? generation === 0 : newest === generation && inode !== 0 && inode === (yield* inodeOf(newest))
  })

  const readOne = Effect.fnUntraced(function*(generation: number) {
    const bytes = yield* files.readAll(join(folderOf(MANIFESTS), Manifest.fileName(generation)), MAX_MANIFEST)
    return Manifest.decode(bytes.toString("utf8"), generation, limits)
  })

  const readNewest = Effect.fnUntraced(function*() {
    const all = yield* generations
    const rejected: Array<string> = []
    let deleted = false
    // Read before the manifest, so that a replacement in between is detected by the next isNewest.
    const inode = all[0] === undefined ? 0 : yield* inodeOf(all[0])
    for (const generation of all.slice(0, GENERATIONS_TRIED)) {
      const read = yield* Effect.result(readOne(generation))
      if (Result.isFailure(read)) {
        // Other read errors may be temporary. Only invalid files are skipped, because the next generation replaces them.
        if (read.failure.code === "ENOENT") deleted = true
        else if (read.failure.code !== "REFUSED" && read.failure.code !== "ELOOP") return yield* read.failure
        rejected.push(`${Manifest.fileName(generation)}: ${read.failure.message}`)
      } else if (Result.isFailure(read.success)) {
        rejected.push(`${Manifest.fileName(generation)}: ${read.success.failure}`)
      } else {
        const snapshot: Snapshot = { generation: all[0] ?? generation, manifest: read.success.success, inode, rejected }
        return { snapshot, deleted }
      }
    }
    const snapshot: Snapshot = { generation: all[0] ?? 0, manifest: Manifest.empty, inode, rejected }
    return { snapshot, deleted }
  })

  /** Reads the current state of the mirror. */
  const read = Effect.fn("Mirror.read")(function*() {
    if (!(yield* exists)) return { generation: 0, manifest: Manifest.empty, inode: 0, rejected: [] } satisfies Snapshot
    const first = yield* readNewest()
    // A generation is deleted only when newer ones exist, so a second attempt finds a newer one.
    return first.deleted ? (yield* readNewest()).snapshot : first.snapshot
  })

  /** Creates the folders. */
  const prepare = Effect.forEach([MANIFESTS, PACKS, COPIES], (name) => check([...folders, name], true), { discard: true })

  /** Gives the manifest its name. False if another writer has taken the name. */
  const claim = Effect.fnUntraced(function*(written: string, path: string, inode: number) {
    const linked = yield* Effect.result(files.link(written, path))
    if (Result.isSuccess(linked)) return true
    const { code } = linked.failure
    if (code === "EEXIST") {
      // If the response to a successful link is lost, the NFS client retries and gets EEXIST for its own file.
      return (yield* files.stat(path))?.inode === inode
    }
    if (!WITHOUT_LINKS.has(code)) return yield* linked.failure
    if ((yield* files.stat(path)) !== undefined) return false
    yield* files.rename(written, path)
    return true
  })

  /**
   * Publishes the next generation. `merge` receives the current manifest and returns the new one, or undefined for no change. It is
   * called again when another writer published first.
   */
  const publish = Effect.fn("Mirror.publish")(function*(
    known: Snapshot | undefined,
    merge: (current: Manifest.Manifest, now: number) => Manifest.Manifest | undefined
  ) {
    let current = known
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      current ??= yield* read()
      const manifest = merge(current.manifest, yield* Clock.currentTimeMillis)
      if (manifest === undefined) return { snapshot: current, published: false }
      const generation = current.generation + 1
      if (generation > Manifest.MAX_GENERATION) {
        return yield* new MirrorError({ message: `${directory} has no generations left. Delete it` })
      }
      const written = join(folderOf(MANIFESTS), `.${uniqueName()}.tmp`)
      const path = join(folderOf(MANIFESTS), Manifest.fileName(generation))
      yield* files.write(written, [Buffer.from(Manifest.encode(manifest, generation))], { durable: true })
      const inode = (yield* files.stat(written))?.inode ?? 0
      const claimed = yield* Effect.ensuring(claim(written, path, inode), Effect.ignore(files.remove(written)))
      if (claimed) {
        const snapshot: Snapshot = { generation, manifest, inode, rejected: [] }
        return { snapshot, published: true }
      }
      current = undefined
    }
    return yield* new MirrorError({ message: `${ATTEMPTS} other writers published first in ${directory}` })
  })

  /** Deletes unused files. After a failure, the next sync tries again. */
  const collect = Effect.fn("Mirror.collect")(function*({ generation, manifest }: Snapshot) {
    const own = yield* files.stat(join(folderOf(MANIFESTS), Manifest.fileName(generation)))
    if (own === undefined) return
    // Uses the volume's clock, because the clocks of workers may differ.
    const old = own.mtime - grace
    const used = new Set(manifest.packs.keys())
    for (const entry of manifest.entries.values()) if (entry.kind === "copied") used.add(entry.copy)
    const removeIf = (folder: string, unused: (name: string) => boolean) =>
      Effect.gen(function*() {
        for (const name of yield* files.list(folderOf(folder))) {
          if (!unused(name)) continue
          const path = join(folderOf(folder), name)
          const stat = yield* files.stat(path)
          if (stat?.kind === "file" && stat.mtime < old) yield* files.remove(path)
        }
      })
    const isUnused = (name: string) => !used.has(name) && !manifest.dropped.has(name)
    yield* removeIf(PACKS, isUnused)
    yield* removeIf(COPIES, isUnused)
    yield* removeIf(MANIFESTS, (name) => {
      const found = Manifest.generationOf(name)
      return Option.isSome(found) ? found.value <= generation - GENERATIONS_KEPT : name.endsWith(".tmp")
    })
  })

  return {
    directory,
    isNewest,
    read: read(),
    prepare,
    publish,
    collect,
    pack: (name: string) => join(folderOf(PACKS), name),
    copy: (name: string) => join(folderOf(COPIES), name)
  }
})

/** A mirror. */
export type Mirror = Effect.Success<ReturnType<typeof make>>

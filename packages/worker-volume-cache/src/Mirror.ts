/**
 * One mirrored directory on the volume: its files, and how several workers write it without a lock.
 *
 * ```
 *   <volume>/volume-cache/<endpoint>/<directory>/
 *     manifests/   manifest-000000000012.json    generations; the highest that can be read is what the mirror holds
 *                  .<id>.tmp                     one that is being written
 *     packs/       <id>.pack                     small files, end to end
 *     copies/      <id>.copy                     large files
 *
 *   worker A                          worker B
 *   read generation 12                read generation 12
 *   write <a>.pack                    write <b>.pack               new names: nobody else writes them, nobody changes them
 *   write .<a>.tmp, fsync             write .<b>.tmp, fsync
 *   link -> manifest-...13  ok        link -> manifest-...13  EEXIST
 *                                     read generation 13, merge
 *                                     link -> manifest-...14  ok
 * ```
 *
 * `link` is the compare-and-swap: it is atomic on NFS too, where `flock` is not to be relied on, and it fails when the name is taken. So
 * every reader sees a whole manifest, a killed writer leaves the old one, and a loser loses nothing but a turn. A volume without hard links
 * gets a `rename` after a look: two writers in the same instant may then lose one's additions, which the next sync adds again.
 *
 * Files are deleted late. What goes out of use is listed in the manifest with the time, and deleted after the grace, because a slower
 * worker may still read it; so is what no manifest knows, which is what killed writers leave.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { join } from "node:path"
import * as Manifest from "./Manifest.ts"
import { VolumeFiles } from "./VolumeFiles.ts"

/** Where a mirror is, and what is believed of it. */
export interface Options {
  /** The volume. */
  readonly volume: string
  /** Folders below the volume, the last one being the mirror's own. */
  readonly folders: ReadonlyArray<string>
  readonly limits: Manifest.Limits
  /** How long unused files stay. Milliseconds. */
  readonly grace: number
}

/** What a mirror holds. */
export interface Snapshot {
  /** The highest generation that there is, readable or not; 0 when there is none. The next one is made after it. */
  readonly generation: number
  readonly manifest: Manifest.Manifest
  /**
   * The file of that generation, by inode; 0 when it is not known. Without hard links a generation can be written twice, and its number
   * does not tell whether it is still what it was.
   */
  readonly inode: number
  /** Why newer generations than that of the manifest were not used. */
  readonly refused: ReadonlyArray<string>
}

/** The mirror cannot be used as it is. */
export class MirrorError extends Schema.TaggedError<MirrorError>()("MirrorError", { message: Schema.String }) {}

const MANIFESTS = "manifests"
const PACKS = "packs"
const COPIES = "copies"

/** A manifest of a million files has a third of it. Larger ones are not read into memory. */
const MAX_MANIFEST = 400 * 1024 * 1024

/** How many generations are tried, newest first, before the mirror counts as empty. */
const GENERATIONS_TRIED = 5

/** How many generations stay, however old: a reader that has just listed them must find the newest. */
const GENERATIONS_KEPT = 2

/**
 * How often a writer merges again. Every failure is the success of another writer, so this many have to come in between; after that
 * the sync is given up, and the next one finds its packs unused.
 */
const ATTEMPTS = 100

/** A name that nobody else makes. */
export const uniqueName = (): string => crypto.randomUUID().replaceAll("-", "")

/** The errors of file systems that have no hard links, or none here. */
const WITHOUT_LINKS = new Set(["EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EMLINK", "EXDEV", "EINVAL"])

/** The mirror at this place, whether it is there yet or not. */
export const make = Effect.fnUntraced(function*({ folders, grace, limits, volume }: Options) {
  const files = yield* VolumeFiles
  const root = yield* files.realPath(volume)
  const directory = join(root, ...folders)
  const folderOf = (name: string) => join(directory, name)

  /** Makes sure that these folders are directories, all the way from the volume. False: one is not there. */
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
        return yield* new MirrorError({ message: `${at} is no directory (links are not followed). Remove it` })
      }
    }
    return true
  })

  const numbers = Effect.gen(function*() {
    const names = yield* files.list(folderOf(MANIFESTS))
    return names.flatMap((name) => Option.toArray(Manifest.generationOf(name))).sort((left, right) => right - left)
  })

  const exists = check([...folders, MANIFESTS], false)

  const inodeOf = (generation: number) =>
    Effect.map(files.stat(join(folderOf(MANIFESTS), Manifest.fileName(generation))), (stat) => stat?.inode ?? 0)

  /** Whether the mirror still holds what it did, as far as can be told without reading it. */
  const isNewest = Effect.fnUntraced(function*({ generation, inode }: Snapshot) {
    if (!(yield* exists)) return generation === 0
    const [newest] = yield* numbers
    return newest === undefined ? generation === 0 : newest === generation && inode !== 0 && inode === (yield* inodeOf(newest))
  })

  const readOne = Effect.fnUntraced(function*(generation: number) {
    const bytes = yield* files.readAll(join(folderOf(MANIFESTS), Manifest.fileName(generation)), MAX_MANIFEST)
    return Manifest.decode(bytes.toString("utf8"), generation, limits)
  })

  const readNewest = Effect.fnUntraced(function*() {
    const all = yield* numbers
    const refused: Array<string> = []
    let gone = false
    // Before it is read: a file that takes its place in between is found to be another one the next time.
    const inode = all[0] === undefined ? 0 : yield* inodeOf(all[0])
    for (const generation of all.slice(0, GENERATIONS_TRIED)) {
      const read = yield* Effect.result(readOne(generation))
      if (Result.isFailure(read)) {
        // What cannot be read now may be good: only what is no manifest is passed over, and so replaced by the next one.
        if (read.failure.code === "ENOENT") gone = true
        else if (read.failure.code !== "REFUSED" && read.failure.code !== "ELOOP") return yield* read.failure
        refused.push(`${Manifest.fileName(generation)}: ${read.failure.message}`)
      } else if (Result.isFailure(read.success)) {
        refused.push(`${Manifest.fileName(generation)}: ${read.success.failure}`)
      } else {
        const snapshot: Snapshot = { generation: all[0] ?? generation, manifest: read.success.success, inode, refused }
        return { snapshot, gone }
      }
    }
    const snapshot: Snapshot = { generation: all[0] ?? 0, manifest: Manifest.empty, inode, refused }
    return { snapshot, gone }
  })

  /** What the mirror holds now. */
  const read = Effect.fn("Mirror.read")(function*() {
    if (!(yield* exists)) return { generation: 0, manifest: Manifest.empty, inode: 0, refused: [] } satisfies Snapshot
    const first = yield* readNewest()
    // It was deleted between the listing and the reading, which newer generations are the reason for.
    return first.gone ? (yield* readNewest()).snapshot : first.snapshot
  })

  /** Makes the folders. */
  const prepare = Effect.forEach([MANIFESTS, PACKS, COPIES], (name) => check([...folders, name], true), { discard: true })

  /** Gives the manifest its name. False: another writer has taken it. */
  const claim = Effect.fnUntraced(function*(written: string, path: string, inode: number) {
    const linked = yield* Effect.result(files.link(written, path))
    if (Result.isSuccess(linked)) return true
    const { code } = linked.failure
    if (code === "EEXIST") {
      // The answer to a link that worked may get lost on its way; the client then asks again and finds its own.
      return (yield* files.stat(path))?.inode === inode
    }
    if (!WITHOUT_LINKS.has(code)) return yield* linked.failure
    if ((yield* files.stat(path)) !== undefined) return false
    yield* files.rename(written, path)
    return true
  })

  /**
   * Makes the next generation. `merge` gets what the mirror holds and says what it should hold, or undefined when nothing has to
   * change; it is asked again when another writer was faster.
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
        return yield* new MirrorError({ message: `${directory} has no generations left. Remove it` })
      }
      const written = join(folderOf(MANIFESTS), `.${uniqueName()}.tmp`)
      const path = join(folderOf(MANIFESTS), Manifest.fileName(generation))
      yield* files.write(written, [Buffer.from(Manifest.encode(manifest, generation))], { durable: true })
      const inode = (yield* files.stat(written))?.inode ?? 0
      const claimed = yield* Effect.ensuring(claim(written, path, inode), Effect.ignore(files.remove(written)))
      if (claimed) {
        const snapshot: Snapshot = { generation, manifest, inode, refused: [] }
        return { snapshot, published: true }
      }
      current = undefined
    }
    return yield* new MirrorError({ message: `${ATTEMPTS} other writers were faster in ${directory}` })
  })

  /** Deletes what nobody uses any more. Failures are left to the next one. */
  const collect = Effect.fn("Mirror.collect")(function*({ generation, manifest }: Snapshot) {
    const own = yield* files.stat(join(folderOf(MANIFESTS), Manifest.fileName(generation)))
    if (own === undefined) return
    // By the clock of the volume, which the others' clocks need not agree with.
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

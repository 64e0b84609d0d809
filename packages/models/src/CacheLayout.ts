/**
 * The folder of the cache, in the layout of the hub's own client, so that this client finds the models without a request.
 *
 * ```
 *   <home>/hub/models--owner--name/
 *     blobs/<checksum>                    the files, each stored once
 *     snapshots/<commit>/<path> -> ../../blobs/<checksum>
 *     trees/<commit>.json                 the files of a commit: written last, so a commit without it is incomplete
 *     refs/<revision>                     the commit that a branch or tag pointed to
 *   <home>/hub/.locks/stint/              locks and times of use (see `FileLock`)
 * ```
 *
 * A commit that the hub's client has downloaded completely also counts, so the cache can be filled on another machine.
 */
import type { ModelId } from "@stint/contract/Model"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { createHash } from "node:crypto"
import { chmod, mkdir, readdir, readFile, readlink, rename, rm, stat, symlink, writeFile } from "node:fs/promises"
import { basename, dirname, join, relative } from "node:path"
import { attempt, type CacheError } from "./CacheError.ts"

/** A file of a commit. */
export interface ModelFile {
  /** Relative, with `/`. */
  readonly path: string
  /** Bytes. */
  readonly size: number
  /** The file's name in `blobs`: its checksum. */
  readonly blob: string
  /** The kind of checksum. `git`: SHA-1 of a git object. `none`: a name that the hub chose, which cannot be verified. */
  readonly checksum: "sha256" | "git" | "none"
}

/** One commit of a model in the cache. */
export interface Snapshot {
  readonly id: ModelId
  readonly commit: string
  readonly files: ReadonlyArray<ModelFile>
}

/** A cache. */
export interface Cache {
  /** The parent of `hub`, for `HF_HOME`. */
  readonly home: string
  readonly hub: string
}

/** The cache in this folder. */
export const cacheAt = (home: string): Cache => ({ home, hub: join(home, "hub") })

/** The mode of files that every user can read and nobody can change. */
const FILE_MODE = 0o444
const FOLDER_MODE = 0o755

/** The id of a commit. */
export const COMMIT = /^[0-9a-f]{40}$/

const PREFIX = "models--"

/** The folder of a model. */
export const folderOf = ({ hub }: Cache, id: ModelId): string => join(hub, PREFIX + id.replace("/", "--"))

/** The model that a folder contains; undefined when the folder is not a model. */
const idOf = (folder: string): ModelId | undefined => {
  const [, owner, name] = /^models--(.+?)--(.+)$/.exec(folder) ?? []
  return owner === undefined ? undefined : `${owner}/${name}`
}

/** The path of the content with this name. */
export const blobOf = (cache: Cache, id: ModelId, blob: string): string => join(folderOf(cache, id), "blobs", blob)

const PART = ".stint.incomplete"

/** The unfinished download of a blob. The hub's client ignores files with this suffix. */
export const partOf = (cache: Cache, id: ModelId, blob: string): string => blobOf(cache, id, blob) + PART

/** The files of a commit, by their paths. */
export const snapshotOf = (cache: Cache, id: ModelId, commit: string): string => join(folderOf(cache, id), "snapshots", commit)

const listingOf = (cache: Cache, id: ModelId, commit: string): string => join(folderOf(cache, id), "trees", `${commit}.json`)

const refOf = (cache: Cache, id: ModelId, revision: string): string => join(folderOf(cache, id), "refs", revision)

/** Held exclusively while files of the model are added or removed. */
export const changeLockOf = ({ hub }: Cache, id: ModelId): string =>
  join(hub, ".locks", "stint", `${PREFIX}${id.replace("/", "--")}.change`)

/** Each worker that uses the commit holds this lock in shared mode. The file's modification time is the time of the last use. */
export const useLockOf = ({ hub }: Cache, id: ModelId, commit: string): string =>
  join(hub, ".locks", "stint", `${PREFIX}${id.replace("/", "--")}.${commit}.use`)

/** Whether a path from the hub stays inside a snapshot. */
export const isSafePath = (path: string): boolean =>
  path !== "" && !/[\0\\]/.test(path) && path.split("/").every((part) => part !== "" && part !== "." && part !== "..")

/** Whether the hub's name for a file's content can be used as a file name. */
export const isSafeBlob = (blob: string): boolean =>
  /^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$/.test(blob) && !blob.endsWith(".incomplete")

/** The kind of checksum in the name of a blob. */
export const checksumOf = (blob: string): ModelFile["checksum"] =>
  /^[0-9a-f]{64}$/.test(blob) ? "sha256" : /^[0-9a-f]{40}$/.test(blob) ? "git" : "none"

/** The listing of a commit, in the format of the hub's client. */
const Listing = Schema.fromJsonString(Schema.Struct({
  format_version: Schema.Literal(1),
  files: Schema.Record(
    Schema.String,
    Schema.Struct({
      size: Schema.Int,
      blob_id: Schema.String,
      lfs_sha256: Schema.optionalKey(Schema.NullOr(Schema.String)),
      lfs_size: Schema.optionalKey(Schema.NullOr(Schema.Int))
    })
  )
}))

const decodeListing = Schema.decodeUnknownOption(Listing)

const encodeListing = ({ files }: Snapshot): string =>
  JSON.stringify({
    format_version: 1,
    files: Object.fromEntries(files.map(({ blob, checksum, path, size }) => [path, {
      size,
      blob_id: blob,
      ...(checksum === "sha256" ? { lfs_sha256: blob, lfs_size: size } : {})
    }]))
  })

const orUndefined = async <A>(promise: Promise<A>): Promise<A | undefined> => {
  try {
    return await promise
  } catch {
    return undefined
  }
}

/** The commit of a revision; undefined when the cache does not know it. */
const commitOf = async (cache: Cache, id: ModelId, revision: string): Promise<string | undefined> => {
  if (COMMIT.test(revision)) return revision
  const commit = (await orUndefined(readFile(refOf(cache, id, revision), "utf8")))?.trim()
  return commit !== undefined && COMMIT.test(commit) ? commit : undefined
}

const readListing = async (cache: Cache, id: ModelId, commit: string): Promise<Snapshot | undefined> => {
  const text = await orUndefined(readFile(listingOf(cache, id, commit), "utf8"))
  const listing = text === undefined ? undefined : Option.getOrUndefined(decodeListing(text))
  if (listing === undefined) return undefined
  const files = Object.entries(listing.files).map(([path, file]): ModelFile => {
    const blob = file.lfs_sha256 ?? file.blob_id
    return { path, blob, size: file.lfs_size ?? file.size, checksum: checksumOf(blob) }
  })
  return files.every(({ path }) => isSafePath(path)) ? { id, commit, files } : undefined
}

/** A commit with all its files; undefined if a file is missing or has a different size. */
const completeSnapshot = async (cache: Cache, id: ModelId, commit: string): Promise<Snapshot | undefined> => {
  const snapshot = await readListing(cache, id, commit)
  if (snapshot === undefined) return undefined
  const folder = snapshotOf(cache, id, commit)
  for (const { path, size } of snapshot.files) {
    if ((await orUndefined(stat(join(folder, path))))?.size !== size) return undefined
  }
  return snapshot
}

/** The commit of a revision, if all its files are in the cache. */
export const find = (cache: Cache, id: ModelId, revision: string): Effect.Effect<Snapshot | undefined> =>
  Effect.promise(async () => {
    const commit = await commitOf(cache, id, revision)
    return commit === undefined ? undefined : completeSnapshot(cache, id, commit)
  })

/** The size of a file; undefined when there is none. */
export const sizeOf = (path: string): Effect.Effect<number | undefined> =>
  Effect.promise(async () => (await orUndefined(stat(path)))?.size)

/** Creates the folders of a model. Workers of every user can read them, regardless of the umask. */
export const makeFolders = (cache: Cache, id: ModelId): Effect.Effect<void, CacheError> =>
  attempt(folderOf(cache, id), async () => {
    const blobs = join(folderOf(cache, id), "blobs")
    await mkdir(blobs, { recursive: true, mode: FOLDER_MODE })
    for (const folder of [cache.home, cache.hub, folderOf(cache, id), blobs]) await chmod(folder, FOLDER_MODE)
  })

/** Replaces a file or link atomically. */
const replace = async (path: string, write: (temporary: string) => Promise<void>): Promise<void> => {
  await mkdir(dirname(path), { recursive: true, mode: FOLDER_MODE })
  const temporary = `${path}.${process.pid}${PART}`
  await rm(temporary, { force: true })
  await write(temporary)
  await rename(temporary, path)
}

/** Makes a finished download visible under the name of its content. */
export const publishBlob = (cache: Cache, id: ModelId, blob: string): Effect.Effect<void, CacheError> =>
  attempt(blobOf(cache, id, blob), async () => {
    const part = partOf(cache, id, blob)
    await chmod(part, FILE_MODE)
    await rename(part, blobOf(cache, id, blob))
  })

const makeReadable = async (folder: string, root: string): Promise<void> => {
  for (let path = folder; path.length >= root.length; path = dirname(path)) await chmod(path, FOLDER_MODE)
}

/** Publishes a commit whose blobs are complete: first the links, then the listing, then the ref. */
export const publish = (cache: Cache, snapshot: Snapshot, revision: string): Effect.Effect<void, CacheError> =>
  attempt(snapshotOf(cache, snapshot.id, snapshot.commit), async () => {
    const { commit, files, id } = snapshot
    const folder = snapshotOf(cache, id, commit)
    for (const { blob, path } of files) {
      const link = join(folder, path)
      await replace(link, (temporary) => symlink(relative(dirname(link), blobOf(cache, id, blob)), temporary))
      await makeReadable(dirname(link), folderOf(cache, id))
    }
    const listing = listingOf(cache, id, commit)
    await replace(listing, (temporary) => writeFile(temporary, encodeListing(snapshot), { mode: FILE_MODE }))
    await makeReadable(dirname(listing), folderOf(cache, id))
    if (COMMIT.test(revision)) return
    const ref = refOf(cache, id, revision)
    await replace(ref, (temporary) => writeFile(temporary, commit, { mode: FILE_MODE }))
    await makeReadable(dirname(ref), folderOf(cache, id))
  })

const namesIn = async (folder: string): Promise<ReadonlyArray<string>> => (await orUndefined(readdir(folder))) ?? []

const filesBelow = async (folder: string): Promise<ReadonlyArray<string>> => {
  const entries = (await orUndefined(readdir(folder, { recursive: true, withFileTypes: true }))) ?? []
  return entries.flatMap((entry) => entry.isDirectory() ? [] : [join(entry.parentPath, entry.name)])
}

/** The models that have a folder. */
export const listModels = (cache: Cache): Effect.Effect<ReadonlyArray<ModelId>> =>
  Effect.promise(async () =>
    (await namesIn(cache.hub)).flatMap((name) => {
      const id = idOf(name)
      return id === undefined ? [] : [id]
    }).sort()
  )

/** The complete commits of a model. */
export const listSnapshots = (cache: Cache, id: ModelId): Effect.Effect<ReadonlyArray<Snapshot>> =>
  Effect.promise(async () => {
    const found: Array<Snapshot> = []
    for (const commit of (await namesIn(join(folderOf(cache, id), "snapshots"))).toSorted()) {
      const snapshot = COMMIT.test(commit) ? await completeSnapshot(cache, id, commit) : undefined
      if (snapshot !== undefined) found.push(snapshot)
    }
    return found
  })

/** The revisions that point to each commit. */
export const listRefs = (cache: Cache, id: ModelId): Effect.Effect<ReadonlyMap<string, ReadonlyArray<string>>> =>
  Effect.promise(async () => {
    const folder = join(folderOf(cache, id), "refs")
    const refs = new Map<string, Array<string>>()
    for (const file of (await filesBelow(folder)).toSorted()) {
      if (file.endsWith(".incomplete")) continue
      const commit = (await orUndefined(readFile(file, "utf8")))?.trim() ?? ""
      refs.set(commit, [...refs.get(commit) ?? [], relative(folder, file)])
    }
    return refs
  })

/** The size of everything that is stored for a model, including unfinished downloads, except the given blobs. Bytes. */
export const storedBytes = (cache: Cache, id: ModelId, without?: ReadonlySet<string>): Effect.Effect<number> =>
  Effect.promise(async () => {
    const sizes = await Promise.all(
      (await filesBelow(join(folderOf(cache, id), "blobs")))
        .filter((file) => without?.has(basename(file).replace(PART, "")) !== true)
        .map(async (file) => (await orUndefined(stat(file)))?.size ?? 0)
    )
    return sizes.reduce((sum, size) => sum + size, 0)
  })

/**
 * Removes a commit, the refs to it, and the blobs that no other commit of the model has. The listing is removed first, so that a killed process
 * leaves no commit that looks complete. The caller holds the model's change lock. `keep`: blobs that stay.
 */
export const removeSnapshot = (
  cache: Cache,
  id: ModelId,
  commit: string,
  keep?: ReadonlySet<string>
): Effect.Effect<void, CacheError> =>
  attempt(snapshotOf(cache, id, commit), async () => {
    await rm(listingOf(cache, id, commit), { force: true })
    const refs = join(folderOf(cache, id), "refs")
    for (const file of await filesBelow(refs)) {
      if ((await orUndefined(readFile(file, "utf8")))?.trim() === commit) await rm(file, { force: true })
    }
    await rm(snapshotOf(cache, id, commit), { recursive: true, force: true })
    await removeUnlinkedBlobs(cache, id, keep)
  })

/**
 * Removes the blobs that no commit has, including unfinished downloads. Removes the whole model if no commit is left. `keep`: blobs of a download in
 * progress.
 */
export const removeUnlinkedBlobs = async (cache: Cache, id: ModelId, keep?: ReadonlySet<string>): Promise<void> => {
  const linked = new Set<string>()
  for (const file of await filesBelow(join(folderOf(cache, id), "snapshots"))) {
    const target = await orUndefined(readlink(file))
    if (target !== undefined) linked.add(basename(target))
  }
  if (linked.size === 0 && keep === undefined) return rm(folderOf(cache, id), { recursive: true, force: true })
  const folder = join(folderOf(cache, id), "blobs")
  for (const file of await namesIn(folder)) {
    const blob = file.replace(PART, "")
    if (!linked.has(blob) && keep?.has(blob) !== true) await rm(join(folder, file), { force: true })
  }
}

/** Removes everything stored for a model, including unfinished downloads. The caller holds its locks. */
export const removeAll = (cache: Cache, id: ModelId): Effect.Effect<void, CacheError> =>
  attempt(folderOf(cache, id), () => rm(folderOf(cache, id), { recursive: true, force: true }))

/** The name that a file with this content has in `blobs`, read from a stream of its bytes. */
export const hasher = (checksum: ModelFile["checksum"], size: number) => {
  if (checksum === "none") return undefined
  const hash = createHash(checksum === "sha256" ? "sha256" : "sha1")
  if (checksum === "git") hash.update(`blob ${size}\0`)
  return hash
}

/**
 * Makes room for a download: removes the commits that were used least recently, but never a commit that a worker of any process uses.
 */
import type { ModelId } from "@stint/contract/Model"
import * as Effect from "effect/Effect"
import { stat, statfs } from "node:fs/promises"
import { attempt, type CacheError } from "./CacheError.ts"
import {
  type Cache,
  changeLockOf,
  folderOf,
  listModels,
  listSnapshots,
  removeSnapshot,
  removeUnlinkedBlobs,
  storedBytes,
  useLockOf
} from "./CacheLayout.ts"
import { tryLock } from "./FileLock.ts"

/** A part of the cache that can be removed: a commit, or unfinished downloads of a model without a complete commit. */
interface Candidate {
  readonly id: ModelId
  readonly commit: string | undefined
  readonly lastUsedAt: number
}

/** When a worker last started with a commit, or when it was downloaded. Milliseconds since 1970; 0 if unknown. */
export const lastUsedAt = (cache: Cache, id: ModelId, commit: string): Effect.Effect<number> =>
  Effect.promise(async () => {
    try {
      return Math.round((await stat(useLockOf(cache, id, commit))).mtimeMs)
    } catch {
      return 0
    }
  })

const candidatesOf = Effect.fnUntraced(function*(cache: Cache, id: ModelId) {
  const snapshots = yield* listSnapshots(cache, id)
  if (snapshots.length === 0) {
    const changed = yield* Effect.promise(() => stat(folderOf(cache, id)).then(({ mtimeMs }) => mtimeMs, () => 0))
    return [{ id, commit: undefined, lastUsedAt: changed }] satisfies ReadonlyArray<Candidate>
  }
  return yield* Effect.forEach(
    snapshots,
    ({ commit }) => Effect.map(lastUsedAt(cache, id, commit), (lastUsedAt): Candidate => ({ id, commit, lastUsedAt }))
  )
})

/** The size of the whole cache. Bytes. */
export const cacheBytes = Effect.fnUntraced(function*(cache: Cache) {
  const sizes = yield* Effect.forEach(yield* listModels(cache), (id) => storedBytes(cache, id))
  return sizes.reduce((sum, size) => sum + size, 0)
})

/** The free space on the cache's disk. Bytes. */
const freeBytes = ({ home }: Cache): Effect.Effect<number, CacheError> =>
  Effect.map(attempt(home, () => statfs(home)), ({ bavail, bsize }) => bavail * bsize)

/** The limits of the cache. Bytes. */
export interface SpaceLimits {
  /** The maximum size of the cache; undefined: only the disk limits it. */
  readonly maxBytes: number | undefined
  /** The space that must stay free on the disk. */
  readonly minFreeBytes: number
}

/** A download that needs space. */
export interface SpaceNeed {
  readonly id: ModelId
  /** The bytes that this download and the other allowed downloads will write. */
  readonly bytes: number
  /** The blobs of the model that the download uses. The caller holds the model's change lock. */
  readonly blobs: ReadonlySet<string>
}

/** Removes a candidate unless it is in use. Returns whether it was removed. */
const evict = Effect.fnUntraced(
  function*(cache: Cache, { commit, id }: Candidate, need: SpaceNeed) {
    const isOwn = id === need.id
    if (!isOwn && !(yield* tryLock(changeLockOf(cache, id), "exclusive"))) return false
    const keep = isOwn ? need.blobs : undefined
    if (commit === undefined) {
      if (isOwn) return false
      yield* attempt(folderOf(cache, id), () => removeUnlinkedBlobs(cache, id, keep))
      return true
    }
    if (!(yield* tryLock(useLockOf(cache, id, commit), "exclusive"))) return false
    yield* removeSnapshot(cache, id, commit, keep)
    return true
  },
  Effect.scoped
)

/** Whether a lock was free. It is released at once, so that a starting worker can take it. */
const isFree = (file: string): Effect.Effect<boolean, CacheError> => Effect.scoped(tryLock(file, "exclusive"))

/** How much space the removal of all unused parts of a model would free. Bytes. */
const removableBytes = Effect.fnUntraced(function*(cache: Cache, id: ModelId, need: SpaceNeed) {
  const isOwn = id === need.id
  if (!isOwn && !(yield* isFree(changeLockOf(cache, id)))) return 0
  const snapshots = yield* listSnapshots(cache, id)
  const inUse = yield* Effect.filter(
    snapshots,
    ({ commit }) => Effect.map(isFree(useLockOf(cache, id, commit)), (isUnused) => !isUnused)
  )
  // Without a complete commit, only the unfinished downloads of other models can be removed.
  if (inUse.length === snapshots.length && (isOwn || snapshots.length > 0)) return 0
  const kept = inUse.flatMap(({ files }) => files.map(({ blob }) => blob))
  return yield* storedBytes(cache, id, new Set(isOwn ? [...kept, ...need.blobs] : kept))
})

/**
 * Removes unused parts until there is room, or nothing if there would still be too little space. Returns how many bytes would be missing after
 * the removal of everything unused; 0 if there is room.
 */
export const makeRoom = Effect.fnUntraced(function*(
  cache: Cache,
  limits: SpaceLimits,
  need: SpaceNeed,
  onEvicted: (id: ModelId) => void
) {
  const missing = Effect.gen(function*() {
    const overDisk = need.bytes + limits.minFreeBytes - (yield* freeBytes(cache))
    const overLimit = limits.maxBytes === undefined ? 0 : (yield* cacheBytes(cache)) + need.bytes - limits.maxBytes
    return Math.max(0, overDisk, overLimit)
  })
  let left = yield* missing
  if (left === 0) return 0
  const models = yield* listModels(cache)
  const removable = yield* Effect.forEach(models, (id) => removableBytes(cache, id, need))
  const short = left - removable.reduce((sum, bytes) => sum + bytes, 0)
  if (short > 0) return short
  const all = yield* Effect.forEach(models, (id) => candidatesOf(cache, id))
  for (const candidate of all.flat().toSorted((a, b) => a.lastUsedAt - b.lastUsedAt)) {
    if (left === 0) break
    if (!(yield* evict(cache, candidate, need))) continue
    onEvicted(candidate.id)
    yield* Effect.logInfo(
      `Removed the model ${candidate.id}${
        candidate.commit === undefined ? ", which was not complete," : ` (commit ${candidate.commit.slice(0, 12)})`
      } from the cache to make room.`
    )
    left = yield* missing
  }
  return left
})

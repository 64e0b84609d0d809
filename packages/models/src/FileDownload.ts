/**
 * Downloads one file of a model, continues after lost connections, and checks the content.
 *
 * ```
 *   part on disk --hashed--> request from its end --> appended, hashed --size reached--> checksum --> published
 *        ^                                               |                                  |
 *        +------------- lost connection, 429, 5xx -------+                                  +-- wrong: removed, once more from the start
 * ```
 */
import type { ModelId } from "@stint/contract/Model"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Stream from "effect/Stream"
import { createReadStream } from "node:fs"
import { type FileHandle, open, rm, truncate } from "node:fs/promises"
import { attempt, type CacheError } from "./CacheError.ts"
import { blobOf, type Cache, hasher, type ModelFile, partOf, publishBlob, sizeOf } from "./CacheLayout.ts"
import type { DownloadRequest, Hub } from "./Hub.ts"
import { ModelError } from "./ModelError.ts"

/** The number of consecutive attempts without a new byte after which a download fails. */
const MAX_TRIES = 6

/** The bounds of the wait after an attempt without a new byte. The wait doubles each time. Milliseconds. */
const MAX_WAIT = 20_000

/** The parts of a download that all files of a model share. */
export interface Download {
  readonly cache: Cache
  readonly hub: Hub
  readonly wish: DownloadRequest
  readonly id: ModelId
  readonly commit: string
  /** The first wait before another attempt. Milliseconds. */
  readonly retryMs: number
  /** Called with the change in the number of bytes on the disk. */
  readonly advance: (bytes: number) => void
  /** Called before the wait for another attempt, with why the last one failed. */
  readonly retrying: (error: ModelError) => Effect.Effect<void>
}

type Hash = Exclude<ReturnType<typeof hasher>, undefined>

/** The hash of the part's first `bytes`. Kept between attempts, so that a large part is read from the disk at most once. */
interface Hashed {
  hash: Hash | undefined
  bytes: number
}

const start = (hashed: Hashed, { checksum, size }: ModelFile) => {
  hashed.hash = hasher(checksum, size)
  hashed.bytes = 0
}

/** Hashes the part, unless it is already hashed. */
const catchUp = (path: string, file: ModelFile, hashed: Hashed, present: number): Effect.Effect<void, CacheError> => {
  if (hashed.bytes === present) return Effect.void
  start(hashed, file)
  const { hash } = hashed
  hashed.bytes = present
  return hash === undefined ? Effect.void : attempt(path, async () => {
    for await (const chunk of createReadStream(path, { highWaterMark: 1024 ** 2 })) hash.update(chunk)
  })
}

const openPart = (path: string) =>
  Effect.acquireRelease(
    attempt(path, () => open(path, "a", 0o600)),
    (handle) => Effect.promise(() => handle.close().catch(() => {}))
  )

const write = (path: string, handle: FileHandle, chunk: Uint8Array) => attempt(path, () => handle.writeFile(chunk))

/** Downloads the missing part of a file. Returns whether the file is complete and correct. */
const once = Effect.fnUntraced(
  function*({ advance, cache, commit, hub, id, wish }: Download, file: ModelFile, hashed: Hashed) {
    const part = partOf(cache, id, file.blob)
    let present = (yield* sizeOf(part)) ?? 0
    if (present > file.size) {
      yield* attempt(part, () => rm(part))
      advance(-present)
      present = 0
    }
    yield* catchUp(part, file, hashed, present)
    const handle = yield* openPart(part)
    if (present < file.size) {
      const { body, from } = yield* hub.open(wish, commit, file, present)
      if (from !== present) {
        yield* attempt(part, () => truncate(part, 0))
        advance(-present)
        present = 0
        start(hashed, file)
      }
      yield* Stream.runForEach(body, (chunk) =>
        Effect.tap(write(part, handle, chunk), () =>
          Effect.sync(() => {
            present += chunk.byteLength
            hashed.hash?.update(chunk)
            hashed.bytes = present
            advance(chunk.byteLength)
          })))
    }
    if (present < file.size) {
      return yield* new ModelError({
        model: wish.model,
        problem: `the hub ended ${file.path} after ${present} of ${file.size} bytes`,
        hint: "The next attempt continues where the download stopped.",
        isTransient: true
      })
    }
    // The content must be on the disk before the name, because after a power failure a file with this name is assumed to be complete.
    yield* attempt(part, () => handle.sync())
    return hashed.hash === undefined || hashed.hash.digest("hex") === file.blob
  },
  Effect.scoped
)

/** Downloads a file unless it exists. Fails if the hub stops responding, or if the content is wrong twice. */
export const download = Effect.fnUntraced(function*(
  context: Download,
  file: ModelFile
): Effect.fn.Return<void, ModelError | CacheError> {
  const { advance, cache, id, retrying, retryMs, wish } = context
  const part = partOf(cache, id, file.blob)
  const hashed: Hashed = { hash: undefined, bytes: 0 }
  start(hashed, file)
  let mismatches = 0
  for (let tries = 1;;) {
    const before = yield* sizeOf(part)
    const result = yield* Effect.result(once(context, file, hashed))
    if (result._tag === "Success") {
      if (result.success) return yield* publishBlob(cache, id, file.blob)
      mismatches += 1
      yield* attempt(part, () => rm(part, { force: true }))
      advance(-file.size)
      start(hashed, file)
      if (mismatches < 2) {
        yield* Effect.logWarning(`${file.path} of the model ${wish.model} arrived with a wrong checksum. It is downloaded again.`)
        continue
      }
      return yield* new ModelError({
        model: wish.model,
        problem: `${file.path} has a different checksum than the hub's (${file.blob}), twice in a row`,
        hint: `Check the network between this machine and ${context.hub.url}: a proxy or a mirror may change files.`,
        isTransient: true
      })
    }
    const error = result.failure
    if (error._tag === "CacheError" || !error.isTransient) return yield* error
    if (((yield* sizeOf(part)) ?? 0) > (before ?? 0)) tries = 1
    else if (++tries > MAX_TRIES) return yield* error
    yield* retrying(error)
    const random = yield* Random.next
    yield* Effect.sleep(Math.round(Math.min(MAX_WAIT, retryMs * 2 ** (tries - 1)) * (0.5 + random / 2)))
  }
})

/** Whether a file is in the cache. */
export const isPresent = (cache: Cache, id: ModelId, file: ModelFile): Effect.Effect<boolean> =>
  Effect.map(sizeOf(blobOf(cache, id, file.blob)), (size) => size === file.size)

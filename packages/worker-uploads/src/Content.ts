/**
 * The content of an upload, read part by part: a file, bytes, or a stream.
 *
 * Only the parts in flight are in memory. Each part is held as bytes instead of a stream, so that its content can be signed and sent again
 * after a lost connection.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Pull from "effect/Pull"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { constants } from "node:fs"
import { open } from "node:fs/promises"
import type { FileHandle } from "node:fs/promises"
import { FileUnreadable, UploadError } from "./UploadError.ts"

/** The next part, never empty; undefined after the last. Every part has the requested length, except the last, which may be shorter. */
export type NextPart<E, R> = Effect.Effect<Uint8Array | undefined, E, R>

/** Something to upload. */
export interface Content<out E = never, out R = never> {
  /** Bytes; undefined if it is not known before the end. */
  readonly size: number | undefined
  /** Starts to read, in parts of this length. Bytes. */
  readonly read: (partSize: number) => Effect.Effect<NextPart<E, R>, E, R | Scope.Scope>
}

/** Bytes in memory. */
export const bytes = (data: Uint8Array): Content => ({
  size: data.byteLength,
  read: (partSize) =>
    Effect.sync(() => {
      let offset = 0
      return Effect.sync(() => {
        if (offset >= data.byteLength) return undefined
        const part = data.subarray(offset, offset + partSize)
        offset += part.byteLength
        return part
      })
    })
})

const EXPLAINED: { readonly [code: string]: string } = {
  ENOENT: "there is no such file",
  EACCES: "this process has no permission to read it",
  EPERM: "this process has no permission to read it",
  EISDIR: "it is a folder",
  ELOOP: "its symbolic links lead nowhere"
}

const unreadable = (path: string, problem: string) => new UploadError({ reason: new FileUnreadable({ path, problem }) })

const fromErrno = (path: string) => (error: unknown) => {
  const code = error instanceof Error && "code" in error ? String(error.code) : String(error)
  return unreadable(path, EXPLAINED[code] === undefined ? code : `${EXPLAINED[code]} (${code})`)
}

const readPart = async (handle: FileHandle, offset: number, length: number): Promise<Uint8Array> => {
  const buffer = Buffer.allocUnsafeSlow(length)
  let filled = 0
  while (filled < length) {
    const { bytesRead } = await handle.read(buffer, filled, length - filled, offset + filled)
    if (bytesRead === 0) break
    filled += bytesRead
  }
  return buffer.subarray(0, filled)
}

/** A regular file, open while the scope is open. Data that is appended in the meantime is not uploaded. */
export const file = Effect.fnUntraced(function*(
  path: string
): Effect.fn.Return<Content<UploadError>, UploadError, Scope.Scope> {
  const failed = fromErrno(path)
  // Without O_NONBLOCK, opening a named pipe would wait for a writer and could not be interrupted.
  const handle = yield* Effect.acquireRelease(
    Effect.tryPromise({ try: () => open(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0)), catch: failed }),
    (handle) => Effect.promise(() => handle.close())
  )
  const stats = yield* Effect.tryPromise({ try: () => handle.stat(), catch: failed })
  if (!stats.isFile()) return yield* unreadable(path, stats.isDirectory() ? "it is a folder" : "it is not a regular file")
  const size = stats.size
  return {
    size,
    read: (partSize) =>
      Effect.sync(() => {
        let offset = 0
        return Effect.gen(function*() {
          const length = Math.min(partSize, size - offset)
          if (length <= 0) return undefined
          const part = yield* Effect.tryPromise({ try: () => readPart(handle, offset, length), catch: failed })
          if (part.byteLength < length) return yield* unreadable(path, "it became shorter while it was read")
          offset += length
          return part
        })
      })
  }
})

/** A stream of bytes. */
export const stream = <E, R>(source: Stream.Stream<Uint8Array, E, R>): Content<E, R> => ({
  size: undefined,
  read: (partSize) =>
    Effect.map(Stream.toPull(source), (pull) => {
      let chunks: ReadonlyArray<Uint8Array> = []
      let index = 0
      let offset = 0
      let ended = false
      return Effect.gen(function*() {
        const part = Buffer.allocUnsafeSlow(partSize)
        let filled = 0
        while (filled < partSize) {
          const chunk = chunks[index]
          if (chunk !== undefined) {
            const taken = chunk.subarray(offset, offset + partSize - filled)
            part.set(taken, filled)
            filled += taken.byteLength
            offset += taken.byteLength
            if (offset < chunk.byteLength) continue
            index++
            offset = 0
          } else {
            if (ended) break
            const pulled = yield* Effect.map(pull, Option.some).pipe(Pull.catchDone(() => Effect.succeedNone))
            ended = Option.isNone(pulled)
            chunks = Option.getOrElse(pulled, () => [])
            index = 0
          }
        }
        return filled === 0 ? undefined : part.subarray(0, filled)
      })
    })
})

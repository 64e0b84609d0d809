/**
 * The folder for the files of one job: unique names, and a size limit for all files together.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { mkdtempSync } from "node:fs"
import { mkdir, open, rm } from "node:fs/promises"
import type { FileHandle } from "node:fs/promises"
import { join, resolve } from "node:path"
import { TotalSizeExceeded, WriteFailed } from "./DownloadError.ts"
import { split } from "./SafeName.ts"

/** The limits for a job's files. */
export interface FolderLimits {
  /** Bytes. */
  readonly maxTotalBytes: number
  /** Concurrent files. */
  readonly concurrency: number
}

/** A written file. */
export interface WrittenFile {
  readonly path: string
  readonly name: string
  /** Bytes. */
  readonly size: number
}

/** A folder and its size limit. */
export interface TargetFolder {
  readonly path: string
  /** Bounds the number of concurrent downloads. */
  readonly slots: Semaphore.Semaphore
  /**
   * Streams a body into a new file with this safe name, or with `name-1.png`, `name-2.png`, ... if it is taken. Never overwrites a file or follows a
   * link. Removes the file on failure and interruption.
   */
  readonly write: <E>(
    name: string,
    body: Stream.Stream<Uint8Array, E>
  ) => Effect.Effect<WrittenFile, E | WriteFailed | TotalSizeExceeded>
  /** Removes a written file, so that its bytes no longer count toward the limit. */
  readonly remove: (file: WrittenFile) => Effect.Effect<void>
}

const detailOf = (error: unknown): string =>
  error instanceof Error ? ("code" in error && typeof error.code === "string" ? error.code : error.message) : String(error)

const failedAt = (path: string) => (error: unknown) => new WriteFailed({ path, detail: detailOf(error) })

const isTaken = (error: unknown): boolean => error instanceof Error && "code" in error && error.code === "EEXIST"

/** A file being written. */
interface Opened {
  readonly handle: FileHandle
  readonly path: string
  readonly name: string
  size: number
}

/** A folder that exists. */
const make = (path: string, { concurrency, maxTotalBytes }: FolderLimits): TargetFolder => {
  let left = maxTotalBytes
  // The next number for each name, so that a thousand files with the same name do not try a thousand names each.
  const counts = new Map<string, number>()

  const openNew = async (wanted: string): Promise<Opened> => {
    const [stem, ending] = split(wanted)
    for (;;) {
      const count = counts.get(wanted) ?? 0
      counts.set(wanted, count + 1)
      const name = count === 0 ? wanted : `${stem}-${count}${ending}`
      const full = join(path, name)
      try {
        // Open exclusively, because another process may write here, and the name may be a link.
        return { handle: await open(full, "wx", 0o600), path: full, name, size: 0 }
      } catch (error) {
        if (!isTaken(error)) throw error
      }
    }
  }

  const remove = (file: { readonly path: string; readonly size: number }) =>
    Effect.promise(async () => {
      left += file.size
      // A file that cannot be removed now is removed with the folder, or is left to the folder's owner.
      await rm(file.path, { force: true }).catch(() => {})
    })

  const close = (file: Opened, exit: Exit.Exit<unknown, unknown>) =>
    Effect.promise(() => file.handle.close().catch(() => {})).pipe(
      Effect.andThen(Exit.isSuccess(exit) ? Effect.void : remove(file))
    )

  return {
    path,
    slots: Semaphore.makeUnsafe(concurrency),
    remove,
    write: (name, body) =>
      Effect.acquireUseRelease(
        Effect.tryPromise({ try: () => openNew(name), catch: failedAt(path) }),
        (file) =>
          Stream.runForEach(body, (chunk): Effect.Effect<void, WriteFailed | TotalSizeExceeded> => {
            if (chunk.byteLength > left) return Effect.fail(new TotalSizeExceeded({ limit: maxTotalBytes }))
            left -= chunk.byteLength
            file.size += chunk.byteLength
            return Effect.tryPromise({ try: () => file.handle.writeFile(chunk), catch: failedAt(file.path) })
          }).pipe(Effect.andThen(Effect.sync(() => ({ path: file.path, name: file.name, size: file.size })))),
        close
      )
  }
}

/** Creates a folder under `parent` that only this user can read. Uninterruptible and in one step, so that two fibers cannot create two folders. */
export const makeTemporary = (parent: string, limits: FolderLimits): Effect.Effect<TargetFolder, WriteFailed> =>
  Effect.try({
    try: () => make(mkdtempSync(join(resolve(parent), "stint-downloads-")), limits),
    catch: failedAt(parent)
  })

/** This folder; created if it does not exist. */
export const makeAt = (path: string, limits: FolderLimits): Effect.Effect<TargetFolder, WriteFailed> =>
  Effect.tryPromise({
    try: async () => {
      const absolute = resolve(path)
      await mkdir(absolute, { recursive: true })
      return make(absolute, limits)
    },
    catch: failedAt(path)
  })

/** Removes the folder and its content. */
export const removeAll = (folder: TargetFolder): Effect.Effect<void> =>
  Effect.tryPromise({ try: () => rm(folder.path, { recursive: true, force: true }), catch: failedAt(folder.path) }).pipe(
    Effect.catch((error) =>
      Effect.logWarning(`The temporary folder ${error.path} cannot be removed (${error.detail}). Remove it to free the disk.`)
    )
  )

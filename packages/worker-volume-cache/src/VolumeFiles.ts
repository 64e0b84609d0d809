/**
 * The volume, as a few operations that may fail, may take long, and may never end.
 *
 * They are asynchronous, because a network volume can hang and the worker must not: whoever waits can stop waiting. Nothing here follows
 * a symbolic link: whoever else writes to the volume could make one, and the worker would read or write something of its own machine.
 *
 * - A file is opened with `O_NOFOLLOW`, must be a regular file, and must be where it was said to be: links among its parents are found by
 *   asking the kernel for the path of what was opened.
 * - A file is created with `O_EXCL`, so that nothing is ever written over.
 *
 * It is a reference, so tests replace it by one that fails, hangs or dies at will.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { constants } from "node:fs"
import * as fs from "node:fs/promises"

/** An operation on the volume, or on a local file that goes there, did not work. */
export class VolumeFileError extends Schema.TaggedError<VolumeFileError>()("VolumeFileError", {
  /** The name of the operation, as a verb. */
  operation: Schema.String,
  path: Schema.String,
  /** Such as `ENOSPC`; `REFUSED` where the file was not what it should be. */
  code: Schema.String,
  message: Schema.String
}) {}

/** What is known of a file without opening it. */
export interface Stat {
  readonly kind: "file" | "directory" | "other"
  readonly size: number
  /** Milliseconds since 1970, by the clock of the volume. */
  readonly mtime: number
  readonly inode: number
}

/** The operations. */
export interface VolumeFiles {
  /** How many operations were begun and have not ended, whether somebody still waits for them or not. */
  readonly pending: () => number
  /** The path without links. */
  readonly realPath: (path: string) => Effect.Effect<string, VolumeFileError>
  /** Undefined when there is nothing. Links are not followed, and are `other`. */
  readonly stat: (path: string) => Effect.Effect<Stat | undefined, VolumeFileError>
  /** Makes one directory; its parent must be there, itself may be. */
  readonly makeDirectory: (path: string) => Effect.Effect<void, VolumeFileError>
  /** The names in a directory. */
  readonly list: (path: string) => Effect.Effect<ReadonlyArray<string>, VolumeFileError>
  /** A file as a whole, if it has `most` bytes at most. */
  readonly readAll: (path: string, most: number) => Effect.Effect<Buffer, VolumeFileError>
  /** A part of a file; all of it is there, or it fails. */
  readonly read: (path: string, offset: number, length: number) => Effect.Effect<Buffer, VolumeFileError>
  /** Creates a file of these parts. `durable` waits until it would survive a loss of power. */
  readonly write: (
    path: string,
    parts: ReadonlyArray<Uint8Array>,
    options: { readonly durable: boolean }
  ) => Effect.Effect<void, VolumeFileError>
  /** Gives a file a second name; fails with `EEXIST` when that is taken. */
  readonly link: (from: string, to: string) => Effect.Effect<void, VolumeFileError>
  readonly rename: (from: string, to: string) => Effect.Effect<void, VolumeFileError>
  readonly remove: (path: string) => Effect.Effect<void, VolumeFileError>
  /** Copies a local file to a new file of the volume. */
  readonly copyIn: (local: string, path: string) => Effect.Effect<void, VolumeFileError>
  /** Copies a file of the volume, of exactly `size` bytes, to a new local file. */
  readonly copyOut: (path: string, local: string, size: number) => Effect.Effect<void, VolumeFileError>
}

const codeOf = (cause: unknown): string =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" ? cause.code : "UNKNOWN"

class Refused extends Error {
  readonly code = "REFUSED"
}

type Attempt = <A>(operation: string, path: string, run: () => Promise<A>) => Effect.Effect<A, VolumeFileError>

const attempter = (count: { pending: number }): Attempt => (operation, path, run) =>
  Effect.tryPromise({
    try: () => {
      count.pending++
      return run().finally(() => count.pending--)
    },
    catch: (cause) =>
      new VolumeFileError({
        operation,
        path,
        code: codeOf(cause),
        message: cause instanceof Error ? cause.message : String(cause)
      })
  })

const { O_CREAT, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = constants

/** `O_NONBLOCK`: opening a pipe that somebody put there must not wait for its writer. */
const READ = O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0)
const CREATE = O_WRONLY | O_CREAT | O_EXCL | (O_NOFOLLOW ?? 0)

/** The path of an open file, where the kernel tells it. */
const pathOf = (handle: fs.FileHandle): Promise<string | undefined> =>
  process.platform === "linux" ? fs.readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined) : Promise.resolve(undefined)

/** Opens a file of the mirror and makes sure of what it is. */
const opened = async <A>(path: string, use: (handle: fs.FileHandle, size: number) => Promise<A>): Promise<A> => {
  const handle = await fs.open(path, READ)
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) throw new Refused(`${path} is no regular file`)
    const real = await pathOf(handle)
    if (real !== undefined && real !== path) throw new Refused(`${path} is in fact ${real}: a directory of the mirror is a link`)
    return await use(handle, stat.size)
  } finally {
    await handle.close()
  }
}

const readExactly = async (handle: fs.FileHandle, path: string, offset: number, length: number): Promise<Buffer> => {
  const buffer = Buffer.allocUnsafe(length)
  let done = 0
  while (done < length) {
    const { bytesRead } = await handle.read(buffer, done, length - done, offset + done)
    if (bytesRead === 0) throw new Refused(`${path} ends after ${offset + done} bytes; ${offset + length} were expected`)
    done += bytesRead
  }
  return buffer
}

/**
 * Copies what a handle is open on, in the kernel, and by reference where the file system can. The file is named by its descriptor, so
 * it is the one that was checked, even if its path has come to mean another.
 */
const copyOpened = async (handle: fs.FileHandle, from: string, to: string): Promise<void> => {
  const source = process.platform === "linux" && await pathOf(handle) !== undefined ? `/proc/self/fd/${handle.fd}` : from
  await fs.copyFile(source, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
}

/** The most parts that one `writev` takes. */
const IOV_MAX = 1024

/** `writev` may write less than all of it. */
const writeAll = async (handle: fs.FileHandle, parts: ReadonlyArray<Uint8Array>): Promise<void> => {
  const { bytesWritten } = await handle.writev([...parts])
  let skip = bytesWritten
  for (const part of parts) {
    if (skip >= part.length) {
      skip -= part.length
      continue
    }
    let done = skip
    skip = 0
    while (done < part.length) done += (await handle.write(part, done)).bytesWritten
  }
}

/** The volume as the kernel shows it. */
export const make = (): VolumeFiles => {
  const count = { pending: 0 }
  const attempt = attempter(count)
  return {
    pending: () => count.pending,
    realPath: (path) => attempt("resolve", path, () => fs.realpath(path)),
    stat: (path) =>
      attempt("look at", path, async () => {
        try {
          const stat = await fs.lstat(path)
          return {
            kind: stat.isFile() ? "file" : stat.isDirectory() ? "directory" : "other",
            size: stat.size,
            mtime: stat.mtimeMs,
            inode: stat.ino
          }
        } catch (cause) {
          if (codeOf(cause) === "ENOENT") return undefined
          throw cause
        }
      }),
    makeDirectory: (path) =>
      attempt("make directory", path, () =>
        fs.mkdir(path).catch((cause: unknown) => {
          if (codeOf(cause) !== "EEXIST") throw cause
        })),
    list: (path) => attempt("list", path, () => fs.readdir(path)),
    readAll: (path, most) =>
      attempt("read", path, () =>
        opened(path, (handle, size) => {
          if (size > most) throw new Refused(`${path} has ${size} bytes; ${most} are the most`)
          return readExactly(handle, path, 0, size)
        })),
    read: (path, offset, length) =>
      attempt("read", path, () => opened(path, (handle) => readExactly(handle, path, offset, length))),
    write: (path, parts, { durable }) =>
      attempt("write", path, async () => {
        const handle = await fs.open(path, CREATE, 0o666)
        try {
          for (let first = 0; first < parts.length; first += IOV_MAX) await writeAll(handle, parts.slice(first, first + IOV_MAX))
          if (durable) await handle.sync()
        } catch (cause) {
          await fs.unlink(path).catch(() => {})
          throw cause
        } finally {
          await handle.close()
        }
      }),
    link: (from, to) => attempt("link", to, () => fs.link(from, to)),
    rename: (from, to) => attempt("rename", to, () => fs.rename(from, to)),
    remove: (path) => attempt("remove", path, () => fs.unlink(path)),
    copyIn: (local, path) =>
      attempt("copy to", path, async () => {
        const handle = await fs.open(local, READ)
        try {
          await copyOpened(handle, local, path)
        } catch (cause) {
          if (codeOf(cause) !== "EEXIST") await fs.unlink(path).catch(() => {})
          throw cause
        } finally {
          await handle.close()
        }
      }),
    copyOut: (path, local, size) =>
      attempt("copy from", path, () =>
        opened(path, async (handle, actual) => {
          if (actual !== size) throw new Refused(`${path} has ${actual} bytes; ${size} were expected`)
          await copyOpened(handle, path, local)
        }))
  }
}

/** The volume that is used. */
export const VolumeFiles = Context.Reference<VolumeFiles>("@stint/worker-volume-cache/VolumeFiles", { defaultValue: make })

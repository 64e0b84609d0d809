/**
 * The operations on the volume. They may fail, be slow, or never finish.
 *
 * They are asynchronous, so that a hanging network volume does not block the worker: callers can stop waiting. They never follow a symbolic
 * link, because any writer of the volume could create one to make the worker read or write files on its own machine.
 *
 * - A file is opened with `O_NOFOLLOW`, must be a regular file, and must have the expected path: links among its parents are detected by
 *   reading the path of the open file from the kernel.
 * - A file is created with `O_EXCL`, so that no file is ever overwritten.
 *
 * It is a reference, so that tests can replace it with one that fails, hangs or is killed.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { constants } from "node:fs"
import * as fs from "node:fs/promises"

/** An operation on the volume, or on a local file to copy there, has failed. */
export class VolumeFileError extends Schema.TaggedError<VolumeFileError>()("VolumeFileError", {
  /** The name of the operation, as a verb. */
  operation: Schema.String,
  path: Schema.String,
  /** The error code, such as `ENOSPC`; `REFUSED` for an unexpected kind, location or size of file. */
  code: Schema.String,
  message: Schema.String
}) {}

/** The metadata of a file. */
export interface Stat {
  readonly kind: "file" | "directory" | "other"
  readonly size: number
  /** Milliseconds since 1970, by the volume's clock. */
  readonly mtime: number
  readonly inode: number
}

/** The operations on the volume. */
export interface VolumeFiles {
  /** The number of unfinished operations, including those that no caller waits for any more. */
  readonly pending: () => number
  /** Resolves all links in a path. */
  readonly realPath: (path: string) => Effect.Effect<string, VolumeFileError>
  /** Undefined if the path does not exist. Links are not followed and have the kind `other`. */
  readonly stat: (path: string) => Effect.Effect<Stat | undefined, VolumeFileError>
  /** Creates one directory if it does not exist. Its parent must exist. */
  readonly makeDirectory: (path: string) => Effect.Effect<void, VolumeFileError>
  /** Lists the names in a directory. */
  readonly list: (path: string) => Effect.Effect<ReadonlyArray<string>, VolumeFileError>
  /** Reads a whole file of at most `maxBytes` bytes. */
  readonly readAll: (path: string, maxBytes: number) => Effect.Effect<Buffer, VolumeFileError>
  /** Reads a part of a file. Fails if the file is shorter. */
  readonly read: (path: string, offset: number, length: number) => Effect.Effect<Buffer, VolumeFileError>
  /** Creates a file from these parts. `durable` waits for fsync. */
  readonly write: (
    path: string,
    parts: ReadonlyArray<Uint8Array>,
    options: { readonly durable: boolean }
  ) => Effect.Effect<void, VolumeFileError>
  /** Creates a hard link. Fails with `EEXIST` if the name exists. */
  readonly link: (from: string, to: string) => Effect.Effect<void, VolumeFileError>
  readonly rename: (from: string, to: string) => Effect.Effect<void, VolumeFileError>
  readonly remove: (path: string) => Effect.Effect<void, VolumeFileError>
  /** Copies a local file to a new file on the volume. */
  readonly copyIn: (local: string, path: string) => Effect.Effect<void, VolumeFileError>
  /** Copies a file of exactly `size` bytes from the volume to a new local file. */
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

/** With `O_NONBLOCK`, opening a named pipe on the volume does not wait for its writer. */
const READ = O_RDONLY | (O_NOFOLLOW ?? 0) | (O_NONBLOCK ?? 0)
const CREATE = O_WRONLY | O_CREAT | O_EXCL | (O_NOFOLLOW ?? 0)

/** The path of an open file, on Linux. */
const pathOf = (handle: fs.FileHandle): Promise<string | undefined> =>
  process.platform === "linux" ? fs.readlink(`/proc/self/fd/${handle.fd}`).catch(() => undefined) : Promise.resolve(undefined)

/** Opens a file of the mirror and checks its kind and path. */
const opened = async <A>(path: string, use: (handle: fs.FileHandle, size: number) => Promise<A>): Promise<A> => {
  const handle = await fs.open(path, READ)
  try {
    const stat = await handle.stat()
    if (!stat.isFile()) throw new Refused(`${path} is not a regular file`)
    const real = await pathOf(handle)
    if (real !== undefined && real !== path) {
      throw new Refused(`${path} is actually ${real}, because a directory of the mirror is a link`)
    }
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
    if (bytesRead === 0) throw new Refused(`${path} ends after ${offset + done} bytes, but ${offset + length} were expected`)
    done += bytesRead
  }
  return buffer
}

/**
 * Copies an open file in the kernel, by reference if the file system supports it. The source is named by its descriptor, so that it is the
 * checked file even if its path has been replaced since.
 */
const copyOpened = async (handle: fs.FileHandle, from: string, to: string): Promise<void> => {
  const source = process.platform === "linux" && await pathOf(handle) !== undefined ? `/proc/self/fd/${handle.fd}` : from
  await fs.copyFile(source, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
}

/** The maximum number of parts of one `writev`. */
const IOV_MAX = 1024

/** Writes all parts. `writev` may write fewer bytes than requested. */
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

/** Creates the operations over `node:fs`. */
export const make = (): VolumeFiles => {
  const count = { pending: 0 }
  const attempt = attempter(count)
  return {
    pending: () => count.pending,
    realPath: (path) => attempt("resolve", path, () => fs.realpath(path)),
    stat: (path) =>
      attempt("stat", path, async () => {
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
    readAll: (path, maxBytes) =>
      attempt("read", path, () =>
        opened(path, (handle, size) => {
          if (size > maxBytes) throw new Refused(`${path} has ${size} bytes, but the limit is ${maxBytes}`)
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
          if (actual !== size) throw new Refused(`${path} has ${actual} bytes, but ${size} were expected`)
          await copyOpened(handle, path, local)
        }))
  }
}

/** The operations in use. Default: {@link make}. */
export const VolumeFiles = Context.Reference<VolumeFiles>("@stint/worker-volume-cache/VolumeFiles", { defaultValue: make })

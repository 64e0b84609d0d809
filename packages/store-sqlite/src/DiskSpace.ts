/**
 * Keeps room on the disk for the work that has been accepted.
 *
 * ```
 *   free space    new jobs      changes to stored jobs
 *   > minFree     accepted      accepted
 *   < minFree     rejected      accepted                   logged once
 *   0             rejected      accepted: the reserve file is deleted, and the transaction runs again
 *   0 again       rejected      rejected                   logged once
 * ```
 *
 * Cancelling, purging and removing jobs, and storing the results of workers, also need space: SQLite writes each change to the WAL first. So
 * the file `<file>.reserve` holds space that other programs and the platform's own jobs cannot use up. It is written again when the disk has
 * space for it.
 *
 * A disk can be full for this process although it has free space, for example because of a quota. Then new jobs are rejected for `holdMs`
 * after each failed write.
 *
 * The size of the WAL counts as used a second time, because a checkpoint copies it into the database file.
 *
 * The free space is read every `intervalMs`, after each commit that made a file larger, and after each write that failed because the disk was
 * full. Reading it takes 1 µs. Submissions only read a boolean.
 */
import { randomFill } from "node:crypto"
import { lstatSync, rmSync, statfsSync } from "node:fs"
import { open } from "node:fs/promises"
import { dirname } from "node:path"
import { promisify } from "node:util"

/** Settings of the free space. */
export interface Options {
  /**
   * New jobs are rejected while less than this is free, in bytes. Default: 512 MiB, or a twentieth of the file system if that is less. 0: never. A
   * higher value leaves more room for the results and logs of accepted jobs, and for other programs.
   */
  readonly minFreeBytes?: number | undefined
  /**
   * Size of the reserve file, in bytes. Default: 0, which creates none. 32 MiB hold a full WAL (16 MiB) and the pages that one checkpoint
   * adds.
   */
  readonly reserveBytes?: number | undefined
  /** Milliseconds for which new jobs are rejected after a write failed on a disk that is full but reports enough free space. Default: 30000. */
  readonly holdMs?: number | undefined
  /** Milliseconds between two reads of the free space. Default: 1000. */
  readonly intervalMs?: number | undefined
  /** Reads the free bytes and the size of the file system that contains a folder. Default: `statfs`. */
  readonly readSpace?: ((folder: string) => Space) | undefined
}

/** Bytes of a file system. `free`: what this process may use. */
export interface Space {
  readonly free: number
  readonly size: number
}

/** The state after a change, for the log. */
export type SpaceChange =
  | { readonly _tag: "Low"; readonly free: number; readonly minFree: number; readonly enough: number }
  /** `reserve`: the bytes of the reserve that was deleted; 0 when there was none. */
  | { readonly _tag: "Full"; readonly reserve: number; readonly enough: number }
  | { readonly _tag: "Enough"; readonly free: number }

/** The free space of the file system that contains the database. */
export interface DiskSpace {
  /** Whether new jobs are rejected. */
  readonly isLow: () => boolean
  /** Whether this many bytes can be used without a shortage. False when the free space cannot be read. */
  readonly hasRoomFor: (bytes: number) => boolean
  /** Reads the free space. Returns the change of state, if there is one. */
  readonly update: () => SpaceChange | undefined
  /**
   * After a write that failed because the disk is full: deletes the reserve, and rejects new jobs from now on. `released`: there was a
   * reserve, so the write may succeed now.
   */
  readonly full: () => { readonly released: boolean; readonly change: SpaceChange | undefined }
  /** Writes the reserve if it is missing and there is space for it. Does nothing when the disk becomes full meanwhile. */
  readonly fillReserve: () => Promise<void>
}

const DEFAULT_MIN_FREE = 512 * 1024 * 1024

/** Share of a small file system that stays free. */
const DEFAULT_SHARE = 1 / 20

const CHUNK = 1024 * 1024

/** The path of the reserve file. */
export const reservePath = (file: string): string => `${file}.reserve`

/** `bavail` excludes the blocks that only root may use: a platform that runs as root must not use them up either. */
const readStatfs = (folder: string): Space => {
  const { bavail, blocks, bsize } = statfsSync(folder)
  return { free: bavail * bsize, size: blocks * bsize }
}

const fill = promisify<Uint8Array, Uint8Array>(randomFill)

/** For a database file. `update` throws when the free space cannot be read. */
export const make = (
  file: string,
  { holdMs = 30_000, minFreeBytes, readSpace = readStatfs, reserveBytes = 0 }: Options
): DiskSpace => {
  const folder = dirname(file)
  const reserve = reservePath(file)
  const sizeOf = (path: string) => lstatSync(path, { throwIfNoEntry: false })?.size ?? 0
  const reserveSize = () => sizeOf(reserve)
  const read = (): Space => {
    const { free, size } = readSpace(folder)
    return { free: Math.max(0, free - sizeOf(`${file}-wal`)), size }
  }
  let low = false
  let holdUntil = 0
  /** True while the reserve is being written, until it is released. */
  let filling = false

  const minFreeOf = ({ size }: Space) => minFreeBytes ?? Math.min(DEFAULT_MIN_FREE, Math.floor(size * DEFAULT_SHARE))

  /** The free space that ends the shortage: more than what started it, so that the state does not change with every job. */
  const enoughOf = (space: Space) => {
    const minFree = minFreeOf(space)
    const missing = Math.max(0, reserveBytes - reserveSize())
    return minFree + Math.max(missing, Math.floor(minFree / 10))
  }

  return {
    isLow: () => low,
    hasRoomFor: (bytes) => {
      try {
        const space = read()
        // The WAL counts twice.
        return space.free - 2 * bytes >= enoughOf(space)
      } catch {
        return false
      }
    },
    update: () => {
      const space = read()
      if (low) {
        if (space.free < enoughOf(space) || performance.now() < holdUntil) return undefined
        low = false
        return { _tag: "Enough", free: space.free }
      }
      const minFree = minFreeOf(space)
      if (space.free >= minFree) return undefined
      low = true
      return { _tag: "Low", free: space.free, minFree, enough: enoughOf(space) }
    },
    full: () => {
      const reserved = reserveSize()
      const wasLow = low
      filling = false
      low = true
      if (reserved > 0) rmSync(reserve, { force: true })
      const space = read()
      const enough = enoughOf(space)
      holdUntil = space.free - reserved < enough ? 0 : performance.now() + holdMs
      const released = reserved > 0
      return { released, change: wasLow && !released ? undefined : { _tag: "Full", reserve: reserved, enough } }
    },
    fillReserve: async () => {
      if (filling || low || reserveSize() === reserveBytes) return
      if (reserveBytes === 0) return rmSync(reserve, { force: true })
      const space = read()
      if (space.free < minFreeOf(space) + reserveBytes) return
      filling = true
      const stillFilling = () => filling
      try {
        const handle = await open(reserve, "w", 0o600)
        try {
          // Random data, because some file systems store zeros without using space.
          const chunk = new Uint8Array(CHUNK)
          for (let left = reserveBytes; left > 0 && stillFilling(); left -= CHUNK) {
            await handle.write(await fill(chunk), 0, Math.min(left, CHUNK))
          }
          await handle.sync()
        } finally {
          await handle.close()
        }
      } catch {
        filling = false
      }
      if (!stillFilling()) rmSync(reserve, { force: true })
      filling = false
    }
  }
}

/**
 * Gives the WAL its usual size when the file is opened.
 *
 * Each commit syncs the WAL. While the WAL grows, the file system must also write its new size and blocks through its journal: on ext4, a
 * commit of eight pages took 380 µs instead of 195 µs until the first checkpoint, after which SQLite overwrites the WAL from its beginning. A platform with a
 * job a minute would not reach that checkpoint for hours.
 *
 * ```
 *   WAL    [frames | zeros ...................... ]     written once, before the first commit
 *           ^ SQLite's next frame                 ^ CHECKPOINT_PAGES frames
 * ```
 *
 * SQLite ignores what follows the last valid frame: it expects remains of earlier frames there. Writing 16 MiB takes about 10 ms. Space that is only reserved
 * (`fallocate`) would not help, because its first use goes through the journal, too.
 */
import { closeSync, fdatasyncSync, fstatSync, ftruncateSync, openSync, writeSync } from "node:fs"
import { CHECKPOINT_PAGES } from "./DatabaseWatch.ts"

/** The header of the WAL, and a frame with its own header, for pages of 4 KiB. Bytes. */
const HEADER_BYTES = 32
const FRAME_BYTES = 24 + 4096

/** The size of the WAL at a checkpoint of a platform that commits small transactions. Bytes. */
export const FULL_SIZE = HEADER_BYTES + CHECKPOINT_PAGES * FRAME_BYTES

/** How much is written at a time. Bytes. */
const CHUNK = 1024 * 1024

/**
 * Extends the WAL of an open database. Nothing else may write to it meanwhile. When this fails, for example because the disk is full, the WAL keeps its size and
 * grows with its commits.
 */
export const extend = (file: string): void => {
  let handle: number | undefined
  try {
    handle = openSync(`${file}-wal`, "r+")
    const { size } = fstatSync(handle)
    const zeros = new Uint8Array(CHUNK)
    try {
      for (let at = size; at < FULL_SIZE; at += CHUNK) {
        writeSync(handle, zeros, 0, Math.min(CHUNK, FULL_SIZE - at), at)
      }
      fdatasyncSync(handle)
    } catch {
      ftruncateSync(handle, size)
    }
  } catch {
    // Without this space, commits are only slower.
  } finally {
    if (handle !== undefined) closeSync(handle)
  }
}

/**
 * Sums that tell damage: a pack that was cut, a copy that lost power before its bytes were on the disk.
 *
 * They are no defence against who can write to the mirror: whoever can change the bytes can change the sum. They cost next to nothing,
 * so small files have one over all of their bytes. Reading a large file again would cost as much as copying it, so of a large file
 * sixteen blocks are summed, the first and the last among them: that finds files that were cut, and holes of zeros.
 */
import { constants } from "node:fs"
import { crc32 } from "node:zlib"
import type { LocalFiles } from "./LocalFiles.ts"

/** The sum of all of these bytes. */
export const sum = (bytes: Uint8Array): number => crc32(bytes)

const BLOCKS = 16
const BLOCK = 64 * 1024

/** The sum of sixteen blocks of a local file of this size, and of the size. Throws what the file system throws. */
export const sample = (local: LocalFiles, path: string, size: number): number => {
  const block = Buffer.allocUnsafe(Math.min(BLOCK, size))
  const fd = local.openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0))
  try {
    let crc = crc32(String(size))
    for (let number = 0; number < BLOCKS; number++) {
      const offset = Math.floor((size - block.length) * number / (BLOCKS - 1))
      const read = local.readSync(fd, block, 0, block.length, offset)
      crc = crc32(block.subarray(0, read), crc)
    }
    return crc
  } finally {
    local.closeSync(fd)
  }
}

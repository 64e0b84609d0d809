/**
 * Checksums that detect damage, such as a truncated pack or a copy whose bytes were lost in a power failure.
 *
 * They do not protect against an attacker, who can change the checksum together with the bytes. The checksum of a small file covers all
 * of its bytes. Reading a large file again would cost as much as copying it, so its checksum covers sixteen blocks, including the first and
 * the last. This detects truncated files and holes of zeros.
 */
import { constants } from "node:fs"
import { crc32 } from "node:zlib"
import type { LocalFiles } from "./LocalFiles.ts"

/** The checksum of these bytes. */
export const sum = (bytes: Uint8Array): number => crc32(bytes)

const BLOCKS = 16
const BLOCK = 64 * 1024

/** The checksum of the size and of sixteen blocks of a local file. Throws the file system's errors. */
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

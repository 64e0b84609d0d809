/**
 * Writes and reads tar archives of plain files, in the format of POSIX.1-1988 (ustar), which every `tar` can read. Sizes of 8 GiB and more are
 * stored in binary, as GNU tar and bsdtar do.
 *
 * ```
 *   header (512 bytes) | content | zeros up to 512 bytes | header ...  | 1024 zeros
 * ```
 */

const BLOCK = 512

/** The largest size that fits into 11 octal digits. */
const MAX_OCTAL = 0o77777777777

const octal = (value: number, digits: number): string => `${Math.floor(value).toString(8).padStart(digits, "0")}\0`

/** A long name is split at a slash: the first part moves into a field of its own. */
const splitName = (name: string): readonly [prefix: string, base: string] => {
  if (Buffer.byteLength(name) <= 100) return ["", name]
  for (let slash = name.indexOf("/"); slash !== -1; slash = name.indexOf("/", slash + 1)) {
    const [prefix, base] = [name.slice(0, slash), name.slice(slash + 1)]
    if (Buffer.byteLength(prefix) <= 155 && Buffer.byteLength(base) <= 100) return [prefix, base]
  }
  throw new Error(`the name ${name} is too long for a tar archive`)
}

const checksumOf = (block: Buffer): number => {
  let sum = 0
  // For the checksum, its own field counts as spaces.
  for (const [index, byte] of block.entries()) sum += index >= 148 && index < 156 ? 32 : byte
  return sum
}

/** The header of a file. `modifiedAt`: milliseconds since 1970. Throws for a name of more than 255 bytes. */
export const header = (name: string, size: number, modifiedAt: number): Buffer => {
  const [prefix, base] = splitName(name)
  const block = Buffer.alloc(BLOCK)
  block.write(base, 0)
  block.write(octal(0o600, 7), 100)
  block.write(octal(0, 7), 108)
  block.write(octal(0, 7), 116)
  if (size <= MAX_OCTAL) block.write(octal(size, 11), 124)
  else {
    block[124] = 0x80
    block.writeBigUInt64BE(BigInt(size), 128)
  }
  block.write(octal(modifiedAt / 1_000, 11), 136)
  block.write("0", 156)
  block.write("ustar", 257)
  block.write("00", 263)
  block.write(prefix, 345)
  block.write(octal(checksumOf(block), 6), 148)
  return block
}

/** The zeros that follow content of this size. */
export const padding = (size: number): Buffer => Buffer.alloc((BLOCK - size % BLOCK) % BLOCK)

/** The end of an archive. */
export const END: Buffer = Buffer.alloc(2 * BLOCK)

/** A file in an archive. `body` must be read to its end before the next entry. */
export interface TarEntry {
  readonly name: string
  readonly size: number
  readonly body: AsyncGenerator<Buffer>
}

const textAt = (block: Buffer, start: number, length: number): string => {
  const field = block.subarray(start, start + length)
  const end = field.indexOf(0)
  return field.toString("utf8", 0, end === -1 ? length : end)
}

const numberAt = (block: Buffer, start: number, length: number): number =>
  (block[start] ?? 0) & 0x80
    ? Number(block.readBigUInt64BE(start + length - 8))
    : Number.parseInt(textAt(block, start, length).trim() || "0", 8)

/** Reads bytes from a source in pieces of the requested size. */
const makeReader = (source: AsyncIterable<Uint8Array>) => {
  const iterator = source[Symbol.asyncIterator]()
  let rest: Buffer = Buffer.alloc(0)
  /** At most `limit` bytes, at least one. */
  const some = async (limit: number): Promise<Buffer> => {
    while (rest.length === 0) {
      const next = await iterator.next()
      if (next.done === true) throw new Error("the archive is incomplete: it ends in the middle of a file")
      rest = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength)
    }
    const taken = rest.subarray(0, limit)
    rest = rest.subarray(taken.length)
    return taken
  }
  const exactly = async (size: number): Promise<Buffer> => {
    const parts: Array<Buffer> = []
    for (let left = size; left > 0;) {
      const part = await some(left)
      parts.push(part)
      left -= part.length
    }
    return Buffer.concat(parts)
  }
  return { some, exactly }
}

/** The files of an archive. Throws when the archive is damaged, incomplete, or contains anything but files and folders. */
export const entries = async function*(source: AsyncIterable<Uint8Array>): AsyncGenerator<TarEntry> {
  const reader = makeReader(source)
  for (;;) {
    const block = await reader.exactly(BLOCK)
    if (block.every((byte) => byte === 0)) return
    if (numberAt(block, 148, 8) !== checksumOf(block)) {
      throw new Error("the archive is damaged, or it is not an uncompressed tar archive")
    }
    const [type, size, prefix] = [textAt(block, 156, 1), numberAt(block, 124, 12), textAt(block, 345, 155)]
    const name = `${prefix === "" ? "" : `${prefix}/`}${textAt(block, 0, 100)}`.replace(/^\.\//, "")
    if (type === "5") continue
    if (type !== "0" && type !== "") throw new Error(`the archive contains ${name}, which is not a plain file`)
    let left = size
    const body = async function*() {
      while (left > 0) {
        const part = await reader.some(left)
        left -= part.length
        yield part
      }
    }
    yield { name, size, body: body() }
    if (left > 0) throw new Error(`${name} was not read to its end`)
    await reader.exactly(padding(size).length)
  }
}

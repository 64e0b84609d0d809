/**
 * The body of an answer: decoded, counted, and never more than was asked for.
 *
 * ```
 *   socket -> [ count ] -> [ gunzip ] -> [ count ] -> consumer
 * ```
 *
 * `identity` is asked for, but stored files are served with the encoding that they were stored in, whatever was asked for. So
 * gzip, deflate, br and zstd are decoded, one of them, and it is the decoded bytes that count: a bomb goes off at the limit. The
 * encoded ones count too, because a stream can decode to nothing for ever. Every stage holds one buffer and waits for the next.
 */
import { pipeline } from "node:stream"
import type { Readable, Transform } from "node:stream"
import { Malformed, TooLarge } from "./GuardedHttpError.ts"

/** An encoded body may be larger than the decoded one, by its frame. Bytes. */
const FRAME = 64 * 1024

/** The window that RFC 9659 lets a zstd body ask for: 8 MiB, as a power of two. Node's own limit would be 128 MiB. */
const ZSTD_WINDOW_LOG = 23

/** Decoders by the name in `Content-Encoding`; `node:zlib` is loaded by the first body that needs it. */
const decoderOf = (encoding: string): Transform | undefined => {
  const zlib = process.getBuiltinModule("node:zlib")
  switch (encoding) {
    case "gzip":
    case "x-gzip":
      return zlib.createGunzip()
    case "deflate":
      return zlib.createInflate()
    case "br":
      return zlib.createBrotliDecompress()
    case "zstd":
      return zlib.createZstdDecompress({ params: { [zlib.constants.ZSTD_d_windowLogMax]: ZSTD_WINDOW_LOG } })
    default:
      return undefined
  }
}

/** Counts what went through, up to the limit. */
export interface Counter {
  /** Bytes so far. */
  received: number
}

async function* counted(source: AsyncIterable<Uint8Array>, counter: Counter, limit: number, most: number) {
  for await (const chunk of source) {
    counter.received += chunk.byteLength
    if (counter.received > limit) throw new TooLarge({ limit: most, announced: undefined })
    yield chunk
  }
}

/** A body on its way. */
export interface ResponseBody {
  /** Yields the decoded bytes once; throws {@link TooLarge} at the limit, and whatever the connection or the decoder fails with. */
  readonly chunks: AsyncIterable<Uint8Array>
  /** Counts the decoded bytes. */
  readonly counter: Counter
}

/** Whether there is nothing to decode. */
const isIdentity = (encoding: string) => encoding === "" || encoding === "identity"

/** The encoding that an answer's headers name, in lower case. */
export const encodingOf = (headers: { readonly [name: string]: string }): string =>
  (headers["content-encoding"] ?? "").trim().toLowerCase()

/** The body of at most `limit` bytes, or why it cannot be decoded. */
export const make = (source: Readable, encoding: string, limit: number): ResponseBody | Malformed => {
  const counter: Counter = { received: 0 }
  if (isIdentity(encoding)) return { chunks: counted(source, counter, limit, limit), counter }
  const decoder = decoderOf(encoding)
  if (decoder === undefined) {
    return new Malformed({ detail: `its content-encoding is ${JSON.stringify(encoding.slice(0, 80))}, which is not supported` })
  }
  // The callback is needed: without one an error of a part would be thrown at nobody. Whoever reads the decoder gets it, too.
  pipeline(source, (from: AsyncIterable<Uint8Array>) => counted(from, { received: 0 }, limit + FRAME, limit), decoder, () => {})
  return { chunks: counted(decoder, counter, limit, limit), counter }
}

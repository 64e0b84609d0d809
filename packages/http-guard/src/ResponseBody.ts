/**
 * The body of a response: decoded, counted and bounded.
 *
 * ```
 *   socket -> [ count ] -> [ gunzip ] -> [ count ] -> consumer
 * ```
 *
 * Requests ask for `identity`, but servers send stored files in their stored encoding anyway. Therefore gzip, deflate, br and zstd are decoded
 * (at most one of them per response). The limit applies to the decoded bytes, which stops a decompression bomb. It also applies to the encoded
 * bytes, because a stream can be endless and still decode to nothing. Every stage holds one buffer and applies backpressure.
 */
import { pipeline } from "node:stream"
import type { Readable, Transform } from "node:stream"
import { Malformed, TooLarge } from "./GuardedHttpError.ts"

/** How much larger than the decoded body the encoded body may be, to allow for its framing. Bytes. */
const FRAME = 64 * 1024

/** The largest window of a zstd body according to RFC 9659: 8 MiB, as a power of two. Node's own limit is 128 MiB. */
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

/** Counts bytes, up to the limit. */
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

/** A body that is being read. */
export interface ResponseBody {
  /** Yields the decoded bytes once. Throws {@link TooLarge} at the limit, and the errors of the connection and the decoder. */
  readonly chunks: AsyncIterable<Uint8Array>
  /** Counts the decoded bytes. */
  readonly counter: Counter
}

/** Whether the body needs no decoding. */
const isIdentity = (encoding: string) => encoding === "" || encoding === "identity"

/** The encoding in the headers, in lower case. */
export const encodingOf = (headers: { readonly [name: string]: string }): string =>
  (headers["content-encoding"] ?? "").trim().toLowerCase()

/** Makes a body of at most `limit` bytes. Returns an error if the encoding is not supported. */
export const make = (source: Readable, encoding: string, limit: number): ResponseBody | Malformed => {
  const counter: Counter = { received: 0 }
  if (isIdentity(encoding)) return { chunks: counted(source, counter, limit, limit), counter }
  const decoder = decoderOf(encoding)
  if (decoder === undefined) {
    return new Malformed({ detail: `its content-encoding is ${JSON.stringify(encoding.slice(0, 80))}, which is not supported` })
  }
  // Without the callback, an error in a stage would be uncaught. The reader of the decoder also gets the error.
  pipeline(source, (from: AsyncIterable<Uint8Array>) => counted(from, { received: 0 }, limit + FRAME, limit), decoder, () => {})
  return { chunks: counted(decoder, counter, limit, limit), counter }
}

/**
 * Reads a request's body as text, within limits.
 *
 * ```
 *   Node's stream --[ gzip, deflate ]--> bytes so far <= limit? --> memory left? --> text
 *                                        else "large"               else "memory"
 * ```
 *
 * Every job has a body, so this reads Node's stream directly, which takes a third of the time that reading through the platform's adapter
 * takes (docs/decisions/0014-fast-path.md). The adapter still reads the body if the client sent `Expect: 100-continue`, or if the server does
 * not run on Node, in which case bodies are not decompressed.
 */
import * as NodeStream from "@effect/platform-node/NodeStream"
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http"
import { IncomingMessage } from "node:http"
import type { Readable } from "node:stream"
import { StringDecoder } from "node:string_decoder"
import { createGunzip, createInflate } from "node:zlib"

/**
 * Why reading failed: the body exceeds the limit, the payload memory is full, the client disconnected before the body's end, or the body is
 * not compressed in the way that its `content-encoding` says.
 */
export type BodyReadError = "large" | "memory" | "disconnected" | "encoding"

/** How a body may be compressed (`content-encoding`). */
export type BodyEncoding = "gzip" | "deflate"

/** How to read a body. */
export interface ReadOptions {
  /** The maximum number of bytes, both as sent and decompressed. */
  readonly limit: number
  readonly encoding?: BodyEncoding | undefined
  /** Called with the number of bytes read so far. Returns false when there is no memory for them; reading then fails. */
  readonly admit?: ((bytes: number) => boolean) | undefined
}

const BYTE_ORDER_MARK = 0xFEFF

/**
 * Decodes UTF-8, replaces invalid bytes and drops the byte order mark. Decodes piece by piece, so that a large body does not block other
 * requests.
 */
const makeText = () => {
  const pieces: Array<string> = []
  let first: Buffer | undefined
  let decoder: StringDecoder | undefined
  return {
    push: (chunk: Buffer): void => {
      if (first === undefined) {
        first = chunk
        return
      }
      if (decoder === undefined) {
        decoder = new StringDecoder("utf8")
        pieces.push(decoder.write(first))
      }
      pieces.push(decoder.write(chunk))
    },
    end: (): string => {
      if (decoder !== undefined) pieces.push(decoder.end())
      const text = decoder === undefined ? first?.toString() ?? "" : pieces.join("")
      return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text
    }
  }
}

const read = (source: Readable, { admit, encoding, limit }: ReadOptions): Effect.Effect<string, BodyReadError> =>
  Effect.callback((resume) => {
    const text = makeText()
    const inflater = encoding === undefined ? undefined : encoding === "gzip" ? createGunzip() : createInflate()
    const decoded = inflater ?? source
    let sent = 0
    let bytes = 0
    const removeListeners = () => {
      decoded.off("data", onData)
      decoded.off("end", onEnd)
      source.off("data", onSent)
      source.off("close", onClose)
      if (inflater === undefined) return
      source.unpipe(inflater)
      inflater.destroy()
    }
    const fail = (reason: BodyReadError) => {
      removeListeners()
      // Let Node discard the rest of the body, within the server's request timeout.
      source.resume()
      resume(Effect.fail(reason))
    }
    const onSent = (chunk: Buffer) => {
      sent += chunk.length
      if (sent > limit) fail("large")
    }
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > limit) fail("large")
      else if (admit !== undefined && !admit(bytes)) fail("memory")
      else text.push(chunk)
    }
    const onEnd = () => {
      removeListeners()
      resume(Effect.succeed(text.end()))
    }
    const onClose = () => {
      // The decompressor may still have output after the end of its input.
      if (inflater === undefined || !source.readableEnded) fail("disconnected")
    }
    if (source.destroyed) return resume(Effect.fail("disconnected"))
    decoded.on("data", onData)
    decoded.on("end", onEnd)
    source.on("close", onClose)
    if (inflater !== undefined) {
      inflater.on("error", () => fail("encoding"))
      source.on("data", onSent)
      source.pipe(inflater)
    }
    return Effect.sync(() => {
      removeListeners()
      source.destroy()
    })
  })

/** The stream of a body; undefined without Node. */
const sourceOf = (request: HttpServerRequest.HttpServerRequest): Readable | undefined => {
  const { source } = request
  if (!(source instanceof IncomingMessage)) return undefined
  if (source.headers.expect === undefined && !source.readableEnded) return source
  // The adapter sends `100 Continue` when its stream is read.
  const adapted = NodeStream.toReadableNever(request.stream)
  // A `close` event follows.
  adapted.on("error", () => {})
  return adapted
}

const readByAdapter = (request: HttpServerRequest.HttpServerRequest, limit: number): Effect.Effect<string, BodyReadError> =>
  request.text.pipe(
    Effect.provideService(HttpServerRequest.MaxBodySize, ByteSize.bytes(limit)),
    Effect.mapError(({ reason }) =>
      reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? "large" as const : "disconnected" as const
    )
  )

/** The text of a body. The body can be read only once. */
export const readBodyText = (
  request: HttpServerRequest.HttpServerRequest,
  options: ReadOptions
): Effect.Effect<string, BodyReadError> => {
  const source = sourceOf(request)
  if (source !== undefined) return read(source, options)
  return options.encoding === undefined ? readByAdapter(request, options.limit) : Effect.fail("encoding")
}

/** Reads and discards a body of at most `limit` bytes. Completes at its end, at the limit, or when the client disconnects. */
export const discardBody = (request: HttpServerRequest.HttpServerRequest, limit: number): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const source = sourceOf(request)
    if (source === undefined) return resume(Effect.void)
    let bytes = 0
    const end = () => {
      source.off("data", onData)
      source.off("close", end)
      source.off("end", end)
      resume(Effect.void)
    }
    const onData = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > limit) end()
    }
    if (source.destroyed || source.readableEnded) return resume(Effect.void)
    source.on("data", onData)
    source.on("close", end)
    source.on("end", end)
    return Effect.sync(end)
  })

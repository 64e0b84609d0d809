/**
 * The bytes of a request's body as text.
 *
 * They come with every job, so they are read from Node's stream as it is, which costs a third of reading them by way of the platform's
 * adapter. Where there is no such stream, or the client waits to be told to send (`Expect: 100-continue`), the adapter reads.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http"
import { IncomingMessage } from "node:http"

/** Why there is no text: it is longer than allowed, or the client never came to its end. */
export type BodyReadError = "large" | "cut"

const readByAdapter = (request: HttpServerRequest.HttpServerRequest, limit: number): Effect.Effect<string, BodyReadError> =>
  request.text.pipe(
    Effect.provideService(HttpServerRequest.MaxBodySize, ByteSize.bytes(limit)),
    Effect.mapError(({ reason }) =>
      reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? "large" as const : "cut" as const
    )
  )

const BYTE_ORDER_MARK = 0xFEFF

/** UTF-8, with what is none replaced; a byte order mark is no part of the text. */
const decoded = (chunks: ReadonlyArray<Buffer>): string => {
  const [first] = chunks
  const text = (first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks)).toString()
  return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text
}

const readFromStream = (source: IncomingMessage, limit: number): Effect.Effect<string, BodyReadError> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    let bytes = 0
    const leave = () => {
      source.off("data", onData)
      source.off("end", onEnd)
      source.off("close", onClose)
    }
    const onData = (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes <= limit) return
      leave()
      // The rest goes by unread, as much of it as the server has patience for.
      source.resume()
      resume(Effect.fail("large"))
    }
    const onEnd = () => {
      leave()
      resume(Effect.succeed(decoded(chunks)))
    }
    const onClose = () => {
      leave()
      resume(Effect.fail("cut"))
    }
    if (source.destroyed) return resume(Effect.fail("cut"))
    source.on("data", onData)
    source.on("end", onEnd)
    source.on("close", onClose)
    return Effect.sync(() => {
      leave()
      source.destroy()
    })
  })

/** The text of a body of at most `limit` bytes. To be read once. */
export const readBodyText = (
  request: HttpServerRequest.HttpServerRequest,
  limit: number
): Effect.Effect<string, BodyReadError> => {
  const { source } = request
  return source instanceof IncomingMessage && source.headers.expect === undefined && !source.readableEnded
    ? readFromStream(source, limit)
    : readByAdapter(request, limit)
}

/**
 * Reads the bytes of a request's body as text.
 *
 * Every job has a body, so this reads Node's stream directly, which takes a third of the time that reading through the platform's adapter
 * takes (docs/decisions/0014-fast-path.md). The adapter still reads the body if there is no Node stream or if the client sent `Expect:
 * 100-continue`.
 */
import * as ByteSize from "effect/ByteSize"
import * as Effect from "effect/Effect"
import { HttpServerRequest } from "effect/http"
import { IncomingMessage } from "node:http"

/** Why reading failed: the body is longer than the limit, or the client disconnected before its end. */
export type BodyReadError = "large" | "disconnected"

const readByAdapter = (request: HttpServerRequest.HttpServerRequest, limit: number): Effect.Effect<string, BodyReadError> =>
  request.text.pipe(
    Effect.provideService(HttpServerRequest.MaxBodySize, ByteSize.bytes(limit)),
    Effect.mapError(({ reason }) =>
      reason._tag === "RequestParseError" && reason.reason === "BodyTooLarge" ? "large" as const : "disconnected" as const
    )
  )

const BYTE_ORDER_MARK = 0xFEFF

/** Decodes UTF-8, replaces invalid bytes and drops the byte order mark. */
const decoded = (chunks: ReadonlyArray<Buffer>): string => {
  const [first] = chunks
  const text = (first !== undefined && chunks.length === 1 ? first : Buffer.concat(chunks)).toString()
  return text.charCodeAt(0) === BYTE_ORDER_MARK ? text.slice(1) : text
}

const readFromStream = (source: IncomingMessage, limit: number): Effect.Effect<string, BodyReadError> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    let bytes = 0
    const removeListeners = () => {
      source.off("data", onData)
      source.off("end", onEnd)
      source.off("close", onClose)
    }
    const onData = (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes <= limit) return
      removeListeners()
      // Let Node discard the rest of the body, within the server's request timeout.
      source.resume()
      resume(Effect.fail("large"))
    }
    const onEnd = () => {
      removeListeners()
      resume(Effect.succeed(decoded(chunks)))
    }
    const onClose = () => {
      removeListeners()
      resume(Effect.fail("disconnected"))
    }
    if (source.destroyed) return resume(Effect.fail("disconnected"))
    source.on("data", onData)
    source.on("end", onEnd)
    source.on("close", onClose)
    return Effect.sync(() => {
      removeListeners()
      source.destroy()
    })
  })

/** The text of a body of at most `limit` bytes. The body can be read only once. */
export const readBodyText = (
  request: HttpServerRequest.HttpServerRequest,
  limit: number
): Effect.Effect<string, BodyReadError> => {
  const { source } = request
  return source instanceof IncomingMessage && source.headers.expect === undefined && !source.readableEnded
    ? readFromStream(source, limit)
    : readByAdapter(request, limit)
}

/**
 * Responses whose headers are sent before their body is known.
 *
 * A `/runsync` caller whose connection is lost during the wait would not know its job's id. So, after a short wait, the server sends the
 * headers with the job's id first and the body later:
 *
 * ```
 *   POST runsync --> 200, x-job-id: sync-...        at once
 *                    ...                            the job runs
 *                    {"id":"sync-...", ...}         the result
 * ```
 *
 * An interim response (103) does not work: clients that treat the first status line as the final one, such as Python's `http.client`,
 * would misread it. The server sends no bytes between the headers and the body, so a client's read timeout still works as intended.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { IncomingMessage, ServerResponse } from "node:http"

const encoder = new TextEncoder()

/** 200 with these headers now and the JSON text later, once it is known. */
export const jsonWithEarlyHeaders = (
  request: HttpServerRequest.HttpServerRequest,
  body: Effect.Effect<string>,
  headers: Readonly<Record<string, string>>
): HttpServerResponse.HttpServerResponse => {
  const flush = Effect.sync(() => {
    // Without Node, the headers are sent with the body.
    if (!(request.source instanceof IncomingMessage)) return
    const response = NodeHttpServerRequest.toServerResponse(request)
    if (response instanceof ServerResponse) response.flushHeaders()
  })
  return HttpServerResponse.stream(
    Stream.fromEffect(Effect.andThen(flush, Effect.map(body, (text) => encoder.encode(text)))),
    { contentType: "application/json", headers }
  )
}

/**
 * 200 with these headers now and the JSON text later, preceded by white space while `next` returns an empty text: JSON allows leading
 * white space, and proxies do not close a connection that carries data.
 */
export const jsonWithKeepAlive = (
  next: Effect.Effect<string>,
  headers: Readonly<Record<string, string>>
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.stream(
    Stream.make(" ").pipe(
      Stream.concat(Stream.paginate(undefined, () =>
        Effect.map(next, (text) =>
          [[text === "" ? " " : text], text === "" ? Option.some(undefined) : Option.none()] as const))),
      Stream.map((text) =>
        encoder.encode(text)
      )
    ),
    { contentType: "application/json", headers: { ...headers, "x-accel-buffering": "no" } }
  )

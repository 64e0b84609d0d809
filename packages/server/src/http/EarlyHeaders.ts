/**
 * Answers whose head is sent before their body is known.
 *
 * A caller of `/runsync` that is cut off while it waits would not know what its job is called. So, when the wait gets longer than a moment,
 * the head goes out with the job's id in it, and the body follows:
 *
 * ```
 *   POST runsync --> 200, x-job-id: sync-...        at once
 *                    ...                            the job runs
 *                    {"id":"sync-...", ...}         its end
 * ```
 *
 * The other way, an interim answer (103), is none: clients that read the first status line they see, as Python's `http.client` does, would
 * take it for the answer. And no byte is sent ahead of the body: a client's own time limit between two bytes means what it meant.
 */
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import * as Effect from "effect/Effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { IncomingMessage, ServerResponse } from "node:http"

const encoder = new TextEncoder()

/** 200 with these headers now and the JSON text later. */
export const jsonWithEarlyHeaders = (
  request: HttpServerRequest.HttpServerRequest,
  body: Effect.Effect<string>,
  headers: Readonly<Record<string, string>>
): HttpServerResponse.HttpServerResponse => {
  const flush = Effect.sync(() => {
    // Served by something else than Node, the head goes out with the body.
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
 * 200 with these headers now and the JSON text later, with white space before it as long as `next` is empty: JSON may begin with any
 * amount of it, and proxies do not cut a connection on which something comes.
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

/**
 * HTTP requests over the unix socket of a container engine.
 *
 * It uses `node:http`, which the platform loads anyway (docs/decisions/0033-container-engine.md). Each request opens its own connection,
 * because after a restart of the engine, an idle connection would fail the next request.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { type IncomingMessage, request as httpRequest } from "node:http"
import { type EngineError, EngineRefused, EngineUnreachable } from "./EngineError.ts"

/** One request. */
export interface EngineRequest {
  readonly method: "DELETE" | "GET" | "POST"
  /** Path with query. */
  readonly path: string
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** How long the engine may take to respond. It is long because a storage driver without layers copies all files to create a container. */
const ANSWER_LIMIT = "3 minutes"

/** The maximum length of an error text that is read from a response, in characters. */
const MAX_ERROR = 2_000

const unreachable = (socket: string, cause: unknown): EngineUnreachable => {
  const code = cause instanceof Error && "code" in cause ? cause.code : undefined
  const problem = code === "ENOENT"
    ? `there is no socket ${socket}`
    : code === "ECONNREFUSED"
    ? `nothing listens on ${socket}`
    : code === "EACCES"
    ? `the platform's user may not use ${socket}`
    : `${socket}: ${cause instanceof Error ? cause.message : String(cause)}`
  return new EngineUnreachable({ problem })
}

const textOf = async (response: IncomingMessage, limit = Infinity): Promise<string> => {
  let text = ""
  response.setEncoding("utf8")
  for await (const chunk of response) {
    if (text.length < limit) text += String(chunk)
  }
  return text
}

/** The message in an error response: `{"message": "..."}`, or podman's `{"cause": "...", "message": "..."}`. */
const problemOf = (text: string): string => {
  try {
    const parsed: unknown = JSON.parse(text)
    if (typeof parsed === "object" && parsed !== null && "message" in parsed && typeof parsed.message === "string") {
      return parsed.message.trim().replace(/\.$/, "")
    }
  } catch {
    // Not JSON: the text is the message.
  }
  return text.trim().slice(0, MAX_ERROR).replace(/\.$/, "")
}

/** Sends the request. The response is destroyed when the scope closes. Fails unless its status is 2xx or 304, which means "already in that state". */
const respond = (
  socket: string,
  { body, headers, method, path }: EngineRequest
): Effect.Effect<IncomingMessage, EngineError, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.callback<IncomingMessage, EngineUnreachable>((resume) => {
      const text = body === undefined ? undefined : JSON.stringify(body)
      const sent = httpRequest({
        socketPath: socket,
        method,
        path,
        agent: false,
        headers: {
          host: "engine",
          ...headers,
          ...(text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) })
        }
      })
      sent.once("response", (response) => resume(Effect.succeed(response)))
      sent.on("error", (cause) => resume(Effect.fail(unreachable(socket, cause))))
      sent.end(text)
      return Effect.sync(() => sent.destroy())
    }),
    (response) => Effect.sync(() => response.destroy()),
    { interruptible: true }
  ).pipe(
    Effect.tap((response) => {
      const status = response.statusCode ?? 0
      if ((status >= 200 && status < 300) || status === 304) return Effect.void
      return Effect.flatMap(
        Effect.tryPromise({ try: () => textOf(response, MAX_ERROR), catch: (cause) => unreachable(socket, cause) }),
        (text) => Effect.fail(new EngineRefused({ status, problem: problemOf(text) || `status ${status} without a reason` }))
      )
    })
  )

/** Sends the request and returns the body of the response. */
export const text = (socket: string, request: EngineRequest): Effect.Effect<string, EngineError> =>
  Effect.scoped(Effect.flatMap(
    respond(socket, request),
    (response) => Effect.tryPromise({ try: () => textOf(response), catch: (cause) => unreachable(socket, cause) })
  )).pipe(
    Effect.timeoutOrElse({
      duration: ANSWER_LIMIT,
      orElse: () =>
        Effect.fail(new EngineUnreachable({ problem: `${socket} did not answer ${request.path} within ${ANSWER_LIMIT}` }))
    })
  )

/** Like {@link text}, for a response that waits for an event. */
export const textWithoutLimit = (socket: string, request: EngineRequest): Effect.Effect<string, EngineError> =>
  Effect.scoped(Effect.flatMap(
    respond(socket, request),
    (response) => Effect.tryPromise({ try: () => textOf(response), catch: (cause) => unreachable(socket, cause) })
  ))

/** Sends the request and handles each chunk of the response, one after the other. Fails when the connection ends within the response. */
export const stream = Effect.fnUntraced(
  function*<E>(socket: string, request: EngineRequest, onChunk: (chunk: Buffer) => Effect.Effect<void, E>) {
    const response = yield* respond(socket, request)
    const chunks: AsyncIterator<unknown> = response[Symbol.asyncIterator]()
    while (true) {
      const next = yield* Effect.tryPromise({ try: () => chunks.next(), catch: (cause) => unreachable(socket, cause) })
      if (next.done === true) return
      if (Buffer.isBuffer(next.value)) yield* onChunk(next.value)
    }
  },
  Effect.scoped
)

/**
 * HTTP requests to a Kubernetes API server, with time and size limits.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { type ClientRequest, type IncomingMessage, type OutgoingHttpHeaders, request as httpRequest } from "node:http"
import { request as httpsRequest, type RequestOptions } from "node:https"
import { ApiRefused, ApiUnreachable, type KubernetesError } from "./KubernetesError.ts"
import { Status } from "./Pod.ts"

/** The parts of a request other than its address. */
export interface Credentials extends Omit<RequestOptions, "headers"> {
  readonly headers: OutgoingHttpHeaders
}

/** How to reach an API server. */
export interface ClusterAccess {
  /** `https://10.0.0.1:443`. */
  readonly server: string
  /** The credentials for a request: certificates, an agent, and headers. Called for each request, because tokens expire. */
  readonly credentials: () => Promise<Credentials>
}

/** One request. */
export interface ApiRequest {
  readonly method: "DELETE" | "GET" | "POST"
  /** Path with query. */
  readonly path: string
  readonly body?: unknown
}

/** How long a response may take. */
const ANSWER_LIMIT = "30 seconds"

/** The maximum size of a response, in bytes. Pages of lists are the largest; a pod has a few kilobytes, and at most 1.5 MB. */
const MAX_ANSWER = 64 * 1024 * 1024

/** The maximum size of an error text that is read, in bytes. */
const MAX_ERROR = 64 * 1024

/** The maximum part of an error that is shown, in characters. */
const SHOWN_ERROR = 2_000

const unreachable = (server: string, cause: unknown): ApiUnreachable =>
  new ApiUnreachable({ problem: `${server}: ${cause instanceof Error ? cause.message : String(cause)}` })

const textOf = async (response: IncomingMessage, limit: number): Promise<string> => {
  const chunks: Array<Buffer> = []
  let length = 0
  for await (const chunk of response) {
    if (!Buffer.isBuffer(chunk)) continue
    length += chunk.length
    if (length > limit) throw new Error(`the response is longer than ${limit} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

const decodeStatus = Schema.decodeUnknownOption(Schema.fromJsonString(Status))

const refused = (status: number, text: string): ApiRefused => {
  const { message, reason = "" } = Option.getOrElse(decodeStatus(text), (): typeof Status.Type => ({}))
  const problem = (message ?? text).trim().slice(0, SHOWN_ERROR).replace(/\.$/, "")
  return new ApiRefused({ status, reason, problem: problem === "" ? `status ${status} without a reason` : problem })
}

/** Sends the request. The response is destroyed when the scope closes. Fails unless its status is 2xx. */
const respond = Effect.fnUntraced(function*(
  { credentials, server }: ClusterAccess,
  { body, method, path }: ApiRequest
): Effect.fn.Return<IncomingMessage, KubernetesError, Scope.Scope> {
  const options = yield* Effect.tryPromise({
    try: credentials,
    catch: (cause) =>
      new ApiUnreachable({ problem: `the login failed (${cause instanceof Error ? cause.message : String(cause)})` })
  })
  const url = new URL(server)
  const text = body === undefined ? undefined : JSON.stringify(body)
  const response = yield* Effect.acquireRelease(
    Effect.callback<IncomingMessage, ApiUnreachable>((resume) => {
      const send = url.protocol === "http:" ? httpRequest : httpsRequest
      let sent: ClientRequest
      try {
        sent = send({
          ...options,
          protocol: url.protocol,
          hostname: url.hostname.replace(/^\[|\]$/g, ""),
          port: url.port,
          method,
          path: url.pathname.replace(/\/$/, "") + path,
          headers: {
            ...options.headers,
            accept: "application/json",
            ...(text === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(text) })
          }
        })
      } catch (cause) {
        // A token with a line break, or an invalid certificate.
        resume(Effect.fail(unreachable(server, cause)))
        return
      }
      sent.once("response", (answer) => resume(Effect.succeed(answer)))
      sent.on("error", (cause) => resume(Effect.fail(unreachable(server, cause))))
      sent.end(text)
      return Effect.sync(() => sent.destroy())
    }),
    (answer) => Effect.sync(() => answer.destroy()),
    { interruptible: true }
  )
  const status = response.statusCode ?? 0
  if (status >= 200 && status < 300) return response
  const problem = yield* Effect.tryPromise({
    try: () => textOf(response, MAX_ERROR),
    catch: (cause) => unreachable(server, cause)
  })
  return yield* refused(status, problem)
})

const unanswered = (access: ClusterAccess, limit: string) =>
  Effect.fail(new ApiUnreachable({ problem: `${access.server} did not answer within ${limit}` }))

/** Sends the request and returns the decoded response. */
export const json = <A>(
  access: ClusterAccess,
  request: ApiRequest,
  schema: Schema.Codec<A, unknown>
): Effect.Effect<A, KubernetesError> =>
  Effect.flatMap(
    respond(access, request),
    (response) =>
      Effect.tryPromise({ try: () => textOf(response, MAX_ANSWER), catch: (cause) => unreachable(access.server, cause) })
  ).pipe(
    Effect.scoped,
    Effect.flatMap((text) =>
      Effect.mapError(
        Schema.decodeUnknownEffect(Schema.fromJsonString(schema))(text),
        () =>
          new ApiUnreachable({ problem: `${access.server} returned a response to ${request.path} that is not from Kubernetes` })
      )
    ),
    Effect.timeoutOrElse({ duration: ANSWER_LIMIT, orElse: () => unanswered(access, ANSWER_LIMIT) })
  )

/** Sends the request and handles each chunk of the response, one after the other. Fails if the connection ends before the response does. */
export const stream = Effect.fnUntraced(
  function*<E>(access: ClusterAccess, request: ApiRequest, onChunk: (chunk: Buffer) => Effect.Effect<void, E>) {
    const response = yield* respond(access, request).pipe(
      Effect.timeoutOrElse({ duration: ANSWER_LIMIT, orElse: () => unanswered(access, ANSWER_LIMIT) })
    )
    const chunks: AsyncIterator<unknown> = response[Symbol.asyncIterator]()
    while (true) {
      const next = yield* Effect.tryPromise({ try: () => chunks.next(), catch: (cause) => unreachable(access.server, cause) })
      if (next.done === true) return
      if (Buffer.isBuffer(next.value)) yield* onChunk(next.value)
    }
  },
  Effect.scoped
)

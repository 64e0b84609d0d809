/**
 * HTTP for the local API, in plain `node:http`: reading bodies with a limit, answering, and refusing in the words of the platform.
 *
 * A refusal is the problem of contract/Problem.ts: `error` and `hint` beside the members of RFC 9457. Its classes are not imported,
 * because they bring all of Effect's HTTP API with them; the tests decode what is answered here with them.
 */
import { fieldIssues, formatFieldIssue } from "@stint/contract/SchemaIssues"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { IncomingMessage, ServerResponse } from "node:http"

/** What is sent back. */
export interface LocalResponse {
  readonly status: number
  /** Names in lower case; `content-length` is added. */
  readonly headers: { readonly [name: string]: string }
  readonly text: string
}

const KINDS = {
  400: { type: "invalid-request", title: "Invalid request" },
  403: { type: "forbidden", title: "Forbidden" },
  404: { type: "route-not-found", title: "Not found" },
  405: { type: "method-not-allowed", title: "Method not allowed" },
  413: { type: "payload-too-large", title: "Payload too large" },
  429: { type: "too-many-requests", title: "Too many requests" },
  500: { type: "internal", title: "Internal server error" },
  503: { type: "unavailable", title: "Temporarily unavailable" }
} as const

/** A request that is not served: what is wrong in one sentence, and the way out. */
export class LocalApiError extends Schema.TaggedError<LocalApiError>()("LocalApiError", {
  status: Schema.Literals([400, 403, 404, 405, 413, 429, 500, 503]),
  error: Schema.String,
  hint: Schema.String,
  /** Where it is not that of the status. */
  kind: Schema.optionalKey(Schema.Struct({ type: Schema.String, title: Schema.String })),
  /** Each offending value by its path. */
  errors: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({ path: Schema.Array(Schema.Union([Schema.String, Schema.Number])), message: Schema.String })
    )
  ),
  /** What the body may have, in bytes. */
  limit: Schema.optionalKey(Schema.Int),
  /** The methods that the address has. */
  allow: Schema.optionalKey(Schema.String)
}) {}

/** The most of a text from outside that a message repeats. */
const EXCERPT = 200

/** A text from outside, fit for a message. */
export const excerpt = (text: string): string => text.length <= EXCERPT ? text : `${text.slice(0, EXCERPT)}...`

/** JSON, as it is. */
export const json = (text: string): LocalResponse => ({ status: 200, headers: { "content-type": "application/json" }, text })

/** The problem that a refusal is answered with. */
export const problemResponse = ({ allow, error, errors, hint, kind, limit, status }: LocalApiError): LocalResponse => {
  const { title, type } = kind ?? KINDS[status]
  return {
    status,
    headers: { "content-type": "application/problem+json", ...(allow === undefined ? {} : { allow }) },
    text: JSON.stringify({
      type: `/problems/${type}`,
      title,
      status,
      detail: error,
      error,
      hint,
      ...(errors === undefined ? {} : { errors }),
      ...(limit === undefined ? {} : { limit })
    })
  }
}

/** Sends an answer; nobody may be there any more. */
export const send = (response: ServerResponse, { headers, status, text }: LocalResponse, withBody: boolean): void => {
  if (response.destroyed || response.headersSent) return
  response.writeHead(status, { ...headers, "content-length": Buffer.byteLength(text) })
  response.end(withBody ? text : undefined)
}

const MEBIBYTE = 1024 * 1024

const tooLarge = (limit: number) =>
  new LocalApiError({
    status: 413,
    error: `The body is larger than the limit of ${limit / MEBIBYTE} MiB.`,
    hint: "Send a link to the data instead of the data: put it in an object store and pass its address in \"input\".",
    limit
  })

/**
 * The text of a request's body. Over the limit it is refused at once, and what still comes is thrown away, so that the client gets
 * to read why.
 */
export const readText = (request: IncomingMessage, limit: number): Effect.Effect<string, LocalApiError> =>
  Effect.callback((resume) => {
    const chunks: Array<Buffer> = []
    let size = 0
    const stop = () => {
      request.off("data", onData)
      request.resume()
    }
    const onData = (chunk: Buffer) => {
      size += chunk.length
      if (size <= limit) return void chunks.push(chunk)
      stop()
      resume(Effect.fail(tooLarge(limit)))
    }
    if (Number(request.headers["content-length"] ?? 0) > limit) {
      request.resume()
      return resume(Effect.fail(tooLarge(limit)))
    }
    request.on("data", onData)
    request.on("end", () => resume(Effect.succeed(Buffer.concat(chunks).toString())))
    request.on("error", () =>
      resume(Effect.fail(
        new LocalApiError({ status: 400, error: "The body could not be read to its end.", hint: "Send the request again." })
      )))
    return Effect.sync(stop)
  })

/** A text as JSON of this shape; `hint` says what to send. Whatever its content type says. */
export const parseAs = <S extends Schema.ConstraintDecoder<unknown>>(schema: S, hint: string) => {
  const decode = Schema.decodeUnknownEffect(schema, { errors: "all" })
  return Effect.fnUntraced(function*(text: string) {
    const value = yield* Effect.try({
      try: (): unknown => JSON.parse(text),
      catch: (cause) =>
        new LocalApiError({
          status: 400,
          error: text.trim() === ""
            ? "The body is empty; it has to be a JSON object."
            : `The body is not JSON: ${excerpt(cause instanceof Error ? cause.message : String(cause))}.`,
          hint
        })
    })
    return yield* Effect.mapError(decode(value), (failure) => {
      const errors = fieldIssues(failure).slice(0, MAX_ISSUES).map(({ message, path }) => ({ path, message: excerpt(message) }))
      return new LocalApiError({ status: 400, error: errors.map(formatFieldIssue).join("; "), hint, errors })
    })
  })
}

/** The most offending values that an answer names: who has more, has them all from one mistake. */
const MAX_ISSUES = 20

/** An address, read. */
export interface Target {
  /** The parts of the path, decoded. */
  readonly parts: ReadonlyArray<string>
  readonly query: URLSearchParams
}

/** Reads the address of a request. Slashes at the end and doubled ones do not count. */
export const readTarget = (url: string): Effect.Effect<Target, LocalApiError> =>
  Effect.try({
    try: () => {
      const [path = "", query = ""] = url.split("#", 1)[0]?.split(/\?(.*)/s, 2) ?? []
      return {
        parts: path.split("/").filter((part) => part !== "").map(decodeURIComponent),
        query: new URLSearchParams(query)
      }
    },
    catch: () =>
      new LocalApiError({
        status: 400,
        error: `The path "${excerpt(url)}" is not valid percent-encoding.`,
        hint: "Encode each id with encodeURIComponent (in Python urllib.parse.quote); a percent sign of its own is %25."
      })
  })

const isLoopbackName = (hostname: string) =>
  hostname === "localhost" || hostname.endsWith(".localhost") || hostname === "[::1]" || /^127(?:\.\d{1,3}){3}$/.test(hostname)

/** Whether an address of a socket is reached from this machine alone. */
export const isLoopback = (address: string): boolean => address === "::1" || /^(?:::ffff:)?127\./.test(address)

/**
 * Whether a request comes from a web page that has no business here. There are no keys, so without this every page that a browser
 * on this machine shows could run the handler. Pages of this machine may, and where the API is open to the network its own page.
 */
export const isCrossOrigin = (headers: IncomingMessage["headers"], open: boolean): boolean => {
  const { host, origin } = headers
  if (origin === undefined) return false
  const page = URL.canParse(origin) ? new URL(origin) : undefined
  if (page === undefined) return true
  return !isLoopbackName(page.hostname) && !(open && page.host === host)
}

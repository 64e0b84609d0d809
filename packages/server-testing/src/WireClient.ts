/**
 * Plain HTTP against a server under test: sends requests unchanged and returns responses unchanged.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** No response: the connection was refused or reset, or the client disconnected. */
export class NoAnswer extends Schema.TaggedError<NoAnswer>()("NoAnswer", { cause: Schema.Defect() }) {}

/** A response that violates a rule. */
export class UnexpectedAnswer extends Schema.TaggedError<UnexpectedAnswer>()("UnexpectedAnswer", { message: Schema.String }) {}

/** An HTTP response, read to its end. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; undefined when it is empty or not JSON. */
  readonly json: unknown
}

/** A request. At most one of `json` and `body` may be set. */
export interface Call {
  /** Default: POST with a body, GET without. */
  readonly method?: string
  /** A value to send as JSON. */
  readonly json?: unknown
  /** A body to send unchanged. */
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream
  /** The `Authorization` header; null sends none. Default: the header of the client. */
  readonly authorization?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

/** Calls a URL: absolute, or relative to the client's base. */
export type WireClient = (path: string, call?: Call) => Effect.Effect<Answer, NoAnswer>

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A client with a base URL and a default `Authorization` header. Interruption disconnects. */
export const make = (baseUrl: string, defaultAuthorization: string | null): WireClient => (path, call = {}) =>
  Effect.tryPromise({
    try: async (signal) => {
      const body = call.json === undefined ? call.body : JSON.stringify(call.json)
      const authorization = call.authorization === undefined ? defaultAuthorization : call.authorization
      const response = await fetch(path.startsWith("/") ? baseUrl + path : path, {
        signal,
        method: call.method ?? (body === undefined ? "GET" : "POST"),
        headers: {
          ...(call.json === undefined ? {} : { "content-type": "application/json" }),
          ...(authorization === null ? {} : { authorization }),
          ...call.headers
        },
        ...(body === undefined ? {} : { body }),
        ...(body instanceof ReadableStream ? { duplex: "half" } : {})
      })
      const text = await response.text()
      return { status: response.status, headers: response.headers, text, json: parsed(text) }
    },
    catch: (cause) => new NoAnswer({ cause })
  })

/**
 * The body of a response that must have this status and exactly this shape. An additional key fails the test, because callers would start
 * to rely on an undocumented key.
 */
export const expectJson = <S extends Schema.ConstraintDecoder<unknown>>(
  status: number,
  schema: S
): (answer: Answer) => Effect.Effect<S["Type"], UnexpectedAnswer> => {
  const decode = Schema.decodeUnknownEffect(schema, { onExcessProperty: "error" })
  return (answer) =>
    answer.status !== status
      ? Effect.fail(new UnexpectedAnswer({ message: `expected ${status}, got ${answer.status}: ${answer.text.slice(0, 2000)}` }))
      : Effect.mapError(
        decode(answer.json),
        (error) => new UnexpectedAnswer({ message: `${error.message}\nin ${answer.text.slice(0, 2000)}` })
      )
}

/** The body of a problem. Every error has such a body (contract, Problem.ts). */
export const ProblemBody = Schema.Struct({
  type: Schema.String.check(Schema.isStartingWith("/problems/")),
  title: Schema.NonEmptyString,
  status: Schema.Int,
  detail: Schema.NonEmptyString,
  error: Schema.NonEmptyString,
  hint: Schema.NonEmptyString,
  errors: Schema.optionalKey(Schema.Array(Schema.Struct({
    path: Schema.Array(Schema.Union([Schema.String, Schema.Number])),
    message: Schema.NonEmptyString
  }))),
  limit: Schema.optionalKey(Schema.Int),
  retryAfter: Schema.optionalKey(Schema.Int)
})

/** A problem body. */
export type ProblemBody = typeof ProblemBody.Type

const decodeProblem = (status: number) => expectJson(status, ProblemBody)

/**
 * The problem in an error response. Fails when the response has another status or content type, is not JSON, or lacks the error
 * or the hint.
 */
export const expectProblem = (status: number) => (answer: Answer): Effect.Effect<ProblemBody, UnexpectedAnswer> =>
  Effect.flatMap(decodeProblem(status)(answer), (problem) => {
    const type = answer.headers.get("content-type")
    if (type?.split(";")[0] !== "application/problem+json") {
      return Effect.fail(new UnexpectedAnswer({ message: `a problem came as ${type}: ${answer.text}` }))
    }
    if (problem.status !== status || problem.detail !== problem.error) {
      return Effect.fail(new UnexpectedAnswer({ message: `status, detail or error disagree: ${answer.text}` }))
    }
    return Effect.succeed(problem)
  })

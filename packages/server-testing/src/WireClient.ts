/**
 * Plain HTTP against a server under test: what goes out is said word for word, what comes back is kept as it came.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** No answer came: refused, reset, or given up by the client. */
export class NoAnswer extends Schema.TaggedError<NoAnswer>()("NoAnswer", { cause: Schema.Defect() }) {}

/** An answer was not what the rule asks for. */
export class UnexpectedAnswer extends Schema.TaggedError<UnexpectedAnswer>()("UnexpectedAnswer", { message: Schema.String }) {}

/** An HTTP answer, read to its end. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  /** The body as JSON; undefined where it is empty or no JSON. */
  readonly json: unknown
}

/** A request. Exactly one of `json` and `body` may be given. */
export interface Call {
  /** Default: POST where there is a body, GET otherwise. */
  readonly method?: string
  /** Sent as JSON. */
  readonly json?: unknown
  /** Sent as it is. */
  readonly body?: string | Uint8Array<ArrayBuffer> | ReadableStream
  /** The `Authorization` header; none for null. Default: what the client was made with. */
  readonly authorization?: string | null
  readonly headers?: Readonly<Record<string, string>>
}

/** Calls an address: absolute, or relative to the client's base. */
export type WireClient = (path: string, call?: Call) => Effect.Effect<Answer, NoAnswer>

const parsed = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A client with a base address and the authorization that it sends unless told otherwise. Interruption hangs up. */
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
 * The body of an answer that has to have this status and exactly this shape: a key too many fails, because a key that nobody promised is
 * one that somebody will rely on.
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

/** A problem body as every error has it (contract, Problem.ts). */
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
 * The problem of a refused request. Fails where the answer has another status or content type, is no JSON, or does not say what is wrong
 * and what to do about it.
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

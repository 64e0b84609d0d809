/**
 * Why a call to the platform brought nothing, and what to do about it.
 *
 * The platform's problem bodies (contract, Problem.ts) are taken at their word; what is between the client and the platform may answer as
 * well, so an answer may be anything.
 */
import type { HttpResponse, NoResponse } from "./protocol/DriverProtocol.ts"

/** One offending value of a request. An empty path is the value itself. */
export interface Problem {
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

/**
 * The reasons, as data.
 *
 * - `Unauthorized`: no key, an unknown one (401), or a good key for something else (403).
 * - `NotFound`: no such endpoint, no such job (or its retention is over), or no such address at all: the host is not a platform.
 * - `Invalid`: the request cannot be understood; `problems` names each offending value. Of a typed endpoint: the input does not fit the
 *   handler's Schema, and nothing was sent.
 * - `TooLarge`: the request is over the platform's limit, in bytes where it says so.
 * - `Conflict`: the job exists, but is not in a state for this: `retry` is for FAILED and TIMED_OUT jobs.
 * - `RateLimited`: too many requests; `retryAfter` is in milliseconds.
 * - `Unavailable`: the platform, or a proxy before it, cannot answer now (5xx).
 * - `Unreachable`: no answer. `sent` is false where it is certain that the request did not reach anyone.
 * - `Mismatch`: the job ended well, but its output does not fit the handler's Schema: caller and worker are of different versions.
 * - `Unexpected`: an answer that no platform gives.
 */
export type Reason =
  | { readonly _tag: "Unauthorized"; readonly status: number }
  | { readonly _tag: "NotFound"; readonly what: "endpoint" | "job" | "address" }
  | { readonly _tag: "Invalid"; readonly problems: ReadonlyArray<Problem> }
  | { readonly _tag: "TooLarge"; readonly limit?: number }
  | { readonly _tag: "Conflict" }
  | { readonly _tag: "RateLimited"; readonly retryAfter?: number }
  | { readonly _tag: "Unavailable"; readonly status: number; readonly retryAfter?: number }
  | { readonly _tag: "Unreachable"; readonly sent: boolean }
  | { readonly _tag: "Mismatch"; readonly problems: ReadonlyArray<Problem> }
  | { readonly _tag: "Unexpected"; readonly status: number; readonly body: string }

/** What was asked, for messages. */
export interface CallInfo {
  readonly host: string
  readonly endpoint: string
  /** The client's word for it: `runSync`, `status`, ... */
  readonly operation: string
  /** The job, where it is known. */
  readonly job?: string
}

/** A reason, in one sentence and its way out. */
export interface FailureExplanation {
  readonly reason: Reason
  readonly detail: string
  readonly hint: string
}

/** All of a failure. */
export interface CallFailure extends CallInfo, FailureExplanation {}

/** `runSync of "thumbnail" at http://127.0.0.1:4600: There is no endpoint "thumbnail" here. ...`. Never holds the key. */
export const messageOf = ({ detail, endpoint, hint, host, job, operation }: CallFailure): string =>
  `${operation} of "${endpoint}" at ${host}${job === undefined ? "" : ` (job ${job})`}: ${detail}${hint === "" ? "" : ` ${hint}`}`

/** What every error of this client is, on the Promise side. */
export class StintError extends Error {}

/**
 * A call failed. `reason` is a tagged union: `if (error.reason._tag === "RateLimited") wait(error.reason.retryAfter)`.
 */
export class CallError extends StintError {
  override readonly name = "CallError"
  readonly reason: Reason
  readonly operation: string
  readonly endpoint: string
  readonly host: string
  /** The job, where it is known: its result can be asked for again. */
  readonly job: string | undefined
  readonly detail: string
  readonly hint: string

  constructor(failure: CallFailure, options?: ErrorOptions) {
    super(messageOf(failure), options)
    this.reason = failure.reason
    this.operation = failure.operation
    this.endpoint = failure.endpoint
    this.host = failure.host
    this.job = failure.job
    this.detail = failure.detail
    this.hint = failure.hint
  }
}

/** How many problems a message tells. `problems` has all. */
const SHOWN = 5

/** A value that a handler's Schema refused, before it was sent or after it came. */
export const schemaMismatch = (
  { endpoint, host, job, operation }: CallInfo,
  tag: "Invalid" | "Mismatch",
  problems: ReadonlyArray<Problem>
): CallFailure => {
  const told = problems.slice(0, SHOWN).map(({ message, path }) => path.length === 0 ? message : `${path.join(".")}: ${message}`)
  const more = problems.length > SHOWN ? `; and ${problems.length - SHOWN} more` : ""
  const words = `${told.join("; ")}${more}.`
  const explained = tag === "Invalid"
    ? { detail: `The input does not fit the handler's Schema, and was not sent. ${words}`, hint: "" }
    : {
      detail: `What the job gave does not fit the handler's Schema. ${words}`,
      hint: "Caller and worker have different versions of the handler: deploy them together, or read the job without Schemas."
    }
  return { host, endpoint, operation, ...(job === undefined ? {} : { job }), reason: { _tag: tag, problems }, ...explained }
}

/** JSON text as a value; undefined where it is none. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** A JSON object, not a list. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const textOf = (value: unknown): string | undefined => typeof value === "string" && value !== "" ? value : undefined

/** How much of a foreign answer a message shows. Characters. */
const EXCERPT = 200

/** A foreign body in a few words: markup and line breaks are left out. */
const excerptOf = (text: string): string => {
  const words = text.slice(0, 20 * EXCERPT).replaceAll(/<(script|style)\b[\s\S]*?<\/\1>|<[^>]*>|[\p{Cc}\s]+/gu, " ").replaceAll(
    / +/g,
    " "
  )
  return words.trim().slice(0, EXCERPT)
}

/** `Retry-After`, which is seconds or a date, in milliseconds from now. */
const millisOf = (retryAfter: string | undefined): number | undefined => {
  if (retryAfter === undefined) return undefined
  const seconds = /^\s*\d+(\.\d+)?\s*$/.test(retryAfter) ? Number(retryAfter) : Number.NaN
  const millis = Number.isNaN(seconds) ? Date.parse(retryAfter) - Date.now() : seconds * 1000
  return Number.isFinite(millis) ? Math.max(0, Math.round(millis)) : undefined
}

const problemsOf = (errors: unknown): ReadonlyArray<Problem> =>
  !Array.isArray(errors) ? [] : errors.flatMap((error: unknown) => {
    if (!isRecord(error) || typeof error["message"] !== "string") return []
    const path = Array.isArray(error["path"]) ? error["path"] : []
    return [{
      path: path.filter((key): key is string | number => typeof key === "string" || typeof key === "number"),
      message: error["message"]
    }]
  })

/** A problem body of a platform; what is not known of it is undefined. */
interface ProblemBody {
  readonly kind: string | undefined
  readonly detail: string | undefined
  readonly hint: string | undefined
  readonly problems: ReadonlyArray<Problem>
  readonly limit: number | undefined
}

const problemBodyOf = (text: string): ProblemBody => {
  const json = parseJson(text)
  const body = isRecord(json) ? json : {}
  return {
    kind: /^\/problems\/(.+)$/.exec(textOf(body["type"]) ?? "")?.[1],
    detail: textOf(body["error"]) ?? textOf(body["detail"]) ?? textOf(body["message"]) ?? textOf(body["title"]),
    hint: textOf(body["hint"]),
    problems: problemsOf(body["errors"]),
    limit: typeof body["limit"] === "number" ? body["limit"] : undefined
  }
}

const quoted = (text: string): string => {
  const excerpt = excerptOf(text)
  return excerpt === "" ? "with an empty body" : `with "${excerpt}"`
}

/** An answer that no platform gives. */
export const unexpected = (
  { status, text }: Pick<HttpResponse, "status" | "text">,
  detail: string,
  hint: string
): FailureExplanation => ({
  reason: { _tag: "Unexpected", status, body: excerptOf(text) },
  detail,
  hint
})

/** What kind of thing a 404 says is not there. */
const missing = (kind: string | undefined): "endpoint" | "job" | "address" => {
  switch (kind) {
    case "job-not-found":
      return "job"
    case "endpoint-not-found":
      return "endpoint"
    default:
      return "address"
  }
}

const withRetryAfter = (retryAfter: number | undefined) => retryAfter === undefined ? {} : { retryAfter }

/** An answer that is no success, read. */
export const explainResponse = (answer: HttpResponse): FailureExplanation => {
  const { location, status, text } = answer
  const retryAfter = millisOf(answer.retryAfter)
  const body = problemBodyOf(text)
  const explained = (reason: Reason, detail: string, hint: string): FailureExplanation => ({
    reason,
    detail: body.detail ?? detail,
    hint: body.hint ?? (body.kind === undefined ? hint : "")
  })
  const answered = `The answer was ${status} ${quoted(text)}.`
  if (status === 401 || status === 403) {
    return explained(
      { _tag: "Unauthorized", status },
      answered,
      "Check that the key and the address belong to the same platform, and that the key is for this endpoint."
    )
  }
  if (status === 404) {
    return explained(
      { _tag: "NotFound", what: missing(body.kind) },
      answered,
      "This is not a platform's answer: check the address, its port and its path."
    )
  }
  if (status === 400 || status === 422) {
    return explained({ _tag: "Invalid", problems: body.problems }, answered, "Check the input and the options of the call.")
  }
  if (status === 413) {
    return explained(
      { _tag: "TooLarge", ...(body.limit === undefined ? {} : { limit: body.limit }) },
      "The request is too large.",
      "Put the data into an object store and send its address."
    )
  }
  if (status === 409) return explained({ _tag: "Conflict" }, answered, "Look at the job's status.")
  if (status === 429) {
    return explained(
      { _tag: "RateLimited", ...withRetryAfter(retryAfter) },
      "Too many requests.",
      retryAfter === undefined ? "Send fewer at a time." : `Send the next in ${Math.ceil(retryAfter / 1000)} s.`
    )
  }
  if (status >= 500) {
    return explained(
      { _tag: "Unavailable", status, ...withRetryAfter(retryAfter) },
      answered,
      "The platform, or a proxy before it, cannot answer now. Look at its log."
    )
  }
  if (status === 0 || (status >= 300 && status < 400)) {
    return unexpected(
      answer,
      location === undefined ? "The answer was a redirect." : `The answer was a redirect to ${excerptOf(location)}.`,
      "Redirects are not followed, because they turn a POST into a GET. Give the address that it leads to."
    )
  }
  return unexpected(answer, body.detail ?? answered, body.hint ?? "Check that the address is that of a platform.")
}

/** Errors of `fetch` that are certain to have come before the request was sent. Browsers do not tell. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"])

/** An error, and what caused it, and so on; what `Promise.any` gathers, too. */
const causesOf = (cause: unknown, depth = 0): ReadonlyArray<object> => {
  if (typeof cause !== "object" || cause === null || depth > 6) return []
  const inner = [
    ...("cause" in cause ? [cause.cause] : []),
    ...("reason" in cause ? [cause.reason] : []),
    ...("errors" in cause && Array.isArray(cause.errors) ? cause.errors : [])
  ]
  return [cause, ...inner.flatMap((one: unknown) => causesOf(one, depth + 1))]
}

const codeOf = (error: object): string | undefined => "code" in error ? textOf(error.code) : undefined

/** A request that nobody answered, read. */
export const explainNoResponse = (
  { cause, timedOut, took }: Pick<NoResponse, "cause" | "timedOut" | "took">
): FailureExplanation => {
  const causes = causesOf(cause)
  const codes = causes.flatMap((error) => codeOf(error) ?? [])
  const sent = timedOut || !codes.some((code) => NOT_SENT.has(code))
  const last = causes.findLast((error) => "message" in error && textOf(error.message) !== undefined)
  const words = last !== undefined && "message" in last ? excerptOf(String(last.message)) : excerptOf(String(cause))
  return {
    reason: { _tag: "Unreachable", sent },
    detail: timedOut
      ? `No answer within ${Math.round(took / 1000)} s.`
      : sent
      ? `The connection was lost (${words}).`
      : `Nobody answers there (${words}).`,
    hint: sent
      ? "Check the network between here and the platform."
      : "Check the address, and that the platform runs (`stint serve`)."
  }
}

/**
 * The error of a failed call: its reason, a sentence that describes it, and a hint.
 *
 * Uses the messages in the platform's problem bodies (docs/spec/errors.md#problem-object). A proxy between client and platform may respond
 * instead, so a body may be anything.
 */
import type { HttpResponse, NoResponse } from "./protocol/DriverProtocol.ts"

/** An invalid value. An empty path means the whole value. */
export interface Problem {
  readonly path: ReadonlyArray<string | number>
  readonly message: string
}

/**
 * Why a call failed.
 *
 * - `Unauthorized`: the key is missing or unknown (401), or not valid for this endpoint (403).
 * - `NotFound`: the endpoint or the job does not exist, or the job's retention has ended; `address`: the host is not a Stint platform.
 * - `Invalid`: the request is invalid; `problems` lists the invalid values. With an {@link EndpointCodec}: the codec rejected the input, and
 *   nothing was sent.
 * - `TooLarge`: the request exceeds the platform's limit, in bytes if known.
 * - `Conflict`: the job's status does not allow the operation: only FAILED and TIMED_OUT jobs can be retried.
 * - `BudgetReached`: the endpoint or the key has spent its budget; `renewsAt` is in milliseconds since 1970, if known.
 * - `RateLimited`: too many requests; `retryAfter` is in milliseconds.
 * - `Unavailable`: the platform, or a proxy in front of it, returned 5xx.
 * - `Unreachable`: no response. `sent` is false if the request certainly did not reach the platform.
 * - `Mismatch`: the job completed, but the codec rejected its output: caller and worker have different versions of the handler.
 * - `Unexpected`: a response that a Stint platform never sends.
 */
export type Reason =
  | { readonly _tag: "Unauthorized"; readonly status: number }
  | { readonly _tag: "NotFound"; readonly what: "endpoint" | "job" | "address" }
  | { readonly _tag: "Invalid"; readonly problems: ReadonlyArray<Problem> }
  | { readonly _tag: "TooLarge"; readonly limit?: number }
  | { readonly _tag: "Conflict" }
  | { readonly _tag: "BudgetReached"; readonly renewsAt?: number }
  | { readonly _tag: "RateLimited"; readonly retryAfter?: number }
  | { readonly _tag: "Unavailable"; readonly status: number; readonly retryAfter?: number }
  | { readonly _tag: "Unreachable"; readonly sent: boolean }
  | { readonly _tag: "Mismatch"; readonly problems: ReadonlyArray<Problem> }
  | { readonly _tag: "Unexpected"; readonly status: number; readonly body: string }

/** The call, for messages. */
export interface CallInfo {
  readonly host: string
  readonly endpoint: string
  /** The client's method: `runSync`, `status`, ... */
  readonly operation: string
  /** The job's id, if known. */
  readonly job?: string
}

/** A reason with a sentence and a hint. */
export interface FailureExplanation {
  readonly reason: Reason
  readonly detail: string
  readonly hint: string
}

/** The members of a {@link CallError}. */
export interface CallFailure extends CallInfo, FailureExplanation {}

/** `runSync of "thumbnail" at http://127.0.0.1:4600: There is no endpoint "thumbnail" here. ...`. Never contains the key. */
export const messageOf = ({ detail, endpoint, hint, host, job, operation }: CallFailure): string =>
  `${operation} of "${endpoint}" at ${host}${job === undefined ? "" : ` (job ${job})`}: ${detail}${hint === "" ? "" : ` ${hint}`}`

/** The base class of all errors of the promise client. */
export class StintError extends Error {}

/** A call failed. `reason` is a tagged union: `if (error.reason._tag === "RateLimited") wait(error.reason.retryAfter)`. */
export class CallError extends StintError {
  override readonly name = "CallError"
  readonly reason: Reason
  readonly operation: string
  readonly endpoint: string
  readonly host: string
  /** The job's id, if known. `result(id)` resumes the wait. */
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

/** The maximum number of problems in a message. `reason.problems` contains all of them. */
const MAX_SHOWN_PROBLEMS = 5

/** The failure for a value that a codec rejected: an input before it was sent (`Invalid`) or a received output (`Mismatch`). */
export const codecFailure = (
  { endpoint, host, job, operation }: CallInfo,
  tag: "Invalid" | "Mismatch",
  problems: ReadonlyArray<Problem>
): CallFailure => {
  const shown = problems.slice(0, MAX_SHOWN_PROBLEMS)
    .map(({ message, path }) => path.length === 0 ? message : `${path.join(".")}: ${message}`)
  const more = problems.length > shown.length ? `; and ${problems.length - shown.length} more` : ""
  const list = `${shown.join("; ")}${more}.`
  const explanation = tag === "Invalid"
    ? { detail: `The input does not match the handler's Schema and was not sent. ${list}`, hint: "" }
    : {
      detail: `The job's output does not match the handler's Schema. ${list}`,
      hint: "Deploy caller and worker with the same version of the handler, or read the job without Schemas."
    }
  return { host, endpoint, operation, ...(job === undefined ? {} : { job }), reason: { _tag: tag, problems }, ...explanation }
}

/** Parses JSON. Returns undefined for invalid JSON. */
export const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Whether a value is an object and not an array. */
export const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const textOf = (value: unknown): string | undefined => typeof value === "string" && value !== "" ? value : undefined

/** The maximum length of the part of a response body that a message contains. Characters. */
const MAX_EXCERPT = 200

/** The beginning of a response body, without markup and line breaks. */
const excerptOf = (text: string): string => {
  const words = text.slice(0, 20 * MAX_EXCERPT).replaceAll(/<(script|style)\b[\s\S]*?<\/\1>|<[^>]*>|[\p{Cc}\s]+/gu, " ")
    .replaceAll(
      / +/g,
      " "
    )
  return words.trim().slice(0, MAX_EXCERPT)
}

/** Converts `Retry-After`, in seconds or a date, to milliseconds from now. */
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

/** The known members of a problem body. */
interface ProblemBody {
  readonly kind: string | undefined
  readonly detail: string | undefined
  readonly hint: string | undefined
  readonly problems: ReadonlyArray<Problem>
  readonly limit: number | undefined
  readonly renewsAt: number | undefined
}

const problemBodyOf = (text: string): ProblemBody => {
  const json = parseJson(text)
  const body = isRecord(json) ? json : {}
  return {
    kind: /^\/problems\/(.+)$/.exec(textOf(body["type"]) ?? "")?.[1],
    detail: textOf(body["error"]) ?? textOf(body["detail"]) ?? textOf(body["message"]) ?? textOf(body["title"]),
    hint: textOf(body["hint"]),
    problems: problemsOf(body["errors"]),
    limit: typeof body["limit"] === "number" ? body["limit"] : undefined,
    renewsAt: typeof body["renewsAt"] === "number" ? body["renewsAt"] : undefined
  }
}

const quoted = (text: string): string => {
  const excerpt = excerptOf(text)
  return excerpt === "" ? "with an empty body" : `with "${excerpt}"`
}

/** The failure for a response that a Stint platform never sends. */
export const unexpected = (
  { status, text }: Pick<HttpResponse, "status" | "text">,
  detail: string,
  hint: string
): FailureExplanation => ({
  reason: { _tag: "Unexpected", status, body: excerptOf(text) },
  detail,
  hint
})

/** What a 404 reports as missing, by the type of its problem body. */
const notFoundKind = (kind: string | undefined): "endpoint" | "job" | "address" => {
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

/** Explains an error response. */
export const explainResponse = (response: HttpResponse): FailureExplanation => {
  const { location, status, text } = response
  const retryAfter = millisOf(response.retryAfter)
  const body = problemBodyOf(text)
  const explanation = (reason: Reason, detail: string, hint: string): FailureExplanation => ({
    reason,
    detail: body.detail ?? detail,
    hint: body.hint ?? (body.kind === undefined ? hint : "")
  })
  const summary = `The response was ${status} ${quoted(text)}.`
  if (status === 401 || status === 403) {
    return explanation(
      { _tag: "Unauthorized", status },
      summary,
      "Check that baseUrl and apiKey belong to the same platform, and that the key is valid for this endpoint."
    )
  }
  if (status === 404) {
    return explanation(
      { _tag: "NotFound", what: notFoundKind(body.kind) },
      summary,
      "This is not a response of the platform: check the host, port and path of baseUrl."
    )
  }
  if (status === 400 || status === 422) {
    return explanation({ _tag: "Invalid", problems: body.problems }, summary, "Check the input and the options of the call.")
  }
  if (status === 413) {
    return explanation(
      { _tag: "TooLarge", ...(body.limit === undefined ? {} : { limit: body.limit }) },
      "The request is too large.",
      "Upload the data to an object store and send its URL."
    )
  }
  if (status === 402) {
    return explanation(
      { _tag: "BudgetReached", ...(body.renewsAt === undefined ? {} : { renewsAt: body.renewsAt }) },
      summary,
      "Ask the platform's operator."
    )
  }
  if (status === 409) return explanation({ _tag: "Conflict" }, summary, "Check the job's status.")
  if (status === 429) {
    return explanation(
      { _tag: "RateLimited", ...withRetryAfter(retryAfter) },
      "Too many requests.",
      retryAfter === undefined ? "Send fewer requests at a time." : `Retry in ${Math.ceil(retryAfter / 1000)} s.`
    )
  }
  if (status >= 500) {
    return explanation(
      { _tag: "Unavailable", status, ...withRetryAfter(retryAfter) },
      summary,
      "The platform, or a proxy in front of it, is unavailable. Check its log."
    )
  }
  if (status === 0 || (status >= 300 && status < 400)) {
    return unexpected(
      response,
      location === undefined ? "The response was a redirect." : `The response was a redirect to ${excerptOf(location)}.`,
      "The client does not follow redirects, because they turn a POST into a GET. Set baseUrl to the target of the redirect."
    )
  }
  return unexpected(response, body.detail ?? summary, body.hint ?? "Check that baseUrl is the URL of a platform.")
}

/** Error codes of failures before the request was sent. Browsers provide no codes. */
const NOT_SENT = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "EHOSTUNREACH", "ENETUNREACH", "UND_ERR_CONNECT_TIMEOUT"])

/** An error and all errors that caused it, including the errors in an AggregateError. */
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

/** Explains a missing response. */
export const explainNoResponse = (
  { cause, timedOut, took }: Pick<NoResponse, "cause" | "timedOut" | "took">
): FailureExplanation => {
  const causes = causesOf(cause)
  const codes = causes.flatMap((error) => codeOf(error) ?? [])
  const sent = timedOut || !codes.some((code) => NOT_SENT.has(code))
  const last = causes.findLast((error) => "message" in error && textOf(error.message) !== undefined)
  const message = last !== undefined && "message" in last ? excerptOf(String(last.message)) : excerptOf(String(cause))
  return {
    reason: { _tag: "Unreachable", sent },
    detail: timedOut
      ? `No response within ${Math.round(took / 1000)} s.`
      : sent
      ? `The connection was lost (${message}).`
      : `The connection could not be established (${message}).`,
    hint: sent
      ? "Check the network between the client and the platform."
      : "Check the address, and that the platform is running (`stint serve`)."
  }
}

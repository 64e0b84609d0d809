/**
 * What goes wrong under `/v2/{endpoint}/openai`, in OpenAI's shape (docs/spec/openai-route.md#errors).
 *
 * ```
 *   a problem of the platform      its status     {"error": {"message", "type", "param", "code"}}
 *   a handler's error object       its own status where it names one (`status`, `status_code`, `code`), else by its type
 *   any other error of a handler   500            type `worker_error`
 *   TIMED_OUT                      504
 *   CANCELLED                      499
 * ```
 *
 * A handler's error object comes as an object, as JSON text, or as the text that Python makes of an object. OpenAI's clients send a
 * request again by themselves at 408, 409, 429 and every 5xx. Where the platform has made the job's every attempt already, they are told
 * not to.
 */
import { type OpenAiErrorBody, REQUEST_ID_HEADER, SHOULD_RETRY_HEADER } from "@stint/contract/OpenAiApi"
import type { JobReport } from "@stint/store/JobRecord"
import { HttpServerResponse } from "effect/http"
import * as Predicate from "effect/Predicate"
import { randomUUID } from "node:crypto"
import * as PythonRepr from "./PythonRepr.ts"

/** A failure, ready to be answered or to be told within a stream. */
export interface OpenAiErrorResponse {
  readonly status: number
  readonly error: OpenAiErrorBody
  /** Another try would be another job with the same end: clients are told not to. */
  readonly final?: boolean
  readonly headers?: Readonly<Record<string, string>>
}

/** What this file needs of a problem (contract, Problem.ts). */
export interface ProblemLike {
  readonly status: number
  readonly type: string
  readonly error: string
  readonly hint: string
  readonly errors?: ReadonlyArray<{ readonly path: ReadonlyArray<string | number> }> | undefined
}

const typeOf = (status: number): string => {
  if (status === 429) return "rate_limit_error"
  if (status === 403) return "permission_error"
  return status >= 500 ? "server_error" : "invalid_request_error"
}

/** OpenAI's own words where it has some, which programs look for; else the problem's name. */
const codeOf = ({ status, type }: ProblemLike): string => {
  if (status === 401) return "invalid_api_key"
  if (status === 429) return "rate_limit_exceeded"
  return (type.split("/").at(-1) ?? "").replaceAll("-", "_")
}

/** A problem of the platform. */
export const ofProblem = (problem: ProblemLike): OpenAiErrorResponse => ({
  status: problem.status,
  error: {
    message: `${problem.error} ${problem.hint}`,
    type: typeOf(problem.status),
    param: problem.errors?.[0]?.path.join(".") ?? null,
    code: codeOf(problem)
  }
})

/** How errors are called, and which status says the same. Names are compared without case, `_` and `Error`. */
const STATUSES: ReadonlyArray<readonly [name: RegExp, status: number]> = [
  [/^(?:badrequest|invalidrequest|validation|value|contextlengthexceeded)$/, 400],
  [/^(?:authentication|unauthorized|invalidapikey)$/, 401],
  [/^(?:permission|permissiondenied|forbidden)$/, 403],
  [/^(?:notfound|modelnotfound)$/, 404],
  [/^conflict$/, 409],
  [/^unprocessable(?:entity)?$/, 422],
  [/^(?:ratelimit|ratelimitexceeded|insufficientquota|tokens|requests)$/, 429],
  [/^(?:notimplemented)$/, 501],
  [/^(?:overloaded|serviceunavailable|unavailable)$/, 503],
  [/^(?:timeout|gatewaytimeout)$/, 504]
]

const byName = (name: unknown): number | undefined => {
  if (!Predicate.isString(name)) return undefined
  const bare = name.toLowerCase().replaceAll("_", "").replace(/error$/, "")
  return STATUSES.find(([pattern]) => pattern.test(bare))?.[1]
}

const asStatus = (value: unknown): number | undefined => {
  const status = Predicate.isString(value) && /^\d{3}$/.test(value) ? Number(value) : value
  return Predicate.isNumber(status) && Number.isInteger(status) && status >= 400 && status <= 599 ? status : undefined
}

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What a text stands for, where it is JSON or Python's way to write an object. */
const read = (text: string): unknown => {
  if (!/^\s*\{/.test(text)) return undefined
  return parseJson(text) ?? PythonRepr.parse(text)
}

/** `message` is what makes an object an error. */
const isErrorObject = (value: unknown): value is Record<string, unknown> =>
  Predicate.isObject(value) && Predicate.isString(value["message"])

/** A handler's error object: what it says, with a status that fits. */
const ofObject = (inner: Record<string, unknown>, outer: Record<string, unknown> = inner): OpenAiErrorResponse => {
  const { code, message, object: _, param, type, ...rest } = inner
  const status = [inner["status"], inner["status_code"], code, outer["status"], outer["status_code"], outer["code"]]
    .map(asStatus)
    .find(Predicate.isNotUndefined) ?? byName(type) ?? byName(code)
  return {
    status: status ?? 500,
    error: {
      ...rest,
      message: String(message),
      type: Predicate.isString(type) ? type : "worker_error",
      param: Predicate.isString(param) ? param : null,
      code: Predicate.isString(code) || Predicate.isNumber(code) ? code : null
    },
    ...(status === undefined ? { final: true } : {})
  }
}

/**
 * The error that a value stands for: `{"error": {"message", ...}}` alone, or an object that calls itself an error. Undefined for everything
 * else: an object of OpenAI's own kinds may have a member `error`.
 */
export const ofValue = (value: unknown): OpenAiErrorResponse | undefined => {
  if (!Predicate.isObject(value)) return undefined
  if (value["object"] === "error" && isErrorObject(value)) return ofObject(value)
  const { error } = value
  return "object" in value || !isErrorObject(error) ? undefined : ofObject(error, value)
}

/** What was told as an error is one without saying so. */
const ofThrown = (value: unknown): OpenAiErrorResponse | undefined => isErrorObject(value) ? ofObject(value) : ofValue(value)

const plain = (message: string): OpenAiErrorResponse => ({
  status: 500,
  error: { message, type: "worker_error", param: null, code: null },
  final: true
})

/**
 * A handler's error, as the queue keeps it (docs/spec/handler.md#exceptions, docs/spec/worker-protocol.md#result-bodies). Tracebacks are left out:
 * they are in the job's status.
 */
export const ofError = (text: string): OpenAiErrorResponse => {
  const value = read(text)
  if (!Predicate.isObject(value)) return plain(text.split(/\s*\ntraceback: /, 1)[0] ?? "")
  const { error_message: thrown, error_type: name } = value
  if (Predicate.isString(thrown)) return ofThrown(read(thrown)) ?? plain(thrown === "" ? String(name) : thrown)
  return ofThrown(value) ?? plain(text)
}

/** What became of a job that did not end well; undefined where it did. */
export const ofJob = ({ error, id, status }: Pick<JobReport, "error" | "id" | "status">): OpenAiErrorResponse | undefined => {
  switch (status) {
    case "FAILED":
      return ofError(error ?? `Job ${id} failed.`)
    case "TIMED_OUT":
      return {
        status: 504,
        error: { message: error ?? `Job ${id} took longer than it may.`, type: "timeout_error", param: null, code: "timed_out" },
        final: true
      }
    case "CANCELLED":
      return {
        status: 499,
        error: { message: `Job ${id} was cancelled.`, type: "invalid_request_error", param: null, code: "cancelled" },
        final: true
      }
    default:
      return undefined
  }
}

/** The body. */
export const textOf = ({ error }: OpenAiErrorResponse): string => JSON.stringify({ error })

/** The answer. Without a job it gets an id of its own. */
export const response = (
  failure: OpenAiErrorResponse,
  headers: Readonly<Record<string, string>> = { [REQUEST_ID_HEADER]: `req_${randomUUID()}` }
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(textOf(failure), {
    status: failure.status,
    contentType: "application/json",
    headers: {
      ...headers,
      ...failure.headers,
      ...(failure.final === true ? { [SHOULD_RETRY_HEADER]: "false" } : {})
    }
  })

/** Whether an address is one whose errors have OpenAI's shape. */
export const isOpenAiUrl = (url: string): boolean => /^\/+v2\/+[^/?#;]+\/+openai(?:[/?#;]|$)/.test(url)

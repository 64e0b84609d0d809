/**
 * Errors under `/v2/{endpoint}/openai`, in OpenAI's shape (docs/spec/openai-route.md#errors).
 *
 * ```
 *   a problem of the platform      its status     {"error": {"message", "type", "param", "code"}}
 *   a handler's error object       its own status if it has one (`status`, `status_code`, `code`), otherwise by its type
 *   any other error of a handler   500            type `worker_error`
 *   TIMED_OUT                      504
 *   CANCELLED                      499
 * ```
 *
 * A handler's error object arrives as an object, as JSON text, or as the `repr` of a Python object. OpenAI's clients retry
 * 408, 409, 429 and every 5xx automatically. When the platform has used all attempts of the job, the response tells them not
 * to retry.
 */
import { type OpenAiErrorBody, REQUEST_ID_HEADER, SHOULD_RETRY_HEADER } from "@stint/contract/OpenAiApi"
import type { JobReport } from "@stint/store/JobRecord"
import { HttpServerResponse } from "effect/http"
import * as Predicate from "effect/Predicate"
import { randomUUID } from "node:crypto"
import * as PythonRepr from "./PythonRepr.ts"

/** A failure that is sent as a response or inside a stream. */
export interface OpenAiErrorResponse {
  readonly status: number
  readonly error: OpenAiErrorBody
  /** Whether clients must not retry, because another job would fail in the same way. */
  readonly final?: boolean
  readonly headers?: Readonly<Record<string, string>>
}

/** The members of a problem that this file reads (contract, Problem.ts). */
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
  if (status === 402) return "insufficient_quota"
  return status >= 500 ? "server_error" : "invalid_request_error"
}

/** OpenAI's own code if there is one, because programs check it; otherwise the problem's name. */
const codeOf = ({ status, type }: ProblemLike): string => {
  if (status === 401) return "invalid_api_key"
  if (status === 402) return "insufficient_quota"
  if (status === 429) return "rate_limit_exceeded"
  return (type.split("/").at(-1) ?? "").replaceAll("-", "_")
}

/** The response for a problem of the platform. */
export const ofProblem = (problem: ProblemLike): OpenAiErrorResponse => ({
  status: problem.status,
  error: {
    message: `${problem.error} ${problem.hint}`,
    type: typeOf(problem.status),
    param: problem.errors?.[0]?.path.join(".") ?? null,
    code: codeOf(problem)
  },
  // Space is freed only when a retention period ends or an operator acts.
  ...(problem.status === 507 ? { final: true } : {})
})

/** Error names and their statuses. The comparison ignores case, `_` and the suffix `Error`. */
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

/** Parses a text that is JSON or the Python `repr` of an object. */
const read = (text: string): unknown => {
  if (!/^\s*\{/.test(text)) return undefined
  return parseJson(text) ?? PythonRepr.parse(text)
}

/** An object with a `message` is an error. */
const isErrorObject = (value: unknown): value is Record<string, unknown> =>
  Predicate.isObject(value) && Predicate.isString(value["message"])

/** The response for a handler's error object: its own members and a matching status. */
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
 * The error in a handler's output: `{"error": {"message", ...}}` alone, or an object with `object: "error"`. Undefined for everything
 * else, because OpenAI's own response objects may have a member `error`.
 */
export const ofValue = (value: unknown): OpenAiErrorResponse | undefined => {
  if (!Predicate.isObject(value)) return undefined
  if (value["object"] === "error" && isErrorObject(value)) return ofObject(value)
  const { error } = value
  return "object" in value || !isErrorObject(error) ? undefined : ofObject(error, value)
}

/** The error in a thrown value, which is an error even without a marker. */
const ofThrown = (value: unknown): OpenAiErrorResponse | undefined => isErrorObject(value) ? ofObject(value) : ofValue(value)

const plain = (message: string): OpenAiErrorResponse => ({
  status: 500,
  error: { message, type: "worker_error", param: null, code: null },
  final: true
})

/**
 * The response for a handler's error as the queue stores it (docs/spec/handler.md#exceptions, docs/spec/worker-protocol.md#result-bodies),
 * without its traceback, which the job's status shows.
 */
export const ofError = (text: string): OpenAiErrorResponse => {
  const value = read(text)
  if (!Predicate.isObject(value)) return plain(text.split(/\s*\ntraceback: /, 1)[0] ?? "")
  const { error_message: thrown, error_type: name } = value
  if (Predicate.isString(thrown)) return ofThrown(read(thrown)) ?? plain(thrown === "" ? String(name) : thrown)
  return ofThrown(value) ?? plain(text)
}

/** The response for a job that did not complete; undefined for a completed one. */
export const ofJob = ({ error, id, status }: Pick<JobReport, "error" | "id" | "status">): OpenAiErrorResponse | undefined => {
  switch (status) {
    case "FAILED":
      return ofError(error ?? `Job ${id} failed.`)
    case "TIMED_OUT":
      return {
        status: 504,
        error: { message: error ?? `Job ${id} timed out.`, type: "timeout_error", param: null, code: "timed_out" },
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

/** The response body. */
export const textOf = ({ error }: OpenAiErrorResponse): string => JSON.stringify({ error })

/** The HTTP response. If there is no job, the response gets a request id of its own. */
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

/** Whether errors under a URL have OpenAI's shape. */
export const isOpenAiUrl = (url: string): boolean => /^\/+v2\/+[^/?#;]+\/+openai(?:[/?#;]|$)/.test(url)

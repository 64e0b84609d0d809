/**
 * An OpenAI client's request as a job (docs/spec/openai-route.md#handler-input).
 *
 * ```
 *   POST /v1/chat/completions  {"model": ...}    {"openai_route": "/v1/chat/completions", "openai_input": {"model": ...}}
 *   GET  /v1/models                              {"openai_route": "/v1/models"}
 *   GET  /v1/files?limit=2                       {"openai_route": "/v1/files", "openai_query": {"limit": "2"}}
 *   DELETE /v1/models/m                          {"openai_route": "/v1/models/m", "openai_method": "DELETE"}
 * ```
 *
 * The first two members are what existing handlers know. The other two say what would be lost otherwise, and are there only then.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { JsonText } from "@stint/contract/Json"
import { InvalidRequest, type PayloadTooLarge, problemMembers, type Unavailable } from "@stint/contract/Problem"
import { traceContextOf } from "@stint/contract/TraceContext"
import type { Submission } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import { type LimitSettings, remedyFor } from "../http/Limits.ts"
import { parseJson, readText } from "../http/RequestBody.ts"
import { newJobId, readIdempotencyKey, type SubmissionLimit } from "../jobs/SubmitRequest.ts"
import type { OpenAiErrorResponse } from "./OpenAiErrorResponse.ts"

/** What a request asks for. */
export interface OpenAiSubmission {
  readonly submission: Submission
  /** The caller wants the chunks as they come. */
  readonly streamed: boolean
}

const HINT =
  "Send a JSON object, for example {\"model\": \"echo\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}."

/** How large a request may be: as large as one of `/runsync`. */
export const submissionLimit = (limits: LimitSettings): SubmissionLimit => ({
  bytes: limits.runsyncBytes,
  remedy: remedyFor("Put large files in an object store and send their addresses.", "STINT_LIMIT_RUNSYNC", true, limits)
})

/** 415 for a body with files: a job's input is JSON. */
export const MULTIPART_UNSUPPORTED: OpenAiErrorResponse = {
  status: 415,
  error: {
    message:
      "The body is a form with files; only JSON can be handed to a handler. Send a file's address, or its content as base64 in JSON.",
    type: "invalid_request_error",
    param: null,
    code: "unsupported_media_type"
  }
}

/** Whether the body is a form with files. */
export const isMultipart = (request: HttpServerRequest.HttpServerRequest): boolean =>
  /^multipart\//i.test(request.headers["content-type"] ?? "")

const parameter = (name: string, value: string): InvalidRequest =>
  new InvalidRequest({ ...problemMembers(value, HINT), errors: [{ path: [name], message: value }] })

/** The query of an address; undefined where it has none. Of several values of one name it is a list. */
const queryOf = (url: string): Record<string, string | ReadonlyArray<string>> | undefined => {
  const at = url.indexOf("?")
  const params = new URLSearchParams(at === -1 ? "" : url.slice(at + 1))
  if (params.size === 0) return undefined
  return Object.fromEntries(
    Array.from(new Set(params.keys()), (name) => {
      const values = params.getAll(name)
      return [name, values.length === 1 ? values[0] ?? "" : values]
    })
  )
}

/** The body of a request, which is a JSON object; undefined where there is none. */
const readBody = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest, limit: SubmissionLimit) {
  if (request.method === "GET") return undefined
  const text = yield* readText(request, limit.bytes, limit.remedy)
  if (text.trim() === "") return undefined
  const body = yield* parseJson(text, HINT)
  if (!Predicate.isObject(body.value)) {
    return yield* new InvalidRequest(problemMembers("The body has to be a JSON object.", HINT))
  }
  const { stream } = body.value
  if (stream !== undefined && stream !== null && !Predicate.isBoolean(stream)) {
    return yield* parameter("stream", "stream has to be true or false.")
  }
  return { text, streamed: stream === true }
})

/** A job from a request. `route` is the path from `/v1` on. */
export const read = Effect.fnUntraced(function*(
  endpoint: Endpoint,
  request: HttpServerRequest.HttpServerRequest,
  route: string,
  limit: SubmissionLimit
): Effect.fn.Return<
  OpenAiSubmission,
  InvalidRequest | PayloadTooLarge | Unavailable,
  HttpServerRequest.HttpServerRequest | Scope.Scope
> {
  const idempotencyKey = yield* readIdempotencyKey(request)
  const body = yield* readBody(request, limit)
  const query = queryOf(request.url)
  const implied = body === undefined ? "GET" : "POST"
  const members = [
    `"openai_route":${JSON.stringify(route)}`,
    ...(request.method === implied ? [] : [`"openai_method":${JSON.stringify(request.method)}`]),
    ...(query === undefined ? [] : [`"openai_query":${JSON.stringify(query)}`]),
    ...(body === undefined ? [] : [`"openai_input":${body.text}`])
  ]
  return {
    submission: {
      endpoint,
      id: newJobId(endpoint, idempotencyKey, "sync-"),
      input: JsonText.make(`{${members.join(",")}}`),
      trace: traceContextOf(request.headers),
      idempotencyKey
    },
    streamed: body?.streamed === true
  }
})

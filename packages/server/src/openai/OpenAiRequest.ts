/**
 * Converts an OpenAI client's request to a job (docs/spec/openai-route.md#handler-input).
 *
 * ```
 *   POST /v1/chat/completions  {"model": ...}    {"openai_route": "/v1/chat/completions", "openai_input": {"model": ...}}
 *   GET  /v1/models                              {"openai_route": "/v1/models"}
 *   GET  /v1/files?limit=2                       {"openai_route": "/v1/files", "openai_query": {"limit": "2"}}
 *   DELETE /v1/models/m                          {"openai_route": "/v1/models/m", "openai_method": "DELETE"}
 * ```
 *
 * Existing handlers read the first two members. The other two appear only when the first two would lose information.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { JsonText } from "@stint/contract/Json"
import { InvalidRequest, problemMembers } from "@stint/contract/Problem"
import { traceContextOf } from "@stint/contract/TraceContext"
import type { Submission } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import type * as Scope from "effect/Scope"
import { type LimitSettings, remedyFor } from "../http/Limits.ts"
import { type BodyError, readText, scanJson } from "../http/RequestBody.ts"
import { newJobId, readIdempotencyKey, type SubmissionLimit, type Submitter } from "../jobs/SubmitRequest.ts"
import type { OpenAiErrorResponse } from "./OpenAiErrorResponse.ts"

/** A parsed request. */
export interface OpenAiSubmission {
  readonly submission: Submission
  /** Whether the caller requested a stream of chunks. */
  readonly streamed: boolean
}

const HINT =
  "Send a JSON object, for example {\"model\": \"echo\", \"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}]}."

/** The maximum size of a request: the same as for `/runsync`. */
export const submissionLimit = (limits: LimitSettings): SubmissionLimit => ({
  bytes: limits.runsyncBytes,
  remedy: remedyFor("Put large files in an object store and send their URLs.", "STINT_LIMIT_RUNSYNC", true, limits)
})

/** 415 for a multipart body, because a job's input must be JSON. */
export const MULTIPART_UNSUPPORTED: OpenAiErrorResponse = {
  status: 415,
  error: {
    message:
      "The body is multipart form data, but handlers accept only JSON. Send the file's URL, or its content as base64 in JSON.",
    type: "invalid_request_error",
    param: null,
    code: "unsupported_media_type"
  }
}

/** Whether the body is multipart form data. */
export const isMultipart = (request: HttpServerRequest.HttpServerRequest): boolean =>
  /^multipart\//i.test(request.headers["content-type"] ?? "")

const parameter = (name: string, value: string): InvalidRequest =>
  new InvalidRequest({ ...problemMembers(value, HINT), errors: [{ path: [name], message: value }] })

/** The query of a URL; undefined when it is empty. A repeated name yields a list of values. */
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

const STREAM = { members: new Set(["stream"]) }

/** The body of a request, a JSON object; undefined when the request has no body. */
const readBody = Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest, limit: SubmissionLimit) {
  if (request.method === "GET") return undefined
  const text = yield* readText(request, limit.bytes, limit.remedy)
  if (text.trim() === "") return undefined
  const { kind, members } = yield* scanJson(text, HINT, STREAM)
  if (kind !== "object") return yield* new InvalidRequest(problemMembers("The body must be a JSON object.", HINT))
  const stream = members.get("stream")?.text
  if (stream !== undefined && stream !== "null" && stream !== "true" && stream !== "false") {
    return yield* parameter("stream", "stream must be true or false.")
  }
  return { text, streamed: stream === "true" }
})

/** Reads a job from a request. `route`: the path, starting with `/v1`. */
export const read = Effect.fnUntraced(function*(
  endpoint: Endpoint,
  submitter: Submitter,
  request: HttpServerRequest.HttpServerRequest,
  route: string,
  limit: SubmissionLimit
): Effect.fn.Return<
  OpenAiSubmission,
  BodyError,
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
      idempotencyKey,
      owner: submitter.id,
      keyQuota: submitter.limits
    },
    streamed: body?.streamed === true
  }
})

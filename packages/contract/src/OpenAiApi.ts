/**
 * The OpenAI route: requests from OpenAI clients become jobs (docs/spec/openai-route.md#requests).
 *
 * ```
 *   /v2/{endpoint}/openai/v1/{route}     GET, POST, DELETE
 *
 *   POST .../openai/v1/chat/completions  {"model": ...}   -> input {"openai_route": "/v1/chat/completions", "openai_input": {"model": ...}}
 *   GET  .../openai/v1/models                             -> input {"openai_route": "/v1/models"}
 * ```
 *
 * Clients set `http://.../v2/{endpoint}/openai/v1` as their base URL and receive the output of the endpoint's handler. All errors of these
 * routes have OpenAI's format, from which the clients create their exceptions (docs/spec/openai-route.md#errors).
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { type CallerContext, security } from "./Authorization.ts"
import { Audited } from "./control/Audit.ts"
import { JOB_ID_HEADER } from "./jobs/JobsApi.ts"
import { type ExtraParameter, idempotencyKey, operationDocs } from "./OpenApiOperation.ts"

/** The path after `/v2/{endpoint}`. */
const OPENAI_PREFIX = "/openai"

/**
 * The header that OpenAI clients show as the id of a request (`_request_id`, `error.requestID`). Contains the job's id, if there is a job.
 */
export const REQUEST_ID_HEADER = "x-request-id"

/** The value `false` stops OpenAI clients from retrying. By default, they retry every 5xx response twice. */
export const SHOULD_RETRY_HEADER = "x-should-retry"

/** The members of an OpenAI error. */
export const OpenAiErrorBody = Schema.Struct({
  message: Schema.String,
  /** `invalid_request_error`, `rate_limit_error`, `server_error`, `worker_error`, or a type that the handler sets. */
  type: Schema.String,
  /** The invalid member of the body. */
  param: Schema.NullOr(Schema.String),
  /** `invalid_api_key`, `endpoint_not_found`, ..., or a code that the handler sets. */
  code: Schema.NullOr(Schema.Union([Schema.String, Schema.Finite]))
})
export type OpenAiErrorBody = typeof OpenAiErrorBody.Type

/** An error body in OpenAI's format. Errors from handlers may have additional members. */
export const OpenAiError = Schema.Struct({
  error: Schema.StructWithRest(OpenAiErrorBody, [Schema.Record(Schema.String, Schema.Json)])
}).annotate({ identifier: "OpenAiError" })
export type OpenAiError = typeof OpenAiError.Type

/** Descriptions of the errors, by status. */
const errors = {
  400: "The body is not a JSON object, or the handler rejects it",
  401: "The key is missing or invalid",
  402: "The endpoint or the key has used its budget; no job was created",
  403: "The key does not permit this operation or endpoint",
  404: "The endpoint does not exist, or the handler returns 404",
  409: "The idempotency key belongs to a different request",
  413: "The body exceeds the limit",
  415: "The body is a form with files, or uses an encoding that the platform does not decode",
  429: "The calls exceed the rate limit or a quota of waiting jobs, with Retry-After; or the handler returns 429",
  499: "The job was cancelled",
  500: "The job failed",
  502: "The handler's output cannot be converted to a response",
  503: "The platform cannot store the request, or is shutting down; no job was created",
  504: "The job timed out",
  507: "A quota of stored bytes is full; no job was created"
} as const

const openAiError = (status: keyof typeof errors) => OpenAiError.annotateKey({ httpApiStatus: status })

/** Callers of the OpenAI route need the same keys as callers of the jobs API. Errors have OpenAI's format. */
export class OpenAiAuthorization extends HttpApiMiddleware.Service<OpenAiAuthorization, CallerContext>()(
  "@stint/contract/OpenAiAuthorization",
  { security, error: [openAiError(401), openAiError(403), openAiError(429)] }
) {}

const error = [
  openAiError(400),
  openAiError(402),
  openAiError(404),
  openAiError(409),
  openAiError(413),
  openAiError(415),
  openAiError(499),
  openAiError(500),
  openAiError(502),
  openAiError(503),
  openAiError(504),
  openAiError(507)
] as const

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }

const route: ExtraParameter = {
  name: "route",
  in: "path",
  description:
    "The path after `/v1/`, including slashes: `chat/completions`, `models`, `embeddings`, ... The handler defines the routes.",
  schema: { type: "string" },
  example: "chat/completions"
}

const headers = {
  [JOB_ID_HEADER]: "The job's id.",
  [REQUEST_ID_HEADER]: "The job's id, in the header that OpenAI clients read."
}

const WAITS =
  "The response waits until the job ends. After 45 s without a response, the server sends the headers and then white space every 15 s, so that " +
  "proxies keep the connection open; later errors are then sent as an `error` body with status 200. A caller that disconnects cancels the job, " +
  "unless it sent an `Idempotency-Key`."

/** Any JSON: the format is defined by the handler. */
const HandlerOutput = Schema.Json.annotate({ description: "The handler's output." })

const path = `/:endpoint${OPENAI_PREFIX}/v1/*` as const

/** The path as it appears in the OpenAPI document, which does not support wildcards. */
const documentedPath = (path: string): string => path.replace(`${OPENAI_PREFIX}/v1/*`, `${OPENAI_PREFIX}/v1/{route}`)

/** Replaces the wildcard in the paths with a parameter. */
export const documentWildcards = (document: Record<string, unknown>): Record<string, unknown> => ({
  ...document,
  paths: Object.fromEntries(Object.entries(document["paths"] ?? {}).map(([path, item]) => [documentedPath(path), item]))
})

/** The operations of the OpenAI route. */
export class OpenAiApi extends HttpApiGroup.make("openai")
  .add(
    HttpApiEndpoint.post("openaiPost", path, {
      params: endpoint,
      payload: Schema.Record(Schema.String, Schema.Json),
      success: [
        HandlerOutput,
        HttpApiSchema.StreamSse({ data: Schema.Json })
      ],
      error
    }).annotateMerge(operationDocs({
      summary: "Send an OpenAI request",
      description:
        "Submits a job with `input` `{\"openai_route\": \"/v1/{route}\", \"openai_input\": body}` and returns the handler's output: its value, or the " +
        "only chunk of a generator. With `\"stream\": true` the response is `text/event-stream`: text chunks are sent unchanged, objects as `data:` " +
        "lines followed by `[DONE]`. If an attempt is lost after its first chunk, the stream ends with an error. " +
        `${WAITS} Bodies up to 20 MiB.`,
      parameters: [route, idempotencyKey],
      request: { model: "echo", messages: [{ role: "user", content: "Hello" }] },
      bodyOptional: true,
      errors,
      headers
    })),
    HttpApiEndpoint.get("openaiGet", path, { params: endpoint, success: HandlerOutput, error }).annotateMerge(operationDocs({
      summary: "Send an OpenAI GET request",
      description:
        "Submits a job with `input` `{\"openai_route\": \"/v1/{route}\"}`, for example for `models`. The query is passed as `openai_query`. " +
        WAITS,
      parameters: [route, idempotencyKey],
      responses: { 200: { object: "list", data: [{ id: "echo", object: "model", created: 0, owned_by: "stint" }] } },
      errors,
      headers
    })),
    HttpApiEndpoint.delete("openaiDelete", path, { params: endpoint, success: HandlerOutput, error }).annotateMerge(
      operationDocs({
        summary: "Send an OpenAI DELETE request",
        description: "Submits a job with `input` `{\"openai_route\": \"/v1/{route}\", \"openai_method\": \"DELETE\"}`. " + WAITS,
        parameters: [route, idempotencyKey],
        responses: { 200: { id: "model-1", object: "model", deleted: true } },
        errors,
        headers
      })
    )
  )
  .middleware(OpenAiAuthorization)
  .prefix("/v2")
  .annotate(Audited, false)
  .annotateMerge(OpenApi.annotations({
    title: "OpenAI",
    description: "For OpenAI clients: set /v2/{endpoint}/openai/v1 as the base URL"
  }))
{}

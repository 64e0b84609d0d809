/**
 * The OpenAI route: whatever OpenAI's clients ask for becomes a normal job (docs/spec/openai-route.md#requests).
 *
 * ```
 *   /v2/{endpoint}/openai/v1/{route}     GET, POST, DELETE
 *
 *   POST .../openai/v1/chat/completions  {"model": ...}   -> input {"openai_route": "/v1/chat/completions", "openai_input": {"model": ...}}
 *   GET  .../openai/v1/models                             -> input {"openai_route": "/v1/models"}
 * ```
 *
 * A client is pointed at `http://.../v2/{endpoint}/openai/v1`; what it gets is what the endpoint's handler produces. Everything under the
 * prefix that goes wrong is told in OpenAI's shape, which is what those clients make their exceptions of.
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiMiddleware, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { type CurrentEndpoint, security } from "./Authorization.ts"
import { JOB_ID_HEADER } from "./jobs/JobsApi.ts"
import { type ExtraParameter, idempotencyKey, operationDocs } from "./OpenApiOperation.ts"

/** What follows `/v2/{endpoint}`. */
export const OPENAI_PREFIX = "/openai"

/** The header that OpenAI's clients show as the request's id (`_request_id`, `error.requestID`): the job's id, where there is a job. */
export const REQUEST_ID_HEADER = "x-request-id"

/** `false`: the client is not to send the request again by itself. OpenAI's clients would otherwise, twice, at every 5xx. */
export const SHOULD_RETRY_HEADER = "x-should-retry"

/** The members that every error has. */
export const OpenAiErrorBody = Schema.Struct({
  message: Schema.String,
  /** `invalid_request_error`, `rate_limit_error`, `server_error`, `worker_error`, or what the handler says. */
  type: Schema.String,
  /** The member of the body that is wrong. */
  param: Schema.NullOr(Schema.String),
  /** `invalid_api_key`, `endpoint_not_found`, ..., or what the handler says. */
  code: Schema.NullOr(Schema.Union([Schema.String, Schema.Finite]))
})
export type OpenAiErrorBody = typeof OpenAiErrorBody.Type

/** What OpenAI's clients take for an error. A handler's own may have more members. */
export const OpenAiError = Schema.Struct({
  error: Schema.StructWithRest(OpenAiErrorBody, [Schema.Record(Schema.String, Schema.Json)])
}).annotate({ identifier: "OpenAiError" })
export type OpenAiError = typeof OpenAiError.Type

/** Why a call is refused or fails, by status. */
const errors = {
  400: "The body is not a JSON object, or the handler says that it is not right",
  401: "No key, or one that is not valid",
  403: "The key is for another scope or another endpoint",
  404: "No such endpoint, or the handler knows no such thing",
  409: "The idempotency key stands for another request",
  413: "The body is larger than the limit",
  415: "The body is a form with files",
  429: "More calls than the rate limit allows, with Retry-After; or the handler says so",
  499: "The job was cancelled",
  500: "The job failed",
  502: "The handler produced what cannot be answered",
  503: "The platform cannot keep the request, or is going down; nothing is left of it",
  504: "The job took longer than it may"
} as const

const refusal = (status: keyof typeof errors) => OpenAiError.annotateKey({ httpApiStatus: status })

/** Callers of the OpenAI route: as for the jobs API, refused in OpenAI's shape. */
export class OpenAiAuthorization extends HttpApiMiddleware.Service<OpenAiAuthorization, { provides: CurrentEndpoint }>()(
  "@stint/contract/OpenAiAuthorization",
  { security, error: [refusal(401), refusal(403), refusal(429)] }
) {}

const error = [
  refusal(400),
  refusal(404),
  refusal(409),
  refusal(413),
  refusal(415),
  refusal(499),
  refusal(500),
  refusal(502),
  refusal(503),
  refusal(504)
] as const

const endpoint = { endpoint: Schema.String.annotate({ description: "The endpoint's id." }) }

const route: ExtraParameter = {
  name: "route",
  in: "path",
  description:
    "What follows `/v1/`, slashes included: `chat/completions`, `models`, `embeddings`, ... The handler decides what there is.",
  schema: { type: "string" },
  example: "chat/completions"
}

const headers = {
  [JOB_ID_HEADER]: "The job's id.",
  [REQUEST_ID_HEADER]: "The same, where OpenAI's clients look for an id."
}

const HOLDS =
  "The connection is held until the job ends. After 45 s without an answer the head is sent and white space follows every 15 s, so that no " +
  "proxy cuts the line; what goes wrong later comes as an `error` with status 200. A caller that hangs up cancels the job, unless it sent an " +
  "`Idempotency-Key`."

/** Any JSON: what is in it is between the client and the handler. */
const Answer = Schema.Json.annotate({ description: "What the handler produced." })

const path = `/:endpoint${OPENAI_PREFIX}/v1/*` as const

/** The path in the document: OpenAPI knows no wildcard. */
const renamed = (path: string): string => path.replace(`${OPENAI_PREFIX}/v1/*`, `${OPENAI_PREFIX}/v1/{route}`)

/** A document in which the wildcard is a parameter. */
export const documentWildcards = (document: Record<string, unknown>): Record<string, unknown> => ({
  ...document,
  paths: Object.fromEntries(Object.entries(document["paths"] ?? {}).map(([path, item]) => [renamed(path), item]))
})

export class OpenAiApi extends HttpApiGroup.make("openai")
  .add(
    HttpApiEndpoint.post("openaiPost", path, {
      params: endpoint,
      payload: Schema.Record(Schema.String, Schema.Json),
      success: [
        Answer,
        HttpApiSchema.StreamSse({ data: Schema.Json })
      ],
      error
    }).annotateMerge(operationDocs({
      summary: "Ask as OpenAI's clients do",
      description:
        "The body becomes a job with `input` `{\"openai_route\": \"/v1/{route}\", \"openai_input\": body}`, and what its handler produces is the " +
        "answer: a value, or the only chunk of a generator. With `\"stream\": true` the answer is `text/event-stream`: chunks that are text are " +
        "passed on as they are, objects as `data:` lines with `[DONE]` at the end; an attempt that is lost after its first chunk ends the stream " +
        `with an error. ${HOLDS} Bodies up to 20 MiB.`,
      parameters: [route, idempotencyKey],
      request: { model: "echo", messages: [{ role: "user", content: "Hello" }] },
      bodyOptional: true,
      errors,
      headers
    })),
    HttpApiEndpoint.get("openaiGet", path, { params: endpoint, success: Answer, error }).annotateMerge(operationDocs({
      summary: "Look something up as OpenAI's clients do",
      description:
        "Becomes a job with `input` `{\"openai_route\": \"/v1/{route}\"}`: `models`, for example. A query is handed on as `openai_query`. " +
        HOLDS,
      parameters: [route, idempotencyKey],
      answers: { 200: { object: "list", data: [{ id: "echo", object: "model", created: 0, owned_by: "stint" }] } },
      errors,
      headers
    })),
    HttpApiEndpoint.delete("openaiDelete", path, { params: endpoint, success: Answer, error }).annotateMerge(operationDocs({
      summary: "Delete something as OpenAI's clients do",
      description:
        "Becomes a job with `input` `{\"openai_route\": \"/v1/{route}\", \"openai_method\": \"DELETE\"}`: what the method cannot be told from the " +
        `rest is named. ${HOLDS}`,
      parameters: [route, idempotencyKey],
      answers: { 200: { id: "model-1", object: "model", deleted: true } },
      errors,
      headers
    }))
  )
  .middleware(OpenAiAuthorization)
  .prefix("/v2")
  .annotateMerge(OpenApi.annotations({
    title: "OpenAI",
    description: "What OpenAI's clients call: point one at /v2/{endpoint}/openai/v1"
  }))
{}

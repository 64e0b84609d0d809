/**
 * Reads a submission: a job's input and options (contract, RunRequest). The queue applies them.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { IdempotencyKey, RunRequest, type Webhook } from "@stint/contract/Job"
import { jsonNull } from "@stint/contract/Json"
import type { InvalidRequest, PayloadTooLarge, Unavailable } from "@stint/contract/Problem"
import { traceContextOf } from "@stint/contract/TraceContext"
import type { Submission } from "@stint/queue/JobQueue"
import { slotOfKey, uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import type { HttpServerRequest } from "effect/http"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { memberText } from "../http/JsonMember.ts"
import { type LimitSettings, remedyFor } from "../http/Limits.ts"
import { decoder, readJson } from "../http/RequestBody.ts"

const runHint = "Send a JSON object with the key \"input\", for example {\"input\": {\"name\": \"Ada\"}}."

/** The body of `/run`. `input` came out of `JSON.parse`, so it needs no further validation. */
const decodeRun = decoder(Schema.Struct({ ...RunRequest.fields, input: Schema.Unknown }), runHint)

/** The decoded options of a body that contains only an input, as most bodies do. */
const INPUT_ALONE: typeof RunRequest.Type = { input: null }

/** Whether a body is an object with an input and nothing else. Such a body needs no decoding. */
const isInputAlone = (body: unknown): boolean => {
  if (typeof body !== "object" || body === null || Array.isArray(body)) return false
  const keys = Object.keys(body)
  return keys.length === 1 && keys[0] === "input"
}

const HEADER = "Idempotency-Key"

const decodeKey = decoder(
  Schema.Struct({ [HEADER]: IdempotencyKey }),
  `Send your own unique key in ${HEADER}, for example a UUID, or omit the header.`
)

/** The key in a request's `Idempotency-Key` header. Fails with 400 when it is not a valid key. */
export const readIdempotencyKey = (
  request: HttpServerRequest.HttpServerRequest
): Effect.Effect<string | undefined, InvalidRequest> => {
  const header = request.headers[HEADER.toLowerCase()]
  return header === undefined ? Effect.undefined : Effect.map(decodeKey({ [HEADER]: header }), (keys) => keys[HEADER])
}

/** A webhook in its long form. A bare URL receives the `completed` event only. */
export const webhookOf = (webhook: RunRequest["webhook"]): Webhook | undefined =>
  typeof webhook === "string" ? { url: webhook, events: ["completed"] } : webhook

const remedy = "Put the data in an object store and pass its URL in \"input\"."

/** The maximum size of a request, and the hint for requests that exceed it. */
export interface SubmissionLimit {
  readonly bytes: number
  readonly remedy: string
}

/** The limits of `/run` and `/runsync`. */
export const submissionLimits = (
  limits: LimitSettings
): { readonly run: SubmissionLimit; readonly runsync: SubmissionLimit } => ({
  run: { bytes: limits.runBytes, remedy: remedyFor(remedy, "STINT_LIMIT_RUN", true, limits) },
  runsync: { bytes: limits.runsyncBytes, remedy: remedyFor(remedy, "STINT_LIMIT_RUNSYNC", true, limits) }
})

/** A new id. With an idempotency key, the id is in the slot of that key (see UuidV7.ts). */
export const newJobId = (endpoint: Endpoint, idempotencyKey: string | undefined, prefix: "" | "sync-"): JobId =>
  JobId.make(
    prefix + uuidV7At(Date.now(), idempotencyKey === undefined ? undefined : slotOfKey(endpoint.id, idempotencyKey))
  )

/** Reads a submission from a request. */
export const readSubmission = Effect.fnUntraced(function*(
  endpoint: Endpoint,
  request: HttpServerRequest.HttpServerRequest,
  limit: SubmissionLimit,
  prefix: "" | "sync-"
): Effect.fn.Return<
  Submission,
  InvalidRequest | PayloadTooLarge | Unavailable,
  HttpServerRequest.HttpServerRequest | Scope.Scope
> {
  const key = yield* readIdempotencyKey(request)
  const body = yield* readJson(request, limit.bytes, limit.remedy, runHint)
  const alone = isInputAlone(body.value)
  const { policy, priority, s3Config, tags, webhook, ...own } = alone ? INPUT_ALONE : yield* decodeRun(body.value)
  const idempotencyKey = key ?? own.idempotencyKey
  return {
    endpoint,
    id: newJobId(endpoint, idempotencyKey, prefix),
    input: memberText(body.text, "input") ?? jsonNull,
    s3Config: s3Config === undefined ? undefined : memberText(body.text, "s3Config"),
    policy,
    priority,
    tags,
    webhook: webhookOf(webhook),
    trace: traceContextOf(request.headers),
    idempotencyKey
  }
})

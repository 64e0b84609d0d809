/**
 * The error of a failed call, for Effect: the reasons of `CallError.ts` as Schemas.
 *
 * ```ts
 * Effect.catchReason("ClientError", "RateLimited", ({ retryAfter }) => ...)
 * ```
 */
import { type CallError, messageOf } from "@stint/client/CallError"
import * as Schema from "effect/Schema"

const Problems = Schema.Array(Schema.Struct({
  path: Schema.Array(Schema.Union([Schema.String, Schema.Number])),
  message: Schema.String
}))

/** The key is missing or unknown (401), or not valid for this endpoint (403). */
const Unauthorized = Schema.TaggedStruct("Unauthorized", { status: Schema.Int })

/** The endpoint or the job does not exist, or the job's retention has ended. `address`: the host is not a Stint platform. */
const NotFound = Schema.TaggedStruct("NotFound", { what: Schema.Literals(["endpoint", "job", "address"]) })

/** The request is invalid, or the input does not match the handler's Schema and was not sent. */
const Invalid = Schema.TaggedStruct("Invalid", { problems: Problems })

/** The request exceeds the platform's limit, in bytes. */
const TooLarge = Schema.TaggedStruct("TooLarge", { limit: Schema.optionalKey(Schema.Number) })

/** The job's status does not allow the operation. */
const Conflict = Schema.TaggedStruct("Conflict", {})

/** The endpoint or the key has spent its budget. `renewsAt` in milliseconds since 1970. */
const BudgetReached = Schema.TaggedStruct("BudgetReached", { renewsAt: Schema.optionalKey(Schema.Number) })

/** Too many requests. `retryAfter` in milliseconds. */
const RateLimited = Schema.TaggedStruct("RateLimited", { retryAfter: Schema.optionalKey(Schema.Number) })

/** The platform, or a proxy in front of it, returned 5xx. `retryAfter` in milliseconds. */
const Unavailable = Schema.TaggedStruct("Unavailable", {
  status: Schema.Int,
  retryAfter: Schema.optionalKey(Schema.Number)
})

/** No response. `sent` is false if the request certainly did not reach the platform. */
const Unreachable = Schema.TaggedStruct("Unreachable", { sent: Schema.Boolean })

/** The job's output does not match the handler's Schema. */
const Mismatch = Schema.TaggedStruct("Mismatch", { problems: Problems })

/** A response that a platform never sends, with the beginning of its body. */
const Unexpected = Schema.TaggedStruct("Unexpected", { status: Schema.Int, body: Schema.String })

/** The reasons, as described for `Reason` in `CallError.ts`. */
const Reason = Schema.Union([
  Unauthorized,
  NotFound,
  Invalid,
  TooLarge,
  Conflict,
  BudgetReached,
  RateLimited,
  Unavailable,
  Unreachable,
  Mismatch,
  Unexpected
])

/** A call failed. The message contains the operation, endpoint, host, job, reason and a hint; never the key. */
export class ClientError extends Schema.TaggedError<ClientError>()("ClientError", {
  reason: Reason,
  operation: Schema.String,
  endpoint: Schema.String,
  host: Schema.String,
  /** The job's id, if known. `result(id)` resumes the wait. */
  job: Schema.optionalKey(Schema.String),
  detail: Schema.String,
  hint: Schema.String
}) {
  override get message(): string {
    return messageOf(this)
  }
}

/** Converts an error that a program threw. */
export const fromCallError = ({ detail, endpoint, hint, host, job, operation, reason }: CallError): ClientError =>
  new ClientError({ reason, operation, endpoint, host, ...(job === undefined ? {} : { job }), detail, hint })

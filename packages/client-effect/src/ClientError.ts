/**
 * Why a call to the platform brought nothing, on the Effect side: one error, with the reasons of `CallError.ts` as Schemas.
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

/** 401 and 403: no key, an unknown one, or a good key for something else. */
export const Unauthorized = Schema.TaggedStruct("Unauthorized", { status: Schema.Int })

/** No such endpoint, no such job (or its retention is over), or no such address at all: the host is not a platform. */
export const NotFound = Schema.TaggedStruct("NotFound", { what: Schema.Literals(["endpoint", "job", "address"]) })

/** The request cannot be understood, or the input does not fit the handler's Schema and was not sent. */
export const Invalid = Schema.TaggedStruct("Invalid", { problems: Problems })

/** The request is over the platform's limit, in bytes. */
export const TooLarge = Schema.TaggedStruct("TooLarge", { limit: Schema.optionalKey(Schema.Number) })

/** The job is not in a state for this. */
export const Conflict = Schema.TaggedStruct("Conflict", {})

/** Too many requests. `retryAfter` in milliseconds. */
export const RateLimited = Schema.TaggedStruct("RateLimited", { retryAfter: Schema.optionalKey(Schema.Number) })

/** 5xx: the platform, or a proxy before it, cannot answer now. `retryAfter` in milliseconds. */
export const Unavailable = Schema.TaggedStruct("Unavailable", {
  status: Schema.Int,
  retryAfter: Schema.optionalKey(Schema.Number)
})

/** No answer. `sent` is false where it is certain that the request did not reach anyone. */
export const Unreachable = Schema.TaggedStruct("Unreachable", { sent: Schema.Boolean })

/** What the job gave does not fit the handler's Schema. */
export const Mismatch = Schema.TaggedStruct("Mismatch", { problems: Problems })

/** An answer that no platform gives; the beginning of its body. */
export const Unexpected = Schema.TaggedStruct("Unexpected", { status: Schema.Int, body: Schema.String })

/** All reasons: what `Reason` of `CallError.ts` describes. */
export const Reason = Schema.Union([
  Unauthorized,
  NotFound,
  Invalid,
  TooLarge,
  Conflict,
  RateLimited,
  Unavailable,
  Unreachable,
  Mismatch,
  Unexpected
])

/** A call failed. The message names the operation, the endpoint, the host, the job, what went wrong and what to do; never the key. */
export class ClientError extends Schema.TaggedError<ClientError>()("ClientError", {
  reason: Reason,
  operation: Schema.String,
  endpoint: Schema.String,
  host: Schema.String,
  /** The job, where it is known: its result can be asked for again. */
  job: Schema.optionalKey(Schema.String),
  detail: Schema.String,
  hint: Schema.String
}) {
  override get message(): string {
    return messageOf(this)
  }
}

/** The error of a program as the Effect side's. */
export const fromCallError = ({ detail, endpoint, hint, host, job, operation, reason }: CallError): ClientError =>
  new ClientError({ reason, operation, endpoint, host, ...(job === undefined ? {} : { job }), detail, hint })

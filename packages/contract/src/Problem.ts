/**
 * What the platform answers when it cannot do what was asked.
 *
 * Every error body of all three surfaces is an RFC 9457 problem with two more members: `error`, the same sentence as `detail`, where
 * clients of the described platform look for it, and `hint`, the way out.
 */
import { HttpApiError } from "effect/http-api"
import * as Schema from "effect/Schema"

const members = { error: Schema.String, hint: Schema.String }

/** 400: the request cannot be understood. `errors` names each offending value by its path. */
export class InvalidRequest extends HttpApiError.Problem<InvalidRequest>()("InvalidRequest", {
  type: "/problems/invalid-request",
  status: 400,
  title: "Invalid request"
}, {
  ...members,
  errors: Schema.optionalKey(Schema.Array(HttpApiError.ProblemIssue))
}) {}

/** 401: no key, one that nobody issued, or one that is not valid any more. */
export class Unauthorized extends HttpApiError.Problem<Unauthorized>()("Unauthorized", {
  type: "/problems/unauthorized",
  status: 401,
  title: "Unauthorized"
}, members) {}

/** 403: a good key, but for another scope or another endpoint. */
export class Forbidden extends HttpApiError.Problem<Forbidden>()("Forbidden", {
  type: "/problems/forbidden",
  status: 403,
  title: "Forbidden"
}, members) {}

/** 404: no endpoint of that name. */
export class EndpointNotFound extends HttpApiError.Problem<EndpointNotFound>()("EndpointNotFound", {
  type: "/problems/endpoint-not-found",
  status: 404,
  title: "Endpoint not found"
}, members) {}

/** 404: no such job, or its retention is over. */
export class JobNotFound extends HttpApiError.Problem<JobNotFound>()("JobNotFound", {
  type: "/problems/job-not-found",
  status: 404,
  title: "Job not found"
}, members) {}

/** 404: no such key. */
export class KeyNotFound extends HttpApiError.Problem<KeyNotFound>()("KeyNotFound", {
  type: "/problems/key-not-found",
  status: 404,
  title: "Key not found"
}, members) {}

/** 404: no such address. */
export class RouteNotFound extends HttpApiError.Problem<RouteNotFound>()("RouteNotFound", {
  type: "/problems/route-not-found",
  status: 404,
  title: "Not found"
}, members) {}

/** 409: the thing exists, but is not in a state for this. */
export class Conflict extends HttpApiError.Problem<Conflict>()("Conflict", {
  type: "/problems/conflict",
  status: 409,
  title: "Conflict"
}, members) {}

/** 413: the body is larger than the limit, in bytes. */
export class PayloadTooLarge extends HttpApiError.Problem<PayloadTooLarge>()("PayloadTooLarge", {
  type: "/problems/payload-too-large",
  status: 413,
  title: "Payload too large"
}, { ...members, limit: Schema.Int }) {}

/**
 * 429: more calls than the rate limit allows. `retryAfter` is in seconds, as in the header `Retry-After`. When the rate was exceeded, waiting
 * that long is enough for one call; when too many calls were open at once, it is a guess.
 */
export class TooManyRequests extends HttpApiError.Problem<TooManyRequests>()("TooManyRequests", {
  type: "/problems/too-many-requests",
  status: 429,
  title: "Too many requests"
}, { ...members, retryAfter: Schema.Int }) {}

/** 503: the platform cannot keep what it was given (disk full, store gone). Nothing was accepted. */
export class Unavailable extends HttpApiError.Problem<Unavailable>()("Unavailable", {
  type: "/problems/unavailable",
  status: 503,
  title: "Temporarily unavailable"
}, members) {}

/** The members that every problem repeats, from one sentence and its way out. */
export const problemMembers = (
  error: string,
  hint: string
): { readonly detail: string; readonly error: string; readonly hint: string } => ({
  detail: error,
  error,
  hint
})

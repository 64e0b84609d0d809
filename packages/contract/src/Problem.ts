/**
 * The errors of the HTTP API (docs/spec/errors.md).
 *
 * Every error body is an RFC 9457 problem with two more members: `error` repeats `detail`, because RunPod's clients read it, and `hint`
 * says what to do.
 */
import { HttpApiError } from "effect/http-api"
import * as Schema from "effect/Schema"

const members = { error: Schema.String, hint: Schema.String }

/** 400: the request is invalid. `errors` lists the invalid values by their path. */
export class InvalidRequest extends HttpApiError.Problem<InvalidRequest>()("InvalidRequest", {
  type: "/problems/invalid-request",
  status: 400,
  title: "Invalid request"
}, {
  ...members,
  errors: Schema.optionalKey(Schema.Array(HttpApiError.ProblemIssue))
}) {}

/** 401: the key is missing, unknown, expired or revoked. */
export class Unauthorized extends HttpApiError.Problem<Unauthorized>()("Unauthorized", {
  type: "/problems/unauthorized",
  status: 401,
  title: "Unauthorized"
}, members) {}

/** 402: the endpoint or the key has used its budget. A retry fails until the next period begins. */
export class BudgetReached extends HttpApiError.Problem<BudgetReached>()("BudgetReached", {
  type: "/problems/budget-reached",
  status: 402,
  title: "Budget reached"
}, { ...members, /** When the next period begins. Milliseconds since 1970. */ renewsAt: Schema.Int }) {}

/** 403: the key is valid, but does not permit this operation or endpoint. Or a webhook is not signed. */
export class Forbidden extends HttpApiError.Problem<Forbidden>()("Forbidden", {
  type: "/problems/forbidden",
  status: 403,
  title: "Forbidden"
}, members) {}

/** 404: the endpoint does not exist. */
export class EndpointNotFound extends HttpApiError.Problem<EndpointNotFound>()("EndpointNotFound", {
  type: "/problems/endpoint-not-found",
  status: 404,
  title: "Endpoint not found"
}, members) {}

/** 404: the job does not exist, or its retention has ended. */
export class JobNotFound extends HttpApiError.Problem<JobNotFound>()("JobNotFound", {
  type: "/problems/job-not-found",
  status: 404,
  title: "Job not found"
}, members) {}

/** 404: the key does not exist. */
export class KeyNotFound extends HttpApiError.Problem<KeyNotFound>()("KeyNotFound", {
  type: "/problems/key-not-found",
  status: 404,
  title: "Key not found"
}, members) {}

/** 404: the release does not exist or is no longer stored. */
export class ReleaseNotFound extends HttpApiError.Problem<ReleaseNotFound>()("ReleaseNotFound", {
  type: "/problems/release-not-found",
  status: 404,
  title: "Release not found"
}, members) {}

/** 404: the endpoint has no pipeline with this definition. */
export class DefinitionNotFound extends HttpApiError.Problem<DefinitionNotFound>()("DefinitionNotFound", {
  type: "/problems/definition-not-found",
  status: 404,
  title: "Definition not found"
}, members) {}

/** 404: the build does not exist or is no longer stored, or the endpoint has no build settings. */
export class BuildNotFound extends HttpApiError.Problem<BuildNotFound>()("BuildNotFound", {
  type: "/problems/build-not-found",
  status: 404,
  title: "Build not found"
}, members) {}

/** 404: the model is not in the cache. */
export class ModelNotFound extends HttpApiError.Problem<ModelNotFound>()("ModelNotFound", {
  type: "/problems/model-not-found",
  status: 404,
  title: "Model not found"
}, members) {}

/** 404: the platform knows no agent with this name. */
export class AgentNotFound extends HttpApiError.Problem<AgentNotFound>()("AgentNotFound", {
  type: "/problems/agent-not-found",
  status: 404,
  title: "Agent not found"
}, members) {}

/** 404: the schedule does not exist. */
export class ScheduleNotFound extends HttpApiError.Problem<ScheduleNotFound>()("ScheduleNotFound", {
  type: "/problems/schedule-not-found",
  status: 404,
  title: "Schedule not found"
}, members) {}

/** 404: the platform knows no such worker. It has exited, or has never called. */
export class WorkerNotFound extends HttpApiError.Problem<WorkerNotFound>()("WorkerNotFound", {
  type: "/problems/worker-not-found",
  status: 404,
  title: "Worker not found"
}, members) {}

/** 404: the bulk operation does not exist, or belongs to another key. */
export class BulkNotFound extends HttpApiError.Problem<BulkNotFound>()("BulkNotFound", {
  type: "/problems/bulk-not-found",
  status: 404,
  title: "Bulk operation not found"
}, members) {}

/** 404: the endpoint has no error group with this fingerprint, or no longer has it. */
export class ErrorGroupNotFound extends HttpApiError.Problem<ErrorGroupNotFound>()("ErrorGroupNotFound", {
  type: "/problems/error-group-not-found",
  status: 404,
  title: "Error group not found"
}, members) {}

/** 404: the secret does not exist. */
export class SecretNotFound extends HttpApiError.Problem<SecretNotFound>()("SecretNotFound", {
  type: "/problems/secret-not-found",
  status: 404,
  title: "Secret not found"
}, members) {}

/** 404: the route does not exist. */
export class RouteNotFound extends HttpApiError.Problem<RouteNotFound>()("RouteNotFound", {
  type: "/problems/route-not-found",
  status: 404,
  title: "Not found"
}, members) {}

/** 409: the resource's state does not allow the operation. */
export class Conflict extends HttpApiError.Problem<Conflict>()("Conflict", {
  type: "/problems/conflict",
  status: 409,
  title: "Conflict"
}, members) {}

/** 413: the body exceeds `limit` bytes. */
export class PayloadTooLarge extends HttpApiError.Problem<PayloadTooLarge>()("PayloadTooLarge", {
  type: "/problems/payload-too-large",
  status: 413,
  title: "Payload too large"
}, { ...members, limit: Schema.Int }) {}

/** 415: the body uses an encoding that the platform does not decode. */
export class UnsupportedEncoding extends HttpApiError.Problem<UnsupportedEncoding>()("UnsupportedEncoding", {
  type: "/problems/unsupported-encoding",
  status: 415,
  title: "Unsupported media type"
}, members) {}

/** The errors that reading a body can cause. */
export const bodyErrors = [PayloadTooLarge, UnsupportedEncoding] as const

/**
 * 429: the calls exceed the rate limit. `retryAfter` is in seconds, like the header `Retry-After`. It is exact when the rate limit was
 * exceeded: after this time, one call succeeds. It is an estimate when too many calls were open at once.
 */
export class TooManyRequests extends HttpApiError.Problem<TooManyRequests>()("TooManyRequests", {
  type: "/problems/too-many-requests",
  status: 429,
  title: "Too many requests"
}, { ...members, retryAfter: Schema.Int }) {}

/** 507: the stored jobs of the endpoint or of the key reached their quota of bytes, or the endpoint reached its limit of kept events. */
export class InsufficientStorage extends HttpApiError.Problem<InsufficientStorage>()("InsufficientStorage", {
  type: "/problems/insufficient-storage",
  status: 507,
  title: "Insufficient storage"
}, members) {}

/** 503: the platform cannot store the request (disk full, store unreachable) and has not accepted any part of it. */
export class Unavailable extends HttpApiError.Problem<Unavailable>()("Unavailable", {
  type: "/problems/unavailable",
  status: 503,
  title: "Temporarily unavailable"
}, members) {}

/** Builds the members that every problem has, from a sentence about the error and a hint. */
export const problemMembers = (
  error: string,
  hint: string
): { readonly detail: string; readonly error: string; readonly hint: string } => ({
  detail: error,
  error,
  hint
})

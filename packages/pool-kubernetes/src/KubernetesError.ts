/**
 * The errors of a Kubernetes API server.
 */
import * as Schema from "effect/Schema"

/** No valid response: nothing listens, the connection broke, or the response is not from Kubernetes. */
export class ApiUnreachable extends Schema.TaggedError<ApiUnreachable>()("ApiUnreachable", {
  /** The problem, without a full stop. */
  problem: Schema.String
}) {
  override get message(): string {
    return `The Kubernetes API does not respond: ${this.problem}.`
  }
}

/** The API server rejected the request. */
export class ApiRefused extends Schema.TaggedError<ApiRefused>()("ApiRefused", {
  status: Schema.Int,
  /** `reason` of the Status object, for example `AlreadyExists`; empty if the response is not one. */
  reason: Schema.String,
  /** The problem, without a full stop. */
  problem: Schema.String
}) {
  override get message(): string {
    return `The Kubernetes API rejected the request with status ${this.status}: ${this.problem}.`
  }
}

export type KubernetesError = ApiRefused | ApiUnreachable

/** Whether the API server rejected the request with this status. */
export const isRefused = (error: KubernetesError, status: number): error is ApiRefused =>
  error._tag === "ApiRefused" && error.status === status

/** Whether an object with this name already exists. Other conflicts have the same status. */
export const isExisting = (error: KubernetesError): boolean => isRefused(error, 409) && error.reason === "AlreadyExists"

/**
 * Whether the same request may succeed later: no response, too many requests, an error of the server, or a conflict with another request, for example
 * when two pods are counted in one quota.
 */
export const isPassing = (error: KubernetesError): boolean =>
  error._tag === "ApiUnreachable" || error.status === 429 || error.status >= 500 ||
  (error.status === 409 && error.reason === "Conflict")

/** Whether the version of a list or a watch is too old to continue from: 410 Gone. */
export const isExpired = (error: KubernetesError): boolean => isRefused(error, 410)

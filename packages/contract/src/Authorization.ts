/**
 * Declares the authorization of each API. The server implements it.
 *
 * All of them read the `Authorization` header. It contains `Bearer KEY` or the raw key, which workers and the examples in RunPod's
 * documentation send (docs/spec/authentication.md#keys-in-requests).
 */
import * as Context from "effect/Context"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import type { KeyEndpoints } from "./control/AccessKey.ts"
import type { Endpoint } from "./control/Endpoint.ts"
import type { KeyLimits } from "./control/Quota.ts"
import { EndpointNotFound, Forbidden, TooManyRequests, Unauthorized, Unavailable } from "./Problem.ts"

/** The header with the key. */
export const security = { key: HttpApiSecurity.apiKey({ in: "header", key: "authorization" }) }
const error = [Unauthorized, Forbidden] as const

/** The endpoint that a caller's request addresses. The server reads it once, after it has checked the key. */
export class CurrentEndpoint extends Context.Service<CurrentEndpoint, Endpoint>()("@stint/contract/CurrentEndpoint") {}

/** The caller of a request, after the server has checked its key. */
export class CurrentCaller extends Context.Service<CurrentCaller, {
  /** The id of the caller's key, to which idempotency keys and batches belong. */
  readonly key: string
  /** Whether the caller sees the batches of all keys. */
  readonly isAdmin: boolean
  /** The quotas of the key. */
  readonly limits?: KeyLimits | undefined
}>()("@stint/contract/CurrentCaller") {}

/** The services that the guards of the jobs API and the OpenAI route provide. */
export interface CallerContext {
  readonly provides: CurrentEndpoint | CurrentCaller
}

/** Callers need a key with the operation's scope for the endpoint (`jobScopeOf`), or an admin key. Enforces rate limits. */
export class JobsAuthorization extends HttpApiMiddleware.Service<JobsAuthorization, CallerContext>()(
  "@stint/contract/JobsAuthorization",
  { security, error: [...error, TooManyRequests, EndpointNotFound, Unavailable] }
) {}

/** Workers need a worker key for the endpoint. */
export class WorkerAuthorization extends HttpApiMiddleware.Service<WorkerAuthorization>()(
  "@stint/contract/WorkerAuthorization",
  { security, error }
) {}

/** The key of an operator's request, after the server has checked it. The platform's own key has the id `platform`. */
export class CurrentOperator extends Context.Service<CurrentOperator, {
  readonly key: string
  /** For messages, such as `the key "ci"`. */
  readonly name: string
}>()("@stint/contract/CurrentOperator") {}

/** Operators need a key with the scope `deploy` or `admin`. */
export class ControlAuthorization extends HttpApiMiddleware.Service<ControlAuthorization, { provides: CurrentOperator }>()(
  "@stint/contract/ControlAuthorization",
  { security, error }
) {}

/** Operators who manage keys need an admin key. */
export class KeysAuthorization extends HttpApiMiddleware.Service<KeysAuthorization, { provides: CurrentOperator }>()(
  "@stint/contract/KeysAuthorization",
  { security, error }
) {}

/** The key of an agent's request, after the server has checked it. */
export class CurrentAgentKey extends Context.Service<CurrentAgentKey, {
  readonly id: string
  /** The endpoints whose workers its agents may run. */
  readonly endpoints: KeyEndpoints | ReadonlyArray<string>
}>()("@stint/contract/CurrentAgentKey") {}

/** Agents need a key with the scope `agent`. */
export class AgentAuthorization extends HttpApiMiddleware.Service<AgentAuthorization, { provides: CurrentAgentKey }>()(
  "@stint/contract/AgentAuthorization",
  { security, error }
) {}

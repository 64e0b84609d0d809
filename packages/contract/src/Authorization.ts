/**
 * Who may call which surface. Declared here, implemented by the server.
 *
 * All three read the `Authorization` header: `Bearer KEY`, and the raw key, which is what workers and the described platform's own
 * documentation send (docs/spec/authentication.md#keys-in-requests).
 */
import * as Context from "effect/Context"
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import type { Endpoint } from "./control/Endpoint.ts"
import { EndpointNotFound, Forbidden, TooManyRequests, Unauthorized, Unavailable } from "./Problem.ts"

/** The one header that holds a key. */
export const security = { key: HttpApiSecurity.apiKey({ in: "header", key: "authorization" }) }
const error = [Unauthorized, Forbidden] as const

/** The endpoint that a caller's request names. The server looks it up once, after it has checked the key. */
export class CurrentEndpoint extends Context.Service<CurrentEndpoint, Endpoint>()("@stint/contract/CurrentEndpoint") {}

/** Callers: a jobs key of this endpoint, or an admin key; and no more calls than their rate limit allows. */
export class JobsAuthorization extends HttpApiMiddleware.Service<JobsAuthorization, { provides: CurrentEndpoint }>()(
  "@stint/contract/JobsAuthorization",
  { security, error: [...error, TooManyRequests, EndpointNotFound, Unavailable] }
) {}

/** Workers: the key of a worker of this endpoint. */
export class WorkerAuthorization extends HttpApiMiddleware.Service<WorkerAuthorization>()(
  "@stint/contract/WorkerAuthorization",
  { security, error }
) {}

/** Operators: an admin key. */
export class ControlAuthorization extends HttpApiMiddleware.Service<ControlAuthorization>()(
  "@stint/contract/ControlAuthorization",
  { security, error }
) {}

/**
 * Declares the authorization of each API. The server implements it.
 *
 * All read the `Authorization` header: `Bearer KEY`, or the raw key, which workers and the examples of RunPod's documentation send
 * (docs/spec/authentication.md#keys-in-requests).
 */
import { HttpApiMiddleware, HttpApiSecurity } from "effect/http-api"
import { Forbidden, TooManyRequests, Unauthorized } from "./Problem.ts"

/** The header with the key. */
export const security = { key: HttpApiSecurity.apiKey({ in: "header", key: "authorization" }) }
const error = [Unauthorized, Forbidden] as const

/** Callers need a key with the scope `jobs` for the endpoint, or an admin key. Enforces rate limits. */
export class JobsAuthorization extends HttpApiMiddleware.Service<JobsAuthorization>()(
  "@stint/contract/JobsAuthorization",
  { security, error: [...error, TooManyRequests] }
) {}

/** Workers need a worker key of the endpoint. */
export class WorkerAuthorization extends HttpApiMiddleware.Service<WorkerAuthorization>()(
  "@stint/contract/WorkerAuthorization",
  { security, error }
) {}

/** Operators need an admin key. */
export class ControlAuthorization extends HttpApiMiddleware.Service<ControlAuthorization>()(
  "@stint/contract/ControlAuthorization",
  { security, error }
) {}

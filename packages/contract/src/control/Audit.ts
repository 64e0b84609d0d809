/**
 * The audit log: who changed what, from where, and with which result (docs/operations/audit.md).
 *
 * Every operation of the `HttpApi` that is not a GET is audited, unless its declaration says otherwise with {@link Audited}. A new operation
 * is therefore audited without further registration.
 */
import * as Context from "effect/Context"
import type { HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { HttpApiMiddleware } from "effect/http-api"
import * as Schema from "effect/Schema"

/**
 * Overrides the default for an operation or a group. `false`: an operation that changes nothing, or that programs send for each job or heartbeat.
 * `true`: a GET that returns a secret.
 */
export const Audited: Context.Reference<boolean | undefined> = Context.Reference<boolean | undefined>("@stint/contract/Audited", {
  defaultValue: () => undefined
})

/** The name under which an operation is audited, as in the OpenAPI document: `keys.createKey`. Undefined if it is not audited. */
export const auditActionOf = (
  { endpoint, group }: { readonly endpoint: HttpApiEndpoint.Top; readonly group: HttpApiGroup.Top }
): string | undefined => {
  const isAudited = Context.get(endpoint.annotations, Audited) ?? Context.get(group.annotations, Audited) ??
    endpoint.method !== "GET"
  return isAudited ? `${group.identifier}.${endpoint.identifier}` : undefined
}

/** Records the audited operations. The `Api` applies it to every operation. */
export class AuditedOperations extends HttpApiMiddleware.Service<AuditedOperations>()("@stint/contract/AuditedOperations") {}

/**
 * The result of an audited operation. `done`: it succeeded. `refused`: the key did not permit it. `failed`: the request was invalid, the
 * state did not allow the operation, or the platform failed.
 */
export const AuditResult = Schema.Literals(["done", "refused", "failed"])
export type AuditResult = typeof AuditResult.Type

/** The status of an operation whose caller disconnected before it ended. */
export const CALLER_GONE = 499

/** An audited operation. It never contains a key, the value of a secret, or a job's input. */
export const AuditEntry = Schema.Struct({
  /** Increases with each entry. */
  id: Schema.Int,
  /** When the operation ended, in milliseconds since 1970. */
  at: Schema.Int,
  /** The operation's name in the OpenAPI document: `keys.createKey`, `releases.rollback`, `jobs.cancel`. */
  action: Schema.String,
  /** The target of the operation: `endpoint/hello`, `endpoint/hello/job/ID`, `key/ID`, `secret/NAME`, `model/OWNER/NAME`, or `platform`. */
  target: Schema.String,
  /** The id of the key. `platform`: the platform's own key. `webhook`: no key, but the signature of a Git host's webhook. */
  key: Schema.String,
  /** The name of the key at that time. */
  name: Schema.String,
  /** Whether a program sent the key, or a user was logged in to the web console with it. */
  via: Schema.Literals(["api", "console"]),
  /** The address that the request came from. Behind a proxy, the proxy's address. */
  address: Schema.String,
  result: AuditResult,
  /** The HTTP status of the response. {@link CALLER_GONE}: the caller disconnected first. */
  status: Schema.Int
})
export type AuditEntry = typeof AuditEntry.Type

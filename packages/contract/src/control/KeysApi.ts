/**
 * The operations on access keys, a part of the control API.
 *
 * ```
 *   /api/v1/keys                GET     all keys; expired and revoked ones for 30 days
 *                               POST    create; returns the secret, once
 *   /api/v1/keys/{key}          GET
 *                               PATCH   name, scopes, endpoints, expiry, limits
 *   /api/v1/keys/{key}/rotate   POST    replace the secret; returns it, once
 *   /api/v1/keys/{key}/revoke   POST    permanently
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { KeysAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, Conflict, EndpointNotFound, InvalidRequest, KeyNotFound, Unavailable } from "../Problem.ts"
import { AccessKey, KeyPatch, KeyRevocation, KeyRotation, KeySpec, NewKey, RevokedKey } from "./AccessKey.ts"

const key = { key: Schema.String.annotate({ description: "The key's id." }) }

/** The operations on access keys. */
export class KeysApi extends HttpApiGroup.make("keys")
  .add(
    HttpApiEndpoint.get("listKeys", "/keys", {
      success: Schema.Struct({ keys: Schema.Array(AccessKey) }),
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "List keys",
      description: "Lists all keys without their secrets. Expired and revoked keys are listed for 30 days."
    })),
    HttpApiEndpoint.post("createKey", "/keys", {
      payload: KeySpec,
      success: NewKey.pipe(HttpApiSchema.status(201)),
      error: [InvalidRequest, ...bodyErrors, EndpointNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Create a key",
      description:
        "Returns the key and its secret. The secret is never returned again, because only its digest is stored. A key permits the " +
        "APIs of its scopes for the listed endpoints, or for all endpoints.",
      request: { name: "shop", scopes: ["jobs"], endpoints: ["hello"] }
    })),
    HttpApiEndpoint.get("getKey", "/keys/:key", {
      params: key,
      success: AccessKey,
      error: [KeyNotFound, InvalidRequest]
    })
      .annotateMerge(operationDocs({
        summary: "Get a key",
        description: "Returns a key without its secret."
      })),
    HttpApiEndpoint.patch("patchKey", "/keys/:key", {
      params: key,
      payload: KeyPatch,
      success: AccessKey,
      error: [InvalidRequest, ...bodyErrors, EndpointNotFound, KeyNotFound, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Change a key",
      description:
        "Changes the name, scopes, endpoints, expiry, rate limit or quotas, effective with the next request. Missing members stay unchanged; " +
        "null removes an expiry or a limit. Returns 409 for a revoked key.",
      request: { name: "shop 2" }
    })),
    HttpApiEndpoint.post("rotateKey", "/keys/:key/rotate", {
      params: key,
      payload: KeyRotation,
      success: NewKey,
      error: [InvalidRequest, ...bodyErrors, KeyNotFound, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Rotate a key's secret",
      description: "Returns a new secret, once. The old secret remains valid for `graceMs`.",
      bodyOptional: true,
      request: { graceMs: 3_600_000 }
    })),
    HttpApiEndpoint.post("revokeKey", "/keys/:key/revoke", {
      params: key,
      payload: KeyRevocation,
      success: RevokedKey,
      error: [InvalidRequest, ...bodyErrors, KeyNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Revoke a key",
      description:
        "Revokes a key immediately and permanently. Repeating the call changes nothing. Keys that were created or rotated with this key, " +
        "directly or through other keys, are listed in `issued`; `withIssued` revokes them, too.",
      bodyOptional: true,
      request: { withIssued: true }
    }))
  )
  .middleware(KeysAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Keys", description: "Manage access keys" }))
{}

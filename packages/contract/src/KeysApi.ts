/**
 * Keys, as a part of the control API.
 *
 * ```
 *   /api/v1/keys                 GET    all, ended ones for 30 days
 *                                POST   create; answers the secret, this once
 *   /api/v1/keys/{key}           GET
 *                                PATCH  name, endpoints, expiry, rate limit
 *   /api/v1/keys/{key}/rotate    POST   another secret; answers it, this once
 *   /api/v1/keys/{key}/revoke    POST   at once and for good
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { AccessKey, KeyPatch, KeyRotation, KeySpec, NewKey } from "./AccessKey.ts"
import { ControlAuthorization } from "./Authorization.ts"
import { Conflict, EndpointNotFound, InvalidRequest, KeyNotFound, PayloadTooLarge, Unavailable } from "./Problem.ts"

const key = { key: Schema.String }

export class KeysApi extends HttpApiGroup.make("keys")
  .add(
    HttpApiEndpoint.get("listKeys", "/keys", {
      success: Schema.Struct({ keys: Schema.Array(AccessKey) }),
      error: Unavailable
    }),
    HttpApiEndpoint.post("createKey", "/keys", {
      payload: KeySpec,
      success: NewKey.pipe(HttpApiSchema.status(201)),
      error: [InvalidRequest, PayloadTooLarge, EndpointNotFound, Unavailable]
    }),
    HttpApiEndpoint.get("getKey", "/keys/:key", { params: key, success: AccessKey, error: [KeyNotFound, Unavailable] }),
    HttpApiEndpoint.patch("patchKey", "/keys/:key", {
      params: key,
      payload: KeyPatch,
      success: AccessKey,
      error: [InvalidRequest, PayloadTooLarge, EndpointNotFound, KeyNotFound, Conflict, Unavailable]
    }),
    HttpApiEndpoint.post("rotateKey", "/keys/:key/rotate", {
      params: key,
      payload: KeyRotation,
      success: NewKey,
      error: [InvalidRequest, PayloadTooLarge, KeyNotFound, Conflict, Unavailable]
    }),
    HttpApiEndpoint.post("revokeKey", "/keys/:key/revoke", {
      params: key,
      success: AccessKey,
      error: [KeyNotFound, Unavailable]
    })
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Keys", description: "Who may call what, and how often" }))
{}

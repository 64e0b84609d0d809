/**
 * Keys, as a part of the control API.
 *
 * ```
 *   /api/v1/keys                 GET    all, ended ones for 30 days
 *                                POST   create; answers the secret, this once
 *   /api/v1/keys/{key}           GET
 *                                PATCH  name, scopes, endpoints, expiry, rate limit
 *   /api/v1/keys/{key}/rotate    POST   another secret; answers it, this once
 *   /api/v1/keys/{key}/revoke    POST   at once and for good
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { ControlAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { Conflict, EndpointNotFound, InvalidRequest, KeyNotFound, PayloadTooLarge, Unavailable } from "../Problem.ts"
import { AccessKey, KeyPatch, KeyRotation, KeySpec, NewKey } from "./AccessKey.ts"

const key = { key: Schema.String.annotate({ description: "The key's id." }) }

export class KeysApi extends HttpApiGroup.make("keys")
  .add(
    HttpApiEndpoint.get("listKeys", "/keys", {
      success: Schema.Struct({ keys: Schema.Array(AccessKey) }),
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "All keys",
      description: "Every key without its secret; those that have ended for 30 days more."
    })),
    HttpApiEndpoint.post("createKey", "/keys", {
      payload: KeySpec,
      success: NewKey.pipe(HttpApiSchema.status(201)),
      error: [InvalidRequest, PayloadTooLarge, EndpointNotFound, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Create a key",
      description: "Answers the secret, this once: only its digest is kept. A key opens the surfaces of its scopes, and " +
        "the endpoints that it names or all.",
      request: { name: "shop", scopes: ["jobs"], endpoints: ["hello"] }
    })),
    HttpApiEndpoint.get("getKey", "/keys/:key", {
      params: key,
      success: AccessKey,
      error: [KeyNotFound, InvalidRequest]
    })
      .annotateMerge(operationDocs({
        summary: "A key",
        description: "One key without its secret."
      })),
    HttpApiEndpoint.patch("patchKey", "/keys/:key", {
      params: key,
      payload: KeyPatch,
      success: AccessKey,
      error: [InvalidRequest, PayloadTooLarge, EndpointNotFound, KeyNotFound, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Change a key",
      description:
        "Changes its name, scopes, endpoints, expiry or rate limit, from the next request on; what is left out stays, null " +
        "takes an expiry or a limit away. A revoked key is refused with 409.",
      request: { name: "shop 2" }
    })),
    HttpApiEndpoint.post("rotateKey", "/keys/:key/rotate", {
      params: key,
      payload: KeyRotation,
      success: NewKey,
      error: [InvalidRequest, PayloadTooLarge, KeyNotFound, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Give a key another secret",
      description: "Answers the new secret, this once. The old one is good for as long as the request says.",
      bodyOptional: true,
      request: { graceMs: 3_600_000 }
    })),
    HttpApiEndpoint.post("revokeKey", "/keys/:key/revoke", {
      params: key,
      success: AccessKey,
      error: [KeyNotFound, InvalidRequest, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Revoke a key",
      description: "At once and for good. Revoking it again changes nothing."
    }))
  )
  .middleware(ControlAuthorization)
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Keys", description: "Who may call what, and how often" }))
{}

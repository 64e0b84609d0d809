/**
 * The operations on secrets, a part of the control API (docs/operations/secrets.md). No operation returns a value.
 *
 * ```
 *   /api/v1/secrets               GET     names, versions and the endpoints that use them
 *   /api/v1/secrets/{secret}      PUT     create or replace the value
 *                                 DELETE  refused while an endpoint uses it, unless `force`
 *   /api/v1/secrets-key/rotate    POST    encrypt all secrets with another key; requires an admin key
 * ```
 */
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import * as Schema from "effect/Schema"
import { ControlAuthorization, KeysAuthorization } from "../Authorization.ts"
import { operationDocs } from "../OpenApiOperation.ts"
import { bodyErrors, Conflict, InvalidRequest, SecretNotFound, Unavailable } from "../Problem.ts"
import { Secret, SecretChange, SecretsKeyRotation, SecretValue } from "./Secret.ts"

const secret = { secret: Schema.String.annotate({ description: "The secret's name." }) }

/** The operations on secrets. */
export class SecretsApi extends HttpApiGroup.make("secrets")
  .add(
    HttpApiEndpoint.get("listSecrets", "/secrets", {
      success: Schema.Struct({ secrets: Schema.Array(Secret) }),
      error: Unavailable
    }).annotateMerge(operationDocs({
      summary: "List secrets",
      description: "Lists all secrets by name, with the endpoints that use them. Values are never returned."
    })),
    HttpApiEndpoint.put("setSecret", "/secrets/:secret", {
      params: secret,
      payload: SecretValue,
      success: SecretChange,
      error: [InvalidRequest, ...bodyErrors, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Set a secret",
      description:
        "Creates a secret or replaces its value, up to 64 KiB. The value is stored encrypted and never returned. Workers of the endpoints " +
        "that use the secret are replaced when the value changes; running jobs finish first.",
      request: { value: "a-secret-value" }
    })),
    HttpApiEndpoint.delete("deleteSecret", "/secrets/:secret", {
      params: secret,
      query: {
        force: Schema.optionalKey(
          Schema.Literals(["true", "false"]).annotate({ description: "`true`: also delete a secret that endpoints use." })
        )
      },
      success: HttpApiSchema.NoContent,
      error: [SecretNotFound, InvalidRequest, Conflict, Unavailable]
    }).annotateMerge(operationDocs({
      summary: "Delete a secret",
      description:
        "Returns 409 while an endpoint uses the secret, because its workers could no longer start; `force` deletes it anyway."
    }))
  )
  .middleware(ControlAuthorization)
  .add(
    HttpApiEndpoint.post("rotateSecretsKey", "/secrets-key/rotate", {
      success: SecretsKeyRotation,
      error: [Conflict, Unavailable]
    })
      .middleware(KeysAuthorization)
      .annotateMerge(operationDocs({
        summary: "Rotate the secrets key",
        description:
          "Encrypts all secrets with another key: a new one, if the platform generated its key, otherwise the first key of the operator's " +
          "file or variable. Workers are not replaced. Returns 409 when only the operator can provide another key. Requires an admin key."
      }))
  )
  .prefix("/api/v1")
  .annotateMerge(OpenApi.annotations({ title: "Secrets", description: "Manage secrets" }))
{}

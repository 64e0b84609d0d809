/**
 * The store of webhook signing secrets: one per endpoint.
 *
 * Unlike the secrets of access keys (docs/decisions/0009-keys-at-rest.md), these secrets are stored in plain text, because computing a
 * signature requires the secret itself (docs/decisions/0010-webhook-signatures.md).
 */
import { EndpointId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** The signing secret of an endpoint. */
export const WebhookSecret = Schema.Struct({
  endpoint: EndpointId,
  /** `whsec_` and the key in base64 (Standard Webhooks). */
  secret: Schema.RedactedFromValue(Schema.String),
  /** When the current secret was created. Milliseconds since 1970. */
  createdAt: Schema.Int,
  /** The secret before the last rotation. Until `until`, each request is signed with it as well. */
  previous: Schema.NullOr(Schema.Struct({ secret: Schema.RedactedFromValue(Schema.String), until: Schema.Int }))
})
export type WebhookSecret = typeof WebhookSecret.Type

export class WebhookSecretStore extends Context.Service<WebhookSecretStore, {
  /** Undefined before the first secret is created. */
  readonly get: (endpoint: EndpointId) => Effect.Effect<WebhookSecret | undefined, StoreError>
  /** Changes a secret in one atomic step and returns the result. `change` may run more than once. */
  readonly update: (
    endpoint: EndpointId,
    change: (known: WebhookSecret | undefined) => WebhookSecret
  ) => Effect.Effect<WebhookSecret, StoreError>
  /** The endpoints with a secret. */
  readonly endpoints: Effect.Effect<ReadonlyArray<EndpointId>, StoreError>
  /** Removes a secret. The next use creates a new one. */
  readonly remove: (endpoint: EndpointId) => Effect.Effect<void, StoreError>
}>()("@stint/store/WebhookSecretStore") {}

/** Secrets in memory. */
export const layerMemory: Layer.Layer<WebhookSecretStore> = Layer.sync(WebhookSecretStore, () => {
  const secrets = new Map<EndpointId, WebhookSecret>()
  return WebhookSecretStore.of({
    get: (endpoint) => Effect.sync(() => secrets.get(endpoint)),
    update: (endpoint, change) =>
      Effect.sync(() => {
        const changed = change(secrets.get(endpoint))
        secrets.set(endpoint, changed)
        return changed
      }),
    endpoints: Effect.sync(() => [...secrets.keys()]),
    remove: (endpoint) => Effect.sync(() => void secrets.delete(endpoint))
  })
})

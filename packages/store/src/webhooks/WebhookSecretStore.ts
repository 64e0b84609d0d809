/**
 * The seam for what webhooks are signed with: one secret per endpoint, kept beside the endpoints.
 *
 * Unlike a key's secret (docs/decisions/0009-keys-at-rest.md), this one is kept as it is: signing needs it each time
 * (docs/decisions/0010-webhook-signatures.md).
 */
import { EndpointId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** The secret of an endpoint's webhooks. */
export const WebhookSecret = Schema.Struct({
  endpoint: EndpointId,
  /** `whsec_` and the key in base64 (Standard Webhooks). */
  secret: Schema.RedactedFromValue(Schema.String),
  /** When the present secret was made. Milliseconds since 1970. */
  createdAt: Schema.Int,
  /** The one before the last rotation, which signs too until its time is over. */
  previous: Schema.NullOr(Schema.Struct({ secret: Schema.RedactedFromValue(Schema.String), until: Schema.Int }))
})
export type WebhookSecret = typeof WebhookSecret.Type

export class WebhookSecretStore extends Context.Service<WebhookSecretStore, {
  /** Undefined while none was made. */
  readonly get: (endpoint: EndpointId) => Effect.Effect<WebhookSecret | undefined, StoreError>
  /** Changes an endpoint's secret in one atomic step and answers what it is now. `change` may run more than once. */
  readonly update: (
    endpoint: EndpointId,
    change: (known: WebhookSecret | undefined) => WebhookSecret
  ) => Effect.Effect<WebhookSecret, StoreError>
  /** The endpoints that have a secret. */
  readonly endpoints: Effect.Effect<ReadonlyArray<EndpointId>, StoreError>
  /** Forgets an endpoint's secret: the next that is needed is a new one. */
  readonly remove: (endpoint: EndpointId) => Effect.Effect<void, StoreError>
}>()("@stint/store/WebhookSecretStore") {}

/** Secrets in memory, gone with the process. */
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

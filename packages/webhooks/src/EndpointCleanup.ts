/**
 * Removes the delivery log and the signing secret of removed endpoints.
 *
 * ```
 *   endpoint removed --pending deliveries are sent or fail--> none is pending --> log removed --> secret removed
 * ```
 *
 * An endpoint can be removed only after all its jobs have ended. Their pending webhooks are still sent, signed with the secret that the
 * receivers know. After that, the log can no longer be read, so it is removed. The secret is removed because even an unused secret can
 * leak.
 *
 * Runs every ten minutes. An endpoint that is created again with the same id before the next run keeps both.
 */
import { EndpointStore } from "@stint/store/EndpointStore"
import { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"

const INTERVAL = "10 minutes"

/** The maximum number of rows that one write removes. */
const LIMIT = 500

const make = Effect.gen(function*() {
  const endpoints = yield* EndpointStore
  const store = yield* WebhookStore
  const secrets = yield* WebhookSecretStore

  const sweep = Effect.gen(function*() {
    // An endpoint without a secret has never sent a webhook.
    for (const endpoint of yield* secrets.endpoints) {
      if ((yield* endpoints.get(endpoint)) !== undefined) continue
      const { deliveries } = yield* store.list({ endpoint, state: "pending", limit: 1 })
      if (deliveries.length > 0) continue
      while ((yield* store.removeEnded(endpoint, LIMIT)) === LIMIT) yield* Effect.yieldNow
      yield* secrets.remove(endpoint)
      yield* Effect.logInfo(`Endpoint ${endpoint} was removed: its webhook log and signing secret are now removed too.`)
    }
  })

  yield* sweep.pipe(
    Effect.catchCause((cause) =>
      Effect.logError("The webhook logs and secrets of removed endpoints cannot be removed; retrying in ten minutes.", cause)
    ),
    Effect.repeat(Schedule.spaced(INTERVAL)),
    Effect.forkScoped
  )
})

/** The duty as a layer. It runs while the layer's scope is open. */
export const layer: Layer.Layer<never, never, EndpointStore | WebhookStore | WebhookSecretStore> = Layer.effectDiscard(make)

/**
 * Forgets what belonged to endpoints that were removed: the delivery log and the signing secret.
 *
 * ```
 *   removed --pending deliveries are sent, or given up, as ever--> none is pending --> log removed --> secret removed
 * ```
 *
 * An endpoint is removed only when all its jobs have ended, and who waits for word of the last of them is still told, signed with the
 * secret that they know. After that nobody can reach the log, and a secret that nobody needs is one that can leak.
 *
 * Looks every ten minutes. An endpoint that is created anew under the same id before that keeps both.
 */
import { EndpointStore } from "@stint/store/EndpointStore"
import { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const INTERVAL = "10 minutes"

/** What one write removes. */
const LIMIT = 500

const make = Effect.gen(function*() {
  const endpoints = yield* EndpointStore
  const store = yield* WebhookStore
  const secrets = yield* WebhookSecretStore

  const sweep = Effect.gen(function*() {
    // Nothing was ever sent for an endpoint without a secret.
    for (const endpoint of yield* secrets.endpoints) {
      if ((yield* endpoints.get(endpoint)) !== undefined) continue
      const { deliveries } = yield* store.list({ endpoint, state: "pending", limit: 1 })
      if (deliveries.length > 0) continue
      while ((yield* store.removeEnded(endpoint, LIMIT)) === LIMIT) yield* Effect.yieldNow
      yield* secrets.remove(endpoint)
      yield* Effect.logInfo(`The webhook log and the signing secret of ${endpoint}, which was removed, are gone.`)
    }
  })

  yield* sweep.pipe(
    Effect.catchCause((cause) =>
      Effect.logError("What belonged to the webhooks of removed endpoints cannot be removed; trying again in ten minutes.", cause)
    ),
    Effect.andThen(Effect.sleep(INTERVAL)),
    Effect.forever,
    Effect.forkScoped
  )
})

/** The duty as a layer: it runs while the layer's scope is open. */
export const layer: Layer.Layer<never, never, EndpointStore | WebhookStore | WebhookSecretStore> = Layer.effectDiscard(make)

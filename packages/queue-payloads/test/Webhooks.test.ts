/**
 * The delivery of webhooks whose payloads are all in a payload store.
 */
import { PayloadWorld } from "@stint/queue-payloads/testing"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as WebhookAttemptStore from "@stint/store/WebhookAttemptStore"
import { WebhookBodies } from "@stint/store/WebhookBodies"
import * as WebhookSecretStore from "@stint/store/WebhookSecretStore"
import { deliverySuite } from "@stint/webhooks/testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const stores = PayloadWorld.withPayloads(
  Layer.mergeAll(MemoryJobStore.layerWithEndpoints, WebhookSecretStore.layerMemory, WebhookAttemptStore.layerMemory)
)

/** Bodies take no time here, so that leases are as long as the suite knows them. */
const quick = Layer.effect(WebhookBodies, Effect.map(WebhookBodies, (bodies) => ({ ...bodies, limitMs: 0 })))

deliverySuite("memory with payloads", quick.pipe(Layer.provideMerge(stores)), { jobs: 150, seeds: [21] })

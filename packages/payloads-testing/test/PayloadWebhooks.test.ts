/**
 * Tests the delivery of webhooks whose payloads are all in a payload store.
 */
import { TestPayloads } from "@stint/payloads-testing"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as WebhookAttemptStore from "@stint/store/WebhookAttemptStore"
import { WebhookBodies } from "@stint/store/WebhookBodies"
import * as WebhookSecretStore from "@stint/store/WebhookSecretStore"
import { webhookDeliverySuite } from "@stint/webhooks-testing"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

const stores = TestPayloads.withPayloads(
  Layer.mergeAll(MemoryJobStore.layerWithEndpoints, WebhookSecretStore.layerMemory, WebhookAttemptStore.layerMemory)
)

/** Resolves bodies without a separate time limit, so that leases have the length that the suite expects. */
const quick = Layer.effect(WebhookBodies, Effect.map(WebhookBodies, (bodies) => ({ ...bodies, limitMs: 0 })))

webhookDeliverySuite("memory with payloads", quick.pipe(Layer.provideMerge(stores)), { jobs: 150, seeds: [21] })

/** Everything in memory. */
import * as MemoryJobStore from "@stint/queue/MemoryJobStore"
import * as WebhookAttemptStore from "@stint/queue/WebhookAttemptStore"
import * as WebhookSecretStore from "@stint/queue/WebhookSecretStore"
import * as Layer from "effect/Layer"

export const memory = Layer.mergeAll(
  MemoryJobStore.layerWithEndpoints,
  WebhookSecretStore.layerMemory,
  WebhookAttemptStore.layerMemory
)

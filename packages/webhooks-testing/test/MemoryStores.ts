/** All stores in memory. */
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as WebhookAttemptStore from "@stint/store/WebhookAttemptStore"
import * as WebhookSecretStore from "@stint/store/WebhookSecretStore"
import * as Layer from "effect/Layer"

export const memory = Layer.mergeAll(
  MemoryJobStore.layerWithEndpoints,
  WebhookSecretStore.layerMemory,
  WebhookAttemptStore.layerMemory
)

/**
 * Moves large inputs and outputs of jobs into a payload store. Works with any job store.
 */
import type { JobStore } from "@stint/store/JobStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Layer from "effect/Layer"
import * as JobPayloads from "./JobPayloads.ts"
import * as PayloadJobStore from "./PayloadJobStore.ts"
import type { PayloadStore } from "./PayloadStore.ts"
import * as PayloadSweep from "./PayloadSweep.ts"
import * as PayloadWebhookBodies from "./PayloadWebhookBodies.ts"

/** Which payloads move to the store, and how orphans are removed. */
export type Options = JobPayloads.Options & { readonly sweep?: PayloadSweep.Options }

/** The job store with payloads, the webhook bodies, and the sweep of orphans. Requires the stores without payloads. */
export const layer = (options: Options): Layer.Layer<JobStore, never, JobStore | WebhookStore | PayloadStore> =>
  Layer.mergeAll(PayloadJobStore.layer, PayloadWebhookBodies.layer, PayloadSweep.layer(options.sweep)).pipe(
    Layer.provide(JobPayloads.layer(options))
  )

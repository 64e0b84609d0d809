/**
 * Large inputs and outputs of jobs in a payload store, over whatever stores there are for the rest.
 */
import type { JobStore } from "@stint/store/JobStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Layer from "effect/Layer"
import * as JobPayloads from "./JobPayloads.ts"
import * as PayloadJobStore from "./PayloadJobStore.ts"
import type { PayloadStore } from "./PayloadStore.ts"
import * as PayloadSweep from "./PayloadSweep.ts"
import * as PayloadWebhookBodies from "./PayloadWebhookBodies.ts"

/** What moves, and how it is swept. */
export type Options = JobPayloads.Options & { readonly sweep?: PayloadSweep.Options }

/** All of it: the job store with payloads, whole webhooks, and the sweep. Give it the stores without. */
export const layer = (options: Options): Layer.Layer<JobStore, never, JobStore | WebhookStore | PayloadStore> =>
  Layer.mergeAll(PayloadJobStore.layer, PayloadWebhookBodies.layer, PayloadSweep.layer(options.sweep)).pipe(
    Layer.provide(JobPayloads.layer(options))
  )

/**
 * The stores under the payloads, for the suites.
 */
import { MemoryPayloadStore } from "@stint/payloads"
import * as Payloads from "@stint/payloads/Payloads"
import type { PayloadStore } from "@stint/payloads/PayloadStore"
import type { JobStore } from "@stint/store/JobStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Layer from "effect/Layer"

/** The store of jobs and their webhook outbox. */
export type RowStores = Layer.Layer<JobStore | WebhookStore, unknown>

/** Settings with which every payload moves, and nothing is cached. */
export const OFFLOAD_ALL: Payloads.Options = { owner: "test", threshold: 0, cache: 0 }

/** Adds payloads in memory to the stores. */
export const withPayloads = <A, E>(
  stores: Layer.Layer<A | JobStore | WebhookStore, E>,
  options: Payloads.Options = OFFLOAD_ALL
) => withPayloadStore(stores, options, MemoryPayloadStore.layer)

/** Adds payloads in the given payload store to the stores. */
export const withPayloadStore = <A, E, B>(
  stores: Layer.Layer<A | JobStore | WebhookStore, E>,
  options: Payloads.Options,
  payloads: Layer.Layer<B | PayloadStore>
) => Payloads.layer(options).pipe(Layer.provideMerge(Layer.merge(stores, payloads)))

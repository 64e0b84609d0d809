/**
 * The stores that the suites put payloads over.
 */
import { MemoryPayloadStore } from "@stint/payloads"
import * as Payloads from "@stint/payloads/Payloads"
import type { PayloadStore } from "@stint/payloads/PayloadStore"
import type { JobStore } from "@stint/store/JobStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Layer from "effect/Layer"

/** Jobs and their outbox, as rows. */
export type RowStores = Layer.Layer<JobStore | WebhookStore, unknown>

/** Every text moves, and nothing is cached. */
export const OFFLOAD_ALL: Payloads.Options = { owner: "test", threshold: 0, cache: 0 }

/** Stores under payloads that are kept in memory. */
export const withPayloads = <A, E>(
  stores: Layer.Layer<A | JobStore | WebhookStore, E>,
  options: Payloads.Options = OFFLOAD_ALL
) => withPayloadStore(stores, options, MemoryPayloadStore.layer)

/** Stores under payloads that are kept where the test says. */
export const withPayloadStore = <A, E, B>(
  stores: Layer.Layer<A | JobStore | WebhookStore, E>,
  options: Payloads.Options,
  payloads: Layer.Layer<B | PayloadStore>
) => Payloads.layer(options).pipe(Layer.provideMerge(Layer.merge(stores, payloads)))

/**
 * The stores that the suites put payloads over.
 */
import { MemoryPayloadStore } from "@stint/payload-store"
import type { PayloadStore } from "@stint/payload-store/PayloadStore"
import type { JobStore } from "@stint/store/JobStore"
import type { WebhookStore } from "@stint/store/WebhookStore"
import * as Layer from "effect/Layer"
import * as Payloads from "../index.ts"

/** Jobs and their outbox, as rows. */
export type RowStores = Layer.Layer<JobStore | WebhookStore, unknown>

/** Every text moves, and nothing is cached. */
export const EVERYTHING: Payloads.Options = { owner: "test", threshold: 0, cache: 0 }

/** Stores under payloads that are kept in memory. */
export const withPayloads = <A, E>(stores: Layer.Layer<A | JobStore | WebhookStore, E>, options: Payloads.Options = EVERYTHING) =>
  over(stores, options, MemoryPayloadStore.layer)

/** Stores under payloads that are kept where the test says. */
export const over = <A, E, B>(
  stores: Layer.Layer<A | JobStore | WebhookStore, E>,
  options: Payloads.Options,
  payloads: Layer.Layer<B | PayloadStore>
) => Payloads.layer(options).pipe(Layer.provideMerge(Layer.merge(stores, payloads)))

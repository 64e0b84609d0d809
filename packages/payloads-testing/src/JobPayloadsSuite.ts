/**
 * The conformance suite for payloads with a job store. A backend's test file needs only a few lines. Needs `vitest`, `@effect/vitest` and
 * `fast-check`.
 *
 * ```ts
 * jobPayloadsSuite("sqlite", layerOfBothJobsAndWebhooks)
 * ```
 */
import { jobStoreSuite } from "@stint/store-testing"
import { offloadRules } from "./OffloadRules.ts"
import { payloadFaultRules } from "./PayloadFaultRules.ts"
import { payloadSweepRules } from "./PayloadSweepRules.ts"
import { type RowStores, withPayloads } from "./TestPayloads.ts"

/** The number of random runs. */
export interface SuiteOptions {
  /** The number of random command sequences that are checked against the model and the sweep. Default: 100. */
  readonly sequences?: number
  /** The number of random payloads that are stored and read. Default: 100. */
  readonly texts?: number
}

/**
 * Registers all rules for a job store, with every payload moved to the payload store, and the rules for payloads. The layer is built for each
 * test.
 */
export const jobPayloadsSuite = (name: string, stores: RowStores, { sequences = 100, texts = 100 }: SuiteOptions = {}): void => {
  jobStoreSuite(`${name} with payloads`, withPayloads(stores), { sequences })
  offloadRules(name, stores, texts)
  payloadFaultRules(name, stores)
  payloadSweepRules(name, stores, sequences)
}

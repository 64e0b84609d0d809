/**
 * The conformance suite of payloads over a job store: every backend's test file is a few lines. Needs `vitest`, `@effect/vitest` and `fast-check`.
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

/** How much of it to run. */
export interface SuiteOptions {
  /** Random sequences of commands, held against the model and against the sweep. Default: 100. */
  readonly sequences?: number
  /** Random texts that are put and read. Default: 100. */
  readonly texts?: number
}

/** Everything that a job store has to do where every text moves, and what payloads do beyond. The layer is built anew for every test. */
export const jobPayloadsSuite = (name: string, stores: RowStores, { sequences = 100, texts = 100 }: SuiteOptions = {}): void => {
  jobStoreSuite(`${name} with payloads`, withPayloads(stores), { sequences })
  offloadRules(name, stores, texts)
  payloadFaultRules(name, stores)
  payloadSweepRules(name, stores, sequences)
}

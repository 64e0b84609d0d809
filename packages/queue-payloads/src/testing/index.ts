/**
 * The conformance suite of payloads over a job store: every backend's test file is a few lines. Needs `vitest`, `@effect/vitest` and `fast-check`.
 *
 * ```ts
 * payloadSuite("sqlite", layerOfBothJobsAndWebhooks)
 * ```
 */
import { jobStoreSuite } from "@stint/store-testing"
import { faultRules } from "./FaultRules.ts"
import { movingRules } from "./MovingRules.ts"
import { type RowStores, withPayloads } from "./PayloadWorld.ts"
import { sweepRules } from "./SweepRules.ts"

export * as PayloadWorld from "./PayloadWorld.ts"

/** How much of it to run. */
export interface SuiteOptions {
  /** Random sequences of commands, held against the model and against the sweep. Default: 100. */
  readonly sequences?: number
  /** Random texts that are put and read. Default: 100. */
  readonly texts?: number
}

/** Everything that a job store has to do where every text moves, and what payloads do beyond. The layer is built anew for every test. */
export const payloadSuite = (name: string, stores: RowStores, { sequences = 100, texts = 100 }: SuiteOptions = {}): void => {
  jobStoreSuite(`${name} with payloads`, withPayloads(stores), { sequences })
  movingRules(name, stores, texts)
  faultRules(name, stores)
  sweepRules(name, stores, sequences)
}

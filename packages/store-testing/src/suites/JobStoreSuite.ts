/**
 * The conformance suite for a job store and the queue on top of it. The test file of a store consists of a few lines:
 *
 * ```ts
 * jobStoreSuite("sqlite", layerOfAnEmptyJobStore)
 * endpointStoreSuite("sqlite", layerOfAnEmptyEndpointStore)
 * outboxSuite("sqlite", layerOfJobsAndWebhooks)
 * endpointRemovalSuite("sqlite", layerOfJobsAndEndpoints)
 * ```
 *
 * The layer is built for every test and must provide a separate store each time. All timers run on the test clock, which starts at 0; a
 * store must not read a clock of its own. Titles name the invariants that they test (R1 to R15, docs/spec/figures.md#reliability).
 */
import { describe } from "@effect/vitest"
import type { JobStore } from "@stint/store/JobStore"
import type * as Layer from "effect/Layer"
import { callerRules } from "../rules/CallerRules.ts"
import { chaosRules } from "../rules/ChaosRules.ts"
import { clockRules } from "../rules/ClockRules.ts"
import { concurrencyRules } from "../rules/ConcurrencyRules.ts"
import { depthRules } from "../rules/DepthRules.ts"
import { idempotencyChaosRules } from "../rules/IdempotencyChaosRules.ts"
import { idempotencyRules } from "../rules/IdempotencyRules.ts"
import { isolationRules } from "../rules/IsolationRules.ts"
import { jobEventRules } from "../rules/JobEventRules.ts"
import { listRules } from "../rules/ListRules.ts"
import { modelRules } from "../rules/ModelRules.ts"
import { priorityRules } from "../rules/PriorityRules.ts"
import { queueLimitRules } from "../rules/QueueLimitRules.ts"
import { resultRules } from "../rules/ResultRules.ts"
import { retryRules } from "../rules/RetryRules.ts"
import { searchRules } from "../rules/SearchRules.ts"
import { simulationRules } from "../rules/SimulationRules.ts"
import { startTimeRules } from "../rules/StartTimeRules.ts"
import { storeFaultRules } from "../rules/StoreFaultRules.ts"
import { storeRule } from "../rules/StoreRule.ts"
import { streamRules } from "../rules/StreamRules.ts"
import { submitRules } from "../rules/SubmitRules.ts"
import { takeRules } from "../rules/TakeRules.ts"
import { timerRules } from "../rules/TimerRules.ts"
import { workerRules } from "../rules/WorkerRules.ts"
import { counting } from "../StoreActivity.ts"

/** The size of the suite. */
export interface SuiteOptions {
  /** The number of random command sequences that are compared with the model. Default: 400. */
  readonly sequences?: number
  /** The number of idempotency keys that are submitted concurrently. Default: 1,000. */
  readonly keys?: number
  /** The number of storms: callers, workers, timers and readers over a store that fails. Default: 4. */
  readonly storms?: number
  /**
   * Default: true. False for a store that sends each operation to a random node. The queue wakes a worker just before a job is committed, and on
   * another node that worker finds nothing yet; the job then goes to the next waiting worker.
   */
  readonly isOneNode?: boolean
}

/** Registers the rules for a job store and the queue on top of it. */
export const jobStoreSuite = <E>(name: string, tested: Layer.Layer<JobStore, E>, options: SuiteOptions = {}): void => {
  const { isOneNode = true, keys = 1_000, sequences = 400, storms = 4 } = options
  const store = counting(tested)
  const rule = storeRule(store)
  describe(`job queue: ${name}`, () => {
    describe("submit", () => submitRules(rule))
    describe("start time", () => startTimeRules(rule))
    describe("quotas", () => queueLimitRules(rule))
    describe("idempotency keys", () => idempotencyRules(rule))
    describe("take", () => takeRules(rule, isOneNode))
    describe("isolated jobs", () => isolationRules(rule))
    describe("concurrency keys", () => concurrencyRules(rule))
    describe("priority", () => priorityRules(rule))
    describe("deliver", () => resultRules(rule))
    describe("stream", () => streamRules(rule))
    describe("follow", () => jobEventRules(rule))
    describe("list", () => listRules(rule))
    describe("search", () => searchRules(rule))
    describe("retries", () => retryRules(rule))
    describe("cancel, retry, purge", () => callerRules(rule))
    describe("workers", () => workerRules(rule))
    describe("timers", () => timerRules(rule))
    describe("clock", () => clockRules(store))
    describe("depth", () => depthRules(rule))
    describe("simulation", () => simulationRules(rule))
    describe("faults", () => storeFaultRules(store))
    describe("chaos", () => {
      chaosRules(store, storms)
      idempotencyChaosRules(store, keys)
    })
    describe("model", () => modelRules(store, sequences))
  })
}

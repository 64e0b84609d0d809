/**
 * The conformance suite of the queue: every backend's test file is a few lines.
 *
 * ```ts
 * suite("sqlite", layerOfAStoreThatIsEmpty)
 * endpointSuite("sqlite", layerOfAnEndpointStoreThatIsEmpty)
 * outboxSuite("sqlite", layerOfBothJobsAndWebhooks)
 * removalSuite("sqlite", layerOfBothJobsAndEndpoints)
 * ```
 *
 * The layer is built anew for every test, and has to give a store of its own each time. All timers run on the test clock, which starts at
 * 0; a store has no clock of its own. Titles name the invariants of quality.md (R1 to R15) where they show one.
 */
import { describe } from "@effect/vitest"
import type * as Layer from "effect/Layer"
import type { JobStore } from "../JobStore.ts"
import { callerRules } from "./CallerRules.ts"
import { deliverRules } from "./DeliverRules.ts"
import { depthRules } from "./DepthRules.ts"
import { faultRules } from "./FaultRules.ts"
import { followRules } from "./FollowRules.ts"
import { keyRules } from "./KeyRules.ts"
import { keyStormRules } from "./KeyStormRules.ts"
import { listRules } from "./ListRules.ts"
import { modelRules } from "./ModelRules.ts"
import { priorityRules } from "./PriorityRules.ts"
import { retryRules } from "./RetryRules.ts"
import { simulationRules } from "./SimulationRules.ts"
import { stormRules } from "./StormRules.ts"
import { streamRules } from "./StreamRules.ts"
import { submitRules } from "./SubmitRules.ts"
import { ruleOver } from "./SuiteIt.ts"
import { takeRules } from "./TakeRules.ts"
import { timerRules } from "./TimerRules.ts"
import { workerRules } from "./WorkerRules.ts"

/** How much of it to run. */
export interface SuiteOptions {
  /** How many random sequences of commands are held against the model. Default: 400. */
  readonly sequences?: number
  /** How many idempotency keys are submitted at once and again. Default: 1,000. */
  readonly keys?: number
}

/** Everything that a job store and the queue over it have to do. */
export const suite = <E>(name: string, store: Layer.Layer<JobStore, E>, options: SuiteOptions = {}): void => {
  const { keys = 1_000, sequences = 400 } = options
  const rule = ruleOver(store)
  describe(`job queue: ${name}`, () => {
    describe("submit", () => submitRules(rule))
    describe("idempotency keys", () => keyRules(rule))
    describe("take", () => takeRules(rule))
    describe("priority", () => priorityRules(rule))
    describe("deliver", () => deliverRules(rule))
    describe("stream", () => streamRules(rule))
    describe("follow", () => followRules(rule))
    describe("list", () => listRules(rule))
    describe("retries", () => retryRules(rule))
    describe("cancel, retry, purge", () => callerRules(rule))
    describe("workers", () => workerRules(rule))
    describe("timers", () => timerRules(rule))
    describe("depth", () => depthRules(rule))
    describe("simulation", () => simulationRules(rule))
    describe("faults", () => faultRules(store))
    describe("chaos", () => {
      stormRules(store)
      keyStormRules(store, keys)
    })
    describe("model", () => modelRules(store, sequences))
  })
}

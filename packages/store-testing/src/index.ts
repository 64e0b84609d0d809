/**
 * Conformance suites, models and fault injection for stores, for the queue and for code that uses the queue. Requires `vitest`,
 * `@effect/vitest` and `fast-check`.
 */
export * from "./ChaosReport.ts"
export * from "./DivergentClock.ts"
export * as History from "./history/History.ts"
export * as JobCommands from "./models/JobCommands.ts"
export * as Scenario from "./Scenario.ts"
export * as SeededRandom from "./SeededRandom.ts"
export * as StoreFaults from "./StoreFaults.ts"
export * from "./suites/AuditStoreSuite.ts"
export * from "./suites/BatchStoreSuite.ts"
export * from "./suites/BuildStoreSuite.ts"
export * from "./suites/EndpointRemovalSuite.ts"
export * from "./suites/EndpointStoreSuite.ts"
export * from "./suites/JobLogStoreSuite.ts"
export * from "./suites/JobStoreSuite.ts"
export * from "./suites/KeyStoreSuite.ts"
export * from "./suites/OutboxSuite.ts"
export * from "./suites/ReleaseStoreSuite.ts"
export * from "./suites/RunStoreSuite.ts"
export * from "./suites/ScheduleStoreSuite.ts"
export * from "./suites/SecretStoreSuite.ts"

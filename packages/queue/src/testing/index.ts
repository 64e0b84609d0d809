/**
 * What tests of the queue, of its backends and of what stands on it share. Needs `vitest`, `@effect/vitest` and `fast-check`.
 */
export * from "./BatchSuite.ts"
export * as Chance from "./Chance.ts"
export * from "./EndpointSuite.ts"
export * as History from "./History.ts"
export * as JobCommands from "./JobCommands.ts"
export * from "./JobLogSuite.ts"
export * from "./KeySuite.ts"
export * from "./OutboxSuite.ts"
export * from "./RemovalSuite.ts"
export * as Scenario from "./Scenario.ts"
export * as StoreFaults from "./StoreFaults.ts"
export * from "./suite.ts"

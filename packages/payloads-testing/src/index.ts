/**
 * Conformance suites for payload stores, and for job stores that move payloads to one. Needs `vitest`, `@effect/vitest` and `fast-check`.
 */
export { jobPayloadsSuite } from "./JobPayloadsSuite.ts"
export * as PayloadFaults from "./PayloadFaults.ts"
export * from "./PayloadStoreSuite.ts"
export * as TestPayloads from "./TestPayloads.ts"

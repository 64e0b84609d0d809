/**
 * What tests of payload stores and of what stands on them share. Needs `vitest`, `@effect/vitest` and `fast-check`.
 */
export * as PayloadFaults from "./PayloadFaults.ts"
export * from "./suite.ts"

/**
 * What tests of the sender and of its stores share. Needs `vitest` and `@effect/vitest`.
 */
export * from "./DeliverySuite.ts"
export * as Receiver from "./Receiver.ts"

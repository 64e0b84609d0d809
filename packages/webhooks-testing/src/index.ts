/**
 * What tests of the sender and of its stores share. Needs `vitest` and `@effect/vitest`.
 */
export * as TestReceiver from "./TestReceiver.ts"
export * from "./WebhookDeliverySuite.ts"

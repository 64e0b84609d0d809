/**
 * What tests of the sender and of its stores share. Needs `vitest` and `@effect/vitest`.
 */
export * from "./WebhookDeliverySuite.ts"
export * as TestReceiver from "./TestReceiver.ts"

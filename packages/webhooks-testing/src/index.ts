/**
 * A delivery suite for the stores of the webhook sender, and a receiver for tests. Needs `vitest` and `@effect/vitest`.
 */
export * as TestReceiver from "./TestReceiver.ts"
export * from "./WebhookDeliverySuite.ts"

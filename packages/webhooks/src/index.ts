/**
 * Webhooks: the sender, the signing secrets, and verification for receivers.
 */
export * as EndpointCleanup from "./EndpointCleanup.ts"
export * as RetrySchedule from "./RetrySchedule.ts"
export * as Signature from "./Signature.ts"
export * as Verify from "./Verify.ts"
export * as WebhookRetention from "./WebhookRetention.ts"
export * as WebhookSecrets from "./WebhookSecrets.ts"
export * as WebhookSender from "./WebhookSender.ts"

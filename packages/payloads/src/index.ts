/**
 * Stores the payloads that are too large for Stint's database.
 */
export * as DirectoryPayloadStore from "./DirectoryPayloadStore.ts"
export * as JobPayloads from "./JobPayloads.ts"
export * as MemoryPayloadStore from "./MemoryPayloadStore.ts"
export * as PayloadError from "./PayloadError.ts"
export * as PayloadJobStore from "./PayloadJobStore.ts"
export * as PayloadReference from "./PayloadReference.ts"
export * as Payloads from "./Payloads.ts"
export * as PayloadStore from "./PayloadStore.ts"
export * as PayloadSweep from "./PayloadSweep.ts"
export * as PayloadWebhookBodies from "./PayloadWebhookBodies.ts"

/**
 * The durable job queue of Stint.
 */
export * as EndpointStore from "./EndpointStore.ts"
export * as Following from "./Following.ts"
export * as JobListing from "./JobListing.ts"
export * as JobMachine from "./JobMachine.ts"
export * as JobQueue from "./JobQueue.ts"
export * as JobRecord from "./JobRecord.ts"
export * as JobStore from "./JobStore.ts"
export * as JobText from "./JobText.ts"
export * as JobTimers from "./JobTimers.ts"
export * as KeyStore from "./KeyStore.ts"
export * as MemoryJobStore from "./MemoryJobStore.ts"
export * as QueueError from "./QueueError.ts"
export * as Tally from "./Tally.ts"
export * as WebhookStore from "./WebhookStore.ts"
export * as WorkerRegistry from "./WorkerRegistry.ts"

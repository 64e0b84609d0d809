/**
 * The worker runtime of Stint, and how handlers are written.
 */
export { CurrentJob } from "./CurrentJob.ts"
export type { ReceivedJob } from "./CurrentJob.ts"
export * as Handler from "./Handler.ts"
export * as JobMiddleware from "./JobMiddleware.ts"
export * as JobSource from "./JobSource.ts"
export * as Outcome from "./Outcome.ts"
export * as Shutdown from "./Shutdown.ts"
export * as Worker from "./Worker.ts"
export * as WorkerConfig from "./WorkerConfig.ts"

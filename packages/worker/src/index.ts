/**
 * The worker runtime of Stint, and how handlers are written.
 */
export { CurrentJob } from "./CurrentJob.ts"
export type { ReceivedJob } from "./CurrentJob.ts"
export * as DebugFields from "./DebugFields.ts"
export * as FitnessChecks from "./FitnessChecks.ts"
export * as Handler from "./Handler.ts"
export * as JobMiddleware from "./JobMiddleware.ts"
export * as JobSource from "./JobSource.ts"
export * as Outcome from "./Outcome.ts"
export * as RunningJob from "./RunningJob.ts"
export * as Shutdown from "./Shutdown.ts"
export * as Worker from "./Worker.ts"
export * as WorkerConfig from "./WorkerConfig.ts"

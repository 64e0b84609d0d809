/**
 * Stint's worker runtime: handlers, and the worker that runs them.
 */
export { CurrentJob } from "./handlers/CurrentJob.ts"
export type { ReceivedJob } from "./handlers/CurrentJob.ts"
export * as Handler from "./handlers/Handler.ts"
export * as Outcome from "./handlers/Outcome.ts"
export * as RunningJob from "./handlers/RunningJob.ts"
export * as FitnessChecks from "./plugins/FitnessChecks.ts"
export * as JobMiddleware from "./plugins/JobMiddleware.ts"
export * as EmbeddedWorker from "./runtime/EmbeddedWorker.ts"
export * as Setup from "./runtime/Setup.ts"
export * as Shutdown from "./runtime/Shutdown.ts"
export * as Worker from "./runtime/Worker.ts"
export * as WorkerConfig from "./runtime/WorkerConfig.ts"
export * as JobSource from "./transport/JobSource.ts"

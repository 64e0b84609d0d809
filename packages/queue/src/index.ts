/**
 * The job queue of Stint.
 */
export * as BatchErrors from "./batches/BatchErrors.ts"
export * as BatchQueue from "./batches/BatchQueue.ts"
export * as BatchTimers from "./batches/BatchTimers.ts"
export * as BulkJobs from "./bulk/BulkJobs.ts"
export * as BulkRunner from "./bulk/BulkRunner.ts"
export * as JobEventCursor from "./events/JobEventCursor.ts"
export * as PlatformEvents from "./events/PlatformEvents.ts"
export * as StoreEvents from "./events/StoreEvents.ts"
export * as JobErrors from "./jobs/JobErrors.ts"
export * as JobQueue from "./jobs/JobQueue.ts"
export * as JobTimers from "./jobs/JobTimers.ts"
export * as JobLogs from "./logs/JobLogs.ts"
export * as RunQueue from "./runs/RunQueue.ts"
export * as ScheduleRunner from "./schedules/ScheduleRunner.ts"
export * as Schedules from "./schedules/Schedules.ts"
export * as WorkerRegistry from "./workers/WorkerRegistry.ts"

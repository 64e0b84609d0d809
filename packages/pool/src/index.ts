/**
 * Where workers come from: the pool seam, and the autoscaler that decides how many there are.
 */
export * as Autoscaler from "./Autoscaler.ts"
export * as CrashBudget from "./CrashBudget.ts"
export * as LogTail from "./LogTail.ts"
export * as MemoryWorkerPool from "./MemoryWorkerPool.ts"
export * as PoolError from "./PoolError.ts"
export * as ScalingPolicy from "./ScalingPolicy.ts"
export * as SpokenLine from "./SpokenLine.ts"
export * as WorkerAddress from "./WorkerAddress.ts"
export * as WorkerExit from "./WorkerExit.ts"
export * as WorkerLog from "./WorkerLog.ts"
export * as WorkerPool from "./WorkerPool.ts"

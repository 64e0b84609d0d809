/**
 * The contract for worker pools, and an in-memory pool.
 */
export * as Agents from "./Agents.ts"
export * as CodeArtifacts from "./CodeArtifacts.ts"
export * as CodeTransfer from "./CodeTransfer.ts"
export * as LogTail from "./LogTail.ts"
export * as MachinePool from "./MachinePool.ts"
export * as MemoryWorkerPool from "./MemoryWorkerPool.ts"
export * as ParsedLogLine from "./ParsedLogLine.ts"
export * as PoolError from "./PoolError.ts"
export * as WorkerExit from "./WorkerExit.ts"
export * as WorkerLog from "./WorkerLog.ts"
export * as WorkerModel from "./WorkerModel.ts"
export * as WorkerPool from "./WorkerPool.ts"
export * as WorkerPools from "./WorkerPools.ts"

/**
 * Checks the machine before a worker takes its first job.
 */
export * as CudaInitCheck from "./CudaInitCheck.ts"
export * as CudaProbe from "./CudaProbe.ts"
export * as CudaVersionCheck from "./CudaVersionCheck.ts"
export * as DiskCheck from "./DiskCheck.ts"
export * as Fitness from "./Fitness.ts"
export { FitnessCheckFailed } from "./FitnessCheckFailed.ts"
export * as GpuBenchmarkCheck from "./GpuBenchmarkCheck.ts"
export * as GpuChecks from "./GpuChecks.ts"
export * as GpuHealthCheck from "./GpuHealthCheck.ts"
export * as GpuTestCheck from "./GpuTestCheck.ts"
export * as MemoryCheck from "./MemoryCheck.ts"
export * as NetworkCheck from "./NetworkCheck.ts"
export { SystemFiles } from "./SystemFiles.ts"

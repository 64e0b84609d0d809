/**
 * Test support for handlers and workers.
 */
export * as JobSourceMemory from "./JobSourceMemory.ts"
export * as LogMemory from "./LogMemory.ts"
export * as PlatformStub from "./PlatformStub.ts"
export * as WorkerProcess from "./WorkerProcess.ts"
export * as WorkerTest from "./WorkerTest.ts"

/**
 * Test support for pipelines.
 */
export * as PipelineTest from "./PipelineTest.ts"

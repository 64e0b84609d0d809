/**
 * Test helpers for programs with a volume cache. Not for production code.
 */
export * as VolumeCacheTest from "./VolumeCacheTest.ts"

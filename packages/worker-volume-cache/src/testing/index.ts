/**
 * What tests of programs with a volume cache need. Nothing of it belongs into a program.
 */
export * as VolumeCacheTest from "./VolumeCacheTest.ts"

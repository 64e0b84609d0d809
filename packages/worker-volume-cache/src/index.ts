/**
 * Keeps directories of a worker on a network volume between workers.
 */
export * as VolumeCache from "./VolumeCache.ts"

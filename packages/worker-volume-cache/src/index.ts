/**
 * Directories of a worker that live on a network volume in between workers.
 */
export * as VolumeCache from "./VolumeCache.ts"

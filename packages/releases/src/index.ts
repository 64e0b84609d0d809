/**
 * Releases: the immutable, numbered versions of endpoints.
 */
export * as Releases from "./Releases.ts"

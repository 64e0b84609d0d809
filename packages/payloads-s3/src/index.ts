/**
 * Stint's large payloads in an S3-compatible bucket.
 */
export * as S3PayloadStore from "./S3PayloadStore.ts"

/**
 * Uploads for Stint workers: files, bytes and streams to S3-compatible storage, and an address back that a caller can fetch.
 */
export type { ProgressBar } from "./ProgressBar.ts"
export { UploadError } from "./UploadError.ts"
export * as Uploads from "./Uploads.ts"

/**
 * Uploads for Stint workers: uploads files, bytes and streams to S3-compatible storage and returns a URL from which the caller can
 * download them.
 */
export type { ProgressBar } from "./ProgressBar.ts"
export { UploadError } from "./UploadError.ts"
export * as Uploads from "./Uploads.ts"

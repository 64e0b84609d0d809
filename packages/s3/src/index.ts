/**
 * Stint's S3 client, shared by the payload store and by worker uploads.
 */
export * as S3 from "./S3.ts"
export { S3Error } from "./S3Error.ts"

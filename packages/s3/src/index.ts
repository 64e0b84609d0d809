/**
 * S3 client of Stint, shared by the payload store and by the uploads of workers.
 */
export * as S3 from "./S3.ts"
export { S3Error } from "./S3Error.ts"

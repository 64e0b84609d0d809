/**
 * What tests of S3 users share. `S3Server` needs `@20minutes/s3rver`.
 */
export { recordModules } from "./LoadedModules.ts"
export * as S3Server from "./S3Server.ts"

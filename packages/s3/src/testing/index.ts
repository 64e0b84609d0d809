/**
 * Shared by the tests of packages that use S3. `S3Server` requires `@20minutes/s3rver`.
 */
export { recordModules } from "./LoadedModules.ts"
export * as S3Server from "./S3Server.ts"

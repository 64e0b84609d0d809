/**
 * The HTTP surfaces of Stint.
 */
export * as AccessKeys from "./AccessKeys.ts"
export * as Authorization from "./Authorization.ts"
export * as Cors from "./Cors.ts"
export * as Limits from "./Limits.ts"
export * as PublicAddress from "./PublicAddress.ts"
export * as Server from "./Server.ts"

/**
 * Stint's HTTP server.
 */
export * as AccessKeys from "./auth/AccessKeys.ts"
export * as AuthMiddleware from "./auth/AuthMiddleware.ts"
export * as Cors from "./http/Cors.ts"
export * as Limits from "./http/Limits.ts"
export * as PublicAddress from "./http/PublicAddress.ts"
export * as Pages from "./pages/Pages.ts"
export * as Server from "./Server.ts"

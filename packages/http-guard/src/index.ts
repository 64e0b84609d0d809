/**
 * Outbound HTTP that cannot be turned against the inside of a network: for downloads and webhooks, whose addresses others choose.
 */
export * as AddressGuard from "./AddressGuard.ts"
export * as GuardedHttp from "./GuardedHttp.ts"
export * as GuardedHttpError from "./GuardedHttpError.ts"
export * as Resolver from "./Resolver.ts"

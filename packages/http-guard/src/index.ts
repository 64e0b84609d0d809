/**
 * Outbound HTTP that cannot be used to reach the inside of a network: for downloads and webhooks, whose URLs strangers choose.
 */
export * as AddressGuard from "./AddressGuard.ts"
export * as GuardedHttp from "./GuardedHttp.ts"
export * as GuardedHttpError from "./GuardedHttpError.ts"
export * as Resolver from "./Resolver.ts"

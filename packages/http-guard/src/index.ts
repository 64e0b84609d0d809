/**
 * Outbound HTTP that cannot be used to reach hosts inside the network. For downloads and webhooks, whose URLs are untrusted.
 */
export * as AddressGuard from "./AddressGuard.ts"
export * as GuardedHttp from "./GuardedHttp.ts"
export * as GuardedHttpError from "./GuardedHttpError.ts"
export * as Resolver from "./Resolver.ts"

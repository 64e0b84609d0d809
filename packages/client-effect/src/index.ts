/**
 * Calls endpoints with Effect.
 */
export * as Client from "./Client.ts"
export * as PromiseCodec from "./PromiseCodec.ts"

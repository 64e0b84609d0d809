/**
 * Calls endpoints with Effect, and types the promise client's endpoints with Schemas.
 */
export type { JobEvent } from "@stint/client"
export * as Client from "./Client.ts"
export * as PromiseCodec from "./PromiseCodec.ts"
export type { PlainHandler, SchemaHandler } from "./SchemaHandler.ts"

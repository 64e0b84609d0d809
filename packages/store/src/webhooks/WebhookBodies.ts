/**
 * Resolves webhook bodies that refer to payloads in a payload store. Bodies are resolved when they are sent or shown.
 */
import type { JsonText } from "@stint/contract/Json"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { StoreError } from "../StoreError.ts"

/** Resolves bodies. */
export interface WebhookBodiesService {
  /** The body with its payloads. Fails with `PayloadUnavailable` or `PayloadMemoryFull` while they are unavailable. */
  readonly resolve: (body: JsonText) => Effect.Effect<JsonText, StoreError>
  /** Timeout of `resolve`, in milliseconds. */
  readonly limitMs: number
}

/** The resolver in use. Default: bodies contain no references. */
export const WebhookBodies: Context.Reference<WebhookBodiesService> = Context.Reference<WebhookBodiesService>(
  "@stint/store/WebhookBodies",
  { defaultValue: () => ({ resolve: Effect.succeed, limitMs: 0 }) }
)

/**
 * The bodies of webhooks where payloads are kept elsewhere: what the outbox holds may refer to them, and is made whole when it is sent or
 * shown.
 */
import type { JsonText } from "@stint/contract/Json"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { StoreError } from "../StoreError.ts"

/** How a body is made whole. */
export interface WebhookBodiesService {
  /** The body with all payloads in it. Fails with `PayloadUnavailable` or `PayloadMemoryFull` where it cannot be had now. */
  readonly resolve: (body: JsonText) => Effect.Effect<JsonText, StoreError>
  /** The longest that `whole` takes, in milliseconds. */
  readonly limitMs: number
}

/** What is in force. Without a layer bodies are whole as they are. */
export const WebhookBodies: Context.Reference<WebhookBodiesService> = Context.Reference<WebhookBodiesService>(
  "@stint/store/WebhookBodies",
  { defaultValue: () => ({ resolve: Effect.succeed, limitMs: 0 }) }
)

/**
 * One secret per endpoint: made when it is first needed, rotated with an overlap.
 *
 * ```
 *   first use ---> present --rotate--> previous, until its grace is over ---> forgotten by the next rotation
 *                                      present, a new one
 * ```
 *
 * While two are valid, deliveries carry two signatures, so a receiver can change its secret at any time of the grace.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { StoreError } from "@stint/store/StoreError"
import { type WebhookSecret, WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { newSecret } from "./Signature.ts"

/** The secret of an endpoint; makes one where there is none. */
export const current = Effect.fn("WebhookSecrets.current")(
  function*(endpoint: EndpointId): Effect.fn.Return<WebhookSecret, StoreError, WebhookSecretStore> {
    const store = yield* WebhookSecretStore
    const known = yield* store.get(endpoint)
    if (known !== undefined) return known
    const now = yield* Clock.currentTimeMillis
    const fresh: WebhookSecret = { endpoint, secret: Redacted.make(newSecret()), createdAt: now, previous: null }
    return yield* store.update(endpoint, (known) => known ?? fresh)
  }
)

/** Gives an endpoint another secret. The present one signs too for `graceMs`; 0 ends it at once, for one that leaked. */
export const rotate = Effect.fn("WebhookSecrets.rotate")(
  function*(endpoint: EndpointId, graceMs: number): Effect.fn.Return<WebhookSecret, StoreError, WebhookSecretStore> {
    const store = yield* WebhookSecretStore
    const now = yield* Clock.currentTimeMillis
    const secret = Redacted.make(newSecret())
    return yield* store.update(endpoint, (known) => ({
      endpoint,
      secret,
      createdAt: now,
      previous: known === undefined || graceMs === 0 ? null : { secret: known.secret, until: now + graceMs }
    }))
  }
)

/** The secrets that sign at a time, the present one first. */
export const validAt = ({ previous, secret }: WebhookSecret, now: number): ReadonlyArray<string> => [
  Redacted.value(secret),
  ...(previous !== null && previous.until > now ? [Redacted.value(previous.secret)] : [])
]

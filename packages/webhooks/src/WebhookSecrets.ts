/**
 * The signing secret of each endpoint. It is created on first use and rotated with an overlap.
 *
 * ```
 *   first use ---> current --rotate--> previous, valid until its grace period ends ---> removed by the next rotation
 *                                      current: the new secret
 * ```
 *
 * While two secrets are valid, deliveries carry two signatures, so a receiver can change its secret at any time in the grace period.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { StoreError } from "@stint/store/StoreError"
import { type WebhookSecret, WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { newSecret } from "./Signature.ts"

/** Returns the secret of an endpoint, and creates it if it does not exist. */
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

/** Replaces the secret of an endpoint. The old secret also signs for `graceMs`; pass 0 to revoke it at once if it has leaked. */
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

/** The secrets to sign with at this time, the current one first. */
export const validAt = ({ previous, secret }: WebhookSecret, now: number): ReadonlyArray<string> => [
  Redacted.value(secret),
  ...(previous !== null && previous.until > now ? [Redacted.value(previous.secret)] : [])
]

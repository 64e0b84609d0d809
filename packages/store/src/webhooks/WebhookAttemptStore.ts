/**
 * The store of webhook delivery attempts, for the delivery log.
 *
 * The outbox (`WebhookStore`) determines what is sent; this store only records it. When the platform dies before it stores an attempt, the
 * attempt is missing here and the delivery is sent again.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { StoreError } from "../StoreError.ts"

/** An attempt. */
export const WebhookAttempt = Schema.Struct({
  /** The id of the delivery. */
  delivery: Schema.String,
  /** When it started. Milliseconds since 1970. */
  at: Schema.Int,
  durationMs: Schema.Int,
  /** The receiver's HTTP status; null without a response. */
  status: Schema.NullOr(Schema.Int),
  /** Why it failed; null when it succeeded. */
  error: Schema.NullOr(Schema.String),
  /** Whether it ended the delivery: delivered or failed. */
  final: Schema.Boolean
})
export type WebhookAttempt = typeof WebhookAttempt.Type

/** How many attempts a delivery has had. */
export interface AttemptCounts {
  readonly all: number
  /** Attempts since the delivery last ended. A resend starts a new series of retries. */
  readonly sinceFinal: number
}

export class WebhookAttemptStore extends Context.Service<WebhookAttemptStore, {
  readonly add: (attempt: WebhookAttempt) => Effect.Effect<void, StoreError>
  /** The attempts of a delivery, oldest first. */
  readonly list: (delivery: string) => Effect.Effect<ReadonlyArray<WebhookAttempt>, StoreError>
  readonly attemptCounts: (delivery: string) => Effect.Effect<AttemptCounts, StoreError>
  /** Removes up to `limit` attempts that started before `time`. Returns their number. */
  readonly removeBefore: (time: number, limit: number) => Effect.Effect<number, StoreError>
}>()("@stint/store/WebhookAttemptStore") {}

/** Counts attempts, ordered oldest first. */
const countAttempts = (attempts: ReadonlyArray<WebhookAttempt>): AttemptCounts => ({
  all: attempts.length,
  sinceFinal: attempts.length - 1 - attempts.findLastIndex(({ final }) => final)
})

/** Attempts in memory. */
export const layerMemory: Layer.Layer<WebhookAttemptStore> = Layer.sync(WebhookAttemptStore, () => {
  const attempts = new Map<string, ReadonlyArray<WebhookAttempt>>()
  const of = (delivery: string): ReadonlyArray<WebhookAttempt> => attempts.get(delivery) ?? []
  return WebhookAttemptStore.of({
    add: (attempt) =>
      Effect.sync(() => {
        attempts.set(attempt.delivery, [...of(attempt.delivery), attempt])
      }),
    list: (delivery) => Effect.sync(() => of(delivery)),
    attemptCounts: (delivery) => Effect.sync(() => countAttempts(of(delivery))),
    removeBefore: (time, limit) =>
      Effect.sync(() => {
        let removed = 0
        for (const [delivery, all] of attempts) {
          if (removed >= limit) break
          const old = all.filter(({ at }) => at < time).slice(0, limit - removed)
          if (old.length === 0) continue
          removed += old.length
          const kept = all.slice(old.length)
          if (kept.length === 0) attempts.delete(delivery)
          else attempts.set(delivery, kept)
        }
        return removed
      })
  })
})

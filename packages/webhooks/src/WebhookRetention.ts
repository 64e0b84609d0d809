/**
 * Forgets webhook deliveries that have ended, and what was noted of their attempts.
 *
 * Looks every ten minutes. Seven days by default, so that a receiver's outage over a long weekend can still be looked into and sent again;
 * each delivery is kept with its body, so longer costs disk in proportion.
 */
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** How long to keep. */
export interface Options {
  /** Default: 7 days. */
  readonly keep?: Duration.Input
}

const INTERVAL = "10 minutes"

/** What one write removes. */
const LIMIT = 500

/** The duty as a layer: it runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, WebhookStore | WebhookAttemptStore> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const store = yield* WebhookStore
    const attempts = yield* WebhookAttemptStore
    const keep = Duration.toMillis(options.keep ?? "7 days")
    const sweep = Effect.gen(function*() {
      const before = (yield* Clock.currentTimeMillis) - keep
      while ((yield* store.removeBefore(before, LIMIT)) === LIMIT) yield* Effect.yieldNow
      // Of deliveries that are still tried for longer than this, the log loses its oldest lines.
      while ((yield* attempts.removeBefore(before, LIMIT)) === LIMIT) yield* Effect.yieldNow
    })
    yield* sweep.pipe(
      Effect.catchCause((cause) =>
        Effect.logError("Old webhook deliveries cannot be removed; trying again in ten minutes.", cause)
      ),
      Effect.andThen(Effect.sleep(INTERVAL)),
      Effect.forever,
      Effect.forkScoped
    )
  }))

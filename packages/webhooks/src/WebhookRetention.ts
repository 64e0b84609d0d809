/**
 * Removes ended webhook deliveries and the log of their attempts.
 *
 * Runs every ten minutes. The default of seven days lets an operator inspect and resend webhooks after a receiver was down over a long
 * weekend. Each delivery is stored with its body, so a longer retention needs proportionally more disk space.
 */
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schedule from "effect/Schedule"

/** The retention. */
export interface Options {
  /** Default: 7 days. */
  readonly keep?: Duration.Input
}

const INTERVAL = "10 minutes"

/** The maximum number of rows that one write removes. */
const LIMIT = 500

/** The duty as a layer. It runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, WebhookStore | WebhookAttemptStore> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const store = yield* WebhookStore
    const attempts = yield* WebhookAttemptStore
    const keep = Duration.toMillis(options.keep ?? "7 days")
    const sweep = Effect.gen(function*() {
      const before = (yield* Clock.currentTimeMillis) - keep
      while ((yield* store.removeBefore(before, LIMIT)) === LIMIT) yield* Effect.yieldNow
      // If a delivery is still being retried after this time, its oldest attempts are removed from the log.
      while ((yield* attempts.removeBefore(before, LIMIT)) === LIMIT) yield* Effect.yieldNow
    })
    yield* sweep.pipe(
      Effect.catchCause((cause) => Effect.logError("Old webhook deliveries cannot be removed; retrying in ten minutes.", cause)),
      Effect.repeat(Schedule.spaced(INTERVAL)),
      Effect.forkScoped
    )
  }))

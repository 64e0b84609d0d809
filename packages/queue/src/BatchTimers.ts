/**
 * The duty that goes on with batches where nobody asks: requests of a finalized batch that a crash kept from the queue, jobs of a cancelled
 * one that wait, drafts that were forgotten, batches whose retention is over.
 *
 * Every `interval` it looks for such work, which costs three looks at small indexes where there is none. What a caller asks for is done
 * at once and does not wait for it; a shorter interval makes a batch go on sooner after a restart, and no faster otherwise.
 *
 * When the store fails, it says so once, keeps trying, and says when it works again.
 */
import * as Cause from "effect/Cause"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { BatchQueue } from "./BatchQueue.ts"

/** How often to look. */
export interface Options {
  /** Default: 1 second. */
  readonly interval?: Duration.Input
}

/** The duty as a layer: it runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, BatchQueue> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const batches = yield* BatchQueue
    const interval = options.interval ?? "1 second"
    let failing = false
    const once = batches.tick.pipe(
      Effect.tap(() => {
        if (!failing) return Effect.void
        failing = false
        return Effect.logInfo("Batches go on again.")
      }),
      // Defects too: one broken batch must not stop all the others for good.
      Effect.catchCause((cause) => {
        const first = !failing
        failing = true
        const error = Cause.squash(cause)
        const message = error instanceof Error ? error.message : String(error)
        return Effect.as(
          first
            ? Effect.logError(`Batches cannot go on: ${message}. Nothing of them is lost; trying again every interval.`)
            : Effect.void,
          false
        )
      })
    )
    yield* once.pipe(
      Effect.flatMap((more) => more ? Effect.yieldNow : Effect.sleep(interval)),
      Effect.forever,
      Effect.forkScoped
    )
  }))

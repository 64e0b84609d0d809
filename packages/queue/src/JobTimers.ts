/**
 * The queue's clock: fires leases, ttl, execution timeouts and retention when they are due.
 *
 * Every `interval` it asks the store for what is due, which costs one look at an index when nothing is. A shorter interval frees the
 * job of a silent worker sooner by at most that much; 250 ms keeps it far below the shortest lease (1 s).
 *
 * When the store fails, it says so once, keeps trying, and says when it works again.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { JobQueue } from "./JobQueue.ts"

/** How often to look. */
export interface Options {
  /** Default: 250 ms. */
  readonly interval?: Duration.Input
}

/** The duty as a layer: it runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, JobQueue> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const queue = yield* JobQueue
    const interval = options.interval ?? Duration.millis(250)
    let failing = false
    const once = queue.tick.pipe(
      Effect.tap(() => {
        if (!failing) return Effect.void
        failing = false
        return Effect.logInfo("The job timers work again.")
      }),
      // Defects too: a sweep that meets one broken job must not stop all the others' timers for good.
      Effect.catchCause((cause) => {
        const first = !failing
        failing = true
        const error = Cause.squash(cause)
        const message = error instanceof Error ? error.message : String(error)
        return Effect.as(
          first ? Effect.logError(`The job timers cannot fire: ${message}. Trying again every interval.`) : Effect.void,
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

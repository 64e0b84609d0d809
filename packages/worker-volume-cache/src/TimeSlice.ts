/**
 * Long synchronous work, cut into slices, so that the event loop turns in between.
 */
import * as Effect from "effect/Effect"

/** How long the event loop may wait. Longer slices cost nothing but the latency of whatever else the worker does. Milliseconds. */
const SLICE = 8

/** Runs `step` on every item, and gives way when the slice is over. An interruption takes effect between two items. */
export const forEach = <A>(items: Iterable<A>, step: (item: A) => void): Effect.Effect<void> =>
  Effect.suspend(() => {
    const iterator = items[Symbol.iterator]()
    const turn: Effect.Effect<void> = Effect.suspend(() => {
      const end = performance.now() + SLICE
      do {
        const next = iterator.next()
        if (next.done === true) return Effect.void
        step(next.value)
      } while (performance.now() < end)
      return Effect.flatMap(Effect.yieldNow, () => turn)
    })
    return turn
  })

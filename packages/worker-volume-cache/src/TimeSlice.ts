/**
 * Runs long synchronous work in time slices, so that the event loop is not blocked.
 */
import * as Effect from "effect/Effect"

/** The length of a slice. Longer slices increase the latency of the worker's other work. Milliseconds. */
const SLICE = 8

/** Runs `step` on every item and yields at the end of each slice. An interruption takes effect between two slices. */
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

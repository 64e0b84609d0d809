/**
 * A test clock whose wall time can be set, like that of a system clock, without time passing.
 *
 * ```
 *   TestClock.adjust(1 second)    wall time + 1 s, monotonic time + 1 s, sleeps end
 *   setWallClock(1 hour)          wall time + 1 h
 * ```
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Moves the wall clock by this number of milliseconds. Negative: back. */
export type SetWallClock = (by: number) => Effect.Effect<void>

/** Runs an effect on a clock that is based on the current one. Build layers that read the clock within this effect. */
export const withDivergentClock = <A, E, R>(
  use: (setWallClock: SetWallClock) => Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.flatMap(Clock.Clock, (clock) => {
    let offset = 0
    const millis = () => clock.currentTimeMillisUnsafe() + offset
    const nanos = () => clock.currentTimeNanosUnsafe() + BigInt(offset) * 1_000_000n
    const setWallClock: SetWallClock = (by) =>
      Effect.sync(() => {
        offset += by
      })
    const wall: Pick<
      Clock.Clock,
      "currentTimeMillisUnsafe" | "currentTimeMillis" | "currentTimeNanosUnsafe" | "currentTimeNanos"
    > = {
      currentTimeMillisUnsafe: millis,
      currentTimeMillis: Effect.sync(millis),
      currentTimeNanosUnsafe: nanos,
      currentTimeNanos: Effect.sync(nanos)
    }
    // Inherits everything else, including the operations of TestClock.
    const divergent: Clock.Clock = Object.setPrototypeOf(wall, clock)
    return Effect.provideService(use(setWallClock), Clock.Clock, divergent)
  })

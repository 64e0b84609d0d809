/**
 * Reads a stream with a time limit on every pull.
 *
 * ```
 *   within(ms) --> elements in time --> ...
 *              \-> timeout: the pull continues, and the next call waits for the same pull
 * ```
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

/** The next elements; empty if no element arrives within `millis`. Fails with `Done` at the end of the stream. */
export type TimedPull<A, E> = (millis: number) => Effect.Effect<Option.Option<readonly [A, ...Array<A>]>, E | Cause.Done>

/** Reads the stream until the scope closes. Only one call may be waiting at a time. */
export const make = <A, E>(stream: Stream.Stream<A, E>): Effect.Effect<TimedPull<A, E>, never, Scope.Scope> =>
  Effect.gen(function*() {
    const scope = yield* Effect.scope
    const pull = yield* Stream.toPull(stream)
    const forked = Effect.forkIn(pull, scope)
    let pending: Effect.Success<typeof forked> | undefined
    return Effect.fnUntraced(function*(millis: number) {
      pending ??= yield* forked
      const exit = yield* Effect.timeoutOption(Fiber.await(pending), millis)
      if (Option.isNone(exit)) return Option.none()
      pending = undefined
      return Option.some(yield* exit.value)
    })
  })

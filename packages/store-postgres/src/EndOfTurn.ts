import * as Effect from "effect/Effect"

/** Ends when the timers and sockets of this turn of the event loop have been handled, so that requests which arrive together can share a statement. */
export const endOfTurn: Effect.Effect<void> = Effect.callback((resume) => void setImmediate(() => resume(Effect.void)))

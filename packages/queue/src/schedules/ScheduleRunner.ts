/**
 * Fires schedules when they are due.
 *
 * Every `interval`, this layer reads an index of due times, which costs a few microseconds when none is due, so a firing is at most one interval
 * late. It does not sleep until the next time, because every change to a schedule on any server, and every change to the wall clock, would change
 * that time.
 *
 * Times are wall-clock times. When the clock is set forward, or the platform was down, the schedules' catch-up policies apply. When it is
 * set back by less than three hours, no time that has fired fires again (ScheduleMachine.ts).
 *
 * When the store fails, this layer logs the failure once, retries every interval, and logs the recovery.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sweeper from "../Sweeper.ts"
import { Schedules } from "./Schedules.ts"

/** How often to look for due schedules. */
export interface Options {
  /** Default: 1 second. */
  readonly interval?: Duration.Input
}

/** Runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, Schedules> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { tick } = yield* Schedules
    yield* Sweeper.start({
      sweep: yield* Sweeper.shared(tick),
      interval: options.interval ?? "1 second",
      failureMessage: (message) => `A schedule cannot fire: ${message}. No firing is lost; trying again every interval.`,
      recoveryMessage: "The schedules fire again."
    })
  }))

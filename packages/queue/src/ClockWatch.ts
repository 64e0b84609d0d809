/**
 * Detects that the wall clock no longer shows how much time has passed, or that this process could not run.
 *
 * ```
 *   wall time moved differently from monotonic time       the clock was set, or the machine was suspended
 *   the check is late                                     this process or the whole machine was suspended, or the event loop was blocked
 * ```
 *
 * On Linux the monotonic clock stops while the machine is suspended, so a suspension looks like a clock that was set forward. On macOS and
 * Windows it continues, so the check is late. Both mean the same for jobs: no worker could send a heartbeat, and the time does not count
 * (docs/decisions/0019-clock-jumps.md).
 */
import type * as Clock from "effect/Clock"

/**
 * The largest difference between the clocks that is ignored, because reading both takes time on a busy machine. Far below the shortest lease (1 s).
 * Milliseconds.
 */
const TOLERANCE_MILLIS = 500

/** A check that is at least this late means that the process could not run. Shorter pauses count as time. Milliseconds. */
const SUSPENDED_MILLIS = 5_000

/** A jump of the wall clock, or a period in which the process did not run. */
export interface ClockJump {
  readonly _tag: "ClockSet" | "Suspended"
  /** The time that must not count, in milliseconds; negative when the clock was set back. */
  readonly by: number
}

export interface ClockWatch {
  /** Compares the clocks with the last accepted check. `plannedMillis`: when this check was due after the last one. */
  readonly check: (plannedMillis: number) => ClockJump | undefined
  /** Makes the clocks as of the last `check` the new reference. Call this once the jump is handled; until then, `check` reports the jump again. */
  readonly accept: () => void
}

/** The monotonic time in milliseconds, with fractions. It has no relation to the wall clock and is not affected when that is set. */
export const monotonicMillis = (clock: Clock.Clock): number => Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000

export const make = (clock: Clock.Clock): ClockWatch => {
  const read = () => ({ wall: clock.currentTimeMillisUnsafe(), monotonic: monotonicMillis(clock) })
  let latest = read()
  let monotonic = latest.monotonic
  let offset = latest.wall - latest.monotonic

  return {
    check: (plannedMillis) => {
      latest = read()
      const elapsed = latest.monotonic - monotonic
      const moved = latest.wall - latest.monotonic - offset
      if (elapsed - plannedMillis >= SUSPENDED_MILLIS) return { _tag: "Suspended", by: Math.round(elapsed + moved) }
      if (Math.abs(moved) >= TOLERANCE_MILLIS) return { _tag: "ClockSet", by: Math.round(moved) }
      monotonic = latest.monotonic
      return undefined
    },
    accept: () => {
      monotonic = latest.monotonic
      offset = latest.wall - latest.monotonic
    }
  }
}

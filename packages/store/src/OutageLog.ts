/**
 * Logs an outage once when it begins and once when it ends, for work that is retried until it succeeds: a log line for every attempt would
 * flood the log.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"

/** What to log. */
export interface Options {
  /** Logs the first failure; `problem` is the message of its error. */
  readonly onFailure: (problem: string) => Effect.Effect<void>
  /** Logs the first success after a failure. Default: nothing is logged. */
  readonly onRecovery?: Effect.Effect<void>
}

/** The state of one kind of work. */
export interface OutageLog {
  /** Reports a failure. */
  readonly failed: (problem: string) => Effect.Effect<void>
  /** Reports a success. */
  readonly succeeded: Effect.Effect<void>
  /**
   * Runs the effect, reports its outcome, and returns whether it succeeded. A defect counts as a failure, so that a loop over many rows continues
   * after an unreadable row. Interruption passes through.
   */
  readonly watch: <A, E, R>(self: Effect.Effect<A, E, R>) => Effect.Effect<boolean, never, R>
}

/** Starts without an outage. */
export const make = ({ onFailure, onRecovery = Effect.void }: Options): OutageLog => {
  let failing = false
  const failed = (problem: string) =>
    Effect.suspend(() => {
      if (failing) return Effect.void
      failing = true
      return onFailure(problem)
    })
  const succeeded = Effect.suspend(() => {
    if (!failing) return Effect.void
    failing = false
    return onRecovery
  })
  return {
    failed,
    succeeded,
    watch: (self) =>
      self.pipe(
        Effect.andThen(Effect.as(succeeded, true)),
        Effect.catchCause((cause) => {
          if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
          const error = Cause.squash(cause)
          return Effect.as(failed(error instanceof Error ? error.message : String(error)), false)
        })
      )
  }
}

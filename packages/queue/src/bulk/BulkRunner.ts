/**
 * Works on bulk operations.
 *
 * Every `interval`, this layer reads the operations that have not ended from a partial index; an idle server reads less often (BulkJobs.ts). When the
 * store fails, this layer logs the failure once, retries every interval, and logs the recovery.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sweeper from "../Sweeper.ts"
import { BulkJobs } from "./BulkJobs.ts"

/** How often to look for operations. */
export interface Options {
  /** Default: 1 second. */
  readonly interval?: Duration.Input
}

/** Runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, BulkJobs> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { tick } = yield* BulkJobs
    yield* Sweeper.start({
      sweep: yield* Sweeper.shared(tick),
      interval: options.interval ?? "1 second",
      failureMessage: (message) =>
        `A bulk operation cannot continue: ${message}. It will resume at the same job; retrying every interval.`,
      recoveryMessage: "The bulk operations continue."
    })
  }))

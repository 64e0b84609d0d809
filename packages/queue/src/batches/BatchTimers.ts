/**
 * Continues batches in the background: enqueues the rest of a finalized batch after a crash, cancels the waiting jobs of a cancelled one,
 * and removes abandoned drafts and batches whose retention has ended.
 *
 * Every `interval`, this layer reads three small indexes to find such work. Callers never wait for it: their own operations run at once. A
 * shorter interval only makes batches continue sooner after a restart.
 *
 * When the store fails, this layer logs the failure once, retries every interval, and logs the recovery.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sweeper from "../Sweeper.ts"
import { BatchQueue } from "./BatchQueue.ts"

/** How often to sweep. */
export interface Options {
  /** Default: 1 second. */
  readonly interval?: Duration.Input
}

/** Runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, BatchQueue> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { tick } = yield* BatchQueue
    yield* Sweeper.start({
      sweep: yield* Sweeper.shared(tick),
      interval: options.interval ?? "1 second",
      failureMessage: (message) => `Batches cannot continue: ${message}. No request is lost; trying again every interval.`,
      recoveryMessage: "Batches continue again."
    })
  }))

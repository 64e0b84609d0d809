/**
 * The duty that goes on with batches where nobody asks: requests of a finalized batch that a crash kept from the queue, jobs of a cancelled
 * one that wait, drafts that were forgotten, batches whose retention is over.
 *
 * Every `interval` it looks for such work, which costs three looks at small indexes where there is none. What a caller asks for is done
 * at once and does not wait for it; a shorter interval makes a batch go on sooner after a restart, and no faster otherwise.
 *
 * When the store fails, it says so once, keeps trying, and says when it works again.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sweeper from "../Sweeper.ts"
import { BatchQueue } from "./BatchQueue.ts"

/** How often to look. */
export interface Options {
  /** Default: 1 second. */
  readonly interval?: Duration.Input
}

/** The duty as a layer: it runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, BatchQueue> =>
  Layer.effectDiscard(Effect.flatMap(BatchQueue, ({ tick }) =>
    Sweeper.start({
      sweep: tick,
      interval: options.interval ?? "1 second",
      failureMessage: (message) => `Batches cannot go on: ${message}. Nothing of them is lost; trying again every interval.`,
      recoveryMessage: "Batches go on again."
    })))

/**
 * The queue's clock: fires leases, ttl, execution timeouts and retention when they are due.
 *
 * Every `interval` it asks the store for what is due, which costs one look at an index when nothing is. A shorter interval frees the
 * job of a silent worker sooner by at most that much; 250 ms keeps it far below the shortest lease (1 s).
 *
 * When the store fails, it says so once, keeps trying, and says when it works again.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sweeper from "../Sweeper.ts"
import { JobQueue } from "./JobQueue.ts"

/** How often to look. */
export interface Options {
  /** Default: 250 ms. */
  readonly interval?: Duration.Input
}

/** The duty as a layer: it runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, JobQueue> =>
  Layer.effectDiscard(Effect.flatMap(JobQueue, ({ tick }) =>
    Sweeper.start({
      sweep: tick,
      interval: options.interval ?? "250 millis",
      failureMessage: (message) => `The job timers cannot fire: ${message}. Trying again every interval.`,
      recoveryMessage: "The job timers work again."
    })))

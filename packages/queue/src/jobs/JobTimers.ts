/**
 * The queue's timers for leases, ttl, execution timeouts and retention.
 *
 * Every `interval`, this layer queries the store for due work, which costs one index read when nothing is due. With a shorter interval, a
 * silent worker's job is recovered sooner, by at most the difference. The default of 250 ms is far below the shortest lease (1 s).
 *
 * When the store fails, this layer logs the failure once, retries every interval, and logs the recovery.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Sweeper from "../Sweeper.ts"
import { JobQueue } from "./JobQueue.ts"

/** How often to sweep. */
export interface Options {
  /** Default: 250 ms. */
  readonly interval?: Duration.Input
}

/** Runs while the layer's scope is open. */
export const layer = (options: Options = {}): Layer.Layer<never, never, JobQueue> =>
  Layer.effectDiscard(Effect.flatMap(JobQueue, ({ tick }) =>
    Sweeper.start({
      sweep: tick,
      interval: options.interval ?? "250 millis",
      failureMessage: (message) => `The job timers cannot fire: ${message}. Trying again every interval.`,
      recoveryMessage: "The job timers work again."
    })))

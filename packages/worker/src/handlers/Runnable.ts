/**
 * What the runtime needs of a handler, whatever form it was written in.
 */
import type * as Effect from "effect/Effect"
import type { DeliveryError } from "../transport/ResultDelivery.ts"
import type { CurrentJob, ReceivedJob } from "./CurrentJob.ts"
import type { Outcome } from "./Outcome.ts"

/** Marks handlers, so that they can be told from functions. */
export const TypeId = "~@stint/worker/Handler"
export type TypeId = typeof TypeId

/** Sends one chunk to whoever reads the job's stream. Ends when the platform has it. */
export type Emit = (chunk: unknown) => Effect.Effect<void, DeliveryError>

/** A handler of any form. `R` is what it needs of the outside. */
export interface Runnable<out R = never> {
  readonly [TypeId]: TypeId
  /** For logs and spans. */
  readonly name: string
  /**
   * Runs it for one job. Interrupting is stopping the job.
   *
   * Without `emit` a handler that streams is not consumed, and its outcome is `Outcome.UNCONSUMED`. An exception, which is a
   * defect or a failure that the handler did not declare, stays a defect: whoever runs the handler reports it with the worker's
   * name on it (docs/spec/handler.md#exceptions).
   */
  readonly run: (job: ReceivedJob, emit: Emit | undefined) => Effect.Effect<Outcome, DeliveryError, R | CurrentJob>
}

/** Whether a value is a handler, and not a function that could become one. */
export const isRunnable = (value: unknown): value is Runnable<unknown> =>
  typeof value === "object" && value !== null && TypeId in value

/**
 * The interface between the runtime and a handler of any form.
 */
import type * as Effect from "effect/Effect"
import type { DeliveryError } from "../transport/ResultDelivery.ts"
import type { CurrentJob, ReceivedJob } from "./CurrentJob.ts"
import type { Outcome } from "./Outcome.ts"

/** Marks handlers, to distinguish them from functions. */
export const TypeId = "~@stint/worker/Handler"
export type TypeId = typeof TypeId

/** Sends one chunk to the job's stream. Completes when the platform has accepted it. */
export type Emit = (chunk: unknown) => Effect.Effect<void, DeliveryError>

/** A handler of any form. `R` are the services that it needs. */
export interface Runnable<out R = never> {
  readonly [TypeId]: TypeId
  /** The name in logs and spans. */
  readonly name: string
  /** Exists only in the type. A package whose API exposes no Effect types can use it to require a handler that needs no further services. */
  readonly "~services"?: () => R
  /** How many jobs the worker runs at once, unless its options say otherwise. Default: 1. */
  readonly concurrency?: number
  /** How the handler collects jobs, if it runs several in one call. `wait` is in milliseconds. Heartbeats tell it to the platform, for explanations. */
  readonly batch?: { readonly max: number; readonly wait: number }
  /**
   * What the handler takes and returns, as the JSON text that the platform stores (docs/spec/jobs-api.md#the-schema-of-a-handler). Undefined if it is larger
   * than the platform accepts. Absent: the handler has no Schemas.
   */
  readonly schemaText?: () => Promise<string | undefined>
  /**
   * Runs the handler for one job. Interruption stops the job.
   *
   * Without `emit`, a streaming handler is not consumed and its outcome is `Outcome.UNCONSUMED`. An exception (a defect or an undeclared
   * failure) remains a defect, and the caller reports it with the worker's identity (docs/spec/handler.md#exceptions).
   */
  readonly run: (job: ReceivedJob, emit: Emit | undefined) => Effect.Effect<Outcome, DeliveryError, R | CurrentJob>
}

/** Whether a value is a handler and not a plain function. */
export const isRunnable = (value: unknown): value is Runnable<unknown> =>
  typeof value === "object" && value !== null && TypeId in value

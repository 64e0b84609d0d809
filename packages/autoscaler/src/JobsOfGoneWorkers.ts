/**
 * What happens to the jobs of an endpoint's workers when the workers are gone.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import type { WorkerLifecycle } from "./WorkerLifecycle.ts"

export interface JobsOfGoneWorkers {
  /**
   * Returns the worker's jobs to the queue. Retries while the store is unavailable. If it never succeeds, the jobs return when their leases
   * expire.
   */
  readonly requeue: (worker: Pick<WorkerLifecycle, "blameless" | "id">, cause: string | undefined) => Effect.Effect<void>
  /** The worker may still run, so its jobs return to the queue when their leases expire. */
  readonly awaitExpiry: (worker: string, reason: string) => Effect.Effect<void>
  /** The worker may still run although an operator has stopped it, so its jobs return to the queue at once. */
  readonly requeueStopped: (worker: WorkerLifecycle["id"], reason: string) => Effect.Effect<void>
}

/** For the workers of one endpoint. */
export const make = Effect.fnUntraced(function*(endpoint: EndpointId): Effect.fn.Return<JobsOfGoneWorkers, never, JobQueue> {
  const queue = yield* JobQueue
  const requeue: JobsOfGoneWorkers["requeue"] = ({ blameless, id: worker }, cause) =>
    queue.workerGone(endpoint, worker, cause, blameless ? "blameless" : undefined).pipe(
      Effect.tapError((error) =>
        Effect.logWarning(
          `The jobs of worker ${worker} of endpoint ${endpoint} cannot be returned to the queue yet: ${error.message}.`
        )
      ),
      Effect.retry(Schedule.spaced("1 second")),
      Effect.ignore
    )
  return {
    requeue,
    requeueStopped: (worker, reason) =>
      // It is marked as lost first, so that it receives no job in between.
      queue.workerLost(endpoint, worker).pipe(
        Effect.andThen(
          Effect.logWarning(`Endpoint ${endpoint} lost the connection to a worker. ${reason} It may still run, without jobs.`)
        ),
        Effect.andThen(requeue({ id: worker, blameless: true }, reason))
      ),
    awaitExpiry: (worker, reason) =>
      Effect.andThen(
        queue.workerLost(endpoint, worker),
        Effect.logWarning(`Endpoint ${endpoint} lost a worker. ${reason} Its jobs return to the queue when their leases expire.`)
      )
  }
})

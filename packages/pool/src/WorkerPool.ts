/**
 * The seam for places where workers run: processes, containers, pods.
 *
 * A pool starts one worker when asked, says how it ended, and ends it when asked. It decides nothing: how many workers there are, and
 * when one leaves, is the autoscaler's.
 *
 * ```
 *   start --> running --exit, crash-------------> exit: Exited | Killed | Lost
 *               |  drain: asked to leave, may take its time
 *               |  kill, or the scope closes: ended now
 * ```
 *
 * A new pool implements this service and passes `suite` of `@stint/pool/testing`.
 */
import type { Endpoint, EndpointSource } from "@stint/contract/Endpoint"
import type { WorkerId } from "@stint/contract/Ids"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { PoolError } from "./PoolError.ts"
import type { WorkerExit } from "./WorkerExit.ts"

/** What a worker is started from. */
export interface StartRequest {
  readonly endpoint: Endpoint
  readonly worker: WorkerId
  /**
   * The variables that make it a worker (`workerEnvironment`). They win over `endpoint.env`: a worker with somebody else's id or key could
   * not be told from that somebody.
   */
  readonly variables: Readonly<Record<string, string>>
}

/** A worker that was started. */
export interface WorkerHandle {
  readonly id: WorkerId
  /** How it ended, once it has. May be awaited by many, and again. */
  readonly exit: Effect.Effect<WorkerExit>
  /**
   * Asks it to finish and leave (SIGTERM, or what stands for it). Returns at once; a worker may ignore it. Only the worker's own program
   * knows what becomes of a job that it still runs, so the autoscaler asks when it holds none.
   */
  readonly drain: Effect.Effect<void>
  /** Ends it now, and everything that it started. Returns when that was asked for; `exit` says when it is done. */
  readonly kill: Effect.Effect<void>
}

export class WorkerPool extends Context.Service<WorkerPool, {
  /** The source types that this pool can start. `external` is never among them. */
  readonly supports: ReadonlyArray<EndpointSource["type"]>
  /**
   * Does beforehand what makes the first start of an endpoint's worker faster: bundles its handler, pulls its image. Nothing depends on it: a
   * worker that is started meanwhile, or without it, only starts slower, and what is wrong with the endpoint is told by `start`.
   */
  readonly prepare: (endpoint: Endpoint) => Effect.Effect<void>
  /**
   * Starts a worker. Returns when it runs, which is before it has called the platform. When the scope closes, the worker is killed and
   * waited for.
   */
  readonly start: (request: StartRequest) => Effect.Effect<WorkerHandle, PoolError, Scope.Scope>
}>()("@stint/pool/WorkerPool") {}

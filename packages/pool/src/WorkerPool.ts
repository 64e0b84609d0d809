/**
 * The contract for worker pools. A pool runs workers, for example as processes, containers or pods.
 *
 * A pool starts one worker on request, reports its exit, and stops it on request. It makes no decisions: the autoscaler decides how many
 * workers run and when one exits.
 *
 * ```
 *   start, adopt --> running --exit, crash------> exit: Exited | Killed | Lost
 *               |  drain: requests the exit, may take time
 *               |  kill, or the scope closes: stopped immediately
 * ```
 *
 * A new pool implements this service and must pass the `suite` from `@stint/pool/testing`.
 */
import type { Endpoint, EndpointSource, ResolvedEndpoint } from "@stint/contract/Endpoint"
import type { EndpointId, WorkerId } from "@stint/contract/Ids"
import type { ImagePullProgress } from "@stint/contract/ImagePull"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { PoolError } from "./PoolError.ts"
import type { WorkerExit } from "./WorkerExit.ts"
import type { WorkerModel } from "./WorkerModel.ts"

/** Receives what a pool reports about the pull of a worker's image. */
export interface PullListener {
  /** The image is being pulled, for this worker or for another one. `progress` reads how far the pull is, until it has ended. */
  readonly began: (progress: () => ImagePullProgress) => void
  /** The pull has ended, or the start was cancelled. */
  readonly ended: () => void
}

/** The input of a worker start. */
export interface StartRequest {
  /** Its `env` contains the values of secrets. A pool passes them to the worker, and must not store or log them. */
  readonly endpoint: ResolvedEndpoint
  readonly worker: WorkerId
  /** The hash of the frozen code that a handler runs (see `CodeArtifacts`). Absent: the current code of its file. */
  readonly code?: string
  /**
   * The variables of the worker protocol (`workerEnvironment`). They override `endpoint.env`, so that an endpoint cannot give its workers
   * another worker's id or key.
   */
  readonly variables: Readonly<Record<string, string>>
  /**
   * Hides the endpoint's secrets. Pools apply it to each line of the worker's output, with `maskOf`. Undefined for an endpoint without
   * secrets.
   */
  readonly mask?: ((text: string) => string) | undefined
  /**
   * The model of an endpoint that has one. A pool makes the folder readable for the worker, and sets `modelVariables` to the path at which the worker
   * sees it. `endpoint.env` overrides them.
   */
  readonly model?: WorkerModel | undefined
  /** The GPUs that the worker may use, as in `CUDA_VISIBLE_DEVICES` (see `MachinePool`). Absent: none are assigned to it. */
  readonly gpuIds?: ReadonlyArray<string> | undefined
  /** Receives the pull of the worker's image. A pool calls it only when the image is not on the machine and the pool can follow the pull. */
  readonly pull?: PullListener | undefined
}

/** What a worker uses, with its children. Undefined: it cannot be determined. */
export interface WorkerResources {
  /** The CPU time so far, in milliseconds. */
  readonly cpuMillis: number | undefined
  /** The memory that it occupies now. */
  readonly memoryBytes: number | undefined
}

/** A started worker. */
export interface WorkerHandle {
  readonly id: WorkerId
  /** True if the worker runs in a standby process, which was started in advance. */
  readonly standby?: boolean
  /** Completes with the worker's exit once it has exited. May be awaited concurrently and repeatedly. */
  readonly exit: Effect.Effect<WorkerExit>
  /**
   * Requests that the worker exit (with SIGTERM or an equivalent). Returns immediately; a worker may ignore the request. The worker's
   * program decides what happens to a running job, so the autoscaler sends the request only when the worker holds no jobs.
   */
  readonly drain: Effect.Effect<void>
  /**
   * Kills the worker and every process that it started. Returns once the kill has been requested; `exit` completes when the worker has
   * exited.
   */
  readonly kill: Effect.Effect<void>
  /**
   * The exit has been processed: the worker's jobs are back in the queue. Until then, a pool keeps its record of the worker, so that after a kill of the
   * platform the next one finds an orphan that is not running, and processes its exit. Absent for pools without records.
   */
  readonly forget?: Effect.Effect<void>
  /** What it uses; undefined when nothing can be determined. Absent for pools that cannot measure it. Called every few seconds. */
  readonly resources?: Effect.Effect<WorkerResources | undefined>
}

/** A worker's reservation on its machine: its limits. */
export interface Reservation {
  readonly gpus: number | "all"
  readonly cpus: number
  readonly memoryBytes: number
}

/** The reservation of a worker with this source; undefined if the source sets no limits. */
export const reservationOf = (source: EndpointSource): Reservation | undefined => {
  if (source.type === "external") return undefined
  const { cpus, gpus, memoryBytes } = source
  return cpus === undefined && gpus === undefined && memoryBytes === undefined
    ? undefined
    : { gpus: gpus ?? 0, cpus: cpus ?? 0, memoryBytes: memoryBytes ?? 0 }
}

/** Why a machine has no room for a worker. */
export interface Obstacle {
  /** The end of a sentence that begins with the machine's name: "has 0 of 1 GPUs free". */
  readonly problem: string
  /** Workers of the same endpoint, without which there would be room. Empty if there would be none even without them. */
  readonly blockedBy: ReadonlyArray<string>
}

/** A worker that an earlier platform started and that outlived it, or whose exit no platform has processed yet. */
export interface OrphanedWorker {
  readonly id: WorkerId
  readonly endpoint: EndpointId
  /** Whether it was running when the pool started. */
  readonly isRunning: boolean
  /** Its reservation on its machine, if the pool knows it. */
  readonly reserved?: Reservation | undefined
  /** The GPUs that were assigned to it, if the pool knows them. */
  readonly gpuIds?: ReadonlyArray<string> | undefined
  /**
   * Adopts the worker. Its output continues, and `exit` completes with `Lost` when it has ended, at once if it is not running. Closing the scope
   * kills it. `variables`: those that the worker would receive now, which contain the key to redact. `mask` is as in {@link StartRequest}. Call it
   * once.
   */
  readonly adopt: (
    variables: StartRequest["variables"],
    mask?: StartRequest["mask"]
  ) => Effect.Effect<WorkerHandle, never, Scope.Scope>
}

/** A change that a pool reports without being asked. */
export type PoolChange =
  /** The pool found an orphan after its start, for example because the orphan's machine connected later. The caller adopts it. */
  | { readonly _tag: "Orphan"; readonly orphan: OrphanedWorker }
  /** A start failed for lack of capacity, and another one may now succeed. */
  | { readonly _tag: "Room" }

export class WorkerPool extends Context.Service<WorkerPool, {
  /** The source types that this pool supports; never `external`. */
  readonly supports: ReadonlyArray<EndpointSource["type"]>
  /**
   * Speeds up the first start of an endpoint's worker: bundles its handler or pulls its image. Optional: without it, workers start more
   * slowly. It does not report errors, because `start` does.
   */
  readonly prepare: (endpoint: Endpoint) => Effect.Effect<void>
  /**
   * Starts a worker. Returns once the worker is running, without waiting for it to call the platform. Closing the scope kills the worker
   * and waits for its exit.
   */
  readonly start: (request: StartRequest) => Effect.Effect<WorkerHandle, PoolError, Scope.Scope>
  /** Why the pool's machine has no room for a worker of this endpoint now; undefined if it has room. Absent for pools without a limit. */
  readonly obstacleOf?: (endpoint: Pick<Endpoint, "id" | "source">) => Obstacle | undefined
  /** The orphans that the pool found when it started. The caller adopts each of them; empty for pools without orphans. */
  readonly orphans: ReadonlyArray<OrphanedWorker>
  /** For one reader. Absent for pools that report no changes. */
  readonly changes?: Stream.Stream<PoolChange>
}>()("@stint/pool/WorkerPool") {}

/**
 * Limits the workers of one machine to what it has: GPUs, CPUs and memory. Wraps the pools of that machine.
 *
 * A worker reserves the limits of its endpoint from its start until its exit. A worker without limits reserves nothing. GPUs are assigned one by one, so
 * that no two workers with `gpus` get the same one: an engine that is asked for a number of GPUs always returns the first ones
 * (docs/decisions/0085-capacity-of-a-machine.md).
 *
 * The workers of an earlier platform keep their reservations until they exit.
 */
import type { EndpointSource } from "@stint/contract/Endpoint"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import * as Reservations from "./MachineReservations.ts"
import { NoCapacity, PoolError } from "./PoolError.ts"
import { type OrphanedWorker, type PoolChange, reservationOf, WorkerPool } from "./WorkerPool.ts"

/** Options of the pool. */
export interface Options {
  readonly capacity: Reservations.MachineCapacity
  /** The sources whose workers run on this machine. Default: all that the wrapped pool supports. */
  readonly sources?: ReadonlyArray<EndpointSource["type"]>
}

const make = Effect.fnUntraced(function*({ capacity, sources }: Options) {
  const pool = yield* WorkerPool
  const clock = yield* Clock.Clock
  const reservations = Reservations.make(capacity, () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n))
  const changes = yield* Queue.unbounded<PoolChange>()

  const needsOf = (source: EndpointSource) =>
    sources === undefined || sources.includes(source.type) ? reservationOf(source) : undefined

  const release = (worker: string) =>
    Effect.sync(() => {
      if (reservations.release(worker)) Queue.offerUnsafe(changes, { _tag: "Room" })
    })

  const start: WorkerPool["Service"]["start"] = Effect.fnUntraced(function*(request) {
    const { endpoint: { id: endpoint, source }, worker } = request
    const needs = needsOf(source)
    if (needs === undefined) return yield* pool.start(request)
    const obstacle = reservations.obstacleOf(endpoint, needs)
    if (obstacle !== undefined) {
      const { blockedBy, problem } = obstacle
      return yield* new PoolError({ reason: new NoCapacity({ problem: `this machine ${problem}`, blockedBy }) })
    }
    const gpuIds = yield* Effect.acquireRelease(
      Effect.sync(() => reservations.reserve({ worker, endpoint, needs })),
      () => release(worker)
    )
    return yield* pool.start(gpuIds.length === 0 ? request : { ...request, gpuIds })
  })

  const keep = (orphan: OrphanedWorker): OrphanedWorker => {
    const { endpoint, gpuIds, id, isRunning, reserved } = orphan
    if (reserved === undefined || !isRunning) return orphan
    reservations.reserve({ worker: id, endpoint, needs: reserved }, gpuIds)
    return {
      ...orphan,
      adopt: (variables, mask) => Effect.andThen(Effect.addFinalizer(() => release(id)), orphan.adopt(variables, mask))
    }
  }

  return WorkerPool.of({
    ...pool,
    start,
    obstacleOf: ({ id, source }) => {
      const needs = needsOf(source)
      return needs === undefined ? undefined : reservations.obstacleOf(id, needs)
    },
    orphans: pool.orphans.map(keep),
    changes: Stream.merge(Stream.fromQueue(changes), pool.changes ?? Stream.empty)
  })
})

/** Wraps the provided pool. */
export const layer = (options: Options): Layer.Layer<WorkerPool, never, WorkerPool> => Layer.effect(WorkerPool, make(options))

/**
 * Combines pools into one: each starts the workers of its own source types.
 */
import type { EndpointSource } from "@stint/contract/Endpoint"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import { PoolError, Unsupported } from "./PoolError.ts"
import { WorkerPool } from "./WorkerPool.ts"

type Pool = WorkerPool["Service"]

/** Combines several pools into one. When two support the same source type, the first one starts its workers. */
const combine = (pools: ReadonlyArray<Pool>): Pool => {
  const byType = new Map<string, Pool>()
  for (const pool of pools) {
    for (const type of pool.supports) if (!byType.has(type)) byType.set(type, pool)
  }
  const supports = pools.flatMap((pool) => pool.supports.filter((type) => byType.get(type) === pool))
  return WorkerPool.of({
    supports,
    prepare: (endpoint) => byType.get(endpoint.source.type)?.prepare(endpoint) ?? Effect.void,
    start: (request) => {
      const { type } = request.endpoint.source
      return byType.get(type)?.start(request) ?? Effect.fail(new PoolError({ reason: new Unsupported({ source: type }) }))
    },
    orphans: pools.flatMap(({ orphans }) => orphans),
    changes: Stream.mergeAll(pools.flatMap(({ changes }) => changes ?? []), { concurrency: "unbounded" })
  })
}

/** Combines the pools of several layers into one. */
export const layer = <E, R>(layers: ReadonlyArray<Layer.Layer<WorkerPool, E, R>>): Layer.Layer<WorkerPool, E, R> =>
  Layer.effect(
    WorkerPool,
    Effect.map(Effect.forEach(layers, (one) => Layer.build(one)), (built) =>
      combine(built.map((one) => Context.get(one, WorkerPool))))
  )

/**
 * A pool that is loaded and built when the first worker of its source types is prepared or started. It lives until the layer's scope closes.
 *
 * A lazy pool must not have orphans; a pool that may have some must be built at start-up. If a pool cannot be built, the next worker tries again.
 */
export const lazy = (
  supports: ReadonlyArray<EndpointSource["type"]>,
  load: Effect.Effect<Layer.Layer<WorkerPool, PoolError>, PoolError>
): Layer.Layer<WorkerPool> =>
  Layer.effect(
    WorkerPool,
    Effect.gen(function*() {
      const scope = yield* Scope.Scope
      const context = yield* Effect.context()
      const building = Semaphore.makeUnsafe(1)
      let pool: Pool | undefined
      const build = Effect.gen(function*() {
        if (pool !== undefined) return pool
        const own = yield* Scope.fork(scope)
        const built = yield* Effect.flatMap(load, (one) => Layer.buildWithScope(one, own)).pipe(
          Effect.provideContext(context),
          Effect.onError(() => Scope.close(own, Exit.void))
        )
        pool = Context.get(built, WorkerPool)
        return pool
      }).pipe(building.withPermits(1))
      const built = Effect.suspend(() => pool === undefined ? build : Effect.succeed(pool))
      return WorkerPool.of({
        supports,
        prepare: (endpoint) => Effect.ignore(Effect.flatMap(built, (one) => one.prepare(endpoint))),
        start: (request) => Effect.flatMap(built, (one) => one.start(request)),
        orphans: []
      })
    })
  )

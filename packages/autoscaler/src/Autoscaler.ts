/**
 * Runs the workers of every endpoint: starts workers when jobs are waiting, replaces failed workers, and drains idle workers.
 *
 * ```
 *   EndpointStore.list --reconcile--> one loop per endpoint (EndpointWorkers) --start, drain, kill--> WorkerPool
 *                                        ^ JobQueue.awaitDemand, depth      <------- exit ---------
 *                                        +-> WorkerRegistry: starting, failing, gone;  JobQueue.workerGone
 * ```
 *
 * Options and their trade-offs:
 *
 * | option | default | |
 * |---|---|---|
 * | `reconcile` | 250 ms | how soon a new, changed or deleted endpoint is noticed; each check reads a list that stores cache in memory |
 * | `interval` | 1 s | time between checks without an event (five times longer while no job is waiting); a new job triggers a check |
 * | `settle` | 50 ms | minimum time between checks of a busy endpoint; a longer time reduces the cost under load and delays scaling |
 * | `initLimit` | 7 min | a worker that has not called the platform by then is killed and counts as a failed start (docs/spec/endpoints.md#worker-supervision) |
 * | `stuckAfter` | 10 s | an idle worker that does not take a waiting job within this time is replaced (see `WorkerHealth`) |
 * | `silentAfter` | 2 min | an idle worker that does not call for this long is replaced; longer than the 90 s of one long poll |
 * | `stopGrace` | 10 s | time for a worker without a job to exit before it is killed |
 * | `shutdownGrace` | 30 s | time for running jobs to finish when the layer closes, before their workers are killed |
 *
 * When the layer closes, it starts no more workers, drains all workers, waits up to `shutdownGrace` for running jobs, and then kills the
 * remaining workers. The jobs of the killed workers return to the queue; a job that has no attempts left fails, with the kill as the cause.
 * Workers deliver results over HTTP until they exit, so this layer must close before the server: `Layer.provide` it with the server's
 * layer, or build it later.
 */
import { type Endpoint, secretNamesOf } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import { Models } from "@stint/models/Models"
import { type PoolChange, WorkerPool } from "@stint/pool/WorkerPool"
import { JobQueue } from "@stint/queue/JobQueue"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { Secrets } from "@stint/secrets/Secrets"
import * as AlignedSleep from "@stint/store/AlignedSleep"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as OutageLog from "@stint/store/OutageLog"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FiberMap from "effect/FiberMap"
import * as FiberSet from "effect/FiberSet"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as EndpointWorkers from "./EndpointWorkers.ts"
import type { WorkerConnection } from "./WorkerConnection.ts"
import { targetOf } from "./WorkerTemplate.ts"

/** See the comment at the top of this file. */
export interface Options {
  /** Default: 250 ms. */
  readonly reconcile?: Duration.Input
  /** Default: 1 s. */
  readonly interval?: Duration.Input
  /** Default: 50 ms. */
  readonly throttle?: Duration.Input
  /** Default: 7 min. */
  readonly initLimit?: Duration.Input
  /** Default: 10 s. */
  readonly stuckAfter?: Duration.Input
  /** Default: 2 min. */
  readonly silentAfter?: Duration.Input
  /** Default: 10 s. */
  readonly stopGrace?: Duration.Input
  /** Default: 30 s. */
  readonly shutdownGrace?: Duration.Input
}

/** An endpoint with a running loop. */
interface ManagedEndpoint {
  readonly workers: EndpointWorkers.EndpointWorkers
  /** The latest settings; undefined once the endpoint has been deleted, or another node starts its workers. */
  endpoint: Endpoint | undefined
}

/** How long the closing layer waits for killed workers to exit. */
const KILL_GRACE = "5 seconds"

/**
 * Marks the workers of an earlier platform as draining. Build it before the server, because a worker that delivers its result to the new
 * server would otherwise take another job before the autoscaler has taken it over.
 */
export const layerOrphans: Layer.Layer<never, never, WorkerPool | JobQueue> = Layer.effectDiscard(Effect.gen(function*() {
  const { orphans } = yield* WorkerPool
  const queue = yield* JobQueue
  yield* Effect.forEach(orphans, ({ endpoint, id }) => queue.adoptWorker(endpoint, id), { discard: true })
}))

/** The autoscaler, which runs while the layer's scope is open. It takes over the workers of an earlier platform. */
export const layer = (
  options: Options = {}
): Layer.Layer<never, never, EndpointStore | ReleaseStore | JobQueue | WorkerRegistry | WorkerPool | WorkerConnection> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const store = yield* EndpointStore
    const queue = yield* JobQueue
    const registry = yield* WorkerRegistry
    const releases = yield* ReleaseStore
    const pool = yield* WorkerPool
    const secrets = yield* Secrets
    const models = yield* Models
    const reconcile = options.reconcile ?? "250 millis"
    const shutdownGrace = Duration.fromInputUnsafe(options.shutdownGrace ?? "30 seconds")
    const settings: EndpointWorkers.Settings = {
      intervalMs: Duration.toMillis(options.interval ?? "1 second"),
      throttleMs: Duration.toMillis(options.throttle ?? "50 millis"),
      initLimitMs: Duration.toMillis(options.initLimit ?? "7 minutes"),
      stuckAfterMs: Duration.toMillis(options.stuckAfter ?? "10 seconds"),
      silentAfterMs: Duration.toMillis(options.silentAfter ?? "2 minutes"),
      stopGraceMs: Duration.toMillis(options.stopGrace ?? "10 seconds")
    }

    // Scopes close in reverse order: the shutdown below, then reconciliation, then the loops, then the workers.
    const fibers = yield* FiberSet.make<void, never>()
    const loops = yield* FiberMap.make<EndpointId, void, never>()
    const preparing = yield* FiberMap.make<EndpointId, void, never>()
    const managed = new Map<EndpointId, ManagedEndpoint>()
    const unsupported = new Set<EndpointId>()
    const orphans = new Set(pool.orphans)

    const adopt = Effect.fnUntraced(function*(endpoint: EndpointId, workers: EndpointWorkers.EndpointWorkers) {
      for (const orphan of orphans) {
        if (orphan.endpoint !== endpoint) continue
        yield* workers.adopt(orphan)
        orphans.delete(orphan)
      }
    })

    let secretsRevision = secrets.revision()
    /** The list that was reconciled last. Undefined if it must be reconciled again, because a loop has ended and its endpoint may exist again. */
    let reconciled: ReadonlyArray<Endpoint> | undefined
    let endedLoops = 0
    const loopEnded = (id: EndpointId) =>
      Effect.sync(() => {
        managed.delete(id)
        endedLoops += 1
        reconciled = undefined
      })

    const target = (endpoint: Endpoint) => Effect.provideService(targetOf(endpoint, secrets), ReleaseStore, releases)

    /** Starts no more workers for the endpoint. Those that it has finish their jobs. */
    const release = (entry: ManagedEndpoint) => {
      entry.endpoint = undefined
      entry.workers.update(undefined)
    }

    /** Manages an endpoint's workers. `isOwn`: also starts some. */
    const manage = Effect.fnUntraced(function*(endpoint: Endpoint, isOwn: boolean) {
      const workers = yield* EndpointWorkers.make(yield* target(endpoint), settings, fibers)
      const entry: ManagedEndpoint = { workers, endpoint }
      yield* adopt(endpoint.id, workers)
      managed.set(endpoint.id, entry)
      if (!isOwn) release(entry)
      yield* FiberMap.run(loops, endpoint.id, Effect.ensuring(workers.run, loopEnded(endpoint.id)))
    })

    /**
     * Takes over the orphans whose endpoint is not in the list. If another node starts the endpoint's workers, the orphans still finish their jobs here, and
     * the jobs of those that have ended return to the queue. If the endpoint was deleted, they end: an endpoint with jobs cannot be deleted.
     */
    const adoptOthers = Effect.gen(function*() {
      for (const orphan of [...orphans]) {
        const known = managed.get(orphan.endpoint)
        if (known !== undefined) {
          yield* adopt(orphan.endpoint, known.workers)
          continue
        }
        const endpoint = yield* store.get(orphan.endpoint)
        if (endpoint !== undefined) {
          yield* manage(endpoint, false)
          continue
        }
        orphans.delete(orphan)
        const ending = Effect.scoped(orphan.adopt({})).pipe(
          Effect.tap(registry.removed(orphan.endpoint, orphan.id)),
          Effect.flatMap(({ forget = Effect.void }) => forget)
        )
        yield* FiberSet.run(fibers, ending)
      }
    })

    const reconcileEndpoints = Effect.fnUntraced(function*() {
      const endpoints = yield* store.list
      const secretsChanged = secretsRevision !== secrets.revision()
      // Stores that cache the list return the same array until an endpoint changes.
      if (endpoints === reconciled && !secretsChanged) return
      const endedBefore = endedLoops
      secretsRevision = secrets.revision()
      for (const endpoint of endpoints) {
        const known = managed.get(endpoint.id)
        if (known !== undefined) {
          yield* adopt(endpoint.id, known.workers)
          // Stores that cache the list return the same object; for other stores, the contents must be compared.
          if (known.endpoint === endpoint && !secretsChanged) continue
          const same = known.endpoint !== undefined && JSON.stringify(known.endpoint) === JSON.stringify(endpoint)
          // Workers of an endpoint are outdated when one of its secrets has a new version.
          if (!same || (secretsChanged && secretNamesOf(endpoint).length > 0)) {
            known.workers.update(yield* target(endpoint))
          }
          known.endpoint = endpoint
        } else {
          yield* manage(endpoint, true)
        }
        const { type } = endpoint.source
        // The code of a release is bundled when it is deployed, but its image may be missing on this machine.
        if (pool.supports.includes(type) && (type === "container" || endpoint.release === undefined)) {
          yield* FiberMap.run(preparing, endpoint.id, pool.prepare(endpoint))
        }
        // A change may fix a failed download, so the download is retried at once.
        if (endpoint.model !== undefined) yield* Effect.forkScoped(models.prepare(endpoint, "again"))
        if (type === "external" || pool.supports.includes(type)) unsupported.delete(endpoint.id)
        else if (!unsupported.has(endpoint.id)) {
          unsupported.add(endpoint.id)
          yield* Effect.logWarning(
            `Endpoint ${endpoint.id} gets no workers: its source is "${type}" and this platform starts ${
              pool.supports.join(", ")
            }. ` +
              `Change its source, or start workers elsewhere (stint worker-env ${endpoint.id}).`
          )
        }
      }
      yield* adoptOthers
      const present = new Set(endpoints.map(({ id }) => id))
      for (const [id, entry] of managed) {
        if (!present.has(id) && entry.endpoint !== undefined) release(entry)
      }
      // Set last, so that after a failure above the next check reconciles the same list again.
      reconciled = endedLoops === endedBefore ? endpoints : undefined
    })

    /** The next check adopts orphans that the pool finds later. They receive no more jobs from now on. */
    const onChange = (change: PoolChange) =>
      change._tag === "Room"
        ? Effect.forEach([...managed.values()], ({ workers }) => workers.hasRoom, { discard: true })
        : Effect.andThen(
          queue.adoptWorker(change.orphan.endpoint, change.orphan.id),
          Effect.sync(() => {
            orphans.add(change.orphan)
            reconciled = undefined
          })
        )
    yield* Effect.forkScoped(Stream.runForEach(pool.changes ?? Stream.empty, onChange))

    const outage = OutageLog.make({
      onFailure: (problem) => Effect.logError(`The endpoints cannot be read: ${problem}. Trying again.`),
      onRecovery: Effect.logInfo("Reading the endpoints succeeded again.")
    })
    const reconciling = yield* Effect.tap(reconcileEndpoints(), outage.succeeded).pipe(
      Effect.catch((error) => outage.failed(error.message)),
      Effect.repeat(AlignedSleep.schedule(reconcile)),
      Effect.forkScoped
    )

    const within = (grace: Duration.Input) =>
      Effect.map(
        Effect.timeoutOption(
          Effect.interruptible(Effect.andThen(FiberSet.awaitEmpty(fibers), FiberMap.awaitEmpty(loops))),
          grace
        ),
        Option.isSome
      )

    yield* Effect.addFinalizer(() =>
      Effect.gen(function*() {
        yield* Fiber.interrupt(reconciling)
        for (const { workers } of managed.values()) workers.update(undefined)
        if (yield* within(shutdownGrace)) return
        const reason = `still ran a job ${Duration.format(shutdownGrace)} after the platform began to shut down, and was killed.`
        yield* Effect.forEach([...managed.values()], ({ workers }) => workers.killAll(reason), { discard: true })
        yield* within(KILL_GRACE)
      })
    )
  }))

/**
 * Finds the containers that outlived their platform. A new platform takes over those with a record, and removes the others.
 *
 * ```
 *   record --container runs, or the engine does not answer--> orphan that runs:   adopted: output, door, drain, kill, exit
 *     |                                                                           as of any other container
 *     +----container has ended, or is gone------------------> orphan that ended:  last lines read, removed; exit: Lost
 *                                                                                 forget: its jobs are back in the queue; record removed
 *   container with this platform's label, without a record --> removed
 * ```
 */
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import type { WorkerLog } from "@stint/pool/WorkerLog"
import type { OrphanedWorker } from "@stint/pool/WorkerPool"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { PLATFORM_LABEL } from "./ContainerBody.ts"
import type { ContainerRecord, ContainerRecords } from "./ContainerRecords.ts"
import * as Engine from "./Engine.ts"
import { isNotFound } from "./EngineError.ts"
import { attach, nameOf } from "./WorkerContainer.ts"

/** The parts of the pool that orphans share with other workers. */
export interface Dependencies {
  readonly records: ContainerRecords
  readonly log: WorkerLog
}

/** What the engine says about a recorded container. */
type Found = "running" | "ended" | "unstarted" | "gone" | "unknown"

const ENDED_EARLIER = "its container had ended before the platform started."

const look = Effect.fnUntraced(function*(record: ContainerRecord) {
  const seen = yield* Effect.result(Engine.make(record.socket).inspect(nameOf(record.worker)))
  const found: Found = seen._tag === "Failure"
    ? (isNotFound(seen.failure) ? "gone" : "unknown")
    : seen.success.State.Running
    ? "running"
    : seen.success.State.Status === "created" || seen.success.State.Status === "configured"
    ? "unstarted"
    : "ended"
  if (found === "unknown" && seen._tag === "Failure") {
    yield* Effect.logWarning(
      `Worker ${record.worker} of endpoint ${record.endpoint} may still run in a container. ${seen.failure.message} It counts as running until the engine answers.`
    )
  }
  return found
})

const adopt = ({ log, records }: Dependencies, record: ContainerRecord, found: Found): OrphanedWorker["adopt"] =>
  Effect.fnUntraced(function*(variables, mask) {
    const worker = WorkerId.make(record.worker)
    const endpoint = EndpointId.make(record.endpoint)
    const engine = Engine.make(record.socket)
    if (found === "gone" || found === "unstarted") {
      // It never ran, or no longer exists.
      yield* Effect.ignore(engine.remove(nameOf(worker)))
      const exit: WorkerExit = { _tag: "Lost", reason: ENDED_EARLIER, log: [] }
      const ended = yield* Deferred.make<WorkerExit>()
      yield* Deferred.succeed(ended, exit)
      return {
        id: worker,
        exit: Deferred.await(ended),
        drain: Effect.void,
        kill: Effect.void,
        forget: Effect.sync(() => records.remove(worker))
      }
    }
    const describe = (exit: WorkerExit): WorkerExit =>
      found === "ended" ? { _tag: "Lost", reason: ENDED_EARLIER, log: exit.log } : exit
    const target = { endpoint, worker, variables, mask, port: record.port }
    const dependencies = { engine, log, records }
    const container = yield* attach(dependencies, target, describe).pipe(
      Effect.catch((error) =>
        // The worker cannot deliver its results, so it is killed and its jobs return to the queue.
        Effect.andThen(
          Effect.logWarning(`Worker ${worker} of endpoint ${endpoint} cannot be taken over and is killed. ${error.message}`),
          Effect.andThen(
            Effect.ignore(engine.signal(nameOf(worker), "SIGKILL")),
            attach(dependencies, { ...target, port: null }, describe)
          )
        )
      ),
      Effect.orDie
    )
    yield* Effect.addFinalizer(() => container.close)
    return container.handle
  })

/** Finds the orphans. Sends requests to engines only if there are records. */
export const find = Effect.fnUntraced(function*(dependencies: Dependencies) {
  return yield* Effect.forEach(
    dependencies.records.list(),
    Effect.fnUntraced(function*(record) {
      const found = yield* look(record)
      const orphan: OrphanedWorker = {
        id: WorkerId.make(record.worker),
        endpoint: EndpointId.make(record.endpoint),
        isRunning: found === "running" || found === "unknown",
        reserved: record.reserved,
        gpuIds: record.gpuIds,
        adopt: adopt(dependencies, record, found)
      }
      return orphan
    }),
    { concurrency: 4 }
  )
})

/** Removes the containers of this platform that have no record. */
export const removeUnknown = Effect.fnUntraced(function*(engine: Engine.Engine, records: ContainerRecords, platform: string) {
  const containers = yield* engine.list(`${PLATFORM_LABEL}=${platform}`)
  // Records are read after the list, because a container is recorded before it is created.
  const recorded = new Set(records.list().map(({ worker }) => worker))
  for (const { Id, Labels } of containers) {
    const worker = Labels?.["stint.worker"]
    if (worker !== undefined && recorded.has(worker)) continue
    yield* Effect.logWarning(
      `Removing container ${Id.slice(0, 12)} left over from an earlier run of the platform: it has no record.`
    )
    yield* engine.remove(Id)
  }
})

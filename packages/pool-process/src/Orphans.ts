/**
 * Finds workers that outlived their platform, and lets a new platform take them over.
 *
 * A killed platform leaves its workers running. They finish their jobs and deliver the results, with retries, to the next platform at the
 * same address:
 *
 * ```
 *   pipes without a record --------> killed: its platform was killed between the start of the process and the record
 *   record --its platform still runs--> left alone
 *     |    --no process identity------> record removed, with a warning
 *     +--> orphan --adopt--> handle: its output continues, drain, kill, exit
 *                               |  the process is gone, now or later: what it left behind is ended, its last output is read
 *                               +--> exit: Lost --forget: its jobs are back in the queue--> record removed
 * ```
 *
 * An orphan is not a child of the new platform, so its exit code is unknown, and the pool notices its end by checking the process table.
 */
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import type { WorkerLog } from "@stint/pool/WorkerLog"
import { followOutput } from "@stint/pool/WorkerOutput"
import type { OrphanedWorker, WorkerHandle } from "@stint/pool/WorkerPool"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import * as DetachedChildren from "./DetachedChildren.ts"
import { MARK, type OutputPipes } from "./OutputPipes.ts"
import * as ProcessTable from "./ProcessTable.ts"
import type { WorkerCgroups } from "./WorkerCgroups.ts"
import type { WorkerRecord, WorkerRecords } from "./WorkerRecords.ts"
import type { WorkFolders } from "./WorkFolders.ts"

/** How often the pool checks whether an orphan has ended. */
const CHECK = "200 millis"

/** How long to wait for a killed orphan to exit. */
const KILL_WAIT = "5 seconds"

/** The parts of the pool that orphans share with other workers. */
export interface Dependencies {
  readonly records: WorkerRecords
  readonly pipes: OutputPipes
  readonly folders: WorkFolders
  readonly groups: WorkerCgroups
  readonly log: WorkerLog
}

const isRunning = ({ identity }: WorkerRecord): boolean => identity !== null && ProcessTable.isRunning(identity)

/** Kills the processes of the orphan's group. The group id belongs to the orphan while the orphan or one of its descendants is running. */
const kill = (record: WorkerRecord): void => {
  if (isRunning(record)) ProcessTable.signal(-record.pid, "SIGKILL")
  for (const { pid } of ProcessTable.membersOf(record.pid, MARK, record.worker)) ProcessTable.signal(pid, "SIGKILL")
}

const adopt = ({ folders, groups, log, pipes, records }: Dependencies, record: WorkerRecord): OrphanedWorker["adopt"] =>
  Effect.fnUntraced(function*(variables, mask) {
    const worker = WorkerId.make(record.worker)
    const endpoint = EndpointId.make(record.endpoint)
    const ended = yield* Deferred.make<WorkerExit>()
    const cleared = yield* Deferred.make<void>()
    const wasRunning = isRunning(record)
    const lastLines = yield* followOutput(log, { endpoint, worker, variables, mask }, {
      stdout: pipes.resume(record.worker, "stdout"),
      stderr: pipes.resume(record.worker, "stderr")
    })
    const reason = wasRunning
      ? "it ended after its platform had been killed, so its exit code is unknown."
      : `its process (pid ${record.pid}) had ended before the platform started.`
    yield* Effect.sync(() => isRunning(record)).pipe(
      Effect.repeat({ while: (running) => running, schedule: Schedule.spaced(CHECK) }),
      Effect.andThen(Effect.sync(() => kill(record))),
      Effect.tap(() =>
        Effect.forkDetach(
          Deferred.into(Effect.andThen(DetachedChildren.end(record.worker), groups.remove(record.worker)), cleared)
        )
      ),
      Effect.andThen(lastLines),
      Effect.tap(() => folders.remove(record.worker)),
      Effect.tap(() => Effect.sync(() => pipes.remove(record.worker))),
      Effect.flatMap((log) => Deferred.succeed(ended, { _tag: "Lost", reason, log })),
      Effect.forkDetach
    )
    const killed = Effect.sync(() => kill(record))
    const handle: WorkerHandle = {
      id: worker,
      exit: Deferred.await(ended),
      // Only the worker's own process receives SIGTERM: its children are needed until the job has ended.
      drain: Effect.sync(() => {
        if (isRunning(record)) ProcessTable.signal(record.pid, "SIGTERM")
      }),
      kill: killed,
      forget: Effect.sync(() => records.remove(record.worker)),
      resources: Effect.sync(() => isRunning(record) ? ProcessTable.resourcesOf(record.pid) : undefined)
    }
    yield* Effect.addFinalizer(() =>
      Effect.andThen(
        killed,
        Effect.timeoutOption(Effect.interruptible(Effect.andThen(Deferred.await(ended), Deferred.await(cleared))), KILL_WAIT)
      )
    )
    return handle
  })

/**
 * Finds the orphans. Removes the records of workers that cannot be identified, and kills the workers without a record, which have received no
 * job.
 */
export const find = Effect.fnUntraced(function*(dependencies: Dependencies) {
  const { unrecorded } = dependencies.pipes
  if (unrecorded.size > 0) DetachedChildren.killNow(unrecorded)
  const orphans: Array<OrphanedWorker> = []
  for (const record of dependencies.records.list()) {
    if (record.platform !== null && ProcessTable.isRunning(record.platform)) continue
    if (record.identity === null) {
      dependencies.records.remove(record.worker)
      yield* Effect.logWarning(
        `Worker ${record.worker} of endpoint ${record.endpoint} may still be running (pid ${record.pid}). This system cannot ` +
          `determine whether the pid still belongs to the same process, so Stint does not stop it. If it does, stop it yourself.`
      )
    } else {
      orphans.push({
        id: WorkerId.make(record.worker),
        endpoint: EndpointId.make(record.endpoint),
        isRunning: isRunning(record),
        reserved: record.reserved,
        gpuIds: record.gpuIds,
        adopt: adopt(dependencies, record)
      })
    }
  }
  return orphans
})

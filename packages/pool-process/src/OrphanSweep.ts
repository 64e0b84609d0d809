/**
 * Stops workers that outlived their platform.
 *
 * A killed platform leaves its workers running. They finish their jobs and deliver the results, with retries, to the next platform at the
 * same address. That platform starts its own workers, so it requests that the orphans exit, and kills those that do not. If it is stopped
 * first, it kills the remaining orphans after a shorter wait:
 *
 * ```
 *   record --its platform still runs--> left alone
 *     |    --no such process-----------> record removed
 *     +--> SIGTERM: the worker's own process, or what is left of its group when that is gone
 *            |  every 200 ms: still running?  no: record removed
 *            +--> after the grace: SIGKILL, the whole group
 * ```
 *
 * SIGTERM goes only to the worker's own process, because its child processes are needed until the job has ended.
 */
import { ENV_PREFIXES, WorkerVariable } from "@stint/contract/WorkerProtocol"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ProcessTable from "./ProcessTable.ts"
import type { WorkerRecord, WorkerRecords } from "./WorkerRecords.ts"

const CHECK = "200 millis"

/** The variable that every process of a worker's group inherits. */
const markOf = (worker: string) => `${ENV_PREFIXES[0]}${WorkerVariable.podId}=${worker}`

/** The worker's remaining processes, which should be signalled. */
const remainingProcessesOf = ({ identity, pid, worker }: WorkerRecord): ReadonlyArray<ProcessTable.ProcessIdentity> =>
  identity !== null && ProcessTable.isRunning(identity) ? [identity] : ProcessTable.membersOf(pid, markOf(worker))

/** The sweep of one platform. */
export interface OrphanSweep {
  /** Stops all orphans concurrently. Returns when none is running. Call it once. */
  readonly run: Effect.Effect<void>
  /** Gives the remaining orphans only this much time, because the platform is stopping. */
  readonly shortenGrace: (patience: Duration.Duration) => Effect.Effect<void>
}

/** Makes the sweep. `grace` is the time that an orphan has to finish its job. */
export const make = (records: WorkerRecords, grace: Duration.Duration): OrphanSweep => {
  let latest = Infinity

  const end = Effect.fnUntraced(function*(record: WorkerRecord) {
    const until = (yield* Clock.currentTimeMillis) + Duration.toMillis(grace)
    const asked = new Set<number>()
    let killed = false
    while (true) {
      const remains = remainingProcessesOf(record)
      if (remains.length === 0) break
      if (!killed && (yield* Clock.currentTimeMillis) >= Math.min(until, latest)) {
        killed = true
        yield* Effect.logWarning(
          `Worker ${record.worker} of endpoint ${record.endpoint}, left by an earlier run (pid ${record.pid}), did not exit in time and ` +
            `was killed. If it held a job, the job runs again.`
        )
        // The process group belongs to the worker while any member is running.
        ProcessTable.signal(-record.pid, "SIGKILL")
      }
      for (const { pid } of remains) {
        if (killed) ProcessTable.signal(pid, "SIGKILL")
        else if (!asked.has(pid)) ProcessTable.signal(pid, "SIGTERM")
        asked.add(pid)
      }
      yield* Effect.sleep(CHECK)
    }
    records.remove(record.worker)
  })

  const run = Effect.gen(function*() {
    const orphans: Array<WorkerRecord> = []
    for (const record of records.list()) {
      if (record.platform !== null && ProcessTable.isRunning(record.platform)) continue
      if (record.identity === null) {
        records.remove(record.worker)
        yield* Effect.logWarning(
          `Worker ${record.worker} of endpoint ${record.endpoint} may still be running (pid ${record.pid}). This system cannot ` +
            `determine whether the pid still belongs to the same process, so Stint does not stop it. If it does, stop it yourself.`
        )
      } else if (remainingProcessesOf(record).length === 0) records.remove(record.worker)
      else orphans.push(record)
    }
    if (orphans.length === 0) return
    yield* Effect.logInfo(
      `Found ${orphans.length} running worker${orphans.length === 1 ? "" : "s"} of an earlier run: ` +
        `${orphans.map(({ worker }) => worker).join(", ")}. They receive a request to exit, and may finish their jobs first.`
    )
    yield* Effect.forEach(orphans, end, { concurrency: "unbounded", discard: true })
  })

  return {
    run,
    shortenGrace: (patience) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        latest = Math.min(latest, now + Duration.toMillis(patience))
      })
  }
}

/**
 * Workers that outlived their platform.
 *
 * A platform that is killed leaves its workers running: they finish their jobs and deliver them, retrying, to the platform that comes back under
 * the same address. That one starts its own workers, so the old ones are asked to leave, and killed when they stay (or when that platform stops, too):
 *
 * ```
 *   record --its platform still runs--> left alone
 *     |    --nobody of that identity--> forgotten
 *     +--> SIGTERM: the worker's own process, or what is left of its group when that is gone
 *            |  every 200 ms: still there?  no: forgotten
 *            +--> after the grace: SIGKILL, the whole group
 * ```
 *
 * Only the worker's own process is asked: what it has started for a job is needed until that is done.
 */
import { ENV_PREFIXES, WorkerVariable } from "@stint/contract/WorkerProtocol"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as ProcessTable from "./ProcessTable.ts"
import type { WorkerRecord, WorkerRecords } from "./WorkerRecords.ts"

const CHECK = "200 millis"

/** The variable that every process of a worker's group has inherited. */
const markOf = (worker: string) => `${ENV_PREFIXES[0]}${WorkerVariable.podId}=${worker}`

/** Those of a worker's processes that are to be asked. */
const remainingProcessesOf = ({ identity, pid, worker }: WorkerRecord): ReadonlyArray<ProcessTable.ProcessIdentity> =>
  identity !== null && ProcessTable.isRunning(identity) ? [identity] : ProcessTable.membersOf(pid, markOf(worker))

/** The sweep of one platform. */
export interface OrphanSweep {
  /** Ends what earlier platforms have left, side by side. Returns when none of it runs any more. Run it once. */
  readonly run: Effect.Effect<void>
  /** The platform stops, and with it the patience: what is left gets this long and no longer. */
  readonly shortenGrace: (patience: Duration.Duration) => Effect.Effect<void>
}

/** `grace`: how long an orphan may take to finish its job. */
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
          `Worker ${record.worker} of endpoint ${record.endpoint}, left by an earlier run (pid ${record.pid}), did not leave in time and ` +
            `is killed. If it held a job, that runs again.`
        )
        // The group is the worker's while any of it remains.
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
          `Worker ${record.worker} of endpoint ${record.endpoint} may still run from before (pid ${record.pid}); this system does not ` +
            `tell whether that is still the same process, so it is left alone. End it if it is.`
        )
      } else if (remainingProcessesOf(record).length === 0) records.remove(record.worker)
      else orphans.push(record)
    }
    if (orphans.length === 0) return
    yield* Effect.logInfo(
      `${orphans.length} worker${orphans.length === 1 ? "" : "s"} of an earlier run still there: ` +
        `${orphans.map(({ worker }) => worker).join(", ")}. They may finish their jobs and are asked to leave.`
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

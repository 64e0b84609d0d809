/**
 * Ends the processes that a worker leaves behind outside its process group.
 *
 * The processes of the group are killed with the worker. A child with its own session (`detached: true`, `setsid`, a daemon that forks twice) is in
 * another group. It would keep its files, its ports and its GPU memory, which the next worker needs. It is found by the worker's id, which it
 * inherited as a variable:
 *
 * ```
 *   the worker has ended --processes with its id in /proc/<pid>/environ--> SIGTERM --2 s--> SIGKILL --at most 1 s--> over
 * ```
 *
 * Ids of workers are random, so no process of another worker or platform has the same id. A process that was started without the variable is not
 * found. Without `/proc` (macOS), no process is found.
 */
import * as Effect from "effect/Effect"
import * as Schedule from "effect/Schedule"
import { MARK } from "./OutputPipes.ts"
import * as ProcessTable from "./ProcessTable.ts"

/** How many processes are read before the platform's other fibers can continue. Reading one takes about 20 µs. */
const SLICE = 64

/** 2 s between the signals. */
const GRACE = Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 40 }))

/** A process that forks during the search is found in one of the next rounds. */
const ROUNDS = Schedule.spaced("50 millis").pipe(Schedule.upTo({ times: 20 }))

const identityIn = (pid: number, workers: ReadonlySet<string>): ProcessTable.ProcessIdentity | undefined => {
  // The platform may itself be the child of a worker.
  if (pid === process.pid || !workers.has(ProcessTable.variableOf(pid, MARK) ?? "")) return undefined
  return ProcessTable.identityOf(pid)
}

const find = Effect.fnUntraced(function*(workers: ReadonlySet<string>) {
  const found: Array<ProcessTable.ProcessIdentity> = []
  for (const [at, pid] of ProcessTable.pids().entries()) {
    if (at % SLICE === SLICE - 1) yield* Effect.yieldNow
    const identity = identityIn(pid, workers)
    if (identity !== undefined) found.push(identity)
  }
  return found
})

/** Ends the processes that an exited worker left behind, within about 3 s. Takes a few milliseconds if there are none. */
export const end = Effect.fnUntraced(function*(worker: string) {
  const workers = new Set([worker])
  const found = yield* find(workers)
  if (found.length === 0) return
  for (const { pid } of found) ProcessTable.signal(pid, "SIGTERM")
  yield* Effect.repeat(Effect.sync(() => found.some(ProcessTable.isRunning)), { while: (running) => running, schedule: GRACE })
  const killed = Effect.map(find(workers), (left) => {
    for (const { pid } of left) ProcessTable.signal(pid, "SIGKILL")
    return left.length
  })
  yield* Effect.repeat(killed, { while: (count) => count > 0, schedule: ROUNDS })
})

/** Kills the processes that these workers started, at once and without waiting, for a platform that is exiting. */
export const killNow = (workers: ReadonlySet<string>): void => {
  for (const pid of ProcessTable.pids()) {
    if (identityIn(pid, workers) !== undefined) ProcessTable.signal(pid, "SIGKILL")
  }
}

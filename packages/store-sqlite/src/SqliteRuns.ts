/**
 * Runs of pipelines in SQLite: part of `SqliteJobStore`, because jobs and their runs change in one transaction.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { RunStore } from "@stint/store/RunStore"
import type { RunTransactions } from "@stint/store/RunTransactions"
import * as Effect from "effect/Effect"
import type { JobRows } from "./JobRows.ts"
import type { RunRows } from "./RunRows.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** Creates the run store from the rows of a database file. */
export const make = (
  db: SqliteDatabase["Service"],
  rows: RunRows,
  runs: RunTransactions,
  jobs: Pick<JobRows, "find">
): RunStore["Service"] => {
  /** The run, if it belongs to the endpoint. */
  const find = (endpoint: EndpointId, id: JobId) => {
    const run = rows.find(id)
    return run?.endpoint === endpoint ? run : undefined
  }

  return RunStore.of({
    journal: (endpoint, worker, writes, now) =>
      db.write("journal", () => writes.map((write) => runs.journal(endpoint, worker, write, now))),
    define: (endpoint, hash, graph, now) => {
      const define = () => runs.define(endpoint, hash, graph, now)
      // A worker that starts sends its definition again, and must not fail for lack of space.
      return Effect.flatMap(
        db.read("definition", () => rows.graph(endpoint, hash)),
        (stored) => stored === undefined ? db.writeNew("define", define) : db.write("define", define)
      )
    },
    definition: (endpoint, hash) => db.read("definition", () => rows.graph(endpoint, hash)),
    definitions: (endpoint, limit) => db.read("definitions", () => rows.definitions(endpoint, limit)),
    openRuns: (endpoint, after, limit) => db.read("open runs", () => rows.openRuns(endpoint, after ?? "", limit)),
    get: (endpoint, id) =>
      db.read("get run", () => {
        const run = find(endpoint, id)
        const job = run === undefined ? undefined : jobs.find(endpoint, id)
        return run === undefined || job === undefined ? undefined : { run, job: job.head }
      }),
    entries: (endpoint, id, after, limit) =>
      db.read("entries of run", () => find(endpoint, id) === undefined ? [] : [...rows.after(id, after, limit)]),
    open: (endpoint, id, limit) =>
      db.read("open paths of run", () => find(endpoint, id) === undefined ? [] : rows.open(id, limit)),
    send: (endpoint, event, now) => db.writeNew("send event", () => runs.send(endpoint, event, now)),
    retry: (endpoint, id, from, now) => db.write("retry run", () => runs.retry(endpoint, id, from, now))
  })
}

/**
 * Runs of pipelines in PostgreSQL. Their changes are part of the group commit of jobs (JobGroupCommit.ts), because a run and its jobs change in one
 * transaction. RunLoads.ts says what is locked, and in which order.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { JobId as toJobId } from "@stint/contract/Ids"
import type { RunRecord } from "@stint/store/RunMachine"
import { type JournalWrite, noEndpoint, type RetryResult, RunStore } from "@stint/store/RunStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Query } from "./Connection.ts"
import { fromAllStateTables, REPORT, STATE_TABLES, toStateRow } from "./JobColumns.ts"
import { escapeNul } from "./NulText.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"
import { ENTRY, listOf, RUN, toDefinition, toEntry, toGraph, toRun } from "./RunRows.ts"
import { definitionKey } from "./RunWork.ts"

const ENTRIES = `SELECT ${listOf("e", ENTRY)} FROM stint.run_entries e JOIN stint.runs r ON r.run = e.run
  WHERE e.run = $1 AND r.endpoint = $2`

/** The number of columns of {@link RUN}. */
const RUN_WIDTH = Object.keys(RUN).length

/** The runs of an endpoint whose jobs have not ended. They are found through the open jobs, because there may be many more ended runs. */
const OPEN_RUNS = `WITH open AS MATERIALIZED (
    ${
  STATE_TABLES.filter((place) => place !== "ended")
    .map((place) => `SELECT id FROM stint.${place} WHERE endpoint = $1 AND id > $2`).join(" UNION ALL ")
}
  ) SELECT ${listOf("r", RUN)} FROM open JOIN stint.runs r ON r.run = open.id ORDER BY r.run LIMIT $3`

/** The number of characters that a write stores. */
const charactersOf = ({ finish, records }: JournalWrite): number =>
  records.reduce(
    (sum, record) => {
      if (record.kind === "spawn") return sum + ("input" in record.child ? record.child.input.length : 0)
      return sum + ("body" in record ? record.body?.length ?? 0 : 0)
    },
    (finish?.output?.length ?? 0) + (finish?.error?.length ?? 0)
  )

/** Another node may have removed the child's endpoint after this node read it. */
const refuseRemoved = (write: JournalWrite, isRemoved: (endpoint: EndpointId) => boolean): JournalWrite => ({
  ...write,
  records: write.records.map((record) =>
    record.kind === "spawn" && "endpoint" in record.child && isRemoved(record.child.endpoint)
      ? { ...record, child: noEndpoint(record.child.endpoint) }
      : record
  )
})

const readGraph = async (query: Query, endpoint: EndpointId, hash: string) => {
  const [row] = await query(`SELECT graph FROM stint.definitions WHERE endpoint = $1 AND hash = $2`, [
    endpoint,
    escapeNul(hash)
  ])
  return row === undefined ? undefined : toGraph(row)
}

const readHeld = async (query: Query, endpoint: EndpointId): Promise<ReadonlyArray<JobId>> =>
  (await query(`SELECT run FROM stint.runs WHERE endpoint = $1 AND held IS NOT NULL ORDER BY run`, [endpoint]))
    .map(([run]) => toJobId.make(String(run)))

/** The runs of a database. */
export const layer: Layer.Layer<RunStore, never, PostgresDatabase> = Layer.effect(
  RunStore,
  Effect.gen(function*() {
    const db = yield* PostgresDatabase
    return RunStore.of({
      journal: (endpoint, worker, writes, now) =>
        db.shared(
          "journal",
          {
            journals: writes.map((write) => ({ endpoint, write, now })),
            characters: writes.reduce((sum, write) => sum + charactersOf(write), 0)
          },
          ({ isRemoved, work: { runs } }) =>
            writes.map((write) => runs.journal(endpoint, worker, refuseRemoved(write, isRemoved), now))
        ),
      define: Effect.fnUntraced(function*(endpoint, hash, graph, now) {
        // A worker defines its pipeline at each start, so most definitions are known.
        const isDone = yield* db.read(
          "define",
          async (query) =>
            (await readGraph(query, endpoint, hash)) !== undefined && (await readHeld(query, endpoint)).length === 0
        )
        if (isDone) return []
        return yield* db.alone("define", async ({ lockRuns, work }) => {
          const { graphs, held } = work.runWork
          graphs.set(definitionKey(endpoint, hash), await readGraph(work.query, endpoint, hash))
          const runs = await readHeld(work.query, endpoint)
          await lockRuns({ arrivals: runs.map((run) => ({ run })) })
          held.set(endpoint, runs)
          return work.runs.define(endpoint, hash, graph, now)
        })
      }),
      definition: (endpoint, hash) => db.read("definition", (query) => readGraph(query, endpoint, hash)),
      definitions: (endpoint, limit) =>
        db.read(
          "definitions",
          async (query) =>
            (await query(`SELECT hash, at FROM stint.definitions WHERE endpoint = $1 ORDER BY at DESC, hash LIMIT $2`, [
              endpoint,
              limit
            ])).map(toDefinition)
        ),
      openRuns: (endpoint, after, limit) =>
        db.read("open runs", async (query) => {
          const rows = await query(OPEN_RUNS, [endpoint, after ?? "", limit])
          return rows.map((row): RunRecord => {
            const { root: _, ...run } = toRun(row)
            return run
          })
        }),
      get: (endpoint, id) =>
        db.read("get run", async (query) => {
          const [row] = await query(
            `SELECT ${listOf("r", RUN)}, ${REPORT} FROM ${
              fromAllStateTables("id = $1")
            } JOIN stint.runs r ON r.run = s.id WHERE s.endpoint = $2`,
            [id, endpoint]
          )
          if (row === undefined) return undefined
          const { root: _, ...run } = toRun(row.slice(0, RUN_WIDTH))
          return { run: run satisfies RunRecord, job: toStateRow(row.slice(RUN_WIDTH)).head }
        }),
      entries: (endpoint, id, after, limit) =>
        db.read("entries of run", async (query) => {
          const rows = await query(`${ENTRIES} AND e.n > $3 ORDER BY e.n LIMIT $4`, [id, endpoint, after, limit])
          return rows.map((row) => toEntry(row).entry)
        }),
      open: (endpoint, id, limit) =>
        db.read("open paths of run", async (query) => {
          const rows = await query(`${ENTRIES} AND e.open ORDER BY e.n LIMIT $3`, [id, endpoint, limit])
          return rows.map((row) => toEntry(row).entry)
        }),
      send: (endpoint, event, now) =>
        db.shared(
          "send event",
          { sends: [{ endpoint, event, now }], characters: event.body.length },
          ({ work: { runs } }) => runs.send(endpoint, event, now)
        ),
      retry: (endpoint, id, from, now) =>
        db.alone("retry run", async ({ lockRuns, work: { runs } }): Promise<RetryResult> => {
          await lockRuns({ ends: [id], whole: [id] })
          return runs.retry(endpoint, id, from, now)
        })
    })
  })
)

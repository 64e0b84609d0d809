/**
 * Jobs and batches in PostgreSQL.
 *
 * ```
 *   change   in the next group commit of this node (JobGroupCommit.ts)
 *   read     one statement on another connection, of committed data
 * ```
 *
 * Hot path: submissions, claims, heartbeats, chunks and results share transactions. Timers, purges, drains and changes to batches have transactions
 * of their own.
 */
import { type EndpointId, JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
import { BatchStore } from "@stint/store/BatchStore"
import type { BulkRecord } from "@stint/store/BulkStore"
import { ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import { bulkOf, type JobMachineEvent } from "@stint/store/JobMachine"
import type { JobRecord } from "@stint/store/JobRecord"
import {
  type Ahead,
  type ApplyResult,
  type DrainResult,
  type InsertResult,
  JobStore,
  MAX_READ_CHARACTERS,
  type SubmissionKey
} from "@stint/store/JobStore"
import * as PendingClaims from "@stint/store/PendingClaims"
import { exceededQuota, type Quotas } from "@stint/store/Quota"
import type { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { KEY_USAGE } from "./ConcurrencySlots.ts"
import { constraintOf, type Query } from "./Connection.ts"
import * as EndpointDepths from "./EndpointDepths.ts"
import * as HeldJobs from "./HeldJobs.ts"
import { fromAllStateTables, REPORT, type StateRow, toReport, toStateRow, TRACE } from "./JobColumns.ts"
import { chunkAttempt, type Entry, isFamily } from "./JobEntry.ts"
import { listJobs } from "./JobLists.ts"
import { textsOf } from "./JobTexts.ts"
import * as JobTimers from "./JobTimers.ts"
import * as PostgresBatches from "./PostgresBatches.ts"
import { lockNext, putStep } from "./PostgresBulkStore.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"
import * as PostgresErrorGroups from "./PostgresErrorGroups.ts"
import * as ScheduleWork from "./ScheduleWork.ts"
import { timed } from "./TimerQueries.ts"
import type { Transaction, WorkerOf } from "./Transaction.ts"

const decodeChunk = Schema.decodeUnknownSync(Schema.Tuple([JsonText]))
const decodeNumber = Schema.decodeUnknownSync(Schema.Int)
const decodeUsage = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int, Schema.Int]))
const decodeId = Schema.decodeUnknownSync(Schema.String)

const bySeq = (a: Entry, b: Entry): number => a.seq - b.seq

/** The chunks of an attempt from a number, up to a number of characters. Reads them in steps, because one chunk can be several megabytes long. */
const CHUNK_STEP = 100

const readChunks = async (
  query: Query,
  job: JobId,
  attempt: number,
  from: number,
  limit: number
): Promise<ReadonlyArray<JsonText>> => {
  const some: Array<JsonText> = []
  let characters = 0
  while (some.length < limit) {
    const step = Math.min(CHUNK_STEP, limit - some.length)
    const rows = await query(
      `SELECT body FROM stint.chunks WHERE job = $1 AND attempt = $2 AND number >= $3 ORDER BY number LIMIT $4`,
      [job, attempt, from + some.length, step]
    )
    for (const row of rows) {
      const [body] = decodeChunk(row)
      some.push(body)
      characters += body.length
      if (characters >= MAX_READ_CHARACTERS) return some
    }
    if (rows.length < step) break
  }
  return some
}

/**
 * IN_QUEUE jobs of an endpoint, in order of submission. The `seq` of a ready job with a concurrency key is the turn of its slot, so all jobs with the
 * same submission time are read.
 */
const WAITING = `SELECT s.id FROM (
    (SELECT id, created_at FROM stint.ready WHERE endpoint = $1 AND id <> ALL($3::text[]) AND concurrency_key IS NULL
     ORDER BY created_at, seq LIMIT $2)
    UNION ALL
    (SELECT id, created_at FROM stint.ready WHERE endpoint = $1 AND id <> ALL($3::text[]) AND concurrency_key IS NOT NULL
     ORDER BY created_at FETCH FIRST $2 ROWS WITH TIES)
    UNION ALL
    (SELECT id, created_at FROM stint.delayed WHERE endpoint = $1 AND id <> ALL($3::text[]) ORDER BY created_at, seq LIMIT $2)
  ) s JOIN stint.jobs j ON j.id = s.id ORDER BY s.created_at, j.seq LIMIT $2`

const waitingIds = async (
  query: Query,
  endpoint: EndpointId,
  limit: number,
  seen: ReadonlyArray<string>
): Promise<ReadonlyArray<JobId>> => {
  const rows = await query(WAITING, [endpoint, limit, seen])
  return rows.map(([id]) => JobId.make(decodeId(id)))
}

/** The loaded IN_PROGRESS jobs of a worker, in order of submission. */
const runningOf = ({ entries }: Transaction["work"], { endpoint, worker }: WorkerOf) =>
  [...entries.values()]
    .filter(({ head, removed }) =>
      !removed && head.status === "IN_PROGRESS" && head.endpoint === endpoint && head.worker === worker
    )
    .sort(bySeq)

const insert = (
  transaction: Transaction,
  job: JobRecord,
  key: SubmissionKey | undefined,
  quotas: Quotas | undefined
): InsertResult => {
  const known = key === undefined ? undefined : transaction.ofKey(job.endpoint, key)
  if (known !== undefined) {
    return known.fingerprint === key?.fingerprint
      ? { _tag: "Duplicate", job: known.job }
      : { _tag: "KeyConflict", id: known.job.id }
  }
  if (transaction.isRemoved(job.endpoint)) return { _tag: "EndpointGone" }
  const { schedules } = transaction.work
  const firing = key?.schedule
  if (firing !== undefined && !ScheduleWork.isNext(schedules, firing)) return { _tag: "ScheduleChanged" }
  const owner = key?.owner ?? job.owner
  const quota = quotas === undefined
    ? undefined
    : exceededQuota(job, quotas, (scope) => transaction.usageOf(scope, scope === "endpoint" ? job.endpoint : owner))
  if (quota !== undefined) return { _tag: "QuotaExceeded", quota }
  transaction.work.insert(job, key)
  if (firing !== undefined) ScheduleWork.fire(schedules, firing)
  return { _tag: "Inserted" }
}

/** The number of characters that an event stores. */
const charactersOf = (event: JobMachineEvent): number => {
  if (event._tag === "Progress") return event.output.length
  return event._tag === "Finish" ? (event.output?.length ?? 0) + (event.error?.length ?? 0) : 0
}

/** Whether an event neither ends, cancels nor retries a job, so that no other job changes with it. */
const isQuiet = ({ _tag }: JobMachineEvent): boolean =>
  _tag === "Heartbeat" || _tag === "Progress" || _tag === "Chunk" || _tag === "Recover" || _tag === "LeaveBatch"

const make = Effect.gen(function*() {
  const clock = yield* Clock.Clock
  const db = yield* PostgresDatabase
  const tick = JobTimers.make(db)
  const pending = PendingClaims.make()
  const holds = HeldJobs.make(db)

  /** Logs the errors of skipped jobs. */
  const reportRowErrors = Effect.suspend(() =>
    Effect.forEach(db.unreadable.takeErrors(), (problem) => Effect.logError(problem), { discard: true })
  )

  const find = async (query: Query, columns: string, endpoint: EndpointId, id: JobId): Promise<StateRow | undefined> => {
    const [row] = await query(`SELECT ${columns} FROM ${fromAllStateTables("id = $1")} WHERE s.endpoint = $2`, [id, endpoint])
    return row === undefined ? undefined : toStateRow(row)
  }

  /** Applies an event to the jobs of a worker, which include runs or their children. The event may end them. */
  const applyRunningFamily = (filter: WorkerOf, event: JobMachineEvent): Effect.Effect<ReadonlyArray<ApplyResult>, StoreError> =>
    db.alone("applyRunning", async ({ lockRuns, work }) => {
      // Without locks, because runs must be locked before their children.
      const rows = await work.query(`SELECT id FROM stint.running WHERE endpoint = $1 AND worker = $2`, [
        filter.endpoint,
        filter.worker
      ])
      await lockRuns({ ends: rows.map(([id]) => JobId.make(decodeId(id))) })
      return runningOf(work, filter).map((entry) => work.apply(entry, event))
    })

  /** One step of a bulk operation: cancels or retries a job, and stores the operation after it. */
  const applyStep = (endpoint: EndpointId, id: JobId, event: JobMachineEvent, step: BulkRecord) =>
    db.alone(event._tag, async ({ lockRuns, work }): Promise<ApplyResult> => {
      await lockRuns({ ends: [id], whole: event._tag === "Retry" ? [id] : [] })
      const entry = work.find(endpoint, id)
      if (entry === undefined) return { _tag: "Missing" }
      if (!(await lockNext(work.query, step))) return { _tag: "Rejected", job: entry.head, rejection: { _tag: "Superseded" } }
      const applied = work.apply(entry, event)
      if (applied._tag === "Changed") await putStep(work.query, step)
      return applied
    })

  /** One step of a bulk operation: submits a job, and stores the operation after it. */
  const insertStep = (job: JobRecord, key: SubmissionKey, quotas: Quotas | undefined, step: BulkRecord) =>
    db.alone("insert", async (transaction): Promise<InsertResult> => {
      await transaction.prepare([{ insertions: [{ job, key, quotas }] }])
      if (!(await lockNext(transaction.work.query, step))) return { _tag: "BulkChanged" }
      const inserted = insert(transaction, job, key, quotas)
      if (inserted._tag === "Inserted") await putStep(transaction.work.query, step)
      return inserted
    })

  /** Applies an event to the jobs of a worker, in a transaction with other commands. */
  const applyRunningShared = (filter: WorkerOf, event: JobMachineEvent): Effect.Effect<ReadonlyArray<ApplyResult>, StoreError> =>
    Effect.flatMap(
      db.shared("applyRunning", { workers: [filter], freesSlots: !isQuiet(event) }, ({ work }) => {
        const running = runningOf(work, filter)
        return isQuiet(event) || !running.some(isFamily) ? running.map((entry) => work.apply(entry, event)) : undefined
      }),
      (applied) => applied === undefined ? applyRunningFamily(filter, event) : Effect.succeed(applied)
    )

  /**
   * Applies an event that may end the jobs of a worker, unless it holds none. A pending claim may give the worker jobs, and runs last in its transaction, so the event gets a transaction after it.
   */
  const applyToWorker = (filter: WorkerOf, event: JobMachineEvent): Effect.Effect<ReadonlyArray<ApplyResult>, StoreError> =>
    Effect.suspend(() =>
      pending.has(filter.endpoint, filter.worker)
        ? applyRunningFamily(filter, event)
        : Effect.flatMap(holds(filter), (isHolding) => isHolding ? applyRunningShared(filter, event) : Effect.succeed([]))
    )

  const insertShared = (job: JobRecord, key: SubmissionKey | undefined, quotas: Quotas | undefined) =>
    db.shared(
      "insert",
      { insertions: [{ job, key, quotas }], characters: job.input.length },
      (transaction) => insert(transaction, job, key, quotas)
    )

  const jobs = JobStore.of({
    durability: "D2",
    insert: (job, key, quotas) =>
      (key?.bulk === undefined ? insertShared(job, key, quotas) : insertStep(job, key, quotas, key.bulk)).pipe(
        Effect.catch((error) =>
          error.reason._tag === "StoreUnavailable" && constraintOf(error.reason.cause) === "jobs_pkey"
            ? Effect.die(new Error(`job ${job.id} already exists`))
            : Effect.fail(error)
        )
      ),
    apply: (endpoint, id, event) => {
      const step = bulkOf(event)
      if (step !== undefined) return applyStep(endpoint, id, event, step)
      return db.shared(
        event._tag,
        {
          ...(isQuiet(event) ? { jobs: [id] } : { ends: [id], whole: event._tag === "Retry" ? [id] : [] }),
          characters: charactersOf(event)
        },
        ({ work }): ApplyResult | "Again" => {
          const entry = work.find(endpoint, id)
          if (entry === undefined) return { _tag: "Missing" }
          // Only now is it known that the job is a run. A command that runs alone has loaded the run.
          return !isQuiet(event) && entry.isRun && !work.runWork.runs.has(id) ? "Again" : work.apply(entry, event)
        }
      )
    },
    append: (endpoint, id, event, body) =>
      db.shared("append", { jobs: [id], characters: body.length }, ({ work }): ApplyResult => {
        const entry = work.find(endpoint, id)
        return entry === undefined ? { _tag: "Missing" } : work.apply(entry, event, body)
      }),
    claim: (endpoint, limit, event) =>
      Effect.tap(pending.during(endpoint, event.worker, db.claim({ endpoint, limit, event })), () => reportRowErrors),
    tick: (event, limit) => Effect.tap(tick(event, limit), () => reportRowErrors),
    applyRunning: (filter, event) =>
      filter === "timed"
        ? db.alone("applyRunning", async ({ load, work }) => {
          const running = await load(work.query(timed("running")))
          const delayed = await load(work.query(timed("delayed")))
          return [...running, ...delayed].sort(bySeq).map((entry) => work.apply(entry, event))
        })
        : isQuiet(event)
        ? applyRunningShared(filter, event)
        : applyToWorker(filter, event),
    applyWaiting: (endpoint, event, limit) =>
      db.alone("applyWaiting", async ({ lockRuns, work }) => {
        const applied: Array<ApplyResult> = []
        const seen: Array<JobId> = []
        while (applied.length < limit) {
          const ids = await waitingIds(work.query, endpoint, limit - applied.length, seen)
          if (ids.length === 0) break
          seen.push(...ids)
          await lockRuns({ ends: ids })
          for (const id of ids) {
            const entry = work.find(endpoint, id)
            // Another node has claimed it since.
            if (entry?.head.status === "IN_QUEUE") applied.push(work.apply(entry, event))
          }
        }
        return applied
      }),
    get: (endpoint, id) =>
      db.read("get", async (query) => {
        const row = await find(query, REPORT, endpoint, id)
        return row === undefined ? undefined : toReport(row)
      }),
    traceOf: (endpoint, id) =>
      db.read("traceOf", async (query) => {
        const row = await find(query, TRACE, endpoint, id)
        if (row === undefined) return undefined
        const { input: { traceparent, tracestate }, outcome: { error, lastError } } = row
        return { traceparent, tracestate, error, lastError }
      }),
    input: (endpoint, id) =>
      db.read("input", async (query) => {
        const [row] = await query(`SELECT input FROM stint.jobs WHERE id = $1 AND endpoint = $2`, [id, endpoint])
        return row === undefined ? undefined : decodeChunk(row)[0]
      }),
    drain: (endpoint, id, limit) =>
      Effect.flatMap(
        db.read("drain", (query) => find(query, REPORT, endpoint, id)),
        (seen): Effect.Effect<DrainResult | undefined, StoreError> => {
          if (seen === undefined) return Effect.succeed(undefined)
          if (seen.head.chunks === seen.head.drained) return Effect.succeed({ job: toReport(seen), chunks: [], more: false })
          return db.alone("drain", async ({ lockJobs, work }) => {
            await lockJobs([id])
            const entry = work.find(endpoint, id)
            const row = await find(work.query, REPORT, endpoint, id)
            if (entry === undefined || row === undefined) return undefined
            const { drained } = entry.head
            const chunks = await readChunks(work.query, id, chunkAttempt(entry.head, entry.isRun), drained + 1, limit)
            if (chunks.length > 0) entry.head = { ...entry.head, drained: drained + chunks.length }
            return {
              job: { ...toReport(row), drained: entry.head.drained },
              chunks,
              more: entry.head.drained < entry.head.chunks
            }
          })
        }
      ),
    peek: (endpoint, id, after, limit) =>
      db.read("peek", async (query) => {
        const row = await find(query, REPORT, endpoint, id)
        if (row === undefined) return undefined
        const job = toReport(row)
        const { isRun } = row
        const start = after.attempt === job.attempt || isRun ? after.chunk : 0
        const stored = job.chunks > start ? await readChunks(query, id, chunkAttempt(job, isRun), start + 1, limit) : []
        // Chunks that were stored after the job was read belong to the next read.
        const chunks = stored.slice(0, job.chunks - start)
        return { job, chunks, from: start + 1, more: start + chunks.length < job.chunks }
      }),
    list: (endpoint, query) => db.read("list", (run) => listJobs(run, endpoint, query, clock.currentTimeMillisUnsafe())),
    texts: (endpoint, ids) => db.read("texts", (query) => textsOf(query, endpoint, ids)),
    ahead: (endpoint, id, limit) =>
      db.read("ahead", async (query): Promise<Ahead | undefined> => {
        const [row] = await query(
          `SELECT (SELECT count(*) FROM (
             SELECT 1 FROM stint.ready o WHERE o.endpoint = r.endpoint AND o.priority >= r.priority
               AND (o.priority > r.priority OR o.seq < r.seq) ORDER BY o.priority DESC, o.seq LIMIT $3
           ) first)::int FROM stint.ready r WHERE r.id = $1 AND r.endpoint = $2`,
          [id, endpoint, limit + 1]
        )
        if (row === undefined) return undefined
        const jobs = decodeNumber(row[0])
        return { jobs: Math.min(jobs, limit), more: jobs > limit }
      }),
    keyUsage: (endpoint, id, limit) =>
      db.read("keyUsage", async (query) => {
        const [row] = await query(KEY_USAGE, [id, endpoint, limit])
        if (row === undefined) return undefined
        const [running, ready, held] = decodeUsage(row)
        return { running, ready, held }
      }),
    depth: EndpointDepths.make(db)
  })

  return Context.make(JobStore, jobs).pipe(
    Context.add(BatchStore, PostgresBatches.make(db)),
    Context.add(ErrorGroupStore, PostgresErrorGroups.make(db))
  )
})

/** The stores of jobs, batches and error groups of a database. */
export const layer: Layer.Layer<JobStore | BatchStore | ErrorGroupStore, never, PostgresDatabase> = Layer.effectContext(make)

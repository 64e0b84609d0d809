/**
 * Writes the changes of a transaction: each table is changed by at most one `DELETE`, one `UPDATE` and one `INSERT`, regardless of the number of
 * rows. All statements are sent together with the `COMMIT`.
 */
import { type BatchRecord, dueAt as batchDueAt } from "@stint/store/BatchMachine"
import { dueAt } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import * as Schema from "effect/Schema"
import { BatchBody } from "./BatchRows.ts"
import type { ClaimCursors } from "./ClaimCursors.ts"
import { positionOf } from "./ConcurrencySlots.ts"
import { encodeValues } from "./Connection.ts"
import { DELIVERY } from "./DeliveryRows.ts"
import * as ErrorGroupWrites from "./ErrorGroupWrites.ts"
import { ALL, insertAll, JOB, placeOf, specText, STATE_TABLES, type StateTable, stateValues, transpose } from "./JobColumns.ts"
import type { Entry } from "./JobEntry.ts"
import { escapeNul } from "./NulText.ts"
import * as RunWrites from "./RunWrites.ts"
import * as ScheduleWork from "./ScheduleWork.ts"
import type { Work } from "./Work.ts"

const CHUNK = { job: "text", attempt: "int", number: "int", body: "text" } as const
const TAG = { endpoint: "text", tag: "text", created_at: "bigint", id: "text" } as const
/** The columns of `batches` for `INSERT`. */
export const BATCH = {
  id: "text",
  endpoint: "text",
  owner: "text",
  created_at: "bigint",
  ended: "boolean",
  due_at: "bigint",
  body: "text"
} as const

/** Updates a running job in place. Changes no index, unless `isolated` changes. */
const TOUCH =
  `UPDATE stint.running r SET started_at = u.started_at, expires_at = u.expires_at, lease_expires_at = u.lease_expires_at,
    chunks = u.chunks, drained = u.drained, due_at = u.due_at, outcome_bytes = u.outcome_bytes, chunk_bytes = u.chunk_bytes, is_run = u.is_run,
    retries = u.retries, isolated = u.isolated
  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::int[], $6::int[], $7::bigint[], $8::bigint[], $9::bigint[], $10::boolean[],
    $11::int[], $12::boolean[])
    AS u (id, started_at, expires_at, lease_expires_at, chunks, drained, due_at, outcome_bytes, chunk_bytes, is_run, retries, isolated)
  WHERE r.id = u.id`

const PROGRESS =
  `UPDATE stint.running r SET progress = u.progress FROM unnest($1::text[], $2::text[]) AS u (id, progress) WHERE r.id = u.id`

/** Updates an ended job in place. */
const LEAVE = `UPDATE stint.ended e SET batch = u.batch, drained = u.drained, due_at = u.due_at
  FROM unnest($1::text[], $2::text[], $3::int[], $4::bigint[]) AS u (id, batch, drained, due_at) WHERE e.id = u.id`

const encodeBatch = Schema.encodeSync(BatchBody)

/** The values of a batch, in the order of {@link BATCH}. */
export const batchValues = (batch: BatchRecord): ReadonlyArray<unknown> => [
  batch.id,
  batch.endpoint,
  batch.owner,
  batch.createdAt,
  batch.endedAt !== null,
  batchDueAt(batch),
  encodeBatch(batch)
]

/** Whether the row can stay in its table, so that its payloads need not be written again. */
const staysInPlace = (before: JobHead, after: JobHead): boolean => {
  const place = placeOf(after)
  if (placeOf(before) !== place || before.attempt !== after.attempt) return false
  if (place === "ended") return before.status === after.status && before.finishedAt === after.finishedAt
  return place === "running" && before.worker === after.worker && before.notBefore === after.notBefore
}

/** The changes, by table. */
interface Sorted {
  readonly inserted: Array<Entry>
  readonly removed: Array<Entry>
  readonly left: Record<StateTable, Array<string>>
  readonly arrived: Record<StateTable, Array<Entry>>
  readonly touched: Array<Entry>
  readonly progressed: Array<Entry>
  readonly endedInPlace: Array<Entry>
}

const none = <A>(): Record<StateTable, Array<A>> => ({ ready: [], delayed: [], running: [], ended: [] })

const sort = (entries: Iterable<Entry>): Sorted => {
  const sorted: Sorted = {
    inserted: [],
    removed: [],
    left: none(),
    arrived: none(),
    touched: [],
    progressed: [],
    endedInPlace: []
  }
  for (const entry of entries) {
    const { head, removed, stored } = entry
    if (stored === undefined) {
      if (removed) continue
      sorted.inserted.push(entry)
      sorted.arrived[placeOf(head)].push(entry)
    } else if (removed) {
      sorted.removed.push(entry)
      sorted.left[placeOf(stored)].push(head.id)
    } else if (stored !== head || entry.progressed) {
      if (!staysInPlace(stored, head)) {
        sorted.left[placeOf(stored)].push(head.id)
        sorted.arrived[placeOf(head)].push(entry)
      } else if (placeOf(head) === "ended") {
        sorted.endedInPlace.push(entry)
      } else {
        sorted.touched.push(entry)
        if (entry.progressed) sorted.progressed.push(entry)
      }
    }
  }
  return sorted
}

const ids = (entries: ReadonlyArray<Entry>): ReadonlyArray<string> => entries.map(({ head }) => head.id)

/** The values of a job, in the order of `JOB`. */
export const jobValues = (
  { head, input, inputBytes, key, seq }: Pick<Entry, "head" | "input" | "inputBytes" | "key" | "seq">
): ReadonlyArray<unknown> => [
  head.id,
  head.endpoint,
  seq,
  head.createdAt,
  head.owner,
  key?.key ?? null,
  key?.fingerprint ?? null,
  specText(head),
  head.webhook !== null,
  inputBytes,
  input.input,
  input.s3Config,
  input.traceparent,
  input.tracestate
]

/**
 * Removes the log lines of removed jobs, and subtracts them from the counts. Another transaction that adds lines to a job holds a shared lock on it
 * (PostgresJobLogStore.ts): it ends before the lines are removed, or it no longer finds the job.
 */
const removeLogs = async ({ entries, query, tallies }: Work, removed: ReadonlyArray<Entry>) => {
  if (removed.length === 0) return
  const jobs = [ids(removed)]
  await query(`SELECT 1 FROM stint.jobs WHERE id = ANY($1::text[]) ORDER BY id FOR UPDATE`, jobs)
  const [logs] = await Promise.all([
    query(`DELETE FROM stint.job_logs WHERE job = ANY($1::text[]) RETURNING job, bytes`, jobs),
    query(`DELETE FROM stint.log_pieces WHERE job = ANY($1::text[])`, jobs)
  ])
  const bytesOf = new Map(logs.map(([job, bytes]) => [String(job), Number(bytes)]))
  for (const { head } of entries.values()) {
    const bytes = bytesOf.get(head.id)
    if (bytes !== undefined) tallies.logged(head.endpoint, head.owner, -bytes)
  }
}

/** Sends all changes and the `COMMIT`. Resolves after the commit. Sends nothing when a value cannot be sent. */
export const commit = async (work: Work, execute: (text: string) => Promise<void>, cursors: ClaimCursors): Promise<void> => {
  const { batches, deliveries, entries, failures, query, runWork, schedules, slots, tallies } = work
  const sorted = sort(entries.values())
  await removeLogs(work, sorted.removed)
  const ofErrors = await ErrorGroupWrites.statementsOf(query, failures)
  const statements: Array<readonly [text: string, values: ReadonlyArray<unknown>]> = []
  const send = (text: string, values: ReadonlyArray<unknown>) => {
    statements.push([text, encodeValues(values)])
  }
  const insert = (table: string, columns: Readonly<Record<string, string>>, rows: ReadonlyArray<ReadonlyArray<unknown>>) => {
    if (rows.length > 0) send(insertAll(table, columns), transpose(rows))
  }

  for (const entry of sorted.arrived.ready) {
    cursors.arrived(entry.head.endpoint, { priority: entry.head.priority, seq: positionOf(entry) })
  }
  insert("jobs", JOB, sorted.inserted.map(jobValues))
  insert(
    "tags",
    TAG,
    sorted.inserted.flatMap(({ head: { createdAt, endpoint, id, tags } }) => tags.map((tag) => [endpoint, tag, createdAt, id]))
  )
  for (const place of STATE_TABLES) {
    const left = sorted.left[place]
    if (left.length > 0) send(`DELETE FROM stint.${place} WHERE id = ANY($1::text[])`, [left])
  }
  for (const place of STATE_TABLES) {
    insert(place, ALL, sorted.arrived[place].map((entry) => stateValues({ ...entry, position: positionOf(entry) })))
  }
  if (sorted.touched.length > 0) {
    send(
      TOUCH,
      transpose(sorted.touched.map(({ chunkBytes, head, isRun, outcomeBytes }) => [
        head.id,
        head.startedAt,
        head.expiresAt,
        head.leaseExpiresAt,
        head.chunks,
        head.drained,
        dueAt(head),
        outcomeBytes,
        chunkBytes,
        isRun,
        head.retries,
        head.isolated
      ]))
    )
  }
  if (sorted.progressed.length > 0) {
    send(PROGRESS, transpose(sorted.progressed.map(({ head, outcome }) => [head.id, outcome.progress ?? null])))
  }
  if (sorted.endedInPlace.length > 0) {
    send(LEAVE, transpose(sorted.endedInPlace.map(({ head }) => [head.id, head.batchId, head.drained, dueAt(head)])))
  }
  const discarded = [...entries.values()].filter(({ discard, removed, stored }) =>
    stored !== undefined && (removed || discard) && stored.chunks > 0
  )
  if (discarded.length > 0) send(`DELETE FROM stint.chunks WHERE job = ANY($1::text[])`, [ids(discarded)])
  insert(
    "chunks",
    CHUNK,
    [...entries.values()].flatMap(({ chunks, head, removed }) =>
      removed ? [] : chunks.map(({ attempt, body, number }) => [head.id, attempt, number, body])
    )
  )
  if (sorted.removed.length > 0) {
    send(`DELETE FROM stint.jobs WHERE id = ANY($1::text[])`, [ids(sorted.removed)])
    send(`DELETE FROM stint.text_words WHERE id = ANY($1::text[])`, [ids(sorted.removed)])
    const tagged = sorted.removed.filter(({ head }) => head.tags.length > 0)
    if (tagged.length > 0) send(`DELETE FROM stint.tags WHERE id = ANY($1::text[])`, [ids(tagged)])
  }

  const unsent = deliveries.filter(({ event }) => event === "progress").map(({ job }) => job)
  if (unsent.length > 0) {
    send(`DELETE FROM stint.deliveries WHERE event = 'progress' AND attempts = 0 AND job = ANY($1::text[])`, [unsent])
  }
  insert(
    "deliveries",
    DELIVERY,
    deliveries.map((one) => [
      one.id,
      one.job,
      one.endpoint,
      one.event,
      escapeNul(one.url),
      one.state,
      one.createdAt,
      one.attempts,
      one.nextAt,
      one.body,
      one.traceparent,
      one.tracestate
    ])
  )

  const changedBatches = [...batches.values()].filter(({ batch, removed, stored }) => removed || stored !== batch)
  const removedBatches = changedBatches.filter(({ removed }) => removed).map(({ batch }) => batch.id)
  if (removedBatches.length > 0) {
    send(`DELETE FROM stint.batch_requests WHERE batch = ANY($1::text[])`, [removedBatches])
    send(`DELETE FROM stint.batches WHERE id = ANY($1::text[])`, [removedBatches])
  }
  insert(
    "batches",
    BATCH,
    changedBatches.filter(({ removed, stored }) => !removed && stored === undefined).map(({ batch }) => batchValues(batch))
  )
  const savedBatches = changedBatches.filter(({ removed, stored }) => !removed && stored !== undefined)
  if (savedBatches.length > 0) {
    send(
      `UPDATE stint.batches b SET ended = u.ended, due_at = u.due_at, body = u.body
       FROM unnest($1::text[], $2::boolean[], $3::bigint[], $4::text[]) AS u (id, ended, due_at, body) WHERE b.id = u.id`,
      transpose(savedBatches.map(({ batch }) => [batch.id, batch.endedAt !== null, batchDueAt(batch), encodeBatch(batch)]))
    )
  }
  for (
    const [text, values] of [
      ...RunWrites.statementsOf(runWork),
      ...ScheduleWork.statementsOf(schedules),
      ...slots.statements(),
      ...ofErrors
    ]
  ) {
    send(text, values)
  }
  await Promise.all([...statements.map(([text, values]) => query(text, values)), tallies.send(query), execute("COMMIT")])
  tallies.committed()
}

/**
 * Jobs in SQLite.
 *
 * ```
 *   write   find the row -> transition (the state machine) -> save, count     in the next group commit
 *   read    at once, of what is committed
 * ```
 *
 * A look that finds nothing (nothing to claim, nothing due, a worker without jobs, no new chunk) is a read: waiting costs no
 * transactions.
 */
import type { JsonText } from "@stint/contract/Json"
import { type JobEvent, transition } from "@stint/queue/JobMachine"
import type { JobRecord } from "@stint/queue/JobRecord"
import { type Applied, DRAIN_CHARACTERS, type Drained, JobStore } from "@stint/queue/JobStore"
import type { QueueError } from "@stint/queue/QueueError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as JobRows from "./JobRows.ts"
import { SqliteDatabase } from "./SqliteDatabase.ts"
import * as Tallies from "./Tallies.ts"

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const { lastSeq, rows, tallies } = yield* db.read("open", () => {
    const rows = JobRows.make(db)
    return { rows, tallies: Tallies.make(db), lastSeq: rows.lastSeq() }
  })
  // Grows with every try, so that a job whose transaction was rolled back leaves a gap and takes nobody's place.
  let seq = lastSeq

  /** Within a transaction. */
  const apply = (row: JobRows.Row, event: JobEvent): Applied => {
    const before = row.head
    const decided = transition(before, event)
    if (Result.isFailure(decided)) return { _tag: "Rejected", job: before, rejection: decided.failure }
    if (decided.success._tag === "Remove") {
      rows.remove(row)
      tallies.count(before, undefined)
      return { _tag: "Removed", before }
    }
    const after = decided.success.job
    rows.save(row, after, decided.success.outcome, decided.success.discardChunks)
    if (before.status !== after.status) tallies.count(before, after)
    return { _tag: "Changed", before, after }
  }

  /** Within a transaction: the unread chunks of a job, not too many and not too long. */
  const takeChunks = (row: JobRows.Row, limit: number): ReadonlyArray<JsonText> => {
    const taken: Array<JsonText> = []
    let characters = 0
    for (const body of rows.chunks(row, row.head.drained + 1)) {
      taken.push(body)
      characters += body.length
      if (taken.length >= limit || characters >= DRAIN_CHARACTERS) break
    }
    if (taken.length > 0) rows.setDrained(row.seq, row.head.drained + taken.length)
    return taken
  }

  /** Looks first, and writes only where there is something to write. */
  const unless = <A>(
    operation: string,
    nothing: () => boolean,
    none: A,
    write: () => A
  ): Effect.Effect<A, QueueError> =>
    Effect.flatMap(db.read(operation, nothing), (idle) => idle ? Effect.succeed(none) : db.write(operation, write))

  return JobStore.of({
    durability: db.durability,
    insert: (job) =>
      db.write("insert", () => {
        seq += 1
        const kept = rows.insert(seq, job)
        if (kept) tallies.count(undefined, job)
        return kept
      }).pipe(
        Effect.flatMap((kept) => kept ? Effect.void : Effect.die(new Error(`job ${job.id} is already kept`)))
      ),
    apply: (id, event) =>
      db.write(event._tag, (): Applied => {
        const row = rows.find(id)
        return row === undefined ? { _tag: "Missing" } : apply(row, event)
      }),
    append: (id, event, body) =>
      db.write("append", (): Applied => {
        const row = rows.find(id)
        if (row === undefined) return { _tag: "Missing" }
        const applied = apply(row, event)
        if (applied._tag === "Changed") rows.addChunk(row.seq, applied.after, body)
        return applied
      }),
    claim: (endpoint, limit, event) =>
      unless<ReadonlyArray<JobRecord>>(
        "claim",
        () => tallies.of(endpoint).waiting === 0,
        [],
        () =>
          rows.ready(endpoint, limit).flatMap((row) => {
            const applied = apply(row, event)
            return applied._tag === "Changed" ? [{ ...applied.after, ...rows.payload(row.seq) }] : []
          })
      ),
    tick: (now, limit) =>
      unless<ReadonlyArray<Applied>>(
        "tick",
        () => !rows.isDue(now),
        [],
        () => rows.due(now, limit).map((row) => apply(row, { _tag: "Tick", now }))
      ),
    applyRunning: (filter, event) =>
      unless<ReadonlyArray<Applied>>(
        "applyRunning",
        () => filter !== "all" && !rows.isHolding(filter.endpoint, filter.worker),
        [],
        () => rows.running(filter).map((row) => apply(row, event))
      ),
    applyWaiting: (endpoint, event, limit) =>
      unless<ReadonlyArray<Applied>>(
        "applyWaiting",
        () => tallies.of(endpoint).waiting === 0,
        [],
        () => rows.ready(endpoint, limit).map((row) => apply(row, event))
      ),
    get: (id) => db.read("get", () => rows.report(id)),
    drain: (id, limit) =>
      Effect.flatMap(db.read("drain", () => rows.report(id)), (seen): Effect.Effect<Drained | undefined, QueueError> => {
        if (seen === undefined) return Effect.succeed(undefined)
        if (seen.chunks === seen.drained) return Effect.succeed({ job: seen, chunks: [], more: false })
        return db.write("drain", () => {
          const row = rows.find(id)
          if (row === undefined) return undefined
          const chunks = takeChunks(row, limit)
          const job = rows.report(id)
          return job === undefined ? undefined : { job, chunks, more: job.drained < job.chunks }
        })
      }),
    depth: (endpoint) =>
      db.read("depth", () => {
        const tally = tallies.of(endpoint)
        const anyOld = tally.waiting > tally.waitingLow
        return { ...tally, oldestQueuedAt: anyOld ? rows.oldestQueuedAt(endpoint) : null }
      })
  })
})

/** The job store of a database file. */
export const layer: Layer.Layer<JobStore, QueueError, SqliteDatabase> = Layer.effect(JobStore, make)

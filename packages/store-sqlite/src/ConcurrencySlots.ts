/**
 * The slots of concurrency keys in SQLite: which jobs of a key are ready or running, and which are held (ConcurrencyRule.ts of
 * `@stint/store`).
 *
 * ```
 *   jobs.turn   0      the job has no key, or never received a slot
 *               NULL   held
 *               > 0    the position at which it received its slot; part of the claim order
 * ```
 *
 * The counts are read from the index `jobs_slots`, which has at most one entry per slot. No operation on a job without a key executes any of
 * these statements.
 */
import { EndpointId } from "@stint/contract/Ids"
import { asksForSlot, isAdmitted, type KeyUsage, releasable, RELEASE_LIMIT, withHeld } from "@stint/store/ConcurrencyRule"
import type { JobHead } from "@stint/store/JobRecord"
import * as Schema from "effect/Schema"
import type { Row } from "./JobColumns.ts"
import type { JobRows } from "./JobRows.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"
import type { Tallies } from "./Tallies.ts"

const decodeSlots = Schema.decodeUnknownSync(Schema.Struct({ slots: Schema.Int, running: Schema.Int }))
const decodeLimit = Schema.decodeUnknownSync(Schema.Struct({ endpoint: EndpointId, max: Schema.NullOr(Schema.Int) }))
const decodeCount = Schema.decodeUnknownSync(Schema.Struct({ count: Schema.Int }))

/** The slots of a database file. All methods except `isLimit` and `usage` run within a transaction. */
export interface ConcurrencySlots {
  /** Whether this is the recorded limit of an endpoint's keys. Undefined: the endpoint has no limit. */
  readonly isLimit: (endpoint: EndpointId, limit: number | undefined) => boolean
  /** Records the current limit of an endpoint's keys. */
  readonly setLimit: (endpoint: EndpointId, limit: number | undefined) => void
  /** Stores the key of a new job, whose row exists, and gives it a slot or holds it. Returns the job as it is stored. */
  readonly insert: (seq: number, job: JobHead) => JobHead
  /** Gives a changed job the slot that it needs, or holds it. Called before the job is saved. Returns the job to save. */
  readonly place: (row: Row, after: JobHead, now: number) => JobHead
  /** Releases held jobs with the key of a job that freed its slot. Called after the job is saved. Returns the number of released jobs. */
  readonly release: (job: JobHead, now: number) => number
  /** The usage of a held job's key; `held` counts the held jobs before it, up to `limit`. */
  readonly usage: (row: Row, limit: number) => KeyUsage
}

/** Prepares the statements. */
export const make = (db: SqliteDatabase["Service"], rows: JobRows, tallies: Tallies): ConcurrencySlots => {
  const slots = db.statement(
    `SELECT count(*) AS slots, coalesce(sum(status = 'IN_PROGRESS'), 0) AS running FROM jobs INDEXED BY jobs_slots
     WHERE endpoint = ? AND concurrency_key = ? AND turn IS NOT NULL AND not_before IS NULL AND finished_at IS NULL`
  )
  const heldBefore = db.statement(
    `SELECT count(*) AS count FROM (SELECT 1 FROM jobs INDEXED BY jobs_held
     WHERE endpoint = ? AND concurrency_key = ? AND turn IS NULL AND not_before IS NULL AND priority = ? AND seq < ? LIMIT ? + 0)`
  )
  const heldAbove = db.statement(
    `SELECT count(*) AS count FROM (SELECT 1 FROM jobs INDEXED BY jobs_held
     WHERE endpoint = ? AND concurrency_key = ? AND turn IS NULL AND not_before IS NULL AND priority > ? LIMIT ? + 0)`
  )
  const anyHeld = db.statement(
    `SELECT count(*) AS count FROM (SELECT 1 FROM jobs INDEXED BY jobs_held
     WHERE endpoint = ? AND concurrency_key = ? AND turn IS NULL AND not_before IS NULL LIMIT 1)`
  )
  const setKey = db.statement(`UPDATE jobs SET concurrency_key = ?, concurrency_limit = ?, turn = ? WHERE seq = ?`)
  const setTurn = db.statement(`UPDATE jobs SET turn = ? WHERE seq = ?`)
  const release = db.statement(`UPDATE jobs SET turn = ?, queued_at = ? WHERE seq = ?`)

  const limits = db.statement(`SELECT endpoint, max FROM concurrency_limits`)
  const putLimit = db.statement(`INSERT OR REPLACE INTO concurrency_limits (endpoint, max) VALUES (?, ?)`)
  const committed = new Map<EndpointId, number>()
  /** The changes of the current transaction. */
  const changed = new Map<EndpointId, number>()
  for (const row of limits.all()) {
    const { endpoint, max } = decodeLimit(row)
    committed.set(endpoint, max ?? Infinity)
  }
  db.join({
    beforeCommit: () => {},
    committed: () => {
      for (const [endpoint, limit] of changed) committed.set(endpoint, limit)
      changed.clear()
    },
    rolledBack: () => changed.clear()
  })

  const limitOf = (endpoint: EndpointId): number => changed.get(endpoint) ?? committed.get(endpoint) ?? Infinity

  const setLimit = (endpoint: EndpointId, limit: number | undefined) => {
    if (limitOf(endpoint) === (limit ?? Infinity)) return
    changed.set(endpoint, limit ?? Infinity)
    putLimit.run(endpoint, limit ?? null)
  }

  let lastTurn = 0
  /** The next position. Derived from the time of the event, so that it follows the positions in the file after a restart. */
  const nextTurn = (now: number): number => {
    lastTurn = Math.max(lastTurn + 1, now * 1_000)
    return lastTurn
  }

  const keyOf = ({ concurrency }: JobHead): string => concurrency?.key ?? ""

  const slotsOf = (job: JobHead): Omit<KeyUsage, "held"> => {
    const found = decodeSlots(slots.get(job.endpoint, keyOf(job)))
    return { running: found.running, ready: found.slots - found.running }
  }

  /** Whether a job that needs a slot receives one. */
  const admits = (job: JobHead): boolean => {
    const held = decodeCount(anyHeld.get(job.endpoint, keyOf(job))).count
    return isAdmitted({ ...slotsOf(job), held }, limitOf(job.endpoint))
  }

  return {
    isLimit: (endpoint, limit) => (committed.get(endpoint) ?? Infinity) === (limit ?? Infinity),
    setLimit,
    insert: (seq, job) => {
      const { concurrency, createdAt, endpoint } = job
      const asks = asksForSlot(undefined, job)
      setLimit(endpoint, concurrency?.limit)
      const stored = withHeld(job, asks && !admits(job))
      const turn = stored.concurrency?.held === true ? null : asks ? nextTurn(createdAt) : 0
      setKey.run(keyOf(job), concurrency?.limit ?? null, turn, seq)
      return stored
    },
    place: ({ head: before, seq }, after, now) => {
      if (!asksForSlot(before, after)) {
        // A held job that ends leaves the index of held jobs.
        if (before.concurrency?.held === true) setTurn.run(0, seq)
        return withHeld(after, false)
      }
      const admitted = admits(after)
      setTurn.run(admitted ? nextTurn(now) : null, seq)
      return withHeld(after, !admitted)
    },
    release: (job, now) => {
      let released = 0
      while (true) {
        const free = Math.min(releasable(slotsOf(job), limitOf(job.endpoint)), RELEASE_LIMIT - released)
        if (free === 0) return released
        const found = rows.held(job.endpoint, keyOf(job), free, now)
        for (const { head, seq } of found.rows) {
          release.run(nextTurn(now), now, seq)
          tallies.count(head, { ...withHeld(head, false), queuedAt: now })
        }
        released += found.rows.length
        // Unreadable rows were postponed, and others may follow.
        if (found.unreadable === 0) return released
      }
    },
    usage: ({ head, seq }, limit) => {
      const { endpoint, priority } = head
      const above = decodeCount(heldAbove.get(endpoint, keyOf(head), priority, limit)).count
      const same = above === limit ? 0 : decodeCount(heldBefore.get(endpoint, keyOf(head), priority, seq, limit - above)).count
      return { ...slotsOf(head), held: above + same }
    }
  }
}

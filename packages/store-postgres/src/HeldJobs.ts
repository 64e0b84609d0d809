/**
 * Whether workers hold jobs. Most workers that take jobs hold none, and the takes of an idle platform come at the same times (`AlignedSleep`), so reads of
 * one turn share a statement, which waits for no transaction.
 *
 * While `running` has many dead rows (DeadRows.ts), this is read at most once a second for each worker, which counts as holding none in between. A job
 * of a lost response then returns to the queue with a later take of its worker, or when its lease expires.
 */
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { PostgresDatabase } from "./PostgresDatabase.ts"
import * as SharedReads from "./SharedReads.ts"
import type { WorkerOf } from "./Transaction.ts"

/** How often a worker is looked up while there are many dead rows. */
const RARE_MILLIS = 1_000

/** The positions, from 1, of the workers that have a running job. */
const HOLDERS = `SELECT u.n::int FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS u (endpoint, worker, n)
  CROSS JOIN LATERAL (SELECT 1 FROM stint.running r WHERE r.endpoint = u.endpoint AND r.worker = u.worker LIMIT 1) held`

const decodePosition = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))

/** Reads whether a worker holds a job, as of the last commits. `elapsed`: the monotonic time in milliseconds. */
export const make = (
  db: PostgresDatabase["Service"],
  elapsed: () => number = () => performance.now()
): (worker: WorkerOf) => Effect.Effect<boolean, StoreError> => {
  const lookedUp = new Map<string, number>()

  /** Whether the last lookup is too recent. Forgets old lookups. */
  const isRecent = ({ endpoint, worker }: WorkerOf): boolean => {
    if (!db.deadRows.isMany("running")) {
      lookedUp.clear()
      return false
    }
    const now = elapsed()
    for (const [key, time] of lookedUp) {
      if (now - time < RARE_MILLIS) break
      lookedUp.delete(key)
    }
    const key = `${endpoint}\n${worker}`
    if (lookedUp.has(key)) return true
    lookedUp.set(key, now)
    return false
  }

  const holds = SharedReads.make((workers: ReadonlyArray<WorkerOf>) =>
    db.read("applyRunning", async (query) => {
      const rows = await query(HOLDERS, [workers.map(({ endpoint }) => endpoint), workers.map(({ worker }) => worker)])
      const holders = new Set(rows.map((row) => decodePosition(row)[0]))
      return workers.map((_, index) => holders.has(index + 1))
    })
  )
  return (worker) => Effect.suspend(() => isRecent(worker) ? Effect.succeed(false) : holds(worker))
}

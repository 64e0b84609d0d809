/**
 * The job counts of all endpoints, in memory and in the table `tallies`.
 *
 * A transaction changes copies of the counts, writes them to the table before its commit, and replaces the counts in memory after the
 * commit. The table therefore always matches `jobs`.
 *
 * `depth` and a claim on an empty queue therefore read no rows, and opening a file reads one row per endpoint, which takes 4 ms for a file
 * with a million jobs (docs/decisions/0003-sqlite-without-sqlclient.md).
 */
import { EndpointId } from "@stint/contract/Ids"
import type { JobHead } from "@stint/store/JobRecord"
import * as Tally from "@stint/store/Tally"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** The counts of all endpoints, as of the last commit. */
export interface Tallies {
  readonly of: (endpoint: EndpointId) => Readonly<Tally.Tally>
  /** Within a transaction: the counts, including changes made by earlier commands. */
  readonly current: (endpoint: EndpointId) => Readonly<Tally.Tally>
  /** Within a transaction: counts a changed job, a new one (`before` undefined) or a removed one (`after` undefined). */
  readonly count: (before: JobHead | undefined, after: JobHead | undefined) => void
}

const decodeTally = Schema.decodeUnknownSync(Schema.Struct({
  endpoint: EndpointId,
  waiting: Schema.Int,
  waitingLow: Schema.Int,
  delayed: Schema.Int,
  running: Schema.Int,
  completed: Schema.Int,
  failed: Schema.Int,
  retried: Schema.Int,
  isolated: Schema.Int
}))

/** Reads the table. */
export const make = (db: SqliteDatabase["Service"]): Tallies => {
  const committed = new Map<EndpointId, Readonly<Tally.Tally>>()
  const changed = new Map<EndpointId, Tally.Tally>()

  const all = db.statement(
    `SELECT endpoint, waiting, waiting_low AS waitingLow, delayed, running, completed, failed, retried, isolated FROM tallies`
  )
  const put = db.statement(
    `INSERT OR REPLACE INTO tallies (endpoint, waiting, waiting_low, delayed, running, completed, failed, retried, isolated)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`
  )

  for (const row of all.all()) {
    const { endpoint, ...tally } = decodeTally(row)
    committed.set(endpoint, tally)
  }

  db.join({
    beforeCommit: () => {
      for (const [endpoint, { completed, delayed, failed, isolated, retried, running, waiting, waitingLow }] of changed) {
        put.run(endpoint, waiting, waitingLow, delayed, running, completed, failed, retried, isolated)
      }
    },
    committed: () => {
      for (const [endpoint, tally] of changed) committed.set(endpoint, tally)
      changed.clear()
    },
    rolledBack: () => changed.clear()
  })

  const ofTransaction = (endpoint: EndpointId): Tally.Tally => {
    let tally = changed.get(endpoint)
    if (tally === undefined) {
      tally = { ...(committed.get(endpoint) ?? Tally.make()) }
      changed.set(endpoint, tally)
    }
    return tally
  }

  return {
    of: (endpoint) => committed.get(endpoint) ?? Tally.make(),
    current: (endpoint) => changed.get(endpoint) ?? committed.get(endpoint) ?? Tally.make(),
    count: (before, after) => {
      if (before !== undefined) Tally.add(ofTransaction(before.endpoint), before, -1)
      if (after !== undefined) Tally.add(ofTransaction(after.endpoint), after, 1)
    }
  }
}

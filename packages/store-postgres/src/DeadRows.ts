/**
 * Whether the hot tables contain many dead rows.
 *
 * Each job leaves dead rows in `ready` and `running`. While a transaction of another program stays open, such as a dump, the server can remove none of
 * them, and every search for the jobs of an endpoint or a worker reads them again: after 60,000 jobs it takes 30 ms instead of 0.5 ms. While there are
 * many, claims begin behind them (ClaimCursors.ts), and searches for the jobs of a worker are rarer (HeldJobs.ts).
 */
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"

/** From this number on, a search is slow. Far more than autovacuum leaves in a table that it can clean. */
export const MANY = 10_000

/** How often the rows are counted while jobs are claimed. The server updates its count once a second. */
const COUNT_MILLIS = 1_000

const COUNT =
  `SELECT pg_stat_get_dead_tuples('stint.ready'::regclass)::int, pg_stat_get_dead_tuples('stint.running'::regclass)::int`

const decodeCounts = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int]))

/** What is known of the dead rows. */
export interface DeadRows {
  readonly isMany: (table: "ready" | "running") => boolean
  /** Counts the rows if the last count is a second old. Reads the server's statistics, no table. */
  readonly count: (query: Query) => Promise<void>
}

/** Nothing is counted yet. `elapsed`: the monotonic time in milliseconds. */
export const make = (elapsed: () => number = () => performance.now()): DeadRows => {
  let countedAt = -Infinity
  let many = { ready: false, running: false }
  return {
    isMany: (table) => many[table],
    count: async (query) => {
      const now = elapsed()
      if (now - countedAt < COUNT_MILLIS) return
      countedAt = now
      const [ready, running] = decodeCounts((await query(COUNT))[0])
      many = { ready: ready >= MANY, running: running >= MANY }
    }
  }
}

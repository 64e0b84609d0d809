/**
 * The counts of endpoints (`depth`) and what endpoints and keys use (quotas), as rows of the table `tallies`.
 *
 * Each node has its own rows, which are summed on read, so nodes never wait for each other's counts. A change inserts a new row and deletes the
 * previous one (`gen`) instead of updating it. The newest row comes first in the index, so a long open transaction does not slow down reads.
 *
 * The counts of nodes that ended long ago are in the rows of node 0 (EndedNodes.ts).
 */
import type { JobHead } from "@stint/store/JobRecord"
import type { Depth } from "@stint/store/JobStore"
import type { QuotaScope, QuotaUsage } from "@stint/store/Quota"
import * as Tally from "@stint/store/Tally"
import * as Schema from "effect/Schema"
import type { Query, Row } from "./Connection.ts"
import { insertAll, transpose } from "./JobColumns.ts"

/** Whose counts a row has. `logs`: the stored log lines of all jobs. */
export type Scope = QuotaScope | "logs"

const COUNTS = ["waiting", "waitingLow", "delayed", "running", "completed", "failed", "retried", "isolated", "bytes"] as const

type Counts = Record<(typeof COUNTS)[number], number>

const COLUMNS = "waiting, waiting_low, delayed, running, completed, failed, retried, isolated, bytes"

const TYPES = {
  scope: "text",
  id: "text",
  node: "int",
  gen: "bigint",
  waiting: "bigint",
  waiting_low: "bigint",
  delayed: "bigint",
  running: "bigint",
  completed: "bigint",
  failed: "bigint",
  retried: "bigint",
  isolated: "bigint",
  bytes: "bigint"
} as const

const none = (): Counts => ({ ...Tally.make(), bytes: 0 })

const plus = (a: Readonly<Counts>, b: Readonly<Counts>): Counts => {
  const sum = none()
  for (const name of COUNTS) sum[name] = a[name] + b[name]
  return sum
}

const isNone = (counts: Readonly<Counts>): boolean => COUNTS.every((name) => counts[name] === 0)

const decodeCounts = Schema.decodeUnknownSync(Schema.Array(Schema.Int))

const toCounts = (row: Row): Counts => {
  const [waiting = 0, waitingLow = 0, delayed = 0, running = 0, completed = 0, failed = 0, retried = 0, isolated = 0, bytes = 0] =
    decodeCounts(row)
  return { waiting, waitingLow, delayed, running, completed, failed, retried, isolated, bytes }
}

const SUM_OF_EACH = COLUMNS.split(", ").map((column) => `coalesce(sum(t.${column}), 0)::bigint`).join(", ")

/** The newest row of each node, through the index. */
const SUM = `SELECT ${SUM_OF_EACH} FROM stint.nodes n CROSS JOIN LATERAL (
  SELECT * FROM stint.tallies WHERE scope = $1 AND id = $2 AND node = n.no ORDER BY gen DESC LIMIT 1
) t`

/** The number of the node that has the counts of copied jobs (Import.ts) and of ended nodes. Real nodes begin at 1. */
export const FOLDED = 0

const EACH_COLUMN = COLUMNS.split(", ")

const FOLD = `WITH gone AS (
    DELETE FROM stint.tallies WHERE node = ANY($1::int[]) RETURNING *
  ), newest AS (
    SELECT DISTINCT ON (scope, id, node) * FROM gone ORDER BY scope, id, node, gen DESC
  ), sums AS (
    SELECT scope, id, ${
  EACH_COLUMN.map((column) => `sum(${column})::bigint AS ${column}`).join(", ")
} FROM newest GROUP BY scope, id
  ), replaced AS (
    DELETE FROM stint.tallies t USING sums s WHERE t.scope = s.scope AND t.id = s.id AND t.node = ${FOLDED} RETURNING t.*
  ), before AS (
    SELECT DISTINCT ON (scope, id) * FROM replaced ORDER BY scope, id, gen DESC
  ), after AS (
    SELECT scope, id, coalesce(before.gen, 0) + 1 AS gen,
      ${EACH_COLUMN.map((column) => `sums.${column} + coalesce(before.${column}, 0) AS ${column}`).join(", ")}
    FROM sums LEFT JOIN before USING (scope, id)
  )
  INSERT INTO stint.tallies (scope, id, node, gen, ${COLUMNS})
  SELECT scope, id, ${FOLDED}, gen, ${COLUMNS} FROM after WHERE (${COLUMNS}) <> (${EACH_COLUMN.map(() => "0").join(", ")})`

/** Moves the counts of nodes to node 0. The transaction has locked the rows of these nodes and of node 0. */
export const fold = async (query: Query, nodes: ReadonlyArray<number>): Promise<void> => {
  await query(FOLD, [nodes])
}

/** The same for several ids. */
const SUMS = `SELECT u.id, ${SUM_OF_EACH} FROM unnest($2::text[]) AS u (id) CROSS JOIN stint.nodes n CROSS JOIN LATERAL (
  SELECT * FROM stint.tallies WHERE scope = $1 AND id = u.id AND node = n.no ORDER BY gen DESC LIMIT 1
) t GROUP BY u.id`

/** Reads the counts of all nodes for several ids. */
export const readAll = async (
  query: Query,
  scope: Scope,
  ids: ReadonlyArray<string>
): Promise<(id: string) => Readonly<Counts>> => {
  const rows = await query(SUMS, [scope, ids])
  const counts = new Map(rows.map(([id, ...row]) => [id, toCounts(row)]))
  return (id) => counts.get(id) ?? none()
}

/** Reads the counts of all nodes. */
export const read = async (query: Query, scope: Scope, id: string): Promise<Readonly<Counts>> => {
  const [row] = await query(SUM, [scope, id])
  return row === undefined ? none() : toCounts(row)
}

/** The counts of an endpoint without the time of its oldest job. */
export const depthOf = ({ bytes: _, ...tally }: Readonly<Counts>): Omit<Depth, "oldestQueuedAt"> => tally

/** What an endpoint or a key uses. */
export const usageOf = ({ bytes, delayed, waiting }: Readonly<Counts>): QuotaUsage => ({ waiting: waiting + delayed, bytes })

/** The changes of one transaction. */
export interface TallyChanges {
  /** Counts a changed job, a new one (`before` undefined) or a removed one (`after` undefined), and its change in bytes. */
  readonly count: (before: JobHead | undefined, after: JobHead | undefined, bytes: number) => void
  /** Counts bytes of log lines. */
  readonly logged: (endpoint: string, owner: string, bytes: number) => void
  /** The changes so far. */
  readonly of: (scope: Scope, id: string) => Readonly<Counts>
  /** Sends the changed rows. */
  readonly send: (query: Query) => Promise<void>
  /** After the commit. */
  readonly committed: () => void
}

/** The rows of this node. */
export interface TallyRows {
  readonly begin: () => TallyChanges
  /** Reads the rows again before the next transaction, because a failed one may have changed them. */
  readonly reload: (query: Query) => Promise<void>
}

/**
 * Deletes the previous rows. `OFFSET 0`, because a planner that has seen an empty table would read all its rows, and later all dead ones, instead of
 * looking up each row.
 */
const REPLACE = `WITH deleted AS (
    DELETE FROM stint.tallies WHERE ctid = ANY(ARRAY(
      SELECT t.ctid FROM unnest($1::text[], $2::text[], $3::bigint[]) AS u (scope, id, gen) CROSS JOIN LATERAL (
        SELECT ctid FROM stint.tallies WHERE scope = u.scope AND id = u.id AND node = $4 AND gen = u.gen OFFSET 0
      ) t
    )) RETURNING 1
  ) SELECT 1 / (CASE WHEN count(*) = $5 THEN 1 ELSE 0 END) FROM deleted`

interface Written {
  readonly gen: number
  readonly counts: Readonly<Counts>
}

const keyOf = (scope: Scope, id: string): string => `${scope}\n${id}`

/** The rows of a node, as of the last commit. A new node has none. */
export const make = (node: number): TallyRows => {
  const written = new Map<string, Written>()

  const begin = (): TallyChanges => {
    const changes = new Map<string, { readonly scope: Scope; readonly id: string; readonly counts: Counts }>()
    let next: ReadonlyArray<readonly [string, Written]> = []

    const of = (scope: Scope, id: string): Counts => {
      const key = keyOf(scope, id)
      const known = changes.get(key)
      if (known !== undefined) return known.counts
      const counts = none()
      changes.set(key, { scope, id, counts })
      return counts
    }

    const add = (head: JobHead, by: 1 | -1) => {
      Tally.add(of("endpoint", head.endpoint), head, by)
      Tally.add(of("key", head.owner), head, by)
    }

    return {
      of: (scope, id) => changes.get(keyOf(scope, id))?.counts ?? none(),
      count: (before, after, bytes) => {
        if (before !== undefined) add(before, -1)
        if (after !== undefined) add(after, 1)
        const head = after ?? before
        if (head === undefined || bytes === 0) return
        of("endpoint", head.endpoint).bytes += bytes
        of("key", head.owner).bytes += bytes
      },
      logged: (endpoint, owner, bytes) => {
        of("endpoint", endpoint).bytes += bytes
        of("key", owner).bytes += bytes
        of("logs", "").bytes += bytes
      },
      send: async (query) => {
        const changed = [...changes].filter(([, { counts }]) => !isNone(counts))
        if (changed.length === 0) return
        const rows = changed.map(([key, { counts, id, scope }]) => {
          const before = written.get(key)
          return { key, scope, id, before, gen: (before?.gen ?? 0) + 1, counts: plus(before?.counts ?? none(), counts) }
        })
        next = rows.map(({ counts, gen, key }) => [key, { gen, counts }])
        const old = rows.filter(({ before }) => before !== undefined)
        await Promise.all([
          // Divides by zero to abort the transaction when the row of this node, and with it its counts, was removed (EndedNodes.ts). Keeps it until the
          // commit.
          query(`SELECT 1 / count(*) FROM (SELECT 1 FROM stint.nodes WHERE no = $1 FOR KEY SHARE) n`, [node]),
          // The same when another process has taken over the rows of this node.
          old.length === 0 ? undefined : query(
            REPLACE,
            [old.map(({ scope }) => scope), old.map(({ id }) => id), old.map(({ gen }) => gen - 1), node, old.length]
          ),
          query(
            insertAll("tallies", TYPES),
            transpose(rows.map(({ counts, gen, id, scope }) => [scope, id, node, gen, ...COUNTS.map((name) => counts[name])]))
          )
        ])
      },
      committed: () => {
        for (const [key, row] of next) written.set(key, row)
      }
    }
  }

  return {
    begin,
    reload: async (query) => {
      const [rows] = await Promise.all([
        query(
          `SELECT DISTINCT ON (scope, id) scope || E'\\n' || id, gen, ${COLUMNS} FROM stint.tallies WHERE node = $1
           ORDER BY scope, id, gen DESC`,
          [node]
        ),
        query(`INSERT INTO stint.nodes (no, started_at, seen_at) VALUES ($1, now(), now()) ON CONFLICT (no) DO NOTHING`, [node])
      ])
      written.clear()
      for (const [key, gen, ...counts] of rows) {
        written.set(String(key), { gen: Number(gen), counts: toCounts(counts) })
      }
    }
  }
}

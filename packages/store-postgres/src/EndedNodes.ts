/**
 * Removes the rows of nodes that ended long ago. Their counts move to node 0, because each count is read once for every row of `nodes`.
 *
 * ```
 *   lock the rows of nodes without a heartbeat for an hour    skips nodes that are committing
 *   lock node 0                                               one fold at a time
 *   add up and delete their counts                            one statement
 *   delete their rows                                         COMMIT: a reader sees the counts either before or after
 * ```
 *
 * A node that was only frozen, or that writes no heartbeats, may return. Each of its commits that changes counts locks its row first (TallyRows.ts). So it
 * either commits before the fold, which then skips the node, or it waits for the fold, finds no row, and reads its counts again.
 */
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import * as TallyRows from "./TallyRows.ts"

/** How long ago the last heartbeat of a node was when its rows are removed. Far longer than
 * any outage of a healthy node, because a node that returns must read its counts again. */
const ENDED_AFTER = "1 hour"

/** The greatest number of nodes in one transaction. */
const LIMIT = 1_000

/** The greatest number remains: an import reads from it whether a node has used the database since (Import.ts). */
const LOCK = `SELECT no FROM stint.nodes
  WHERE no <> ${TallyRows.FOLDED} AND no < (SELECT max(no) FROM stint.nodes) AND seen_at < now() - interval '${ENDED_AFTER}'
  ORDER BY no LIMIT ${LIMIT} FOR UPDATE SKIP LOCKED`

const decodeNo = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))

/** Removes the rows of ended nodes, in a transaction. Returns their numbers. */
export const fold = async (query: Query): Promise<ReadonlyArray<number>> => {
  const ended = (await query(LOCK)).map((row) => decodeNo(row)[0])
  if (ended.length === 0) return ended
  await query(
    `INSERT INTO stint.nodes (no, started_at, seen_at) VALUES ($1, now(), 'epoch') ON CONFLICT (no) DO NOTHING`,
    [TallyRows.FOLDED]
  )
  await query(`SELECT 1 FROM stint.nodes WHERE no = $1 FOR UPDATE`, [TallyRows.FOLDED])
  await TallyRows.fold(query, ended)
  await query(`DELETE FROM stint.nodes WHERE no = ANY($1::int[])`, [ended])
  return ended
}

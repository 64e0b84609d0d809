/** The statements that lock ready jobs for claims and load them, in claim order. Values: the endpoint, the limit, and the ids of jobs to leave out. */
import { RECORD } from "./JobColumns.ts"

/**
 * A part of the ready jobs of an endpoint, in claim order. `MATERIALIZED`, because a subquery may run once for each row and then lock more rows than
 * its limit.
 */
const readyPart = (name: string, condition = "", taken = "", skip = " SKIP LOCKED") =>
  `${name} AS MATERIALIZED (
    SELECT * FROM stint.ready WHERE endpoint = $1 AND id <> ALL($3::text[])${condition}
    ORDER BY priority DESC, seq LIMIT $2${taken} FOR UPDATE${skip}
  )`

const readyRecords = (parts: string, source: string) =>
  `WITH ${parts} SELECT ${RECORD} FROM ${source} JOIN stint.jobs j ON j.id = s.id ORDER BY s.priority DESC, s.seq`

const READY = readyRecords(readyPart("s"), "s")
const READY_SHARED = readyRecords(readyPart("s", " AND NOT isolated"), "s")
const READY_WAITING = readyRecords(readyPart("s", "", "", ""), "s")

/** As `READY`, without the jobs of the priority `$4` before the position `$5` (ClaimCursors.ts). */
export const READY_FROM = readyRecords(
  [
    readyPart("higher", " AND priority > $4"),
    readyPart("same", " AND priority = $4 AND seq >= $5", " - (SELECT count(*) FROM higher)"),
    readyPart("lower", " AND priority < $4", " - (SELECT count(*) FROM higher) - (SELECT count(*) FROM same)")
  ].join(", "),
  "(SELECT * FROM higher UNION ALL SELECT * FROM same UNION ALL SELECT * FROM lower) s"
)

/** `shared`: only jobs that are not isolated. `waiting`: also those that another transaction has locked, after its end. */
export const statementOf = (only: "shared" | "waiting" | "cursor" | undefined): string => {
  switch (only) {
    case "shared":
      return READY_SHARED
    case "waiting":
      return READY_WAITING
    default:
      return READY
  }
}

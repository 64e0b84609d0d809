/**
 * Which jobs have timers that are due. Every query reads due rows only, plus the jobs that workers hold:
 *
 * ```
 *   ready, delayed, ended   by `due_at` and `seq`: thousands of jobs may be due at the same time
 *   running, parked         by `not_before`: thousands of runs may wait for months, and their rows never change meanwhile
 *   running, with a worker  all of them: a heartbeat moves the due time, and would have to change an index
 * ```
 */
import { type StateTable, WITH_WEBHOOK_PAYLOADS } from "./JobColumns.ts"

/** The tables with timers. */
export const DUE_TABLES: ReadonlyArray<StateTable> = ["running", "ready", "delayed", "ended"]

/** Runs, their children, and jobs with a concurrency key: their timers also change other jobs. */
const RELATED = "(is_run OR id LIKE 'step-%' OR concurrency_key IS NOT NULL)"

/** Jobs of a table that are due until `$1`, without parked runs. */
const isDue = (place: StateTable): string =>
  `due_at <= $1${place === "ended" ? " AND batch IS NULL" : place === "running" ? " AND worker IS NOT NULL" : ""}`

/** The `not_before` of a parked run is before the end of its time to live, and only a write of its worker changes it. */
const IS_PARKED_DUE = "worker IS NULL AND not_before <= $1"

/** Jobs that are due at the same time fire in order of submission. The `seq` of a job with a slot is its turn. */
const keyedTurn = (place: StateTable): string => `(SELECT j.seq FROM stint.jobs j WHERE j.id = ${place}.id)`
const turnOf = (place: StateTable): string => `CASE WHEN concurrency_key IS NULL THEN seq ELSE ${keyedTurn(place)} END`

/** A due job: its id, and whether its timer may change other jobs. The time and the turn determine its position in the order. */
const dueRows = (place: StateTable, at: string, condition: string, related: string, turn: string): string =>
  `(SELECT id, ${related} AS related, ${at} AS at, ${turn} AS turn FROM stint.${place}
    WHERE ${condition} AND id <> ALL($3::text[]) ORDER BY at, turn LIMIT $2)`

/** The due rows of a table, read by indexes in their order. No index can have the order of jobs with a concurrency key. */
const dueRowsOf = (place: StateTable): ReadonlyArray<string> =>
  place === "running" ? [dueRows(place, "due_at", isDue(place), RELATED, turnOf(place))] : [
    dueRows(place, "due_at", `concurrency_key IS NULL AND ${isDue(place)}`, RELATED, "seq"),
    dueRows(place, "due_at", `concurrency_key IS NOT NULL AND ${isDue(place)}`, "true", keyedTurn(place))
  ]

/**
 * The due jobs in the order in which their timers fire, without locks. `$1`: now, `$2`: the limit, `$3`: ids to skip. Takes the first jobs of both
 * kinds, so that many ordinary jobs do not delay the timers of runs.
 */
export const DUE = `SELECT id, related FROM (${
  [
    ...DUE_TABLES.flatMap(dueRowsOf),
    dueRows("running", "not_before", IS_PARKED_DUE, "true", turnOf("running"))
  ].join(" UNION ALL ")
}) s ORDER BY at, turn LIMIT $2`

/**
 * Locks the given jobs that are due and that no other transaction has locked. `$1`: now, `$2`: their ids. They are found by id:
 * because of the CASE, the planner cannot use an index of due jobs and read all of its entries.
 */
export const lockDue = (place: StateTable): string =>
  `WITH s AS MATERIALIZED (
     SELECT * FROM stint.${place} WHERE id = ANY($2::text[]) AND CASE WHEN ${
    isDue(place)
  } THEN true ELSE false END FOR UPDATE SKIP LOCKED
   ) SELECT ${WITH_WEBHOOK_PAYLOADS} FROM s JOIN stint.jobs j ON j.id = s.id`

const earliest = (place: StateTable, at: string, condition: string): string =>
  `(SELECT ${at} FROM stint.${place} WHERE ${condition} AND id <> ALL($2::text[]) ORDER BY ${at} LIMIT 1)`

/**
 * The earliest time of a timer that is due until `$1`; 0 if a child must be cancelled; null if there is none. `$2`: ids to skip. Later timers are not
 * read, because the index may begin with many dead rows of them.
 */
export const NEXT_DUE = `SELECT least(${
  [...DUE_TABLES.map((place) => earliest(place, "due_at", isDue(place))), earliest("running", "not_before", IS_PARKED_DUE)].join(
    ", "
  )
}, (SELECT 0 FROM stint.run_cancels WHERE job <> ALL($2::text[]) LIMIT 1))`

/** Children of ended runs that must be cancelled. `$1`: ids to skip, `$2`: the limit. */
export const CANCELS = `SELECT job, endpoint FROM stint.run_cancels WHERE job <> ALL($1::text[]) ORDER BY job LIMIT $2`

/** The given runs whose nested runs have not all ended. */
export const HAS_OPEN_NESTED = `SELECT DISTINCT n.root FROM stint.runs n
  WHERE n.root = ANY($1::text[]) AND n.run <> n.root AND NOT EXISTS (SELECT 1 FROM stint.ended e WHERE e.id = n.run)`

/** Locks all jobs of a table whose timers move when the clock is set: neither parked runs nor held jobs. */
export const timed = (place: "running" | "delayed"): string =>
  `SELECT ${WITH_WEBHOOK_PAYLOADS} FROM stint.${place} s JOIN stint.jobs j ON j.id = s.id
   WHERE s.${place === "running" ? "worker" : "not_before"} IS NOT NULL ORDER BY s.id FOR UPDATE OF s`

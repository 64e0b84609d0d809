/**
 * The tables of the index of words, and their statements.
 *
 * ```
 *   text_words   the words of an ended job, and which end of the job they are of       GIN
 *   text_state   one row, once a node has begun to index
 * ```
 *
 * A row of `text_words` is current if its job ended at the same time, in the same attempt and with an outcome of the same size. The rows of other jobs are
 * harmless, because the texts of all found jobs are compared.
 */
import { type EndpointId, JobId } from "@stint/contract/Ids"
import type { JobStatus } from "@stint/contract/Job"
import { endpointWord, indexWordsOf, type WantedWord } from "@stint/contract/SearchText"
import type { ListCursor } from "@stint/store/ListCursor"
import { NO_INDEX, type TextIndexState } from "@stint/store/TextIndex"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { transpose } from "./JobColumns.ts"
import { decodeTexts, TEXTS } from "./JobTexts.ts"

/** The version of the rules for words (`@stint/contract/SearchText`). An index of another version is built again. */
const VERSION = 1

/** Before the end of any job. */
const FIRST = Number.MIN_SAFE_INTEGER

/** Searches do not use an index that was not advanced for this time. Milliseconds. */
const OUTDATED_MILLIS = 300_000

/** The number of rows of an old index that one step removes. */
const STEP_REMOVED = 2_000

/** The maximum number of jobs that are counted as not indexed yet. */
const MAX_BEHIND = 10_000

const Time = Schema.Int
const decodeState = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Time, Time, Schema.Boolean]))
const decodeNumber = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))
const decodeScanned = Schema.decodeUnknownSync(Schema.Tuple([JobId, Time, Schema.Boolean]))
const decodeJob = Schema.decodeUnknownSync(Schema.Tuple([JobId, Schema.String, Time, Time, Schema.Int, Schema.Int]))
const decodeId = Schema.decodeUnknownSync(Schema.Tuple([JobId]))
const decodeFound = Schema.decodeUnknownSync(Schema.Tuple([Time, Schema.NullOr(Time), Schema.NullOr(Schema.String)]))

/** How far the index has got. */
export interface IndexState {
  /** Jobs that were submitted before are not indexed. */
  readonly start: number
  /** All jobs that ended before are indexed. */
  readonly frontier: number
  /** Whether the index has once contained all jobs. */
  readonly complete: boolean
}

/** A position in the order of the ends of jobs. */
export interface Place {
  readonly finishedAt: number
  readonly id: string
}

/** The words of a job. */
export interface Document {
  readonly id: JobId
  readonly endpoint: string
  readonly createdAt: number
  readonly finishedAt: number
  readonly attempt: number
  readonly outcomeBytes: number
  readonly words: ReadonlyArray<string>
}

/** Whether the words of an ended job `e` are indexed. One lookup for each job: the planner would read the whole table for more than a few. */
const KNOWN =
  `LEFT JOIN LATERAL (SELECT true AS current FROM stint.text_words t WHERE t.id = e.id AND t.finished_at = e.finished_at
    AND t.attempt = e.attempt AND t.outcome_bytes = e.outcome_bytes OFFSET 0) known ON true`

/** At most `$1` ended jobs after a place, and whether they must be indexed. `$2`: the start of the index. */
const scan = (after: string, order: string) =>
  `SELECT e.id, e.finished_at, known.current IS NULL AND e.created_at >= $2 FROM (
    SELECT id, finished_at, created_at, attempt, outcome_bytes FROM stint.ended WHERE ${after} ORDER BY ${order} LIMIT $1) e ${KNOWN}
   ORDER BY ${order.split(", ").map((column) => `e.${column}`).join(", ")}`

const SCAN_ENDS = scan("(finished_at, id) > ($3, $4)", "finished_at, id")
const SCAN_IDS = scan("id > $3", "id")

const DOCUMENTS = `SELECT s.id, s.endpoint, s.created_at, s.finished_at, s.attempt, s.outcome_bytes, ${TEXTS}
  FROM (SELECT * FROM stint.ended WHERE id = ANY($1::text[]) OFFSET 0) s JOIN stint.jobs j ON j.id = s.id`

const TYPES = ["text", "text", "bigint", "bigint", "int", "bigint", "int", "tsvector"]
const COLUMNS = ["id", "endpoint", "created_at", "finished_at", "attempt", "outcome_bytes", "size", "words"]

/** Without jobs that were removed meanwhile. In the order of ids, so that two nodes do not deadlock. */
const ADD = `INSERT INTO stint.text_words (${COLUMNS.join(", ")})
  SELECT d.* FROM unnest(${TYPES.map((type, index) => `$${index + 1}::${type}[]`).join(", ")}) d (${COLUMNS.join(", ")})
  WHERE EXISTS (SELECT FROM stint.jobs j WHERE j.id = d.id) ORDER BY id
  ON CONFLICT (id) DO UPDATE SET ${COLUMNS.slice(1).map((column) => `${column} = excluded.${column}`).join(", ")}`

/** Removes the words of removed jobs among the next rows. Returns the last row. */
const REMOVE_ORPHANS = `WITH next AS MATERIALIZED (SELECT id FROM stint.text_words WHERE id > $1 ORDER BY id LIMIT $2),
  removed AS (DELETE FROM stint.text_words w USING (
    SELECT id FROM next LEFT JOIN LATERAL (SELECT true AS stored FROM stint.jobs j WHERE j.id = next.id OFFSET 0) job ON true WHERE stored IS NULL
  ) gone WHERE w.id = gone.id)
  SELECT max(id) FROM next HAVING count(*) = $2`

const SHRINK = `WITH bound AS MATERIALIZED (
    SELECT max(created_at) AS at FROM (SELECT created_at FROM stint.text_words ORDER BY created_at LIMIT $1) oldest),
  removed AS (DELETE FROM stint.text_words WHERE created_at <= (SELECT at FROM bound) RETURNING size),
  moved AS (UPDATE stint.text_state SET start = greatest(start, (SELECT at FROM bound) + 1))
  SELECT coalesce(sum(size), 0) FROM removed`

/** The state of an index that searches may use. */
const usable = (now: string) =>
  `state AS MATERIALIZED (SELECT start, frontier FROM stint.text_state
    WHERE version = ${VERSION} AND complete AND frontier >= ${now} - ${OUTDATED_MILLIS})`

/** Ended jobs that may not be indexed. The planner would use an index of endpoints for a condition on the endpoint. */
const recent = (condition: string) =>
  `SELECT e.created_at, e.id FROM stint.ended e ${KNOWN}
   WHERE e.finished_at >= (SELECT frontier FROM state) AND e.created_at >= (SELECT start FROM state) AND known.current IS NULL${condition}`

const BEHIND = `WITH ${usable("$1::bigint")}
  SELECT count(*) FROM (${recent("")} LIMIT ${MAX_BEHIND}) behind`

const RANGE = `created_at BETWEEN greatest($2, state.start) AND $3 AND (created_at, id) < ($4, $5)`
const NEWEST = `ORDER BY created_at DESC, id DESC LIMIT $7`

/** The newest jobs that may have the words; one row without a job if there are none. No row if the index cannot be used. */
const find = (isEnded: boolean) =>
  `WITH ${usable("$8::bigint")},
    hits AS MATERIALIZED (SELECT created_at, id, endpoint FROM stint.text_words WHERE words @@ $6::tsquery AND EXISTS (SELECT FROM state)),
    recent AS MATERIALIZED (${recent(" AND e.endpoint || '' = $1")})
   SELECT state.start, found.created_at, found.id FROM state LEFT JOIN LATERAL (SELECT created_at, id FROM (
     (SELECT created_at, id FROM hits WHERE endpoint = $1 AND ${RANGE} ${NEWEST})
     UNION (SELECT created_at, id FROM recent WHERE ${RANGE} ${NEWEST})
     ${
    isEnded
      ? ""
      : ["ready", "delayed", "running"].map((place) =>
        `UNION (SELECT created_at, id FROM stint.${place} WHERE endpoint = $1 AND ${RANGE} ${NEWEST})`
      ).join("\n     ")
  }) every ${NEWEST}) found ON true`

const FIND = find(false)
const FIND_ENDED = find(true)

/** The words contain only letters and digits, so they need no escapes. */
const quoted = (word: string, isPrefix = false) => `'${word}'${isPrefix ? ":*" : ""}`

/** The expression of PostgreSQL for the words. */
const expressionOf = (endpoint: EndpointId, words: ReadonlyArray<WantedWord>): string =>
  [
    quoted(endpointWord(endpoint)),
    ...words.map((wanted) => `(${indexWordsOf(wanted).map(({ isPrefix, word }) => quoted(word, isPrefix)).join(" | ")})`)
  ].join(" & ")

const sizeOf = (words: ReadonlyArray<string>): number => words.reduce((sum, word) => sum + word.length + 1, 0)

/** The state of the index; undefined if no node has begun one by the rules of this program. */
const readState = async (query: Query): Promise<IndexState | undefined> => {
  const [row] = await query(`SELECT version, start, frontier, complete FROM stint.text_state`)
  if (row === undefined) return undefined
  const [version, start, frontier, complete] = decodeState(row)
  return version === VERSION ? { start, frontier, complete } : undefined
}

/** Within a transaction: removes the state, and some rows. Returns whether no row is left. A node may have no right to truncate. */
const removeSome = async (query: Query): Promise<boolean> => {
  await query(`DELETE FROM stint.text_state`)
  const removed = await query(
    `DELETE FROM stint.text_words WHERE id = ANY(ARRAY(SELECT id FROM stint.text_words ORDER BY id LIMIT ${STEP_REMOVED})) RETURNING 1`
  )
  return removed.length < STEP_REMOVED
}

/** Within a transaction: begins an index unless there is one. Removes one of other rules first, in steps: undefined while some of it is left. */
export const open = async (query: Query): Promise<IndexState | undefined> => {
  const known = await readState(query)
  if (known !== undefined) return known
  if (!(await removeSome(query))) return undefined
  await query(
    `INSERT INTO stint.text_state (one, version, start, frontier, complete) VALUES (true, ${VERSION}, 0, ${FIRST}, false)`
  )
  return { start: 0, frontier: FIRST, complete: false }
}

/** Removes some of the index, unless it is up to date, because then another node writes it. */
export const clear = async (query: Query, now: number): Promise<"cleared" | "removing" | "used"> => {
  const [row] = await query(`SELECT 1 FROM stint.text_state WHERE frontier >= $1::bigint - ${OUTDATED_MILLIS}`, [now])
  if (row !== undefined) return "used"
  return (await removeSome(query)) ? "cleared" : "removing"
}

/** Which jobs searches find by the index, and how many they compare because it does not contain them yet. */
export const coverage = async (query: Query, now: number): Promise<TextIndexState> => {
  const state = await readState(query)
  if (state === undefined) return NO_INDEX
  const from = state.start === 0 ? null : state.start
  if (!state.complete || state.frontier < now - OUTDATED_MILLIS) return { state: "building", from, behind: 0 }
  const [row] = await query(BEHIND, [now])
  return { state: "ready", from, behind: decodeNumber(row)[0] }
}

/** The characters of all words. */
export const size = async (query: Query): Promise<number> =>
  decodeNumber((await query(`SELECT coalesce(sum(size), 0)::bigint FROM stint.text_words`))[0])[0]

/** A job that was compared with its row in the index. */
export interface Scanned {
  readonly id: JobId
  readonly finishedAt: number
  readonly isMissing: boolean
}

const toScanned = (row: ReadonlyArray<unknown>): Scanned => {
  const [id, finishedAt, isMissing] = decodeScanned(row)
  return { id, finishedAt, isMissing }
}

/** The next ended jobs in the order of their ends. */
export const scanEnds = async (query: Query, { finishedAt, id }: Place, start: number, limit: number) =>
  (await query(SCAN_ENDS, [limit, start, finishedAt, id])).map(toScanned)

/** The next ended jobs in the order of their ids. */
export const scanIds = async (query: Query, after: string, start: number, limit: number) =>
  (await query(SCAN_IDS, [limit, start, after])).map(toScanned)

/** Some ended jobs with their texts. A row that cannot be decoded has no texts; a search cannot read it either. */
export const readJobs = async (query: Query, ids: ReadonlyArray<JobId>) =>
  (await query(DOCUMENTS, [ids])).map((row) => {
    const [id, endpoint, createdAt, finishedAt, attempt, outcomeBytes] = decodeJob(row.slice(0, 6))
    return { id, endpoint, createdAt, finishedAt, attempt, outcomeBytes, texts: decodeTexts(row.slice(6)) }
  })

/** Adds documents, or replaces those of earlier ends. Returns their size. */
export const add = async (query: Query, documents: ReadonlyArray<Document>): Promise<number> => {
  if (documents.length === 0) return 0
  await query(
    ADD,
    transpose(documents.map(({ attempt, createdAt, endpoint, finishedAt, id, outcomeBytes, words }) => [
      id,
      endpoint,
      createdAt,
      finishedAt,
      attempt,
      outcomeBytes,
      sizeOf(words),
      words.map((word) => quoted(word)).join(" ")
    ]))
  )
  return documents.reduce((sum, { words }) => sum + sizeOf(words), 0)
}

/** Stores how far the index has got. Returns false if a node without an index has removed it. */
export const advance = async (query: Query, frontier: number, complete: boolean): Promise<boolean> => {
  const rows = await query(
    `UPDATE stint.text_state SET frontier = $1, complete = complete OR $2 WHERE version = ${VERSION} RETURNING 1`,
    [frontier, complete]
  )
  return rows.length > 0
}

/** Removes the words of removed jobs among the next rows. Returns the last row; undefined at the end. */
export const removeOrphans = async (query: Query, after: string, limit: number): Promise<string | undefined> => {
  const [row] = await query(REMOVE_ORPHANS, [after, limit])
  return row === undefined ? undefined : decodeId(row)[0]
}

/** Removes the oldest rows. Returns the new start of the index and the size of the rows. */
export const shrink = async (query: Query, limit: number): Promise<{ readonly start: number; readonly removed: number }> => {
  const removed = decodeNumber((await query(SHRINK, [limit]))[0])[0]
  return { start: (await readState(query))?.start ?? 0, removed }
}

/** Which jobs `found` returns. */
export interface WordRange {
  readonly endpoint: EndpointId
  readonly words: ReadonlyArray<WantedWord>
  readonly status: JobStatus | undefined
  /** Inclusive bounds of the time of submission. */
  readonly from: number
  readonly to: number
  /** Only jobs after this position. */
  readonly after: ListCursor
}

/** The newest jobs that may have the words, and since when the index contains jobs; undefined if it cannot be used. */
export const found = async (
  query: Query,
  { after, endpoint, from, status, to, words }: WordRange,
  limit: number,
  now: number
): Promise<{ readonly start: number; readonly places: ReadonlyArray<ListCursor> } | undefined> => {
  const rows = (await query(status === undefined ? FIND : FIND_ENDED, [
    endpoint,
    from,
    to,
    after.createdAt,
    after.id,
    expressionOf(endpoint, words),
    limit,
    now
  ])).map((row) => decodeFound(row))
  const [first] = rows
  if (first === undefined) return undefined
  return {
    start: first[0],
    places: rows.flatMap(([, createdAt, id]) => createdAt === null || id === null ? [] : [{ createdAt, id }])
  }
}

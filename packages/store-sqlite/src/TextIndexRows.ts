/**
 * The tables of the index of words, and their statements.
 *
 * ```
 *   text_words   FTS5 without its own copy of the words: which documents contain a word       rowid = document
 *   text_docs    one row per document: the row number of its job, and the job's end as of the indexing
 *   text_state   one row: the version of the rules for words, and from when on jobs are indexed
 *
 *   document = time of submission in units of 64 ms, and the lowest 18 bits of the job's row number      so that FTS5 returns the newest jobs first
 * ```
 *
 * JavaScript represents a document exactly. Two jobs would have the same document only if they were submitted within 64 ms and 262,144 jobs apart.
 *
 * The tables are created with the first job, and not by a migration: they contain nothing that the jobs do not, so that the file needs no copy before an
 * upgrade, and an older Stint can open it. The statements are prepared when they are first used.
 */
import { type EndpointId, JobId } from "@stint/contract/Ids"
import { endpointWord, indexWordsOf, TEXT_LENGTH, type WantedWord } from "@stint/contract/SearchText"
import type { JobTexts, StoredText } from "@stint/store/TextIndex"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

/** The version of the rules for words (`@stint/contract/SearchText`). An index of another version is built again. */
const VERSION = 1

const TABLES = `
CREATE TABLE text_docs (
  doc INTEGER PRIMARY KEY,
  seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  size INTEGER NOT NULL
) STRICT;
CREATE TABLE text_state (
  version INTEGER NOT NULL,
  start INTEGER NOT NULL
) STRICT;
INSERT INTO text_state (version, start) VALUES (${VERSION}, 0);
CREATE VIRTUAL TABLE text_words USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');
INSERT INTO text_words (text_words, rank) VALUES ('automerge', 0);
INSERT INTO text_words (text_words, rank) VALUES ('crisismerge', 1000)
`

const DROP = `
DROP TABLE IF EXISTS text_words;
DROP TABLE IF EXISTS text_docs;
DROP TABLE IF EXISTS text_state
`

/** The time of the document 0, in 2020, and the times that documents can have: from 1950 to 2089. */
const EPOCH = 1_577_836_800_000
const FIRST_TIME = EPOCH - 2 ** 41
const LAST_TIME = EPOCH + 2 ** 41 - 1

/** The jobs of one unit of time have no order in the index. Milliseconds. */
export const UNIT = 64

const NUMBERS = 2 ** 18

/** The document of a job, from its time of submission and its row number. */
const doc = (createdAt: string, seq: string) => `((((${createdAt}) - ${EPOCH}) >> 6) * ${NUMBERS} + ((${seq}) & ${NUMBERS - 1}))`

const inTime = (time: number): number => Math.min(Math.max(time, FIRST_TIME), LAST_TIME)

/** The number of pages that one step merges: about 3 ms. */
const MERGE_PAGES = 16

/** Enough bytes for all characters that are compared. */
const TEXT_BYTES = TEXT_LENGTH * 4

/** The beginning of a text. SQLite's functions for text would stop at a NUL. */
const beginning = (column: string) =>
  `CASE WHEN octet_length(${column}) <= ${TEXT_BYTES} THEN ${column}
     ELSE CAST(substr(CAST(${column} AS BLOB), 1, ${TEXT_BYTES}) AS TEXT) END AS ${column}, octet_length(${column}) > ${TEXT_BYTES} AS ${column}IsCut`

const TEXTS = `${beginning("input")}, ${beginning("output")}, ${beginning("error")}, tags`

const isCut = Schema.NullOr(Schema.BooleanFromBit)

const text = Schema.NullOr(Schema.String)

const textColumns = {
  input: text,
  inputIsCut: isCut,
  output: text,
  outputIsCut: isCut,
  error: text,
  errorIsCut: isCut,
  tags: Schema.NullOr(Schema.fromJsonString(Schema.Array(Schema.String)))
}

const stored = (text: string | null, isCut: boolean | null): StoredText => ({ text, isCut: isCut === true })

const toTexts = (row: Schema.Struct<typeof textColumns>["Type"]): JobTexts => ({
  input: stored(row.input, row.inputIsCut),
  output: stored(row.output, row.outputIsCut),
  error: stored(row.error, row.errorIsCut),
  tags: row.tags ?? []
})

const decodeFound = Schema.decodeUnknownSync(Schema.Struct({ ...textColumns, id: JobId }))
const decodeJob = Schema.decodeUnknownOption(
  Schema.Struct({ ...textColumns, endpoint: Schema.String, finishedAt: Schema.NullOr(Schema.Int) })
)
const decodeState = Schema.decodeUnknownSync(Schema.Struct({ version: Schema.Int, start: Schema.Int }))
const decodeSize = Schema.decodeUnknownSync(Schema.Struct({ size: Schema.Int }))
const decodePlace = Schema.decodeUnknownSync(Schema.Struct({ createdAt: Schema.Int, seq: Schema.Int }))
const decodeSwept = Schema.decodeUnknownSync(
  Schema.Struct({ createdAt: Schema.Int, seq: Schema.Int, isCurrent: Schema.BooleanFromBit })
)
const decodeListed = Schema.decodeUnknownSync(Schema.Struct({ createdAt: Schema.Int, id: Schema.String, seq: Schema.Int }))

/** A job, by its row number and its time of submission. */
export interface Place {
  readonly seq: number
  readonly createdAt: number
}

/** A job found by its words. */
export interface FoundRow extends Place {
  readonly id: string
}

/** Which jobs `found` returns. */
export interface WordRange {
  readonly endpoint: EndpointId
  readonly words: ReadonlyArray<WantedWord>
  /** Inclusive bounds of the time of submission. */
  readonly from: number
  readonly to: number
  /** Only jobs after this position. */
  readonly after: { readonly createdAt: number; readonly id: string }
}

/** The expression of FTS5 for the words. They contain only letters and digits, so that they need no escapes. */
const expressionOf = ({ endpoint, words }: WordRange): string =>
  [
    `"${endpointWord(endpoint)}"`,
    ...words.map((wanted) =>
      `(${indexWordsOf(wanted).map(({ isPrefix, word }) => `"${word}"${isPrefix ? " *" : ""}`).join(" OR ")})`
    )
  ].join(" AND ")

/** The texts of jobs. */
export const texts = (
  db: SqliteDatabase["Service"],
  endpoint: EndpointId,
  ids: ReadonlyArray<JobId>
): ReadonlyMap<JobId, JobTexts> => {
  const find = db.statement(
    `SELECT id, ${TEXTS} FROM jobs JOIN inputs USING (seq) LEFT JOIN outcomes USING (seq) WHERE id = ? AND endpoint = ?`
  )
  return new Map(ids.flatMap((id) => {
    const row = find.get(id, endpoint)
    return row === undefined ? [] : [[id, toTexts(decodeFound(row))] as const]
  }))
}

/** The tables. All methods except `open` and `drop` require that they exist, and throw when the database fails. */
export const make = (db: SqliteDatabase["Service"]) => {
  const exists = () => db.statement(`SELECT 1 FROM sqlite_schema WHERE name = 'text_state'`).get() !== undefined
  /** A statement whose result may contain any row number. */
  const wide = (sql: string) => {
    const statement = db.statement(sql)
    statement.setReadBigInts(true)
    return statement
  }
  const exec = (sql: string) => {
    for (const one of sql.split(";")) wide(one).run()
  }
  /**
   * Changes `text_words`. FTS5 inserts rows with numbers above 2^53 into its own tables. `node:sqlite` returns the last new number with every later write
   * of any table, and throws for such a number. A row of a temporary table, which needs no disk, therefore becomes the last new one, even after a failure.
   */
  const writeWords = (sql: string, ...values: ReadonlyArray<number | string>) => {
    try {
      wide(sql).run(...values)
    } finally {
      wide(`INSERT OR REPLACE INTO temp.text_last (n) VALUES (1)`).run()
    }
  }
  const changes = () => decodeSize(db.statement(`SELECT total_changes() AS size`).get()).size
  const readState = () => decodeState(db.statement(`SELECT version, start FROM text_state`).get())

  return {
    exists,
    /** Within a transaction: creates the tables unless they exist in the current version. Returns from when on jobs are indexed. */
    open: (): number => {
      if (exists() && readState().version !== VERSION) exec(DROP)
      if (!exists()) exec(TABLES)
      db.statement(`CREATE TEMP TABLE IF NOT EXISTS text_last (n INTEGER PRIMARY KEY)`).run()
      return readState().start
    },
    /** Within a transaction. */
    drop: () => exec(DROP),
    /** The size of all documents. */
    size: (): number => decodeSize(db.statement(`SELECT coalesce(sum(size), 0) AS size FROM text_docs`).get()).size,
    /**
     * Merges some pages of the index, which consists of one part for each transaction. Returns false when nothing is left to merge. FTS5 would merge on its
     * own, but for up to some hundred milliseconds at a time.
     */
    merge: (): boolean => {
      const before = changes()
      writeWords(`INSERT INTO text_words (text_words, rank) VALUES ('merge', ${MERGE_PAGES})`)
      // The command itself changes one row.
      return changes() - before > 2
    },
    setStart: (start: number) => {
      db.statement(`UPDATE text_state SET start = ?`).run(start)
    },
    /** The texts of a job; undefined if it was removed, or if its row cannot be read: then lists do not contain it either. */
    job: (seq: number) => {
      const row = db.statement(
        `SELECT endpoint, finished_at AS finishedAt, ${TEXTS} FROM jobs JOIN inputs USING (seq) LEFT JOIN outcomes USING (seq) WHERE jobs.seq = ?`
      ).get(seq)
      if (row === undefined) return undefined
      return Option.getOrUndefined(
        Option.map(decodeJob(row), ({ endpoint, finishedAt, ...found }) => ({ endpoint, finishedAt, texts: toTexts(found) }))
      )
    },
    /** Removes a document. Returns its size; 0 if there is none. */
    remove: ({ createdAt, seq }: Place): number => {
      const row = db.statement(`DELETE FROM text_docs WHERE doc = ${doc("?", "?")} RETURNING size`).get(createdAt, seq)
      if (row === undefined) return 0
      writeWords(`DELETE FROM text_words WHERE rowid = ${doc("?", "?")}`, createdAt, seq)
      return decodeSize(row).size
    },
    /** Adds a document. FTS5 writes faster if a transaction adds documents in their order. */
    add: ({ createdAt, seq }: Place, words: string, finishedAt: number | null) => {
      db.statement(`INSERT INTO text_docs (doc, seq, created_at, finished_at, size) VALUES (${doc("?", "?")}, ?, ?, ?, ?)`)
        .run(createdAt, seq, seq, createdAt, finishedAt, words.length)
      writeWords(`INSERT INTO text_words (rowid, words) VALUES (${doc("?", "?")}, ?)`, createdAt, seq, words)
    },
    /** The jobs before a row number, newest first, and whether their documents are current. */
    jobsBefore: (seq: number, limit: number) =>
      db.statement(
        `SELECT jobs.seq, jobs.created_at AS createdAt, text_docs.seq IS jobs.seq AND text_docs.finished_at IS jobs.finished_at AS isCurrent
         FROM jobs LEFT JOIN text_docs ON text_docs.doc = ${doc("jobs.created_at", "jobs.seq")}
         WHERE jobs.seq < ? ORDER BY jobs.seq DESC LIMIT ? + 0`
      ).all(seq, limit).map((row) => decodeSwept(row)),
    /** The documents after a place, oldest first, and whether they have a job. */
    docsAfter: ({ createdAt, seq }: Place, limit: number) =>
      db.statement(
        `SELECT text_docs.created_at AS createdAt, text_docs.seq, jobs.seq IS NOT NULL AS isCurrent
         FROM text_docs LEFT JOIN jobs ON jobs.seq = text_docs.seq AND jobs.created_at = text_docs.created_at
         WHERE text_docs.doc > ${doc("?", "?")} ORDER BY text_docs.doc LIMIT ? + 0`
      ).all(createdAt, seq, limit).map((row) => decodeSwept(row)),
    /** The oldest documents. */
    oldest: (limit: number): ReadonlyArray<Place> =>
      db.statement(`SELECT created_at AS createdAt, seq FROM text_docs ORDER BY doc LIMIT ? + 0`).all(limit).map((row) =>
        decodePlace(row)
      ),
    /** The jobs whose documents contain the words, newest first, but in no particular order within a {@link UNIT}. Read lazily. */
    found: function*(range: WordRange): Iterable<FoundRow> {
      const { after, endpoint, from, to } = range
      const rows = db.statement(
        `SELECT jobs.created_at AS createdAt, id, jobs.seq
         FROM text_words CROSS JOIN text_docs ON text_docs.doc = text_words.rowid CROSS JOIN jobs ON jobs.seq = text_docs.seq
         WHERE text_words MATCH ? AND text_words.rowid BETWEEN ${doc("?", "0")} AND ${doc("?", "-1")}
           AND jobs.endpoint = ? AND jobs.created_at BETWEEN ? AND ? AND (jobs.created_at < ? OR id < ?)
         ORDER BY text_words.rowid DESC`
      ).iterate(expressionOf(range), inTime(from), inTime(to), endpoint, from, to, after.createdAt, after.id)
      for (const row of rows) yield decodeListed(row)
    }
  }
}

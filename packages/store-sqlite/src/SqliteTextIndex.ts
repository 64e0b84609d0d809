/**
 * The index of words in SQLite (TextIndex.ts), with FTS5.
 *
 * ```
 *   start --first step--> building: compares all jobs with their documents, newest first, and records the outdated ones
 *                            `--all compared--> ready: indexes the changed jobs, then removes the documents of removed jobs
 *
 *   submit, end, retry, removal --record--> changed --step, some at a time--> indexing --commit--> forgotten
 *                                              `-- too many --> building
 * ```
 *
 * The record of changes is in memory, so that no write of a job writes more. After a restart, the comparison finds what was changed and not indexed: it
 * reads one row per job, and no text of a current one. A job that changes while it is indexed is recorded once more.
 *
 * Beyond the maximum size, the oldest documents are removed. Searches compare all jobs from before the oldest document.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { indexWords, type WantedWord } from "@stint/contract/SearchText"
import { compareNewestFirst } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import { jobWords, NO_INDEX, type TextIndex, type TextIndexState } from "@stint/store/TextIndex"
import * as Effect from "effect/Effect"
import type { TimeRange } from "./JobRows.ts"
import type { SqliteDatabase } from "./SqliteDatabase.ts"
import * as TextIndexRows from "./TextIndexRows.ts"

/** The maximum number of recorded changes: about 8 MB. With more, all jobs are compared again. */
const MAX_CHANGED = 100_000

/** The maximum number of changed jobs that a search compares. With more, it compares all jobs instead. */
const MAX_DIRECT = 500

/** One step indexes at most this many jobs and characters, in a transaction with other writes: about 4 ms. */
const STEP_JOBS = 48
const STEP_CHARACTERS = 32 * 1024

/** The number of rows that one step compares: about 2 ms. */
const STEP_ROWS = 500

/** The maximum number of merges after each indexing. Fewer would let the number of parts grow. */
const MERGES = 8

/** The number of documents that one step removes. */
const STEP_REMOVED = 100

const unitOf = (row: TextIndexRows.FoundRow | undefined) =>
  row === undefined ? undefined : Math.floor(row.createdAt / TextIndexRows.UNIT)

/** Later than any job. */
const LAST = Number.MAX_SAFE_INTEGER

/** What the comparison of jobs and documents does next. */
type Sweep =
  /** Before this row number, the jobs have not been compared. */
  | { readonly _tag: "Jobs"; readonly before: number }
  /** After this document, the documents have not been compared. */
  | { readonly _tag: "Docs"; readonly after: TextIndexRows.Place }
  | { readonly _tag: "Done" }

const FROM_START: Sweep = { _tag: "Jobs", before: LAST }

/** The index, and what the job store tells and asks it. */
export const make = (db: SqliteDatabase["Service"], maxSize: number) => {
  const rows = TextIndexRows.make(db)
  let isOpen = false
  let sweep: Sweep = FROM_START
  /** Jobs before this time have no documents. */
  let start = 0
  let size = 0
  /** The times of submission of jobs by row number, in order of the change. */
  let changed = new Map<number, number>()
  /** Changes that `step` works on. Those that are done are removed after the commit. */
  let indexing = new Map<number, number>()
  let wake = () => {}
  let isSweepTurn = false
  /** The number of merges before the next jobs are indexed. */
  let merges = 0

  /** Records a change of a job: its submission, its end, its retry or its removal. The change need not be committed. */
  const record = (seq: number, createdAt: number): void => {
    if (!isOpen) return
    changed.set(seq, createdAt)
    if (changed.size === 1) wake()
    if (changed.size <= MAX_CHANGED) return
    changed.clear()
    sweep = FROM_START
  }

  const behind = () => changed.size + indexing.size

  const isReady = () => isOpen && sweep._tag !== "Jobs" && behind() <= MAX_DIRECT

  /** Within a transaction: indexes a job as it is now. Returns the change of the size. */
  const index = (place: TextIndexRows.Place): number => {
    const removed = rows.remove(place)
    const job = place.createdAt < start ? undefined : rows.job(place.seq)
    if (job === undefined) return -removed
    const words = indexWords(job.endpoint, jobWords(job.texts)).join(" ")
    rows.add(place, words, job.finishedAt)
    return words.length - removed
  }

  /** Indexes the next changed jobs. */
  const indexSome = Effect.fnUntraced(function*(): Effect.fn.Return<void, StoreError> {
    if (indexing.size === 0) {
      indexing = changed
      changed = new Map()
    }
    const some: Array<TextIndexRows.Place> = []
    for (const [seq, createdAt] of indexing) {
      some.push({ seq, createdAt })
      if (some.length === STEP_JOBS) break
    }
    const working = indexing
    const { added, done } = yield* db.writeNew("index", () => {
      let added = 0
      let characters = 0
      const done: Array<TextIndexRows.Place> = []
      for (const place of some.toSorted((a, b) => a.createdAt - b.createdAt || a.seq - b.seq)) {
        const change = index(place)
        added += change
        characters += Math.abs(change)
        done.push(place)
        if (characters > STEP_CHARACTERS) break
      }
      return { added, done }
    })
    size += added
    for (const { seq } of done) working.delete(seq)
    merges = MERGES
  })

  /** Compares the next jobs or documents. */
  const sweepSome = Effect.fnUntraced(
    function*(now: Exclude<Sweep, { readonly _tag: "Done" }>): Effect.fn.Return<void, StoreError> {
      const compared = yield* db.read(
        "compare the index",
        () => now._tag === "Jobs" ? rows.jobsBefore(now.before, STEP_ROWS) : rows.docsAfter(now.after, STEP_ROWS)
      )
      for (const { createdAt, isCurrent, seq } of compared) {
        if (!isCurrent && createdAt >= start) {
          record(seq, createdAt)
        }
      }
      const last = compared.at(-1)
      // Too many changes have been recorded meanwhile.
      if (sweep !== now) return
      sweep = last !== undefined && compared.length === STEP_ROWS
        ? now._tag === "Jobs" ? { _tag: "Jobs", before: last.seq } : { _tag: "Docs", after: last }
        : now._tag === "Jobs"
        ? { _tag: "Docs", after: { createdAt: 0, seq: 0 } }
        : { _tag: "Done" }
    }
  )

  /** Removes the oldest documents. */
  const shrink = Effect.fnUntraced(function*(): Effect.fn.Return<void, StoreError> {
    const shrunk = yield* db.writeNew("shrink the index", () => {
      const oldest = rows.oldest(STEP_REMOVED)
      const after = Math.max(start, ...oldest.map(({ createdAt }) => createdAt + TextIndexRows.UNIT))
      rows.setStart(after)
      return { after, removed: oldest.reduce((sum, place) => sum + rows.remove(place), 0) }
    })
    start = shrunk.after
    size -= shrunk.removed
    merges = MERGES
  })

  const merge = Effect.fnUntraced(function*(): Effect.fn.Return<void, StoreError> {
    merges = (yield* db.writeNew("merge the index", rows.merge)) ? merges - 1 : 0
  })

  const open = Effect.fnUntraced(function*(): Effect.fn.Return<void, StoreError> {
    const opened = yield* db.writeNew("open the index", () => ({ start: rows.open(), size: rows.size() }))
    start = opened.start
    size = opened.size
    sweep = FROM_START
    isOpen = true
  })

  const step = Effect.gen(function*() {
    if (!isOpen) yield* open()
    else if (merges > 0) yield* merge()
    else if (size > maxSize) yield* shrink()
    else {
      // Both advance, however many jobs change. The comparison waits while it has found enough to do.
      isSweepTurn = !isSweepTurn
      if (sweep._tag !== "Done" && (behind() === 0 || (isSweepTurn && behind() < MAX_CHANGED / 2))) yield* sweepSome(sweep)
      else if (behind() > 0) yield* indexSome()
    }
    return behind() > 0 || merges > 0 || sweep._tag !== "Done" || size > maxSize
  })

  /** The changed jobs within a range. */
  const changedIn = (from: number, to: number): ReadonlyArray<number> =>
    [...indexing, ...changed].filter(([, createdAt]) => createdAt >= from && createdAt <= to).map(([seq]) => seq)

  /**
   * The next jobs of an endpoint that may have the words, newest first: at least `limit`, or all. `find` returns a job by its row number.
   */
  const found = (
    endpoint: EndpointId,
    words: ReadonlyArray<WantedWord>,
    { after, from, to }: TimeRange,
    limit: number,
    find: (seq: number) => { readonly endpoint: EndpointId; readonly createdAt: number; readonly id: string } | undefined
  ): ReadonlyArray<TextIndexRows.FoundRow> => {
    const bySeq = new Map<number, TextIndexRows.FoundRow>()
    let last: TextIndexRows.FoundRow | undefined
    for (const row of rows.found({ endpoint, words, from, to, after })) {
      if (bySeq.size >= limit && unitOf(row) !== unitOf(last)) break
      bySeq.set(row.seq, row)
      last = row
    }
    for (const seq of changedIn(from, to)) {
      const job = find(seq)
      if (job?.endpoint === endpoint && compareNewestFirst(after, job) < 0) {
        bySeq.set(seq, { seq, createdAt: job.createdAt, id: job.id })
      }
    }
    return [...bySeq.values()].toSorted(compareNewestFirst).slice(0, limit)
  }

  const state = (): TextIndexState =>
    isOpen ? { state: isReady() ? "ready" : "building", from: start === 0 ? null : start, behind: behind() } : NO_INDEX

  const service: TextIndex["Service"] = {
    state: Effect.sync(state),
    step,
    wait: Effect.callback<void>((resume) => {
      if (behind() > 0 || merges > 0 || sweep._tag !== "Done") return resume(Effect.void)
      wake = () => resume(Effect.void)
      return Effect.sync(() => {
        wake = () => {}
      })
    }),
    clear: Effect.flatMap(
      db.read("find the index", rows.exists),
      (exists) => exists && !isOpen ? Effect.as(db.write("remove the index", rows.drop), false) : Effect.succeed(false)
    )
  }

  return {
    service,
    record,
    found,
    /** From when on `found` is complete; undefined while it is not. */
    start: (): number | undefined => isReady() ? start : undefined
  }
}

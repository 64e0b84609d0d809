/**
 * The index of words in PostgreSQL (`@stint/store/TextIndex`). The oldest node indexes ended jobs, in the order of their ends. Waiting and running jobs
 * are not indexed, because there are few of them, and because most change soon: searches compare them.
 *
 * ```
 *        indexed                      being indexed        not indexed
 *   -----------------|------------------------------|--------------------> time of the end
 *                frontier                        position
 *
 *   search:  the index  +  jobs that ended after the frontier and are not in the index  +  waiting and running jobs
 * ```
 *
 * Other nodes commit ends out of order, but within {@link SETTLED_MILLIS}. The frontier stays that far behind, and the indexer often returns to it. All nodes
 * read the frontier from the database, so a search needs nothing from the node that indexes.
 *
 * A node whose clock is further behind would end jobs before the frontier. Therefore, the indexer also compares all ended jobs with the index, some at a
 * time, and removes the words of removed jobs that a node was indexing while they were removed.
 */
import type { JobId } from "@stint/contract/Ids"
import { indexWords } from "@stint/contract/SearchText"
import type { StoreError } from "@stint/store/StoreError"
import { jobWords, TextIndex, TextIndexSize } from "@stint/store/TextIndex"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PostgresDatabase } from "./PostgresDatabase.ts"
import * as TextIndexRows from "./TextIndexRows.ts"

/** The end of a job is committed within this time: after the deadline of a statement, and with the difference of two clocks. Milliseconds. */
const SETTLED_MILLIS = 30_000

/** How often the indexer returns to the frontier. Milliseconds. */
const RETURN_MILLIS = 15_000

/** How far the frontier moves before it is stored while there is nothing to index. Milliseconds. */
const STORED_MILLIS = 30_000

/** How long an indexer without work waits, and how often another node checks whether it has become the oldest. */
const WAIT = "5 seconds"

/** How often a node that does not index checks whether another one does. */
const CLEAR_AGAIN = "1 minute"

/** The number of jobs that one step compares with the index. */
const STEP_ROWS = 500

/** One step indexes at most this many jobs and characters: about 4 ms. */
const STEP_JOBS = 48
const STEP_CHARACTERS = 32 * 1024

/** The number of rows that one step removes beyond the maximum size. */
const STEP_REMOVED = 500

const make = Effect.gen(function*() {
  const db = yield* PostgresDatabase
  const clock = yield* Clock.Clock
  const maxSize = yield* TextIndexSize

  let isOpen = false
  let start = 0
  let size = 0
  let frontier = 0
  let isComplete = false
  /** The frontier in the database. */
  let stored = 0
  /** The last scanned job. */
  let position: TextIndexRows.Place = { finishedAt: 0, id: "" }
  let returnedAt = -Infinity
  /** Jobs that must be indexed, and how far the index has got once they are. */
  let missing: ReadonlyArray<JobId> = []
  let next: { readonly frontier: number; readonly isEnd: boolean } | undefined
  /** The number of jobs that the next step reads. Long texts need more steps. */
  let jobs = STEP_JOBS
  /** The comparison of all jobs, and then of all rows: the last id. */
  let compared: { readonly of: "jobs" | "rows"; readonly after: string } = { of: "jobs", after: "" }

  const isPassive = () => db.heartbeat.isRecent() && !db.heartbeat.isOldest()

  const open = Effect.gen(function*() {
    const state = yield* db.write("open the index", TextIndexRows.open)
    if (state === undefined) return
    size = yield* db.read("size of the index", TextIndexRows.size)
    start = state.start
    frontier = state.frontier
    stored = frontier
    isComplete = state.complete
    position = { finishedAt: frontier, id: "" }
    missing = []
    next = undefined
    isOpen = true
  })

  const advance = Effect.fnUntraced(function*(to: number, isEnd: boolean): Effect.fn.Return<void, StoreError> {
    isOpen = yield* db.write("advance the index", (query) => TextIndexRows.advance(query, to, isEnd))
    frontier = to
    stored = to
    isComplete ||= isEnd
  })

  /** Indexes the next missing jobs. */
  const indexSome = Effect.fnUntraced(function*(): Effect.fn.Return<void, StoreError> {
    const ids = missing.slice(0, jobs)
    const read = yield* db.read("read jobs for the index", (query) => TextIndexRows.readJobs(query, ids))
    const documents: Array<TextIndexRows.Document> = []
    let characters = 0
    for (const { texts, ...job } of read) {
      if (characters > STEP_CHARACTERS) break
      const words = texts === undefined ? [] : indexWords(job.endpoint, jobWords(texts))
      documents.push({ ...job, words })
      characters += words.join(" ").length
    }
    size += yield* db.write("index", (query) => TextIndexRows.add(query, documents))
    const left = new Set(read.slice(documents.length).map(({ id }) => id))
    missing = missing.filter((id, index) => index >= ids.length || left.has(id))
    jobs = left.size > 0 ? Math.max(1, documents.length) : Math.min(STEP_JOBS, jobs * 2)
    if (missing.length > 0 || next === undefined) return
    yield* advance(next.frontier, next.isEnd)
    next = undefined
  })

  /** Compares the jobs after the position with the index. Returns whether they were the last ones. */
  const scan = Effect.fnUntraced(function*(): Effect.fn.Return<boolean, StoreError> {
    const now = clock.currentTimeMillisUnsafe()
    const isFromFrontier = position.finishedAt <= frontier
    const rows = yield* db.read("scan for the index", (query) => TextIndexRows.scanEnds(query, position, start, STEP_ROWS))
    const last = rows.at(-1)
    const isEnd = last === undefined || rows.length < STEP_ROWS
    if (last !== undefined) position = last
    missing = rows.filter(({ isMissing }) => isMissing).map(({ id }) => id)
    const reached = isEnd ? now : last.finishedAt
    const to = isFromFrontier ? Math.max(frontier, Math.min(reached, now - SETTLED_MILLIS)) : frontier
    if (missing.length > 0) next = { frontier: to, isEnd }
    else if (to - stored > STORED_MILLIS || (isEnd && !isComplete)) yield* advance(to, isEnd)
    else frontier = to
    return isEnd
  })

  /** Compares some of all jobs with the index, or some rows of the index with the jobs. */
  const compareSome = Effect.fnUntraced(function*(): Effect.fn.Return<void, StoreError> {
    const { after, of } = compared
    if (of === "rows") {
      const last = yield* db.write("compare the index", (query) => TextIndexRows.removeOrphans(query, after, STEP_ROWS))
      compared = last === undefined ? { of: "jobs", after: "" } : { of, after: last }
      return
    }
    const rows = yield* db.read("compare the index", (query) => TextIndexRows.scanIds(query, after, start, STEP_ROWS))
    const last = rows.at(-1)
    missing = rows.filter(({ isMissing }) => isMissing).map(({ id }) => id)
    compared = rows.length < STEP_ROWS || last === undefined ? { of: "rows", after: "" } : { of, after: last.id }
  })

  /** Removes the oldest rows. The size is counted again first, because it does not contain the rows that were removed with their jobs. */
  const shrink = Effect.fnUntraced(function*(): Effect.fn.Return<void, StoreError> {
    size = yield* db.read("size of the index", TextIndexRows.size)
    if (size <= maxSize) return
    const shrunk = yield* db.write("shrink the index", (query) => TextIndexRows.shrink(query, STEP_REMOVED))
    start = shrunk.start
    size -= shrunk.removed
  })

  /** Whether the next step begins at the frontier again. */
  const mustReturn = () => {
    const now = Number(clock.monotonicTimeNanosUnsafe()) / 1_000_000
    if (now - returnedAt < RETURN_MILLIS) return false
    returnedAt = now
    return true
  }

  const step = Effect.gen(function*() {
    if (isPassive()) {
      isOpen = false
      return false
    }
    if (!isOpen) yield* open
    else if (missing.length > 0) yield* indexSome()
    else if (size > maxSize) yield* shrink()
    else if (yield* scan()) {
      if (missing.length > 0) return true
      if (mustReturn()) position = { finishedAt: frontier, id: "" }
      else {
        yield* compareSome()
        return missing.length > 0
      }
    }
    return true
  })

  return TextIndex.of({
    state: db.read("state of the index", (query) => TextIndexRows.coverage(query, clock.currentTimeMillisUnsafe())),
    step,
    wait: Effect.sleep(WAIT),
    clear: Effect.flatMap(
      db.write("remove the index", (query) => TextIndexRows.clear(query, clock.currentTimeMillisUnsafe())),
      (done) => done === "used" ? Effect.as(Effect.sleep(CLEAR_AGAIN), true) : Effect.succeed(done === "removing")
    )
  })
})

/** The index of words of a database. */
export const layer: Layer.Layer<TextIndex, never, PostgresDatabase> = Layer.effect(TextIndex, make)

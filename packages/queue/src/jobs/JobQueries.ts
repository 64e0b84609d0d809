/**
 * Read-only operations on jobs: follow one job, list jobs, find a job's position in the queue.
 *
 * ```
 *   follow: register --> read log lines, then job and chunks --> diff(cursor) --> events? emit, and continue from the new cursor
 *              ^                                                     |
 *              +------ woken, or after FOLLOW_RECHECK_MILLIS ------- none yet
 * ```
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal, type JobStatus } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import type { KeyUsage } from "@stint/store/ConcurrencyRule"
import type { JobReport, JobSummary } from "@stint/store/JobRecord"
import type { Ahead, JobStore } from "@stint/store/JobStore"
import { decodeListCursor, encodeListCursor } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { diff, type JobEvent, type JobEventCursor, NO_LOGS, START_CURSOR } from "../events/JobEventCursor.ts"
import type { WaitList } from "../events/WaitList.ts"
import { type JobLogs, TRAILING_LINES_TIMEOUT_MILLIS } from "../logs/JobLogs.ts"
import { InvalidCursor, type JobMissing } from "./JobErrors.ts"

/** Selects the jobs of a list. */
export interface ListOptions {
  readonly status?: JobStatus | undefined
  readonly tag?: string | undefined
  /** Submitted at or after this time. Milliseconds since the epoch. */
  readonly createdAfter?: number | undefined
  /** Submitted before this time. Milliseconds since the epoch. */
  readonly createdBefore?: number | undefined
  /** Page size, from 1 to 200. Default: 50. */
  readonly limit?: number | undefined
  /** The `cursor` from the previous page. */
  readonly cursor?: string | undefined
}

/** One page of a list, newest first. */
export interface ListResult {
  /** May have fewer than `limit` jobs, or none, before the end of the list: only `cursor` marks the end. */
  readonly jobs: ReadonlyArray<JobSummary>
  /** The cursor of the next page; null at the end of the list. */
  readonly cursor: string | null
}

/** A job's position in the queue. */
export interface Position {
  readonly job: JobReport
  /**
   * The number of ready jobs ahead of this job; null when this job is not ready because it is running, has ended, is in a backoff (see
   * `notBefore`), or is held because of its concurrency key.
   */
  readonly ahead: Ahead | null
  /** The jobs of the same concurrency key, if the job is held because of them. */
  readonly key?: KeyUsage
}

/** Selects the events of `follow`. */
export interface FollowOptions {
  /** Include log lines. Default: true. Without them, the end event does not wait for the last lines. */
  readonly logs?: boolean | undefined
}

/** The maximum number of chunks, and of log lines, that one follower read returns. */
const FOLLOW_LIMIT = 200

/** A follower that is not woken reads again after this long. Milliseconds. */
const FOLLOW_RECHECK_MILLIS = 30_000

/** Positions are counted up to this number. */
const AHEAD_LIMIT = 10_000

/** Page size of a list: the default and the maximum. */
const LIST_DEFAULT = 50
const LIST_LIMIT = 200

/** The dependencies of the queries. */
interface Options {
  readonly store: JobStore["Service"]
  /** Key: job id. */
  readonly followers: WaitList
  /** Undefined when the `JobLogs` service is not provided. */
  readonly logs: JobLogs["Service"] | undefined
  readonly now: () => number
  readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<JobReport, StoreError | JobMissing>
  /** Whether the queue is shutting down and completing its waits. */
  readonly isClosing: () => boolean
}

/** A reader's cursor and the progress it received last. */
interface Reader {
  readonly cursor: JobEventCursor
  readonly progress: JsonText | null
}

/** The query operations of `JobQueue`. */
export const make = ({ followers, get, isClosing, logs, now, store }: Options) => {
  /** Whether a job ended so recently that log lines may still be in flight. */
  const isFresh = ({ finishedAt, status }: JobReport): boolean =>
    isTerminal(status) && finishedAt !== null && now() - finishedAt < 2 * TRAILING_LINES_TIMEOUT_MILLIS

  /** Reads until there are new events, or until no further events are possible. */
  const next = Effect.fnUntraced(function*(job: JobReport, { cursor, progress }: Reader, lines: JobLogs["Service"] | undefined) {
    let awaitedTrailingLines = false
    while (true) {
      const ticket = yield* followers.register(job.id)
      const read = Effect.gen(function*() {
        // Read log lines first, so that the chunk that a line refers to is always among the chunks that are read afterwards.
        const logSlice = lines === undefined
          ? NO_LOGS
          : yield* lines.read(job.endpoint, job.id, { after: cursor.line, limit: FOLLOW_LIMIT })
        const peeked = yield* store.peek(job.endpoint, job.id, cursor, FOLLOW_LIMIT)
        return peeked === undefined ? undefined : { job: peeked.job, ...diff(cursor, progress, peeked, logSlice) }
      })
      const found = yield* read.pipe(Effect.onError(() => ticket.cancel))
      if (
        found?.done === true && lines !== undefined && !awaitedTrailingLines && isFresh(found.job) && found.job.worker !== null
      ) {
        yield* ticket.cancel
        yield* lines.awaitTrailingLines(found.job.endpoint, found.job.worker)
        awaitedTrailingLines = true
        continue
      }
      // There is something to return, the job was removed while it was followed, or no further events are possible.
      if (found === undefined || found.events.length > 0 || found.done || isClosing()) {
        yield* ticket.cancel
        return found
      }
      yield* ticket.wait(FOLLOW_RECHECK_MILLIS)
    }
  })

  const follow = (
    endpoint: EndpointId,
    id: string,
    after = START_CURSOR,
    options: FollowOptions = {}
  ): Stream.Stream<JobEvent, StoreError | JobMissing> =>
    Stream.unwrap(Effect.gen(function*() {
      const job = yield* get(endpoint, id)
      const lines = options.logs === false ? undefined : logs
      const first: Reader = { cursor: after, progress: null }
      return Stream.paginate(
        first,
        Effect.fnUntraced(function*(reader) {
          const found = yield* next(job, reader, lines)
          const events = found?.events ?? []
          return [events, found === undefined || found.done || events.length === 0 ? Option.none() : Option.some(found)] as const
        })
      )
    }))

  const isCaughtUp = Effect.fnUntraced(function*(job: JobReport, cursor: JobEventCursor, options: FollowOptions = {}) {
    if (cursor.phase !== "ended" || cursor.endedAt !== job.finishedAt) return false
    if (logs === undefined || options.logs === false) return true
    const { lines } = yield* logs.read(job.endpoint, job.id, { after: cursor.line, limit: 1 })
    return lines.length === 0
  })

  const list = Effect.fnUntraced(function*(
    endpoint: EndpointId,
    options: ListOptions = {}
  ): Effect.fn.Return<ListResult, StoreError | InvalidCursor> {
    const { createdAfter, createdBefore, cursor, limit = LIST_DEFAULT, status, tag } = options
    const after = cursor === undefined ? undefined : decodeListCursor(cursor)
    if (cursor !== undefined && after === undefined) return yield* new InvalidCursor({ value: cursor })
    const page = yield* store.list(endpoint, {
      status,
      tag,
      createdAfter,
      createdBefore,
      after,
      limit: Math.min(LIST_LIMIT, Math.max(1, limit))
    })
    return { jobs: page.jobs, cursor: page.next === null ? null : encodeListCursor(page.next) }
  })

  const position = Effect.fnUntraced(function*(endpoint: EndpointId, id: string) {
    const job = yield* get(endpoint, id)
    const ahead = (yield* store.ahead(endpoint, job.id, AHEAD_LIMIT)) ?? null
    const key = job.concurrency?.held === true ? yield* store.keyUsage(endpoint, job.id, AHEAD_LIMIT) : undefined
    return { job, ahead, ...(key === undefined ? {} : { key }) } satisfies Position
  })

  return { follow, isCaughtUp, list, position }
}

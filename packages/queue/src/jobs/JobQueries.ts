/**
 * Looks at jobs that change nothing: following one, listing many, finding a place in line.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal, type JobStatus } from "@stint/contract/Job"
import type { JsonText } from "@stint/contract/Json"
import type { JobReport, JobSummary } from "@stint/store/JobRecord"
import type { Ahead, JobStore } from "@stint/store/JobStore"
import { decodeListCursor, encodeListCursor } from "@stint/store/ListCursor"
import { InvalidCursor, QueueError } from "@stint/store/QueueError"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { decodeEventCursor, diff, type JobEvent, type JobEventCursor, NO_LOGS, START_CURSOR } from "../events/JobEventCursor.ts"
import type { WaitList } from "../events/WaitList.ts"
import { type JobLogs, TRAILING_LINES_TIMEOUT_MILLIS } from "../logs/JobLogs.ts"

/** Which jobs of an endpoint to list. */
export interface ListOptions {
  readonly status?: JobStatus | undefined
  readonly tag?: string | undefined
  /** Submitted at this time or later. Milliseconds since 1970. */
  readonly createdAfter?: number | undefined
  /** Submitted before this time. */
  readonly createdBefore?: number | undefined
  /** 1 to 200. Default: 50. */
  readonly limit?: number | undefined
  /** The `cursor` of the page before. */
  readonly cursor?: string | undefined
}

/** One page of a list, newest first. */
export interface ListResult {
  /** May be fewer than `limit`, and none at all, although there are more: what counts is the cursor. */
  readonly jobs: ReadonlyArray<JobSummary>
  /** Where to go on; null at the end of the list. */
  readonly cursor: string | null
}

/** A job's place in line. */
export interface Position {
  readonly job: JobReport
  /** How many ready jobs come before it; null where it is not ready: running, ended, or in a backoff (see `notBefore`). */
  readonly ahead: Ahead | null
}

/** What a follower wants to be told. */
export interface FollowOptions {
  /** Log lines, too. Default: true. Without them the end need not wait for the last ones. */
  readonly logs?: boolean | undefined
}

/** The most chunks, and the most lines, that one look of a follower shows. */
const FOLLOW_LIMIT = 200

/** A follower that nobody wakes looks again after so many milliseconds. */
const FOLLOW_PAUSE = 30_000

/** A job's place in line is counted so far. */
const AHEAD_LIMIT = 10_000

/** What a list shows at a time. */
const LIST_DEFAULT = 50
const LIST_LIMIT = 200

/** What the looks need of the queue. */
interface Options {
  readonly store: JobStore["Service"]
  /** By job: those who follow it. */
  readonly followers: WaitList
  /** Undefined where nobody keeps log lines. */
  readonly logs: JobLogs["Service"] | undefined
  readonly now: () => number
  readonly get: (endpoint: EndpointId, id: string) => Effect.Effect<JobReport, QueueError>
  /** The queue ends its waits. */
  readonly isClosing: () => boolean
}

const invalidCursor = (what: "cursor" | "position", value: string) =>
  new QueueError({ reason: new InvalidCursor({ what, value }) })

/** Where a follower is, and what is known of its looks. */
interface Reader {
  readonly cursor: JobEventCursor
  readonly progress: JsonText | null
}

/** The looks, as `JobQueue` offers them. */
export const make = ({ followers, get, isClosing, logs, now, store }: Options) => {
  /** Whether a job that has ended may have log lines on their way. */
  const isFresh = ({ finishedAt, status }: JobReport): boolean =>
    isTerminal(status) && finishedAt !== null && now() - finishedAt < 2 * TRAILING_LINES_TIMEOUT_MILLIS

  /** One look after the other, until there is something to tell or nothing to come. */
  const next = Effect.fnUntraced(function*(job: JobReport, { cursor, progress }: Reader, lines: JobLogs["Service"] | undefined) {
    let settled = false
    while (true) {
      const ticket = yield* followers.take(job.id)
      const look = Effect.gen(function*() {
        // The lines first: a chunk that a line stands behind is there by then.
        const written = lines === undefined
          ? NO_LOGS
          : yield* lines.read(job.endpoint, job.id, { after: cursor.line, limit: FOLLOW_LIMIT })
        const peeked = yield* store.peek(job.endpoint, job.id, cursor, FOLLOW_LIMIT)
        return peeked === undefined ? undefined : { job: peeked.job, ...diff(cursor, progress, peeked, written) }
      })
      const seen = yield* look.pipe(Effect.onError(() => ticket.cancel))
      if (seen?.done === true && lines !== undefined && !settled && isFresh(seen.job) && seen.job.worker !== null) {
        yield* ticket.cancel
        yield* lines.awaitTrailingLines(seen.job.endpoint, seen.job.worker)
        settled = true
        continue
      }
      // Its retention ended while it was followed, or there is nothing more to wait for.
      if (seen === undefined || seen.events.length > 0 || seen.done || isClosing()) {
        yield* ticket.cancel
        return seen
      }
      yield* ticket.wait(FOLLOW_PAUSE)
    }
  })

  const follow = (
    endpoint: EndpointId,
    id: string,
    after?: string,
    options: FollowOptions = {}
  ): Stream.Stream<JobEvent, QueueError> =>
    Stream.unwrap(Effect.gen(function*() {
      const start = after === undefined ? START_CURSOR : decodeEventCursor(after)
      if (start === undefined) return yield* invalidCursor("position", after ?? "")
      const job = yield* get(endpoint, id)
      const lines = options.logs === false ? undefined : logs
      const first: Reader = { cursor: start, progress: null }
      return Stream.paginate(
        first,
        Effect.fnUntraced(function*(reader) {
          const seen = yield* next(job, reader, lines)
          const events = seen?.events ?? []
          return [events, seen === undefined || seen.done || events.length === 0 ? Option.none() : Option.some(seen)] as const
        })
      )
    }))

  /** Whether a reader with this position is to be told nothing more, as far as the job stands now. */
  const isCaughtUp = Effect.fnUntraced(function*(job: JobReport, after: string, options: FollowOptions = {}) {
    const cursor = decodeEventCursor(after)
    if (cursor === undefined) return yield* invalidCursor("position", after)
    if (cursor.phase !== "ended" || cursor.endedAt !== job.finishedAt) return false
    if (logs === undefined || options.logs === false) return true
    const { lines } = yield* logs.read(job.endpoint, job.id, { after: cursor.line, limit: 1 })
    return lines.length === 0
  })

  const list = Effect.fnUntraced(function*(
    endpoint: EndpointId,
    options: ListOptions = {}
  ): Effect.fn.Return<ListResult, QueueError> {
    const { createdAfter, createdBefore, cursor, limit = LIST_DEFAULT, status, tag } = options
    const after = cursor === undefined ? undefined : decodeListCursor(cursor)
    if (cursor !== undefined && after === undefined) return yield* invalidCursor("cursor", cursor)
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

  const position = Effect.fnUntraced(function*(endpoint: EndpointId, id: string): Effect.fn.Return<Position, QueueError> {
    const job = yield* get(endpoint, id)
    return { job, ahead: (yield* store.ahead(endpoint, job.id, AHEAD_LIMIT)) ?? null }
  })

  return { follow, isCaughtUp, list, position }
}

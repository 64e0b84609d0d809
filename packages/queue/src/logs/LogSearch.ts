/**
 * Searches the log lines of all jobs of an endpoint, newest first.
 *
 * There is no index of words: the search reads stored lines until it has found enough, has read `LOG_SEARCH_LINES` or has taken
 * `LOG_SEARCH_MILLIS`. Its cursor continues where it ended.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import { isLevelEnabled, type LogLevel } from "@stint/contract/JobLogLine"
import { LOG_SEARCH_LINES, LOG_SEARCH_MILLIS } from "@stint/contract/LogsApi"
import type { JobLogStore, LogLine } from "@stint/store/JobLogStore"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { monotonicMillis } from "../ClockWatch.ts"

/** A place between two lines: in the piece, before the line with the number `line`; before the whole piece if `line` is 0. */
export interface LogCursor {
  readonly piece: number
  readonly line: number
}

/** Selects lines of an endpoint. */
export interface LogSearchOptions {
  /** Only lines whose message contains this text, in upper or lower case. Default: all. */
  readonly contains?: string | undefined
  /** The lowest level to include. Default: all. */
  readonly level?: LogLevel | undefined
  /** Only lines that were received at or after this time. Milliseconds since 1970. Default: all. */
  readonly since?: number | undefined
  /** The maximum number of lines. Default: 100. */
  readonly limit?: number | undefined
  /** The cursor of the previous page. Default: begins with the newest line. */
  readonly cursor?: LogCursor | undefined
}

/** A line and its job. */
export interface FoundLine extends LogLine {
  readonly job: JobId
}

/** A page of found lines. */
export interface FoundLines {
  /** Newest first. */
  readonly lines: ReadonlyArray<FoundLine>
  /** Null when all lines have been read. */
  readonly next: LogCursor | null
  /** The limit at which the search ended early; absent if it found enough lines or read all. */
  readonly stopped?: "lines" | "time"
  /** The number of lines that were read. */
  readonly searched: number
  /** The time of the last line that was read. Absent when none was read. */
  readonly oldest?: number
}

const DEFAULT_LIMIT = 100

/** Pieces are not exactly in the order of their times: nodes have different clocks, and a clock may be set. */
const OUT_OF_ORDER_MILLIS = 60_000

/** Creates the search. */
export const make = (store: JobLogStore["Service"], clock: Clock.Clock) =>
  Effect.fnUntraced(function*(
    endpoint: EndpointId,
    { contains = "", cursor, level = "TRACE", limit = DEFAULT_LIMIT, since = 0 }: LogSearchOptions = {}
  ) {
    const wanted = contains.toLowerCase()
    const until = monotonicMillis(clock) + LOG_SEARCH_MILLIS
    const lines: Array<FoundLine> = []
    let searched = 0
    let oldest: number | undefined
    const page = (next: LogCursor | null, stopped?: "lines" | "time"): FoundLines => ({
      lines,
      next,
      ...(stopped === undefined ? {} : { stopped }),
      searched,
      ...(oldest === undefined ? {} : { oldest })
    })
    const isWanted = ({ level: own, message, time }: LogLine) =>
      time >= since && isLevelEnabled(own, level) && (wanted === "" || message.toLowerCase().includes(wanted))

    let before = cursor === undefined || cursor.line === 0 ? cursor?.piece : cursor.piece + 1
    while (true) {
      const scan = yield* store.scan(endpoint, before)
      for (const { job, lines: stored, piece } of scan.pieces) {
        if ((stored.at(-1)?.time ?? 0) < since - OUT_OF_ORDER_MILLIS) return page(null)
        for (const line of stored.toReversed()) {
          if (piece === cursor?.piece && line.number >= cursor.line) continue
          if (searched === LOG_SEARCH_LINES) return page({ piece, line: line.number + 1 }, "lines")
          searched += 1
          oldest = line.time
          if (!isWanted(line)) continue
          lines.push({ job, ...line })
          if (lines.length === limit) return page({ piece, line: line.number })
        }
      }
      if (scan.next === null) return page(null)
      before = scan.next
      if (monotonicMillis(clock) >= until) return page({ piece: before, line: 0 }, "time")
      yield* Effect.yieldNow
    }
  })

/**
 * The filter of an endpoint's log lines, as stored in the page's address, and the texts for what a search found.
 */
import type { FoundLogPage, LogLevel } from "@stint/contract/JobLogLine"
import { textAt } from "../format/AddressQuery.ts"
import { absolute, count } from "../format/Format.ts"
import { RECENT, RECENT_MILLIS } from "../format/Periods.ts"

/** The levels, in ascending order of severity. */
export const LEVELS: ReadonlyArray<LogLevel> = ["TRACE", "DEBUG", "INFO", "WARN", "ERROR"]

/** The choices of the lowest level, with their names. */
export const LEVEL_CHOICES: ReadonlyArray<readonly [LogLevel, string]> = LEVELS.map((
  level
) => [level, level === "TRACE" ? "All" : level])

/** The periods, in the order in which they are offered. */
export const PERIODS = [["", "Any time"], ...RECENT] as const

/** A choice of {@link PERIODS}. */
export type Period = (typeof PERIODS)[number][0]

/** A filter. An empty text does not filter. */
export interface LogFilter {
  readonly endpoint: string
  readonly contains: string
  /** The lowest level. */
  readonly level: LogLevel
  readonly period: Period
}

/** Reads the filter from the parsed query of the address. Unknown values are ignored. */
export const logFilterOf = (search: unknown): LogFilter => ({
  endpoint: textAt(search, "endpoint"),
  contains: textAt(search, "contains"),
  level: LEVELS.find((level) => level === textAt(search, "level")) ?? "TRACE",
  period: PERIODS.find(([period]) => period === textAt(search, "period"))?.[0] ?? ""
})

/** The query of the address. Without a level, it shows all of them. */
export const addressOf = ({ level, ...filter }: LogFilter) => ({ ...filter, level: level === "TRACE" ? "" : level })

/** The query of the request for one page. */
export const requestOf = (
  { contains, level, period }: LogFilter,
  now: number,
  limit: number,
  cursor: string | undefined
): Readonly<Record<string, string | number | undefined>> => ({
  contains: contains === "" ? undefined : contains,
  level: level === "TRACE" ? undefined : level,
  since: period === "" ? undefined : now - RECENT_MILLIS[period],
  limit,
  cursor
})

/** `Searched 20,000 lines, back to 2026-11-22 08:00:00.123 GMT+1.` */
export const searchedText = (pages: ReadonlyArray<FoundLogPage>, { period }: Pick<LogFilter, "period">): string => {
  const searched = pages.reduce((sum, page) => sum + page.searched, 0)
  const oldest = pages.findLast((page) => page.oldest !== undefined)?.oldest
  const lines = `Searched ${count(searched)} ${searched === 1 ? "line" : "lines"}`
  return pages.at(-1)?.cursor === null
    ? `${lines}: all that are stored${period === "" ? "" : " of this time"}.`
    : `${lines}${oldest === undefined ? "" : `, back to ${absolute(oldest)}`}.`
}

/**
 * The filter for error groups in the page's address, and the texts for a group.
 */
import type { ErrorGroup, ErrorGroupState } from "@stint/contract/ErrorGroup"
import { printSearch, searchOf } from "@stint/contract/JobSearch"
import { textAt } from "../format/AddressQuery.ts"
import { RECENT, RECENT_MILLIS } from "../format/Periods.ts"

/** The states, in the order of their buttons. */
export const ERROR_STATES: ReadonlyArray<ErrorGroupState> = ["open", "resolved"]

/** The periods, in the order in which they are offered. `latest`: since each endpoint's current release. */
export const PERIODS = [
  ["", "Any time"],
  ["latest", "Since the last release"],
  ...RECENT
] as const

/** A choice of {@link PERIODS}. */
export type Period = (typeof PERIODS)[number][0]

/** A filter. An empty text does not filter. */
export interface ErrorFilter {
  readonly endpoint: string
  readonly state: ErrorGroupState | ""
  readonly period: Period
}

/** Reads the filter from the parsed query of the address. Unknown values are ignored. */
export const errorFilterOf = (search: unknown): ErrorFilter => ({
  endpoint: textAt(search, "endpoint"),
  state: ERROR_STATES.find((state) => state === textAt(search, "state")) ?? "",
  period: PERIODS.find(([period]) => period === textAt(search, "period"))?.[0] ?? ""
})

/** The query of the request. */
export const requestOf = (
  { endpoint, period, state }: ErrorFilter,
  now: number
): Readonly<Record<string, string | number | undefined>> => ({
  endpoint,
  state,
  limit: 200,
  ...(period === "" ? {} : period === "latest" ? { sinceRelease: "latest" } : { since: now - RECENT_MILLIS[period] })
})

/** The text query that finds a group's jobs. */
export const jobsQuery = ({ endpoint, fingerprint }: Pick<ErrorGroup, "endpoint" | "fingerprint">): string =>
  printSearch(searchOf({ endpoint: [endpoint], "error-group": [fingerprint] }))

/** The class and the message. */
export const titleOf = ({ message, type }: Pick<ErrorGroup, "message" | "type">): string =>
  type === undefined ? message : `${type}: ${message}`

/** The releases in which a group was seen: `3, 5`, or `unknown`. */
export const releasesOf = ({ releases }: Pick<ErrorGroup, "releases">): string => {
  const numbers = releases.flatMap(({ release }) => release === undefined ? [] : [release]).sort((a, b) => a - b)
  return numbers.length === 0 ? "unknown" : numbers.join(", ")
}

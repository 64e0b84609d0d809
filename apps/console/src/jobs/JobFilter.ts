/**
 * The filter of the job list, as it is in the address.
 */
import { JOB_STATUSES } from "./JobStates.ts"

/** A filter. An empty text does not filter. */
export interface JobFilter {
  readonly endpoint: string
  readonly status: string
  readonly tag: string
}

/** A value of the parsed query of the address, as text. */
export const textAt = (search: unknown, key: string): string => {
  const value: unknown = typeof search === "object" && search !== null ? Reflect.get(search, key) : undefined
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : ""
}

/** Reads the filter from the parsed query of the address. An unknown status is ignored. The router parses `tag=7` as a number. */
export const jobFilterOf = (search: unknown): JobFilter => {
  const status = textAt(search, "status")
  return { endpoint: textAt(search, "endpoint"), status: JOB_STATUSES.includes(status) ? status : "", tag: textAt(search, "tag") }
}

/**
 * The text query of jobs: a parser, a printer, and the rule that decides which jobs match.
 *
 * ```
 *   status:failed endpoint:resize release:12 tag:nightly since:2h error:"out of memory"
 *
 *   query = [ term { space term } ]      term = KEY ":" value      value = text without spaces and quotes | '"' text '"', with \" and \\
 *
 *   endpoint, status, release, worker, batch    several values: any of them
 *   error-group                                 several values: any of them; the fingerprint of an error (ErrorGroup.ts)
 *   tag, error                                  several values: all of them
 *   since, before                               once: a duration before now (30s, 10m, 2h, 7d), a date or a time
 * ```
 *
 * The stores have indexes for endpoint, status, time and tag. The other terms are compared job by job. An error matches if its first 500
 * characters contain the text; case is ignored.
 *
 * The module is plain TypeScript, because the console loads it into browsers.
 */
import { didYouMean } from "../Suggestion.ts"
import type { JobStatus } from "./Job.ts"

/** A point in time, or a duration before the present. Milliseconds. */
export type SearchTime = { readonly at: number } | { readonly ago: number }

/** A parsed query. */
export interface JobSearch {
  readonly endpoint: ReadonlyArray<string>
  readonly status: ReadonlyArray<JobStatus>
  readonly release: ReadonlyArray<number>
  readonly tag: ReadonlyArray<string>
  readonly worker: ReadonlyArray<string>
  readonly batch: ReadonlyArray<string>
  readonly error: ReadonlyArray<string>
  readonly "error-group": ReadonlyArray<string>
  readonly since?: SearchTime
  readonly before?: SearchTime
}

/** What is wrong with a query, and where. `position` counts characters from 0. */
export interface SearchProblem {
  readonly position: number
  readonly message: string
  readonly hint: string
}

/** The result of {@link parseSearch}. */
export type ParsedSearch =
  | { readonly search: JobSearch; readonly problem?: never }
  | { readonly search?: never; readonly problem: SearchProblem }

/** The query that matches all jobs. */
export const EVERYTHING: JobSearch = {
  endpoint: [],
  status: [],
  release: [],
  tag: [],
  worker: [],
  batch: [],
  error: [],
  "error-group": []
}

/** The maximum length of a query, in characters. */
export const MAX_SEARCH_LENGTH = 1_000

/** The keys, in the order in which they are printed. */
const KEYS = ["endpoint", "status", "release", "tag", "worker", "batch", "error", "error-group", "since", "before"] as const
type Key = (typeof KEYS)[number]

const EXAMPLE = "status:failed endpoint:resize tag:nightly since:2h error:\"out of memory\""

/** The printed name of each status. */
const STATUS_NAMES: Readonly<Record<JobStatus, string>> = {
  IN_QUEUE: "waiting",
  IN_PROGRESS: "running",
  COMPLETED: "completed",
  FAILED: "failed",
  CANCELLED: "cancelled",
  TIMED_OUT: "timed_out"
}

const STATUSES: ReadonlyMap<string, JobStatus> = new Map([
  ...(["IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"] as const).flatMap((status) =>
    [[status.toLowerCase(), status], [STATUS_NAMES[status], status]] as const
  ),
  ["done", "COMPLETED"]
])

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1_000], ["ms", 1]] as const

/** The maximum duration: 10,000 days. */
const MAX_AGO = 10_000 * 86_400_000

const parseAgo = (text: string): number | undefined => {
  const [, amount, unit] = /^(\d{1,12})(ms|s|m|h|d)$/.exec(text) ?? []
  const size = UNITS.find(([name]) => name === unit)?.[1]
  const millis = amount === undefined || size === undefined ? undefined : Number(amount) * size
  return millis === undefined || millis > MAX_AGO ? undefined : millis
}

/** A date begins at midnight UTC. */
const TIME = /^\d{4}-\d{2}-\d{2}(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/

/** The times whose year has four digits. */
const FIRST_TIME = Date.parse("0000-01-01T00:00:00.000Z")
const LAST_TIME = Date.parse("9999-12-31T23:59:59.999Z")

const parseTime = (text: string): SearchTime | undefined => {
  const ago = parseAgo(text)
  if (ago !== undefined) return { ago }
  const at = TIME.test(text) ? Date.parse(text) : Number.NaN
  return at >= FIRST_TIME && at <= LAST_TIME ? { at } : undefined
}

const printTime = (time: SearchTime): string => {
  if ("at" in time) return new Date(time.at).toISOString().replace(".000Z", "Z").replace("T00:00:00Z", "")
  const [unit, size] = UNITS.find(([, size]) => time.ago % size === 0 && time.ago >= size) ?? ["ms", 1]
  return `${time.ago / size}${unit}`
}

/** A term, and where its key and its value begin. */
interface Term {
  readonly key: string
  readonly value: string
  readonly at: number
  readonly valueAt: number
}

const problem = (position: number, message: string, hint: string): { readonly problem: SearchProblem } => ({
  problem: { position, message, hint }
})

/** Reads a quoted value. `at`: the position of the first quote. Undefined: the last quote is missing. */
const readQuoted = (text: string, at: number): { readonly value: string; readonly end: number } | undefined => {
  let value = ""
  for (let index = at + 1; index < text.length; index++) {
    const character = text[index] ?? ""
    if (character === "\"") return { value, end: index + 1 }
    if (character === "\\" && (text[index + 1] === "\"" || text[index + 1] === "\\")) index += 1
    value += text[index] ?? ""
  }
  return undefined
}

/** Reads the term at a position. */
const readTerm = (
  text: string,
  at: number
): { readonly term: Term; readonly end: number } | { readonly problem: SearchProblem } => {
  const [key = ""] = /^[^\s:"]*/.exec(text.slice(at)) ?? []
  const valueAt = at + key.length + 1
  if (key === "" || text[valueAt - 1] !== ":") {
    const [word = ""] = /^(?:"[^"]*"?|\S+)/.exec(text.slice(at)) ?? []
    const plain = word.replaceAll("\"", "").slice(0, 40)
    return problem(
      at,
      `${printValue(plain)} is not a term.`,
      `Write KEY:VALUE. To find it in errors: error:${printValue(plain)}. Example: ${EXAMPLE}`
    )
  }
  if (text[valueAt] !== "\"") {
    const [value = ""] = /^\S*/.exec(text.slice(valueAt)) ?? []
    if (value.includes("\"")) {
      return problem(
        valueAt + value.indexOf("\""),
        `The value of ${key} contains a quote.`,
        `Write the whole value in quotes: ${key}:${printValue(value.replaceAll("\"", ""))}. Within them, \\" is a quote.`
      )
    }
    return { term: { key, value, at, valueAt }, end: valueAt + value.length }
  }
  const quoted = readQuoted(text, valueAt)
  if (quoted === undefined) return problem(valueAt, `The value of ${key} has no closing quote.`, "Add \" at its end.")
  if (/\S/.test(text[quoted.end] ?? " ")) {
    return problem(quoted.end, "A space is missing after a quoted value.", "Separate terms with spaces.")
  }
  return { term: { key, value: quoted.value, at, valueAt }, end: quoted.end }
}

const isKey = (key: string): key is Key => KEYS.some((one) => one === key)

const withValue = <A>(values: ReadonlyArray<A>, value: A): ReadonlyArray<A> =>
  values.includes(value) ? values : [...values, value]

/** Adds a term to a query. */
const add = (search: JobSearch, { at, key: name, value, valueAt }: Term): ParsedSearch => {
  const key = name.toLowerCase()
  if (!isKey(key)) {
    return problem(at, `There is no key "${name.slice(0, 40)}".${didYouMean(name, KEYS)}`, `The keys are: ${KEYS.join(", ")}.`)
  }
  if (value === "") {
    return problem(valueAt, `${key} has no value.`, `Write it after the colon, without a space. Example: ${EXAMPLE}`)
  }
  switch (key) {
    case "status": {
      const status = STATUSES.get(value.toLowerCase())
      if (status !== undefined) return { search: { ...search, status: withValue(search.status, status) } }
      const names = Object.values(STATUS_NAMES)
      return problem(
        valueAt,
        `There is no status "${value.slice(0, 40)}".${didYouMean(value, names)}`,
        `Use one of: ${names.join(", ")}. For any of several, repeat the term: status:failed status:timed_out.`
      )
    }
    case "release":
      return /^[1-9]\d{0,8}$/.test(value)
        ? { search: { ...search, release: withValue(search.release, Number(value)) } }
        : problem(valueAt, `"${value.slice(0, 40)}" is not a release.`, "Write its number, for example release:12.")
    case "since":
    case "before": {
      const time = parseTime(value)
      if (time === undefined) {
        return problem(
          valueAt,
          `"${value.slice(0, 40)}" is not a time.`,
          `Write a duration before now, such as ${key}:2h (units: ms, s, m, h, d), or a date or time: ${key}:2026-11-22, ${key}:2026-11-22T14:00:00Z.`
        )
      }
      return search[key] === undefined
        ? { search: { ...search, [key]: time } }
        : problem(at, `${key} occurs twice.`, "Leave one of them out.")
    }
    default:
      return { search: { ...search, [key]: withValue(search[key], value) } }
  }
}

/** Parses a query. An empty one matches all jobs. `maxLength`: the canonical text of a query may be longer than what its author wrote. */
export const parseSearch = (text: string, maxLength: number = MAX_SEARCH_LENGTH): ParsedSearch => {
  if (text.length > maxLength) {
    return problem(maxLength, `The query has ${text.length} characters.`, `Use at most ${maxLength}.`)
  }
  let search = EVERYTHING
  let at = 0
  while (true) {
    while (/\s/.test(text[at] ?? "")) at += 1
    if (at >= text.length) return { search }
    const read = readTerm(text, at)
    if ("problem" in read) return read
    const added = add(search, read.term)
    if (added.problem !== undefined) return added
    search = added.search
    at = read.end
  }
}

/** A value in the syntax of a query. */
const printValue = (value: string): string =>
  /^[^\s"]+$/.test(value) ? value : `"${value.replaceAll("\\", "\\\\").replaceAll("\"", "\\\"")}"`

/** The canonical text of a query. `parseSearch` returns an equal query for it. */
export const printSearch = (search: JobSearch): string =>
  KEYS.flatMap((key) => {
    if (key === "since" || key === "before") {
      const time = search[key]
      return time === undefined ? [] : [`${key}:${printTime(time)}`]
    }
    return key === "status"
      ? search.status.map((status) => `status:${STATUS_NAMES[status]}`)
      : search[key].map((value) => `${key}:${printValue(String(value))}`)
  }).join(" ")

/** The range of submission times that a query permits: `createdAfter` is inclusive, `createdBefore` is not. */
export const searchRange = (
  { before, since }: Pick<JobSearch, "since" | "before">,
  now: number
): { readonly createdAfter: number | undefined; readonly createdBefore: number | undefined } => {
  const resolve = (time: SearchTime | undefined) => time === undefined ? undefined : "at" in time ? time.at : now - time.ago
  return { createdAfter: resolve(since), createdBefore: resolve(before) }
}

/** The statuses in which a bulk action changes a job (Bulk.ts). */
const ACTIONABLE: Readonly<Record<"retry" | "cancel" | "rerun", ReadonlyArray<JobStatus>>> = {
  retry: ["FAILED", "TIMED_OUT"],
  cancel: ["IN_QUEUE", "IN_PROGRESS"],
  rerun: ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT"]
}

/** The query without the jobs that a bulk action cannot change; undefined when none is left. */
export const restrictedTo = (search: JobSearch, action: keyof typeof ACTIONABLE): JobSearch | undefined => {
  const status = search.status.length === 0
    ? ACTIONABLE[action]
    : search.status.filter((one) => ACTIONABLE[action].includes(one))
  return status.length === 0 ? undefined : { ...search, status }
}

/** What {@link matchesSearch} compares. */
export interface SearchedJob {
  readonly endpoint: string
  readonly status: JobStatus
  readonly release: number | null
  readonly worker: string | null
  readonly batchId: string | null
  readonly tags: ReadonlyArray<string>
  /** Its first 500 characters. */
  readonly error: string | null
  /** The fingerprint of its error. */
  readonly errorGroup: string | null
}

const includesOf = <A>(values: ReadonlyArray<A>, value: A | null): boolean =>
  values.length === 0 || (value !== null && values.includes(value))

/** Whether a job matches all terms except for the times. */
export const matchesSearch = (search: JobSearch, job: SearchedJob): boolean => {
  const error = (job.error ?? "").toLowerCase()
  return includesOf(search.endpoint, job.endpoint) && includesOf(search.status, job.status) &&
    includesOf(search.release, job.release) && includesOf(search.worker, job.worker) && includesOf(search.batch, job.batchId) &&
    includesOf(search["error-group"], job.errorGroup) &&
    search.tag.every((tag) => job.tags.includes(tag)) && search.error.every((text) => error.includes(text.toLowerCase()))
}

/**
 * The text query for jobs: a parser and a printer. `SearchMatch.ts` decides which jobs match.
 *
 * ```
 *   status:failed endpoint:resize -release:12 tag:nightly since:2h error:"out of memory" OR input:"red shoes"
 *
 *   query       = [ alternative { OR alternative } ]      alternative = term { [ AND ] term }
 *   term        = [ "-" | NOT ] KEY ":" value             value = text without spaces and quotes | '"' text '"', with \" and \\
 *
 *   endpoint, status, release, worker, batch    several values in an alternative: any of them
 *   error-group                                 several values: any of them; the fingerprint of an error (ErrorGroup.ts)
 *   tag, error                                  several values: all of them
 *   input, output, text                         several values: all of them; words (SearchText.ts)
 *   since, before                               once: a duration before now (30s, 10m, 2h, 7d), a date or a time
 *   -KEY                                        several values: none of them
 * ```
 *
 * There are no parentheses, so a query is a list of alternatives, each of which is a set of ranges for which the stores have indexes. The length of
 * the text limits the number of terms, and no query is nested.
 *
 * The module is plain TypeScript, because the console loads it into browsers.
 */
import { didYouMean } from "../Suggestion.ts"
import type { JobStatus } from "./Job.ts"
import { phraseOf, TEXT_KEY_NAMES } from "./SearchText.ts"

/** A point in time, or a duration before the present. Milliseconds. */
export type SearchTime = { readonly at: number } | { readonly ago: number }

/** The values of the terms, by key. */
export interface SearchValues {
  readonly endpoint: ReadonlyArray<string>
  readonly status: ReadonlyArray<JobStatus>
  readonly release: ReadonlyArray<number>
  readonly tag: ReadonlyArray<string>
  readonly worker: ReadonlyArray<string>
  readonly batch: ReadonlyArray<string>
  readonly error: ReadonlyArray<string>
  readonly "error-group": ReadonlyArray<string>
  readonly input: ReadonlyArray<string>
  readonly output: ReadonlyArray<string>
  readonly text: ReadonlyArray<string>
}

/** The terms of an alternative: a job must match the terms of every key, and no value in `not`. */
export interface SearchTerms extends SearchValues {
  readonly not: SearchValues
  readonly since?: SearchTime
  readonly before?: SearchTime
}

/** A parsed query with at least one alternative. A job matches the query if it matches any of them. */
export interface JobSearch {
  readonly any: ReadonlyArray<SearchTerms>
}

/** An error in a query, and its position. `position` counts characters from 0. */
export interface SearchProblem {
  readonly position: number
  readonly message: string
  readonly hint: string
}

/** The result of {@link parseSearch}. */
export type ParsedSearch =
  | { readonly search: JobSearch; readonly problem?: never }
  | { readonly search?: never; readonly problem: SearchProblem }

const NO_VALUES: SearchValues = {
  endpoint: [],
  status: [],
  release: [],
  tag: [],
  worker: [],
  batch: [],
  error: [],
  "error-group": [],
  input: [],
  output: [],
  text: []
}

/** The alternative that every job matches. */
export const NO_TERMS: SearchTerms = { ...NO_VALUES, not: NO_VALUES }

/** A query with these terms as its only alternative. */
export const searchOf = (terms: Partial<SearchTerms>): JobSearch => ({ any: [{ ...NO_TERMS, ...terms }] })

/** The query that matches all jobs. */
export const EVERYTHING: JobSearch = searchOf({})

/** The maximum length of a query, in characters. */
export const MAX_SEARCH_LENGTH = 1_000

/** The maximum number of alternatives. Each may need its own range for each endpoint and status. */
export const MAX_ALTERNATIVES = 20

/** The keys, in the order in which they are printed. */
const KEYS = [
  "endpoint",
  "status",
  "release",
  "tag",
  "worker",
  "batch",
  "error",
  "error-group",
  "input",
  "output",
  "text",
  "since",
  "before"
] as const
type Key = (typeof KEYS)[number]

/** The minimum number of characters before a `*`. An index reads all words that begin with them. */
const MIN_PREFIX = 2

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
  readonly isNegated: boolean
}

type Added =
  | { readonly terms: SearchTerms; readonly problem?: never }
  | { readonly terms?: never; readonly problem: SearchProblem }

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

/** A parenthesis where a term should begin. */
const parenthesis = (at: number) =>
  problem(
    at,
    "A query has no parentheses.",
    "Write each alternative in full: status:failed tag:a OR status:failed tag:b. Several values of endpoint, status, release, worker and batch already " +
      "mean any of them: tag:a status:failed status:timed_out."
  )

type ReadTerm = { readonly term: Term; readonly end: number } | { readonly problem: SearchProblem }

/** Reads the value of a term. */
const readValue = (text: string, term: Omit<Term, "value">): ReadTerm => {
  const { key, valueAt } = term
  if (text[valueAt] !== "\"") {
    const [value = ""] = /^\S*/.exec(text.slice(valueAt)) ?? []
    if (value.includes("\"")) {
      return problem(
        valueAt + value.indexOf("\""),
        `The value of ${key} contains a quote.`,
        `Write the whole value in quotes: ${key}:${printValue(value.replaceAll("\"", ""))}. Within them, \\" is a quote.`
      )
    }
    return { term: { ...term, value }, end: valueAt + value.length }
  }
  const quoted = readQuoted(text, valueAt)
  if (quoted === undefined) return problem(valueAt, `The value of ${key} has no closing quote.`, "Add \" at its end.")
  if (/\S/.test(text[quoted.end] ?? " ")) {
    return problem(quoted.end, "A space is missing after a quoted value.", "Separate terms with spaces.")
  }
  return { term: { ...term, value: quoted.value }, end: quoted.end }
}

/** Reads the term at a position. */
const readTerm = (text: string, at: number, isNegated: boolean): ReadTerm => {
  if (text[at] === "(" || text[at] === ")") return parenthesis(at)
  const [key = ""] = /^[^\s:"]*/.exec(text.slice(at)) ?? []
  const valueAt = at + key.length + 1
  if (key !== "" && text[valueAt - 1] === ":") return readValue(text, { key, at, valueAt, isNegated })
  const [word = ""] = /^(?:"[^"]*"?|\S+)/.exec(text.slice(at)) ?? []
  if (/^(?:or|and|not|OR|AND|NOT)$/.test(word)) {
    const upper = word.toUpperCase()
    return problem(
      at,
      `A term is expected instead of ${word}.`,
      upper === "NOT"
        ? "Write NOT in capital letters, once before a term: NOT tag:nightly."
        : `Write ${upper} in capital letters, between two terms: status:failed ${upper} tag:nightly.`
    )
  }
  const plain = word.replaceAll("\"", "").slice(0, 40)
  return problem(
    at,
    `${printValue(plain)} is not a term.`,
    `Write KEY:VALUE. To find it in inputs, outputs, errors and tags: text:${printValue(plain)}. Example: ${EXAMPLE}`
  )
}

const isKey = (key: string): key is Key => KEYS.some((one) => one === key)

const withValue = <A>(values: ReadonlyArray<A>, value: A): ReadonlyArray<A> =>
  values.includes(value) ? values : [...values, value]

/** The values, with a term's value added. */
const withTerm = (
  values: SearchValues,
  key: keyof SearchValues,
  { value, valueAt }: Term
): { readonly values: SearchValues } | { readonly problem: SearchProblem } => {
  switch (key) {
    case "status": {
      const status = STATUSES.get(value.toLowerCase())
      if (status !== undefined) return { values: { ...values, status: withValue(values.status, status) } }
      const names = Object.values(STATUS_NAMES)
      return problem(
        valueAt,
        `There is no status "${value.slice(0, 40)}".${didYouMean(value, names)}`,
        `Use one of: ${names.join(", ")}. For any of several, repeat the term: status:failed status:timed_out.`
      )
    }
    case "release":
      return /^[1-9]\d{0,8}$/.test(value)
        ? { values: { ...values, release: withValue(values.release, Number(value)) } }
        : problem(valueAt, `"${value.slice(0, 40)}" is not a release.`, "Write its number, for example release:12.")
    case "input":
    case "output":
    case "text": {
      const phrase = phraseOf(value)
      if (phrase === undefined) {
        return problem(
          valueAt,
          `${printValue(value.slice(0, 40))} has no letters or digits.`,
          `Write words: ${key}:shoes, ${key}:"red shoes".`
        )
      }
      if (phrase.isPrefix && (phrase.words.at(-1) ?? "").length < MIN_PREFIX) {
        return problem(
          valueAt,
          `Too many words begin with "${phrase.words.at(-1)}".`,
          `Write at least ${MIN_PREFIX} characters before the *.`
        )
      }
      return { values: { ...values, [key]: withValue(values[key], value) } }
    }
    default:
      return { values: { ...values, [key]: withValue(values[key], value) } }
  }
}

/** The alternative, with a term's time added. */
const withTime = (terms: SearchTerms, key: "since" | "before", { at, isNegated, value, valueAt }: Term): Added => {
  const time = parseTime(value)
  if (time === undefined) {
    return problem(
      valueAt,
      `"${value.slice(0, 40)}" is not a time.`,
      `Write a duration before now, such as ${key}:2h (units: ms, s, m, h, d), or a date or time: ${key}:2026-11-22, ${key}:2026-11-22T14:00:00Z.`
    )
  }
  if (isNegated) {
    const opposite = key === "since" ? "before" : "since"
    return problem(at, `${key} cannot be negated.`, `Write the opposite: ${opposite}:${printTime(time)}.`)
  }
  return terms[key] === undefined
    ? { terms: { ...terms, [key]: time } }
    : problem(at, `${key} occurs twice.`, "Leave one of them out.")
}

/** Adds a term to an alternative. */
const add = (terms: SearchTerms, term: Term): Added => {
  const { at, isNegated, key: name, value, valueAt } = term
  const key = name.toLowerCase()
  if (!isKey(key)) {
    return problem(at, `There is no key "${name.slice(0, 40)}".${didYouMean(name, KEYS)}`, `The keys are: ${KEYS.join(", ")}.`)
  }
  if (value === "") {
    return problem(valueAt, `${key} has no value.`, `Write it after the colon, without a space. Example: ${EXAMPLE}`)
  }
  if (key === "since" || key === "before") return withTime(terms, key, term)
  const added = withTerm(isNegated ? terms.not : terms, key, term)
  if ("problem" in added) return added
  return { terms: isNegated ? { ...terms, not: added.values } : { ...terms, ...added.values } }
}

/** The word between two terms, or before one. A word that is followed by a colon is a key. */
const readWord = (text: string, at: number): "OR" | "AND" | "NOT" | undefined => {
  const [, word] = /^(OR|AND|NOT)(?!\S)/.exec(text.slice(at, at + 4)) ?? []
  return word === "OR" || word === "AND" || word === "NOT" ? word : undefined
}

/** Parses a query. An empty one matches all jobs. `maxLength`: the canonical text of a query can be longer than its author's text. */
export const parseSearch = (text: string, maxLength: number = MAX_SEARCH_LENGTH): ParsedSearch => {
  if (text.length > maxLength) {
    return problem(maxLength, `The query has ${text.length} characters.`, `Use at most ${maxLength}.`)
  }
  /** The alternatives by their canonical text. */
  const any = new Map<string, SearchTerms>()
  let terms: SearchTerms | undefined
  /** The position of an OR or AND that a term must still follow. */
  let wordAt: number | undefined
  let at = 0
  while (true) {
    while (/\s/.test(text[at] ?? "")) at += 1
    const word = readWord(text, at)
    if (at >= text.length || word === "OR") {
      if (wordAt !== undefined) {
        return problem(
          wordAt,
          "A term is missing after OR or AND.",
          "Write a term on both sides: status:failed OR tag:nightly."
        )
      }
      if (terms !== undefined) any.set(printTerms(terms), terms)
      if (at >= text.length) return { search: any.size === 0 ? EVERYTHING : { any: [...any.values()] } }
      if (terms === undefined) {
        return problem(at, "A term is missing before OR.", "Write a term on both sides: status:failed OR tag:nightly.")
      }
      if (any.size === MAX_ALTERNATIVES) {
        return problem(
          at,
          `The query has more than ${MAX_ALTERNATIVES} alternatives.`,
          "Repeat terms instead: several values of endpoint, status, release, worker and batch mean any of them."
        )
      }
      terms = undefined
      wordAt = at
      at += word?.length ?? 0
      continue
    }
    if (word === "AND") {
      if (terms === undefined || wordAt !== undefined) {
        return problem(
          at,
          "A term is missing before AND.",
          "Write a term on both sides, or leave AND out: status:failed tag:nightly."
        )
      }
      wordAt = at
      at += word.length
      continue
    }
    const negatedAt = word === "NOT" ? at + word.length : text[at] === "-" ? at + 1 : undefined
    let termAt = negatedAt ?? at
    if (word === "NOT") { while (/\s/.test(text[termAt] ?? "")) termAt += 1 }
    if (termAt >= text.length || (negatedAt !== undefined && /\s/.test(text[termAt] ?? ""))) {
      return problem(at, "A term is missing after the negation.", "Write the term after it: NOT tag:nightly, or -tag:nightly.")
    }
    const read = readTerm(text, termAt, negatedAt !== undefined)
    if ("problem" in read) return read
    const added = add(terms ?? NO_TERMS, read.term)
    if (added.problem !== undefined) return added
    terms = added.terms
    wordAt = undefined
    at = read.end
  }
}

/** A value in the syntax of a query. */
const printValue = (value: string): string =>
  /^[^\s"]+$/.test(value) ? value : `"${value.replaceAll("\\", "\\\\").replaceAll("\"", "\\\"")}"`

const printValues = (values: SearchValues, prefix: string): ReadonlyArray<string> =>
  KEYS.flatMap((key) => {
    if (key === "since" || key === "before") return []
    return key === "status"
      ? values.status.map((status) => `${prefix}status:${STATUS_NAMES[status]}`)
      : values[key].map((value) => `${prefix}${key}:${printValue(String(value))}`)
  })

/** The canonical text of an alternative. */
export const printTerms = (terms: SearchTerms): string => {
  const times = (["since", "before"] as const).flatMap((key) => {
    const time = terms[key]
    return time === undefined ? [] : [`${key}:${printTime(time)}`]
  })
  return [...printValues(terms, ""), ...times, ...printValues(terms.not, "-")].join(" ")
}

/** Whether some term of a query searches for words. */
export const hasWords = ({ any }: JobSearch): boolean =>
  any.some((terms) => TEXT_KEY_NAMES.some((key) => terms[key].length > 0 || terms.not[key].length > 0))

/** The canonical text of a query. `parseSearch` returns an equal query for it. */
export const printSearch = ({ any }: JobSearch): string => any.map(printTerms).join(" OR ")

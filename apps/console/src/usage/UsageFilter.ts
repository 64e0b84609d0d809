/**
 * What the usage page shows, as stored in its address: the period, the step, what to sum by, one endpoint, and what the chart draws.
 */
import type { UsageBy, UsageReport, UsageStep } from "@stint/contract/UsageApi"
import { textAt } from "../format/AddressQuery.ts"

/** The periods, in the order in which they are offered. Days are UTC days, as in budgets. */
export const RANGES = [["7d", "7 days"], ["30d", "30 days"], ["month", "This month"], ["custom", "Custom"]] as const

/** A choice of {@link RANGES}. */
export type Range = (typeof RANGES)[number][0]

/** The time span that one bar covers. */
export type ChartStep = Exclude<UsageStep, "all">

/** The steps, shortest first. */
export const STEPS = [["hour", "Hour"], ["day", "Day"], ["month", "Month"]] as const satisfies ReadonlyArray<
  readonly [ChartStep, string]
>

/** What to sum by, in the order of the choices. */
export const OWNERS = [["endpoint", "Endpoint"], ["release", "Release"], ["key", "Key"]] as const satisfies ReadonlyArray<
  readonly [UsageBy, string]
>

/** What the chart can draw. */
export const MEASURES = [
  ["cost", "Cost"],
  ["execution", "Execution"],
  ["workers", "Workers"],
  ["cpu", "CPU"],
  ["gpu", "GPU"],
  ["attempts", "Attempts"]
] as const

/** A choice of {@link MEASURES}. */
export type Measure = (typeof MEASURES)[number][0]

/** What the page shows. */
export interface UsageFilter {
  readonly range: Range
  /** The first and the last day of a custom period, such as `2026-11-22`. Otherwise empty. */
  readonly from: string
  readonly to: string
  readonly step: ChartStep
  readonly by: UsageBy
  /** Empty: all endpoints. */
  readonly endpoint: string
  /** Empty: costs if prices are configured, and otherwise execution time. */
  readonly measure: Measure | ""
}

const DEFAULTS: UsageFilter = { range: "30d", from: "", to: "", step: "day", by: "endpoint", endpoint: "", measure: "" }

/** Reads the filter from the parsed query of the address. Unknown values are the defaults. */
export const usageFilterOf = (search: unknown): UsageFilter => {
  const choice = <A extends string>(choices: ReadonlyArray<readonly [A, string]>, key: string): A | undefined =>
    choices.find(([value]) => value === textAt(search, key))?.[0]
  const range = choice(RANGES, "range") ?? DEFAULTS.range
  return {
    range,
    from: range === "custom" ? textAt(search, "from") : "",
    to: range === "custom" ? textAt(search, "to") : "",
    step: choice(STEPS, "step") ?? DEFAULTS.step,
    by: choice(OWNERS, "by") ?? DEFAULTS.by,
    endpoint: textAt(search, "endpoint"),
    measure: choice(MEASURES, "measure") ?? ""
  }
}

/** The query of the address: only what differs from the defaults. */
export const usageSearchOf = (filter: UsageFilter): Readonly<Record<string, string>> =>
  Object.fromEntries(Object.entries({ ...filter }).filter(([key, value]) => value !== Reflect.get(DEFAULTS, key)))

const HOUR = 3_600_000
const DAY = 24 * HOUR

/** `2026-11-22`. */
export const dayText = (time: number): string => new Date(time).toISOString().slice(0, 10)

/** The platform is younger than this, and a year that is being typed begins with zeros. */
const FIRST_DAY = Date.UTC(2020, 0, 1)

const dayOf = (text: string): number | undefined => {
  const time = /^\d{4}-\d\d-\d\d$/.test(text) ? Date.parse(`${text}T00:00:00Z`) : Number.NaN
  return Number.isNaN(time) ? undefined : time
}

/** A period. `to` is absent if the period lasts until now. */
export interface Period {
  readonly from: number
  readonly to?: number
}

/** The period that a filter chooses, or what is wrong with it. */
export const periodOf = (
  { from, range, to }: UsageFilter,
  now: number
): { readonly period: Period } | { readonly problem: string } => {
  const today = Math.floor(now / DAY) * DAY
  switch (range) {
    case "7d":
      return { period: { from: today - 6 * DAY } }
    case "30d":
      return { period: { from: today - 29 * DAY } }
    case "month":
      return { period: { from: startOf("month", now) } }
    case "custom": {
      const [first, last] = [dayOf(from), dayOf(to)]
      if (first === undefined || last === undefined) return { problem: "Choose the first and the last day." }
      if (first < FIRST_DAY) return { problem: `The first day must be ${dayText(FIRST_DAY)} or later.` }
      if (first > today) return { problem: "The first day is in the future. Choose an earlier one." }
      if (last < first) return { problem: "The last day is before the first day. Choose a later one." }
      return { period: { from: first, to: Math.min(last, today) + DAY } }
    }
  }
}

/** The start of the step that contains a time. */
const startOf = (step: ChartStep, time: number): number => {
  if (step === "hour") return Math.floor(time / HOUR) * HOUR
  if (step === "day") return Math.floor(time / DAY) * DAY
  const date = new Date(time)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth())
}

const nextOf = (step: ChartStep, start: number): number => {
  if (step !== "month") return start + (step === "hour" ? HOUR : DAY)
  const date = new Date(start)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1)
}

/** The starts of all steps in a period, including steps in which nothing ran. */
export const stepsBetween = (step: ChartStep, from: number, to: number): ReadonlyArray<number> => {
  const steps: Array<number> = []
  for (let start = startOf(step, from); start < to; start = nextOf(step, start)) steps.push(start)
  return steps
}

/** The maximum number of bars: with more, a bar would be too narrow to see. A month has up to 744 hours. */
const MOST_STEPS = 750

/** Whether a step results in few enough bars. Months always do. */
export const isPossible = (step: ChartStep, { from, to }: Period, now: number): boolean =>
  step === "month" || ((to ?? now) - from) / (step === "hour" ? HOUR : DAY) <= MOST_STEPS

/** The chosen step, or the shortest longer step that results in few enough bars. */
export const stepOf = ({ step }: UsageFilter, period: Period, now: number): ChartStep =>
  STEPS.slice(STEPS.findIndex(([one]) => one === step)).find(([one]) => isPossible(one, period, now))?.[0] ?? "month"

/** The query of the request. */
export const requestOf = (
  filter: UsageFilter,
  period: Period,
  now: number
): Readonly<Record<string, string | number | undefined>> => ({
  by: filter.by,
  endpoint: filter.endpoint,
  step: stepOf(filter, period, now),
  from: period.from,
  to: period.to
})

/** What the chart draws: costs only if prices are configured. */
export const measureOf = ({ measure }: UsageFilter, { currency }: UsageReport): Measure =>
  currency === undefined ? measure === "" || measure === "cost" ? "execution" : measure : measure === "" ? "cost" : measure

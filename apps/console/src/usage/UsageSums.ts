/**
 * The rows of a report, summed for the table and arranged for the chart.
 */
import type { UsageReport, UsageRow, UsageSums } from "@stint/contract/UsageApi"
import { costText, timeText } from "@stint/contract/UsageText"
import { type ChartStep, type Measure, stepsBetween } from "./UsageFilter.ts"

/** The endpoint, release or key to which the sums of some rows belong. */
export interface Owner {
  /** Unique among the owners in a report. */
  readonly id: string
  readonly row: Pick<UsageRow, "endpoint" | "release" | "key">
  readonly sums: UsageSums
}

/** The amount for a measure. */
export const amountOf = (sums: UsageSums, measure: Measure): number => {
  switch (measure) {
    case "cost":
      return sums.cost ?? 0
    case "execution":
      return sums.executionSeconds
    case "workers":
      return sums.workerSeconds
    case "cpu":
      return sums.cpuSeconds
    case "gpu":
      return sums.gpuSeconds
    case "attempts":
      return sums.attempts
  }
}

/** An amount in words: `12.50 EUR`, `26:03:04.5`, `1,234`. */
export const amountText = (amount: number, measure: Measure, currency = ""): string =>
  measure === "cost"
    ? `${costText(amount)} ${currency}`.trim()
    : measure === "attempts"
    ? amount.toLocaleString("en")
    : timeText(amount)

const add = (a: UsageSums, b: UsageSums): UsageSums => ({
  attempts: a.attempts + b.attempts,
  executionSeconds: a.executionSeconds + b.executionSeconds,
  workerSeconds: a.workerSeconds + b.workerSeconds,
  cpuSeconds: a.cpuSeconds + b.cpuSeconds,
  gpuSeconds: a.gpuSeconds + b.gpuSeconds,
  ...(a.cost === undefined || b.cost === undefined ? {} : { cost: a.cost + b.cost })
})

const idOf = ({ endpoint = "", key = "", release = 0 }: Owner["row"]): string => `${endpoint} ${release} ${key}`

/** The owners in a report, ordered by amount, largest first, and then by name. */
export const ownersOf = ({ rows }: UsageReport, measure: Measure): ReadonlyArray<Owner> => {
  const owners = new Map<string, Owner>()
  for (const { endpoint, key, release, ...sums } of rows) {
    const row = {
      ...(endpoint === undefined ? {} : { endpoint }),
      ...(release === undefined ? {} : { release }),
      ...(key === undefined ? {} : { key })
    }
    const id = idOf(row)
    const known = owners.get(id)
    owners.set(id, { id, row, sums: known === undefined ? sums : add(known.sums, sums) })
  }
  return [...owners.values()].toSorted((a, b) => amountOf(b.sums, measure) - amountOf(a.sums, measure) || (a.id < b.id ? -1 : 1))
}

/** The amounts in each step, of one owner or of all owners without a colour of their own. */
export interface Series {
  /** Undefined: all others. */
  readonly owner: Owner | undefined
  readonly values: ReadonlyArray<number>
}

/** The maximum number of owners with a colour of their own: a reader cannot distinguish more colours. */
const MOST_SERIES = 6

/** The steps of a report, and its owners' amounts in each step. Owners without amounts have no series. */
export const chartOf = (
  report: UsageReport,
  step: ChartStep,
  measure: Measure,
  owners: ReadonlyArray<Owner>
): { readonly steps: ReadonlyArray<number>; readonly series: ReadonlyArray<Series> } => {
  const steps = stepsBetween(step, report.from, report.to)
  const columns = new Map(steps.map((start, index) => [start, index]))
  const drawn = owners.filter(({ sums }) => amountOf(sums, measure) > 0)
  const apart = drawn.slice(0, MOST_SERIES)
  const hasOthers = drawn.length > MOST_SERIES
  const lines = new Map(apart.map(({ id }, index) => [id, index]))
  const values = Array.from({ length: apart.length + (hasOthers ? 1 : 0) }, () => steps.map(() => 0))
  for (const row of report.rows) {
    const line = values[lines.get(idOf(row)) ?? MOST_SERIES]
    const column = columns.get(row.from)
    if (line !== undefined && column !== undefined) line[column] = (line[column] ?? 0) + amountOf(row, measure)
  }
  return { steps, series: values.map((line, index) => ({ owner: apart[index], values: line })) }
}

const LENGTHS = { hour: 16, day: 10, month: 7 } as const

/** The step as text, in UTC: `2026-11-22 14:00`, `2026-11-22`, `2026-11`. */
export const stepText = (step: ChartStep, start: number): string =>
  new Date(start).toISOString().replace("T", " ").slice(0, LENGTHS[step])

/**
 * The possible distances between labels, in steps. Hours fall on the same times of each day, days on the same days of some weeks, and months
 * on the same months of each year.
 */
const DISTANCES: Readonly<Record<ChartStep, ReadonlyArray<number>>> = {
  hour: [1, 2, 3, 6, 12, 24, 48, 96],
  day: [1, 2, 4, 7, 14, 28, 56, 112],
  month: [1, 2, 3, 6, 12, 24]
}

/** The maximum number of labels below the bars. */
const MOST_LABELS = 8

/** `22 Nov`, `14:00`, `Nov 2026`: short names of some steps, in UTC. */
export const labelsOf = (
  step: ChartStep,
  steps: ReadonlyArray<number>
): ReadonlyArray<{ readonly column: number; readonly text: string }> => {
  const distance = DISTANCES[step].find((one) => steps.length / one <= MOST_LABELS) ?? Math.ceil(steps.length / MOST_LABELS)
  return steps.flatMap((start, column) => {
    if (column % distance > 0) return []
    const text = new Date(start).toUTCString()
    const isDay = step === "day" || column === 0 || start % 86_400_000 === 0
    return [{ column, text: step === "month" ? text.slice(8, 16) : isDay ? text.slice(5, 11) : text.slice(17, 22) }]
  })
}

/** Quotes fields with a comma, a quotation mark or a line break. Turns a field that a spreadsheet would evaluate into text. */
const field = (value: string | number | undefined): string => {
  if (typeof value !== "string") return String(value ?? "")
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value
  return /[",\r\n]/.test(text) ? `"${text.replaceAll("\"", "\"\"")}"` : text
}

/** The rows of a report as CSV (RFC 4180), with a header line. Times are in UTC, and costs are exact. */
export const csvOf = ({ by, currency, rows }: UsageReport): string => {
  const owners = by === "key" ? ["key"] as const : by === "release" ? ["endpoint", "release"] as const : ["endpoint"] as const
  const amounts = ["attempts", "executionSeconds", "workerSeconds", "cpuSeconds", "gpuSeconds"] as const
  const priced = currency === undefined ? [] : ["cost", "currency"] as const
  return [
    ["from", ...owners, ...amounts, ...priced],
    ...rows.map((row) => [
      new Date(row.from).toISOString(),
      ...owners.map((name) => row[name]),
      ...amounts.map((name) => row[name]),
      ...(currency === undefined ? [] : [row.cost, currency])
    ])
  ].map((line) => `${line.map(field).join(",")}\r\n`).join("")
}

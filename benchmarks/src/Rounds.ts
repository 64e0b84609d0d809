/**
 * Measures several subjects in interleaved rounds (A B C, A B C, ...), so that changes in the machine's speed affect all of them alike. Prints
 * the median and the range of each subject, its ratio to the first subject with a 95 % confidence interval, and what a job costs, if that was measured.
 */
import process from "node:process"
import { estimateRatio } from "./PairedRatio.ts"

/** What a job costs all processes of a subject, including its servers. */
export interface Cost {
  /** CPU time in microseconds. */
  readonly cpuMicros: number
  /** Bytes written to storage. */
  readonly written: number
  /** The memory of all processes at the end of the round, in MiB. Memory that several share counts once. */
  readonly memory: number
}

/** A figure with its cost. */
export interface Measurement {
  readonly figure: number
  readonly cost: Cost
}

/** A measured subject. `run` returns its figure for one round. */
export interface Subject {
  readonly name: string
  readonly run: () => Promise<number | Measurement>
}

const sorted = (values: ReadonlyArray<number>) => [...values].sort((a, b) => a - b)

export const median = (values: ReadonlyArray<number>): number => {
  const all = sorted(values)
  const middle = Math.floor(all.length / 2)
  return all.length % 2 === 1 ? all[middle] ?? Number.NaN : ((all[middle - 1] ?? Number.NaN) + (all[middle] ?? Number.NaN)) / 2
}

/** Formats a figure with about three significant digits. */
export const formatFigure = (value: number): string => value >= 100 ? value.toFixed(0) : value.toFixed(value >= 10 ? 1 : 2)

/** A Markdown table. The first row is the header; the first column is left-aligned, the others right-aligned. */
export const tableOf = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(3, ...rows.map((row) => (row[column] ?? "").length)))
  const lines = rows.map((row) =>
    row.map((cell, column) => column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0))
  )
  const rule = widths.map((width, column) => column === 0 ? "-".repeat(width) : `${"-".repeat(width - 1)}:`)
  return [...lines.slice(0, 1), rule, ...lines.slice(1)].map((cells) => `| ${cells.join(" | ")} |`).join("\n")
}

/** The median and the range: `4.3 (4.1 - 4.9)`. */
export const spreadOf = (figures: ReadonlyArray<number>): string =>
  `${formatFigure(median(figures))} (${formatFigure(Math.min(...figures))} - ${formatFigure(Math.max(...figures))})`

const quantile = (values: ReadonlyArray<number>, q: number): number => {
  const all = sorted(values)
  return all[Math.min(all.length - 1, Math.floor(q * all.length))] ?? Number.NaN
}

/** Prints p50, p90, p99 and the maximum, each as the median and the range of the rounds. */
export const quantiles = (title: string, unit: string, rounds: ReadonlyArray<ReadonlyArray<number>>): void => {
  const rows = ([["p50", 0.5], ["p90", 0.9], ["p99", 0.99], ["worst", 1]] as const).map(([name, q]) => {
    const figures = sorted(rounds.map((round) => quantile(round, q)))
    return [
      name,
      formatFigure(median(figures)),
      `${formatFigure(figures[0] ?? Number.NaN)} - ${formatFigure(figures.at(-1) ?? Number.NaN)}`
    ]
  })
  const table = tableOf([["", `median ${unit}`, "range"], ...rows])
  process.stdout.write(`${title} (${rounds.length} rounds, Node ${process.versions.node})\n\n${table}\n`)
}

/** The ratio of two subjects with its 95 % confidence interval: `1.5x (1.4 - 1.6)`. */
export const ratioOf = (baseline: ReadonlyArray<number>, own: ReadonlyArray<number>): string => {
  const { high, low, ratio } = estimateRatio(baseline, own)
  return Number.isFinite(high) && own !== baseline
    ? `${ratio.toFixed(2)}x (${low.toFixed(2)} - ${high.toFixed(2)})`
    : `${ratio.toFixed(2)}x`
}

/** The names of the columns of costs, and how each is formatted. */
const COSTS = [
  ["CPU µs/job", ({ cpuMicros }: Cost) => cpuMicros],
  ["written B/job", ({ written }: Cost) => written],
  ["memory MiB", ({ memory }: Cost) => memory]
] as const

/** Runs all subjects for one discarded round and `rounds` counted rounds, then prints the table. */
export const compare = async (title: string, unit: string, rounds: number, subjects: ReadonlyArray<Subject>): Promise<void> => {
  const measured = subjects.map(() => ({ figures: new Array<number>(), costs: new Array<Cost>() }))
  for (let round = -1; round < rounds; round++) {
    for (const [index, subject] of subjects.entries()) {
      const result = await subject.run()
      if (round < 0) continue
      measured[index]?.figures.push(typeof result === "number" ? result : result.figure)
      if (typeof result !== "number") measured[index]?.costs.push(result.cost)
    }
  }
  const shown = measured.some(({ costs }) => costs.length > 0) ? COSTS : []
  const baseline = measured[0]?.figures ?? []
  const rows = subjects.map(({ name }, index) => {
    const { costs, figures } = measured[index] ?? { costs: [], figures: [] }
    return [
      name,
      formatFigure(median(figures)),
      `${formatFigure(Math.min(...figures))} - ${formatFigure(Math.max(...figures))}`,
      ratioOf(baseline, figures),
      ...shown.map(([, costOf]) => costs.length === 0 ? "" : formatFigure(median(costs.map(costOf))))
    ]
  })
  const table = tableOf([["", `median ${unit}`, "range", "ratio", ...shown.map(([column]) => column)], ...rows])
  process.stdout.write(`${title} (${rounds} rounds, Node ${process.versions.node})\n\n${table}\n\n`)
}

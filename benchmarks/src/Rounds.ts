/**
 * Measures several subjects in interleaved rounds (A B C, A B C, ...), so that changes in the machine's speed affect all of them alike. Prints
 * the median and the range of each subject, and the median of its per-round ratios to the first subject.
 */
import process from "node:process"

/** A measured subject. `run` returns its figure for one round. */
export interface Subject {
  readonly name: string
  readonly run: () => Promise<number>
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

/** Runs all subjects for one discarded round and `rounds` counted rounds, then prints the table. */
export const compare = async (title: string, unit: string, rounds: number, subjects: ReadonlyArray<Subject>): Promise<void> => {
  const figures = subjects.map((): Array<number> => [])
  for (let round = -1; round < rounds; round++) {
    for (const [index, subject] of subjects.entries()) {
      const figure = await subject.run()
      if (round >= 0) figures[index]?.push(figure)
    }
  }
  const baseline = figures[0] ?? []
  const rows = subjects.map(({ name }, index) => {
    const own = figures[index] ?? []
    const all = sorted(own)
    const ratios = own.map((figure, round) => figure / (baseline[round] ?? Number.NaN))
    return [
      name,
      formatFigure(median(own)),
      `${formatFigure(all[0] ?? Number.NaN)} - ${formatFigure(all.at(-1) ?? Number.NaN)}`,
      `${median(ratios).toFixed(2)}x`
    ]
  })
  const table = tableOf([["", `median ${unit}`, "range", "ratio"], ...rows])
  process.stdout.write(`${title} (${rounds} rounds, Node ${process.versions.node})\n\n${table}\n\n`)
}

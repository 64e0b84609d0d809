/**
 * docs/benchmarks/README.md: every goal with its published figure (Goals.ts), and charts of the tables in benchmarks/README.md. `pnpm bench goals` writes
 * the folder without measuring anything. `pnpm bench P1 --report docs/benchmarks/reports` adds the report of a row.
 */
import * as Schema from "effect/Schema"
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs"
import { join, resolve } from "node:path"
import { type Goal, goals } from "./Goals.ts"
import { tablesOf } from "./PrintedTables.ts"
import { chartOf } from "./ReportChart.ts"
import { rows } from "./Rows.ts"

const root = resolve(import.meta.dirname, "../..")

/** The folder of the page. */
export const GOALS_FOLDER: string = join(root, "docs/benchmarks")

/** Where the published reports are, in that folder. */
export const REPORTS = "reports"

const decodeReport = Schema.decodeUnknownSync(
  Schema.fromJsonString(Schema.Struct({ date: Schema.String, commit: Schema.String }))
)

/** A line about the published report of a row, if there is one. */
const reportOf = (row: string): ReadonlyArray<string> => {
  const file = join(GOALS_FOLDER, REPORTS, `${row}.json`)
  if (!existsSync(file)) return []
  const { commit, date } = decodeReport(readFileSync(file, "utf8"))
  return [`[The report of ${date}](${REPORTS}/${row}.md), commit ${commit}, has all figures as they were printed.`]
}

/** A table of benchmarks/README.md that is drawn as a chart. */
interface Drawn {
  readonly file: string
  readonly title: string
  readonly section: string
  /** Its place among the section's tables with medians. */
  readonly place: number
}

const DRAWN: ReadonlyArray<Drawn> = [
  { file: "P1.svg", title: "P1: jobs a second through a worker and a bare loop", section: "Worker loop", place: 0 },
  { file: "P4-D2.svg", title: "P4: queue core, survives a power failure (D2)", section: "Queue core", place: 0 },
  { file: "P4-D1.svg", title: "P4: queue core, survives a killed process (D1)", section: "Queue core", place: 1 },
  { file: "P4-postgresql.svg", title: "P4: queue core over PostgreSQL", section: "PostgreSQL", place: 0 },
  { file: "P9-small.svg", title: "P9: volume cache, 20,000 small files", section: "Volume cache", place: 0 },
  { file: "P9-large.svg", title: "P9: volume cache, 20 files of 100 MB", section: "Volume cache", place: 1 }
]

/** The charts, by file name. */
export const charts = (): ReadonlyMap<string, string> => {
  const sections = readFileSync(join(root, "benchmarks/README.md"), "utf8").split(/^#+ /m)
  return new Map(DRAWN.map(({ file, place, section, title }) => {
    const text = sections.find((one) => one.startsWith(`${section}\n`)) ?? ""
    const table = tablesOf(text).filter(({ columns }) => columns.some((column) => column.startsWith("median")))[place]
    const chart = table === undefined ? undefined : chartOf({ ...table, title })
    if (chart === undefined) {
      throw new Error(`benchmarks/README.md has no table ${place + 1} with medians in the section "${section}"`)
    }
    return [file, chart]
  }))
}

const resultOf = ({ measured, met, ratio }: Goal): string =>
  met ? "met" : measured === undefined && ratio === undefined ? "**not measured**" : "**missed**"

/** A table as dprint formats it. */
const tableOf = (head: ReadonlyArray<string>, lines: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = head.map((name, column) => Math.max(3, name.length, ...lines.map((cells) => cells[column]?.length ?? 0)))
  const line = (cells: ReadonlyArray<string>) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...lines.map(line)].join("\n")
}

/** The page. */
export const goalsPage = (): string => {
  const count = (result: string) => goals.filter((goal) => resultOf(goal) === result).length
  const sections = rows.map(({ id, title }) => {
    const own = goals.filter(({ row }) => row === id)
    const lines = own.map((goal) => [
      goal.goal,
      resultOf(goal),
      goal.measured ?? "",
      goal.against ?? "",
      goal.ratio ?? "",
      [goal.date ?? "not recorded", ...(goal.commit === undefined ? [] : [goal.commit])].join(", "),
      `[source](../../${goal.source})`,
      goal.reason ?? ""
    ])
    const pictures = DRAWN.filter(({ file }) => file.startsWith(`${id}.`) || file.startsWith(`${id}-`))
    return [
      `## ${id}: ${title}`,
      ...reportOf(id),
      tableOf(["goal", "result", "measured", "compared with", "ratio", "date, commit", "where", "why it is missed"], lines),
      ...pictures.map(({ file, title: shown }) => `![${shown}](${file})`)
    ].join("\n\n")
  })
  return `# Benchmarks: goals and figures

Every goal of [the figures](../spec/figures.md#performance), with the latest published measurement: ${count("met")} met, ${
    count("**missed**")
  } missed, ${count("**not measured**")} not measured. The goals that are missed
stay in the tables. \`npx -y pnpm@12 bench goals\` writes this page from [Goals.ts](../../benchmarks/src/Goals.ts) and
[benchmarks/README.md](../../benchmarks/README.md), which says for each figure how it was measured, on which machine and with which versions. Figures without a commit are from before commits were recorded.

To measure a row again, run \`npx -y pnpm@12 bench P4 --report reports\`: it installs the peers, runs all subjects in turns, and writes the figures with date, machine, commit
and versions as Markdown, JSON and charts. [Two commands](../../benchmarks/README.md#comparing-two-checkouts) compare two commits on the same machine, in turns.

Not measured: machines with more than two cores, machines of which a network lies between caller, platform and worker, and anything in a cloud.

${sections.join("\n\n")}
`
}

/** Writes the page and its charts. */
export const writeGoals = (): void => {
  mkdirSync(GOALS_FOLDER, { recursive: true })
  writeFileSync(join(GOALS_FOLDER, "README.md"), goalsPage())
  for (const [file, chart] of charts()) writeFileSync(join(GOALS_FOLDER, file), chart)
}

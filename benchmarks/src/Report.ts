/**
 * The report of `pnpm bench ROW --report FOLDER`:
 *
 * ```
 *   FOLDER/P1.json     figures, date, machine, commit, versions
 *   FOLDER/P1.md       the output, with its charts
 *   FOLDER/P1-1.svg    the chart of its first table with medians
 *   FOLDER/README.md   all rows: their targets, and their reports in the folder
 * ```
 */
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises"
import { join, relative } from "node:path"
import { figuresOf, tablesOf } from "./PrintedTables.ts"
import { chartOf } from "./ReportChart.ts"
import type { Row } from "./Rows.ts"

/** The circumstances that figures depend on. */
export interface Circumstances {
  /** `2026-11-23`. */
  readonly date: string
  readonly commit: string
  /** Whether the checkout differed from the commit. */
  readonly changed: boolean
  readonly node: string
  readonly cores: number
  readonly processor: string
  readonly memoryGiB: number
  /** Whether only the minimum number of rounds ran. */
  readonly quick: boolean
  /** The versions of the packages that Stint is compared with. */
  readonly peers: Readonly<Record<string, string>>
}

const circumstancesOf = ({ changed, commit, cores, date, memoryGiB, node, processor, quick }: Circumstances): string =>
  `${date}, ${cores} cores (${processor}), ${memoryGiB} GiB, Node ${node}, commit ${commit}${changed ? " with changes" : ""}${
    quick ? ", few rounds" : ""
  }`

/** The targets of the rows in docs/spec/figures.md, by id. */
const targetsIn = (page: string): ReadonlyMap<string, string> =>
  new Map(
    [...page.matchAll(/^\| (P\d+) .*$/gm)].map(([line, id = ""]) => [id, line.split(/(?<!\\)\|/).at(-2)?.trim() ?? ""])
  )

/** The index page. `figures`: the page with the targets, and `link`: its path from the folder. */
const indexPage = (
  rows: ReadonlyArray<Pick<Row, "id" | "title" | "elsewhere">>,
  reports: ReadonlyMap<string, Circumstances>,
  figures: string,
  link: string
): string => {
  const targets = targetsIn(figures)
  const lines = rows.map(({ elsewhere, id, title }) => {
    const report = reports.get(id)
    const measured = report !== undefined
      ? `[${report.date}, commit ${report.commit}](${id}.md)`
      : elsewhere ?? "not in this folder"
    return `| ${id} | ${title} | ${targets.get(id) ?? ""} | ${measured} |`
  })
  return `# Reports of the benchmarks

Written by \`pnpm bench ROW --report FOLDER\`, with the figures as they were printed, also where they miss the [target](${link}).

| row | measure | target | report |
| --- | ------- | ------ | ------ |
${lines.join("\n")}
`
}

/** Writes a row's report, and rewrites the folder's index. */
export const writeReport = async (
  folder: string,
  row: Row,
  rows: ReadonlyArray<Row>,
  outputs: ReadonlyArray<string>,
  circumstances: Circumstances,
  figuresPage: string
): Promise<void> => {
  const { id, title } = row
  await mkdir(folder, { recursive: true })
  const earlier = (await readdir(folder)).filter((file) => file.startsWith(`${id}-`) && file.endsWith(".svg"))
  await Promise.all(earlier.map((file) => rm(join(folder, file))))
  const charts = outputs.flatMap(tablesOf).flatMap((table) => {
    const chart = chartOf(table)
    return chart === undefined ? [] : [{ title: table.title, chart }]
  })
  for (const [index, { chart }] of charts.entries()) await writeFile(join(folder, `${id}-${index + 1}.svg`), chart)
  const figures = Object.fromEntries(outputs.flatMap((output) => [...figuresOf(output)]))
  await writeFile(join(folder, `${id}.json`), `${JSON.stringify({ id, title, ...circumstances, figures }, null, 2)}\n`)
  const peers = Object.entries(circumstances.peers).map(([name, version]) => `${name} ${version}`).join(", ")
  const pictures = charts.map(({ title: shown }, index) => `![${shown.replaceAll(/[[\]]/g, "")}](${id}-${index + 1}.svg)\n\n`)
  await writeFile(
    join(folder, `${id}.md`),
    `# ${id}: ${title}\n\n${circumstancesOf(circumstances)}. Peers, where the row has some: ${peers}.\n\n${pictures.join("")}${
      outputs.join("\n").trim()
    }\n`
  )
  const reports = new Map<string, Circumstances>()
  for (const { id: other } of rows) {
    const text = await readFile(join(folder, `${other}.json`), "utf8").catch(() => undefined)
    if (text !== undefined) reports.set(other, JSON.parse(text))
  }
  const link = relative(folder, figuresPage)
  await writeFile(join(folder, "README.md"), indexPage(rows, reports, await readFile(figuresPage, "utf8"), `${link}#performance`))
}

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterEach, describe, expect, it } from "vitest"
import { tablesOf } from "../src/PrintedTables.ts"
import { type Circumstances, writeReport } from "../src/Report.ts"
import { chartOf } from "../src/ReportChart.ts"
import { rows } from "../src/Rows.ts"

const OUTPUT = `Queue core, D2 (7 rounds, Node 26.10.0)

|            | median jobs/s | range           | ratio |
| ---------- | ------------: | --------------: | ----: |
| Stint <D2> |        13,785 | 13,531 - 14,230 | 1.00x |
| BullMQ     |         9,053 |   7,493 - 9,697 | 0.65x |
| not here   |           NaN |       NaN - NaN |  NaNx |

Idle (Node 26.10.0)

|     | of a core |
| --- | --------: |
| all |     4.1 % |
`

const circumstances: Circumstances = {
  date: "2026-11-23",
  commit: "abc1234",
  changed: false,
  node: "26.10.0",
  cores: 2,
  processor: "a processor",
  memoryGiB: 16,
  quick: true,
  peers: { bullmq: "6.7.0" }
}

const folders: Array<string> = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

describe("the chart of a table", () => {
  it("has a bar for each median, scaled to the largest upper end of a range, and gives the figures as text", () => {
    const [medians, idle] = tablesOf(OUTPUT)
    const chart = medians === undefined ? "" : chartOf(medians) ?? ""
    const widths = [...chart.matchAll(/class="bar" [^>]*width="([\d.]+)"/g)].map(([, width]) => Number(width))
    expect(widths).toHaveLength(2)
    expect((widths[1] ?? 0) / (widths[0] ?? 0)).toBeCloseTo(9_053 / 13_785, 3)
    expect(Math.max(...widths)).toBeCloseTo(420 * 13_785 / 14_230, 0)
    expect(chart).toContain("<desc id=\"d\">Stint &lt;D2>: 13,785; BullMQ: 9,053</desc>")
    expect(chart).not.toMatch(/NaN|undefined/)
    expect(idle === undefined ? "no table" : chartOf(idle)).toBeUndefined()
  })
})

describe("a report", () => {
  it("contains the circumstances, the output, its charts, and an index with each row's target and what is not measured", async () => {
    const folder = mkdtempSync(join(tmpdir(), "stint-report-"))
    folders.push(folder)
    const row = rows.find(({ id }) => id === "P4")
    if (row === undefined) throw new Error("there is no row P4")
    const page = join(import.meta.dirname, "../../docs/spec/figures.md")
    await writeReport(folder, row, rows, [OUTPUT, OUTPUT], circumstances, page)
    await writeReport(folder, row, rows, [OUTPUT], circumstances, page)
    expect(readdirSync(folder).sort()).toEqual(["P4-1.svg", "P4.json", "P4.md", "README.md"])
    const report = readFileSync(join(folder, "P4.md"), "utf8")
    expect(report).toContain(
      "2026-11-23, 2 cores (a processor), 16 GiB, Node 26.10.0, commit abc1234, few rounds. Peers, where the row has some: bullmq 6.7.0."
    )
    expect(report).toContain("![Queue core, D2](P4-1.svg)")
    expect(report).toContain("| BullMQ     |         9,053 |")
    const index = readFileSync(join(folder, "README.md"), "utf8")
    expect(index).toMatch(/^\| P4 \| the queue's core \| D2: at least .+ \| \[2026-11-23, commit abc1234\]\(P4\.md\) \|$/m)
    expect(index).toMatch(/^\| P5 \| a growing backlog \| claim p50 .+ \| not in this folder \|$/m)
    expect(index.match(/^\| P\d+ /gm)).toHaveLength(rows.length)
  })
})

/**
 * `pnpm bench P3`: runs the benchmarks for one row of docs/spec/figures.md#performance, or for all rows, and prints a report.
 *
 * ```
 *   pnpm bench                     lists the rows
 *   pnpm bench P1                  runs one row as its published figures were measured
 *   pnpm bench all --quick         runs every row with the minimum number of rounds, to test the benchmarks and not Stint's speed
 *   pnpm bench P1 --report FOLDER  also writes FOLDER/P1.md, P1.json, charts, and an index of the folder (Report.ts)
 *   pnpm bench goals               writes docs/benchmarks from the published figures (GoalsPage.ts), and measures nothing
 * ```
 *
 * Exits with 1 when a benchmark fails. A bad figure is not a failure.
 */
import { execFileSync, spawn } from "node:child_process"
import { availableParallelism, cpus, totalmem } from "node:os"
import { join, resolve } from "node:path"
import process from "node:process"
import { parseArgs } from "node:util"
import peers from "../peers/package.json" with { type: "json" }
import { writeGoals } from "./GoalsPage.ts"
import { type Circumstances, writeReport } from "./Report.ts"
import { rows } from "./Rows.ts"

const { positionals: [wanted], values } = parseArgs({
  allowPositionals: true,
  options: { quick: { type: "boolean", default: false }, report: { type: "string" } }
})

const folder = join(import.meta.dirname, "..")

const print = (text: string) => void process.stdout.write(`${text}\n`)

/** Runs a benchmark, shows its output, and returns it. */
const run = (script: string, args: ReadonlyArray<string>): Promise<string> =>
  new Promise((done, failed) => {
    const child = spawn(process.execPath, [join(folder, "src", `${script}.ts`), ...args], {
      cwd: folder,
      stdio: ["ignore", "pipe", "inherit"]
    })
    let output = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
      process.stdout.write(text)
    })
    child.once("error", failed)
    child.once("close", (code) => code === 0 ? done(output) : failed(new Error(`${script}.ts exited with code ${code}`)))
  })

/** The circumstances that a figure depends on. */
const circumstances = (): Circumstances => ({
  date: new Date().toISOString().slice(0, 10),
  commit: execFileSync("git", ["rev-parse", "--short", "HEAD"], { cwd: folder, encoding: "utf8" }).trim(),
  changed: execFileSync("git", ["status", "--porcelain"], { cwd: folder, encoding: "utf8" }).trim() !== "",
  node: process.versions.node,
  cores: availableParallelism(),
  processor: cpus()[0]?.model ?? "unknown",
  memoryGiB: Math.round(totalmem() / 2 ** 30),
  quick: values.quick,
  peers: peers.dependencies
})

const chosen = wanted === "all" ? rows : rows.filter(({ id }) => id === wanted?.toUpperCase())
if (wanted === "goals") {
  writeGoals()
} else if (chosen.length === 0) {
  if (wanted !== undefined) print(`There is no row "${wanted}".\n`)
  for (const { benchmarks, elsewhere, id, minutes, title } of rows) {
    print(
      `${id.padEnd(4)} ${title}${
        elsewhere === undefined
          ? ` (${benchmarks.map(({ script }) => script).join(", ")}; ${minutes} min)`
          : `: ${elsewhere}`
      }`
    )
  }
  process.exitCode = wanted === undefined ? 0 : 1
}

for (const row of chosen) {
  const { benchmarks, elsewhere, id, title } = row
  print(`\n${id}: ${title}\n`)
  if (elsewhere !== undefined) {
    print(elsewhere)
    continue
  }
  const outputs: Array<string> = []
  for (const { args, quick, script } of benchmarks) {
    try {
      outputs.push(await run(script, values.quick ? quick : args))
    } catch (error) {
      print(`${id} failed: ${error instanceof Error ? error.message : String(error)}`)
      process.exitCode = 1
    }
  }
  if (values.report === undefined || outputs.length !== benchmarks.length) continue
  await writeReport(resolve(values.report), row, rows, outputs, circumstances(), join(folder, "../docs/spec/figures.md"))
}

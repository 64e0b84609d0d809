/**
 * Compares the figures that a benchmark prints in two checkouts of this repository.
 *
 * ```
 *   round 1:  node BASE/benchmarks/src/SCRIPT.ts      node CANDIDATE/benchmarks/src/SCRIPT.ts
 *   round 2:  the candidate first, then the base                                (the order alternates)
 * ```
 *
 * For benchmarks whose subjects are separate processes, such as workers. `compare-checkouts.ts` is more precise where it applies, because
 * it measures both checkouts at the same time. Each number in a printed table is a figure, except in columns that are derived from others
 * (range, ratio, slope). Only figures with the same name in both checkouts are compared.
 *
 * ```
 *   node src/compare-figures.ts BASE --script worker-loop [--candidate PATH] [--rounds 10] [-- options of the script]
 * ```
 */
import { spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { join, resolve } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { estimateRatio } from "./PairedRatio.ts"
import { figuresOf } from "./PrintedTables.ts"
import { formatFigure, median, tableOf } from "./Rounds.ts"

const { positionals: [base, ...options], values } = parseArgs({
  allowPositionals: true,
  options: {
    candidate: { type: "string", default: fileURLToPath(import.meta.resolve("../..")) },
    rounds: { type: "string", default: "10" },
    script: { type: "string", default: "worker-loop" }
  }
})
if (base === undefined) {
  throw new Error("The path of the checkout to compare with is missing: node src/compare-figures.ts BASE --script worker-loop")
}

/** Runs the benchmark in a checkout. */
const run = (checkout: string): Promise<ReadonlyMap<string, number>> => {
  const folder = join(resolve(checkout), "benchmarks")
  const file = join(folder, "src", `${values.script}.ts`)
  if (!existsSync(file)) {
    throw new Error(`${file} does not exist. Pass the path of a checkout of this repository, and the name of a benchmark.`)
  }
  return new Promise((done, failed) => {
    const child = spawn(process.execPath, [file, ...options], { cwd: folder, stdio: ["ignore", "pipe", "inherit"] })
    let output = ""
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      output += text
    })
    child.once("close", (code) => code === 0 ? done(figuresOf(output)) : failed(new Error(`${file} exited with code ${code}`)))
  })
}

const CHECKOUTS = { base, candidate: values.candidate }
type Side = keyof typeof CHECKOUTS
const figures: Record<Side, Array<ReadonlyMap<string, number>>> = { base: [], candidate: [] }
for (let round = 0; round < Number(values.rounds); round++) {
  for (const side of round % 2 === 0 ? ["base", "candidate"] as const : ["candidate", "base"] as const) {
    figures[side].push(await run(CHECKOUTS[side]))
  }
  process.stderr.write(`round ${round + 1} of ${values.rounds}\n`)
}

const rows = [...figures.base[0]?.keys() ?? []].flatMap((name) => {
  const [before, after] = [figures.base, figures.candidate].map((rounds) => rounds.map((round) => round.get(name) ?? Number.NaN))
  if (before === undefined || after === undefined || [...before, ...after].some(Number.isNaN)) return []
  const { high, low, ratio } = estimateRatio(before, after)
  return [[
    name,
    formatFigure(median(before)),
    formatFigure(median(after)),
    `${ratio.toFixed(3)}x (${low.toFixed(3)} - ${high.toFixed(3)})`
  ]]
})
if (rows.length === 0) throw new Error(`The tables of ${values.script}.ts in the two checkouts have no figure in common.`)
process.stdout.write(
  `${values.script}.ts of two checkouts (${values.rounds} rounds, Node ${process.versions.node}). Ratio of the candidate to the base, and its ` +
    `95 % interval.\n\n${tableOf([["", "base", "candidate", "ratio"], ...rows])}\n`
)

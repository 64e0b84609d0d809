/**
 * docs/reliability/README.md: what each invariant promises, its goal, and what the latest run of each scenario found. Generated from
 * docs/reference/invariants.md, docs/spec/figures.md and docs/reliability/runs.json, in which `pnpm chaos --report` records runs.
 *
 * ```
 *   node scripts/reliability-page.ts    writes the page again
 * ```
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import process from "node:process"
import { root } from "./workspace.ts"

/** A run of one scenario. */
export interface ScenarioRun {
  /** The full name of its test. */
  readonly scenario: string
  /** `2026-11-28`. */
  readonly date: string
  readonly commit: string
  /** How long it ran. */
  readonly minutes: number
  readonly cores: number
  /** Its seed, if one was given with `--seed`. */
  readonly seed?: string
  readonly passed: boolean
  readonly counts: Readonly<Record<string, number>>
}

/** The result of mutation testing for one target of scripts/mutation.ts. */
export interface MutationScore {
  readonly target: string
  readonly title: string
  /** `2026-11-28`. */
  readonly date: string
  readonly commit: string
  /** Changes that a test noticed. */
  readonly killed: number
  /** Changes that no test noticed. */
  readonly survived: number
  /** Changes in code that no test of the target runs. */
  readonly uncovered: number
  /** Changes after which the module cannot be loaded, which are not counted. */
  readonly invalid: number
  /** What the survivors are. Written by a person. */
  readonly explanation?: string
}

const SCORES = join(root, "docs/reliability/mutants.json")

const RUNS = join(root, "docs/reliability/runs.json")

/** The page. */
export const PAGE: string = join(root, "docs/reliability/README.md")

const scores = (): ReadonlyArray<MutationScore> => JSON.parse(readFileSync(SCORES, "utf8"))

const runs = (): ReadonlyArray<ScenarioRun> => JSON.parse(readFileSync(RUNS, "utf8"))

const cellsOf = (line: string): ReadonlyArray<string> => line.split("|").slice(1, -1).map((cell) => cell.trim())

const rowsOf = (page: string, start: RegExp): ReadonlyArray<ReadonlyArray<string>> =>
  readFileSync(join(root, page), "utf8").split("\n").filter((line) => start.test(line)).map(cellsOf)

/** `| a | b |`, with columns of equal width, as dprint formats them. */
const tableOf = (head: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const widths = head.map((name, column) => Math.max(3, name.length, ...rows.map((row) => row[column]?.length ?? 0)))
  const line = (cells: ReadonlyArray<string>) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`
  return [line(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...rows.map(line)].join("\n")
}

/** The quoted title of a test. */
const titleOf = (cell: string): string => /"([^"]+)"/.exec(cell)?.[1] ?? cell

/** The page as it must be now. */
export const reliabilityPage = (): string => {
  const goals = new Map(
    rowsOf("docs/spec/figures.md", /^\| R\d+ /).map(([id = "", , faults = "", goal = ""]) => [id, { faults, goal }])
  )
  const invariants = rowsOf("docs/reference/invariants.md", /^\| R\d+ /)
  const planted = rowsOf("docs/reference/invariants.md", /^\| \[/)
  const rows = invariants.map(([id = "", rule = "", , figures = ""]) => [
    id,
    rule,
    goals.get(id)?.faults ?? "",
    goals.get(id)?.goal ?? "",
    figures,
    planted.filter(([, invariant]) => invariant === id).map(([bug = "", , , within = ""]) => `${titleOf(bug)}: ${within}`).join(
      "<br>"
    )
  ])
  const recorded = runs().toSorted((one, other) => one.scenario < other.scenario ? -1 : 1).map((
    { commit, counts, date, minutes, passed, scenario, seed }
  ) => [
    scenario.replaceAll("|", "/"),
    date,
    commit,
    `${minutes} min${seed === undefined ? "" : `, seed ${seed}`}`,
    passed ? "passed" : "**failed**",
    Object.entries(counts).map(([name, count]) => `${name} ${count.toLocaleString("en")}`).join(", ")
  ])
  const mutants = scores().map(({ commit, date, explanation, killed, survived, target, title, uncovered }) => [
    `\`${target}\`: ${title}`,
    String(killed + survived + uncovered),
    String(killed),
    String(survived),
    String(uncovered),
    `${(100 * killed / (killed + survived + uncovered)).toFixed(1)} %`,
    date,
    commit,
    explanation ?? ""
  ])
  return `# Reliability

What Stint promises whatever fails, how far it was tested, and what the tests found. \`node scripts/reliability-page.ts\` writes this page from
[the invariants](../reference/invariants.md), which names the tests, [the goals](../spec/figures.md#reliability) and [the recorded runs](runs.json).

## Invariants

"An ordinary run" is a run of \`pnpm test\` and \`pnpm test:long\`. The last column lists bugs that tests plant on purpose, and how soon the scenario of the invariant reports each.

${tableOf(["nr", "what holds", "faults", "goal", "an ordinary run", "planted bugs, reported within"], rows)}

## Long runs

\`pnpm chaos --minutes N --only "a part of its name" --report\` runs a scenario for N minutes and records the run here. The variables
\`STINT_CHAOS_KILLS\` and \`STINT_CHAOS_JOBS\` set the minimum number of kills and jobs of the scenarios with kills. \`--seed S\` repeats the calls and faults of a
run. Each row is the latest recorded run of its scenario, on two cores of a machine with other load. A scenario without a row has no recorded run.

${tableOf(["scenario", "date", "commit", "duration", "result", "counts"], recorded)}

## Changes that tests do not notice

Mutation testing changes the sources in hundreds of small ways, one at a time, and counts the changes that the tests notice. \`pnpm mutate TARGET --report\` runs it for one part
and records the score. Text is not changed. A part without a row has no recorded score.

${
    tableOf(
      [
        "part",
        "changes",
        "noticed",
        "not noticed",
        "in code that the part's tests do not run",
        "score",
        "date",
        "commit",
        "what is not noticed"
      ],
      mutants
    )
  }
`
}

/** Records a score instead of an earlier one of the same target, and writes the page. */
export const recordScore = (score: MutationScore): void => {
  writeFileSync(SCORES, `${JSON.stringify([...scores().filter(({ target }) => target !== score.target), score], null, 2)}\n`)
  writeFileSync(PAGE, reliabilityPage())
}

/** Records runs, each instead of an earlier one of the same scenario, and writes the page. */
export const recordRuns = (added: ReadonlyArray<ScenarioRun>): void => {
  const kept = runs().filter(({ scenario }) => !added.some((run) => run.scenario === scenario))
  writeFileSync(RUNS, `${JSON.stringify([...kept, ...added], null, 2)}\n`)
  writeFileSync(PAGE, reliabilityPage())
}

if (process.argv[1] === import.meta.filename) writeFileSync(PAGE, reliabilityPage())

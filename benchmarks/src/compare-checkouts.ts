/**
 * Compares two checkouts of this repository, to find out whether a change made the queue core or the HTTP routes slower.
 *
 * ```
 *   round 1:  start base and candidate, warm both up | base, candidate, candidate, base, ... | stop both
 *   round 2:  start candidate and base, ...                                                   (the order alternates)
 * ```
 *
 * Both subjects run at the same time and are measured in turns of a fraction of a second, so that changes in the machine's speed affect both
 * alike. Each round has new processes, because the compiler's decisions and the layout of the heap differ between processes by more than a
 * turn varies. On a busy machine, the CPU time is the better figure: other programs affect it less than the throughput.
 *
 * ```
 *   node src/compare-checkouts.ts BASE [--candidate PATH] [--rounds 10] [--turns 8] [--what queue-core,http-routes] [--routes run-64,ping-64]
 *     [--durability D2]
 * ```
 *
 * Default candidate: this checkout. Both must have their dependencies installed, and the same messages between a benchmark and its processes
 * (`SubjectProcess.ts`, `HttpMessages.ts`). Ten rounds of `queue-core` take two minutes; ten rounds of `http-routes` take eight.
 */
import { existsSync } from "node:fs"
import { join, resolve } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import type { Operation } from "./HttpMessages.ts"
import { measureLoad, startLoad, startServer } from "./HttpProcesses.ts"
import { estimateRatio, type RatioEstimate } from "./PairedRatio.ts"
import { formatFigure, median, tableOf } from "./Rounds.ts"
import { startSubject } from "./SubjectProcess.ts"

const { positionals: [base], values } = parseArgs({
  allowPositionals: true,
  options: {
    candidate: { type: "string", default: fileURLToPath(import.meta.resolve("../..")) },
    rounds: { type: "string", default: "10" },
    turns: { type: "string", default: "8" },
    what: { type: "string", default: "queue-core" },
    routes: { type: "string", default: "run-64,run-1,runsync-64,runsync-1,ping-64" },
    durability: { type: "string", default: "D2" }
  }
})
if (base === undefined) throw new Error("The path of the checkout to compare with is missing: node src/compare-checkouts.ts BASE")

/** The figures of one turn. */
interface Figures {
  /** Jobs or requests per second. */
  readonly rate: number
  /** CPU time per job or request, in microseconds. */
  readonly cpu: number
}

/** A running, warmed-up subject, and its measurable steps. */
interface Subject {
  readonly steps: ReadonlyMap<string, () => Promise<Figures>>
  readonly end: () => Promise<void>
}

/** A file in a checkout. */
const fileOf = (checkout: string, file: string): string => {
  const path = join(resolve(checkout), "benchmarks/src", file)
  if (!existsSync(path)) throw new Error(`${path} does not exist. Pass the path of a checkout of this repository.`)
  return path
}

/** See `queue-core.ts`. */
const startQueueCore = async (checkout: string): Promise<Subject> => {
  const subject = await startSubject(fileOf(checkout, "subjects/stint.ts"), [values.durability])
  const run = (jobs: number) => subject.round({ jobs, lanes: 32 })
  for (const jobs of [500, 1_500, 4_000, 6_000]) await run(jobs)
  return { steps: new Map([[`queue core, ${values.durability}`, () => run(3_000)]]), end: subject.end }
}

/** Operation, connections, and requests per turn. */
const ALL_ROUTES: ReadonlyArray<readonly [Operation, number, number]> = [
  ["run", 64, 3_000],
  ["run", 1, 400],
  ["runsync", 64, 1_000],
  ["runsync", 1, 200],
  ["ping", 64, 4_000]
]
const ROUTES = ALL_ROUTES.filter(([operation, connections]) => values.routes.split(",").includes(`${operation}-${connections}`))

/** See `http-routes.ts`. */
const startRoutes = async (checkout: string): Promise<Subject> => {
  const load = startLoad()
  const server = await startServer(values.durability, fileOf(checkout, "http-server.ts"))
  const measure = async (operation: Operation, connections: number, most: number) => {
    const { cpu, measured } = await measureLoad(load, server, { operation, connections, most, millis: 30_000 })
    return { rate: measured.requests / (measured.millis / 1_000), cpu: (cpu.user + cpu.system) / measured.requests }
  }
  for (const operation of new Set(ROUTES.map(([operation]) => operation))) {
    await measure(operation, 64, operation === "runsync" ? 5_000 : 15_000)
  }
  return {
    steps: new Map(ROUTES.map(([operation, connections, most]) => [
      `/${operation}, ${connections} connections`,
      () => measure(operation, connections, most)
    ])),
    end: async () => {
      await server.end()
      await load.end()
    }
  }
}

const STARTS = [
  ...(values.what.includes("queue-core") ? [startQueueCore] : []),
  ...(values.what.includes("http-routes") ? [startRoutes] : [])
]
const CHECKOUTS = { base, candidate: values.candidate }
type Side = keyof typeof CHECKOUTS
const SIDES = ["base", "candidate"] as const

/** The figures of each step: one per round. */
const rounds = new Map<string, Record<Side, Array<Figures>>>()

/** Measures all steps of both subjects in turns. */
const round = async (order: ReadonlyArray<Side>, start: (checkout: string) => Promise<Subject>): Promise<void> => {
  const subjects = new Map<Side, Subject>()
  try {
    for (const side of order) subjects.set(side, await start(CHECKOUTS[side]))
    for (const step of subjects.get("base")?.steps.keys() ?? []) {
      const turns: Record<Side, Array<Figures>> = { base: [], candidate: [] }
      for (let turn = 0; turn < Number(values.turns); turn++) {
        for (const side of turn % 2 === 0 ? order : order.toReversed()) {
          const figures = await subjects.get(side)?.steps.get(step)?.()
          if (figures !== undefined) turns[side].push(figures)
        }
      }
      const all = rounds.get(step) ?? { base: [], candidate: [] }
      for (const side of SIDES) {
        all[side].push({ rate: median(turns[side].map(({ rate }) => rate)), cpu: median(turns[side].map(({ cpu }) => cpu)) })
      }
      rounds.set(step, all)
    }
  } finally {
    for (const subject of subjects.values()) await subject.end()
  }
}

const describe = ({ high, low, ratio }: RatioEstimate) => `${ratio.toFixed(3)}x (${low.toFixed(3)} - ${high.toFixed(3)})`

/** `better`: the side of 1 on which the ratio means that the candidate is better. */
const verdictOf = ({ high, low }: RatioEstimate, better: "above" | "below"): string => {
  if (low <= 1 && high >= 1) return "no difference"
  return (low > 1) === (better === "above") ? "better" : "worse"
}

const rowsOf = (name: string, better: "above" | "below", pick: (figures: Figures) => number) =>
  [...rounds].map(([step, { base, candidate }]) => {
    const estimate = estimateRatio(base.map(pick), candidate.map(pick))
    return [
      `${step}: ${name}`,
      formatFigure(median(base.map(pick))),
      formatFigure(median(candidate.map(pick))),
      describe(estimate),
      verdictOf(estimate, better)
    ]
  })

for (let n = 0; n < Number(values.rounds); n++) {
  for (const start of STARTS) await round(n % 2 === 0 ? SIDES : SIDES.toReversed(), start)
  process.stderr.write(
    `round ${n + 1}: ${rowsOf("CPU", "below", ({ cpu }) => cpu).map(([step, , , ratio]) => `${step} ${ratio}`).join("; ")}\n`
  )
}
const rows = [...rowsOf("per second", "above", ({ rate }) => rate), ...rowsOf("CPU µs", "below", ({ cpu }) => cpu)]
process.stdout.write(
  `Two checkouts (${values.rounds} rounds, Node ${process.versions.node}). Ratio of the candidate to the base, and its 95 % interval.\n\n` +
    `${tableOf([["", "base", "candidate", "ratio", "verdict"], ...rows])}\n`
)

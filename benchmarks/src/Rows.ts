/**
 * The rows of docs/spec/figures.md#performance, and the benchmarks that measure them.
 */

/** A row. */
export interface Row {
  readonly id: string
  readonly title: string
  readonly benchmarks: ReadonlyArray<{
    readonly script: string
    readonly args: ReadonlyArray<string>
    /** The arguments for the minimum number of rounds. */
    readonly quick: ReadonlyArray<string>
  }>
  /** The approximate duration of the row on two cores, in minutes. */
  readonly minutes: number
  /** Where the figure comes from, for rows that no benchmark measures. */
  readonly elsewhere?: string
}

/** A benchmark that needs no arguments for its published figures. */
const benchmark = (script: string, ...quick: ReadonlyArray<string>) => ({ script, args: [], quick })

/** All rows. */
export const rows: ReadonlyArray<Row> = [
  { id: "P1", title: "the worker's overhead", benchmarks: [benchmark("worker-loop", "--rounds", "1")], minutes: 2 },
  {
    id: "P2",
    title: "dispatch to a waiting worker",
    benchmarks: [
      benchmark("dispatch", "--rounds", "1"),
      { script: "dispatch", args: ["--postgres"], quick: ["--postgres", "--rounds", "1"] }
    ],
    minutes: 3
  },
  {
    id: "P3",
    title: "HTTP routes, and other stacks",
    benchmarks: [benchmark("http-routes", "1"), benchmark("http-peers", "--rounds", "1", "--only", "stint")],
    minutes: 15
  },
  {
    id: "P4",
    title: "the queue's core",
    benchmarks: [
      benchmark("queue-core", "--rounds", "1", "--no-peers"),
      benchmark("queue-core-postgres", "--rounds", "1", "--no-peers")
    ],
    minutes: 5
  },
  {
    id: "P5",
    title: "a growing backlog",
    benchmarks: [
      benchmark("backlog", "--rounds", "1", "--max", "1000"),
      benchmark("backlog-postgres", "--rounds", "1", "--max", "1000")
    ],
    minutes: 8
  },
  { id: "P6", title: "an idle platform", benchmarks: [benchmark("idle", "--minutes", "0.1")], minutes: 4 },
  {
    id: "P7",
    title: "cold start",
    benchmarks: [benchmark("cold-start"), benchmark("cold-start-containers"), benchmark("cold-start-models", "--rounds", "1")],
    minutes: 4
  },
  { id: "P8", title: "from the import to the first take", benchmarks: [benchmark("first-take", "--rounds", "3")], minutes: 1 },
  {
    id: "P9",
    title: "the volume cache",
    benchmarks: [{ script: "volume-cache", args: ["5"], quick: ["1", "small"] }],
    minutes: 5
  },
  {
    id: "P10",
    title: "a typed pipeline of three steps",
    benchmarks: [benchmark("pipelines", "--rounds", "1"), benchmark("pipeline-waits", "--rounds", "1", "--items", "1000")],
    minutes: 8
  },
  { id: "P11", title: "tracing", benchmarks: [benchmark("tracing", "--rounds", "1")], minutes: 4 },
  {
    id: "P12",
    title: "the duration of the tests",
    benchmarks: [],
    minutes: 0,
    elsewhere: "`pnpm test` prints the duration of its checks and tests."
  },
  {
    id: "P13",
    title: "installed sizes",
    benchmarks: [],
    minutes: 0,
    elsewhere:
      "scripts/test/Published.long.test.ts installs the packages and compares their sizes with docs/operations/install.md."
  }
]

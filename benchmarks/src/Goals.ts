/**
 * The goals of docs/spec/figures.md#performance with the published figure of each: the source of docs/benchmarks/README.md. The figures are those of
 * benchmarks/README.md and of the pages that `source` names, as they were measured there. Change a figure together with its source.
 */

/** A goal, and what was measured. */
export interface Goal {
  /** `P4`. */
  readonly row: string
  /** What is measured, and how much is wanted. */
  readonly goal: string
  /** The figure; undefined: none is published. */
  readonly measured?: string
  /** The figure of what it is compared with. */
  readonly against?: string
  readonly ratio?: string
  readonly met: boolean
  /** The date of the measurement, if its source has one. */
  readonly date?: string
  /** The commit that was measured, if it was recorded. */
  readonly commit?: string
  /** The page, relative to the root of the repository. */
  readonly source: string
  /** For a goal that is not met: where the time goes, or what is known. */
  readonly reason?: string
}

const readme = (section: string) => `benchmarks/README.md#${section}`

const NOT_EXAMINED = "not examined"

/** Every goal, in the order of the rows. */
export const goals: ReadonlyArray<Goal> = [
  {
    row: "P1",
    goal: "jobs one at a time: at least 1.0 times the bare loop",
    measured: "3,779 jobs/s",
    against: "3,436 jobs/s",
    ratio: "1.09x",
    met: true,
    date: "2026-11-21",
    source: readme("worker-loop")
  },
  {
    row: "P1",
    goal: "50 at once: at least 1.0 times the bare loop",
    measured: "18,452 jobs/s",
    against: "18,549 jobs/s",
    ratio: "0.99x",
    met: false,
    date: "2026-11-21",
    source: readme("worker-loop"),
    reason:
      "The ranges of the rounds overlap: 17,726 to 18,626 against 17,791 to 18,949. With other work on the machine it was 1.19x."
  },
  {
    row: "P1",
    goal: "CPU time of a job, one at a time: at most 1.3 times the bare loop's",
    measured: "205 µs",
    against: "116 µs",
    ratio: "1.8x",
    met: false,
    date: "2026-11-21",
    source: readme("worker-loop"),
    reason: NOT_EXAMINED
  },
  {
    row: "P2",
    goal: "embedded store: p50 at most 0.5 ms, p99 at most 2 ms",
    measured: "1.09 and 3.30 ms",
    met: false,
    source: readme("dispatch"),
    reason: "It contains the caller's HTTP request, a synced commit and the take. The time of each part was not measured."
  },
  {
    row: "P2",
    goal: "PostgreSQL, through the worker's node: p50 at most 5 ms, p99 at most 20 ms",
    measured: "3.81 and 7.94 ms",
    met: true,
    date: "2026-11-28",
    source: readme("dispatch")
  },
  {
    row: "P2",
    goal: "PostgreSQL, through another node: p50 at most 5 ms, p99 at most 20 ms",
    measured: "6.16 and 12.8 ms",
    met: false,
    date: "2026-11-28",
    source: readme("dispatch"),
    reason:
      "One commit, a notification and the claim of the other node follow each other. The database and both nodes share two cores."
  },
  {
    row: "P3",
    goal: "`/run`, 64 connections, D2: at least 0.4 times a bare echo",
    measured: "18,722/s",
    against: "59,148/s",
    ratio: "0.32x",
    met: false,
    date: "2026-11-21",
    source: readme("http-routes"),
    reason:
      "52 µs of CPU time against 17 µs for a request. It allocates 25 kB, of which the garbage collector's part was reduced once."
  },
  {
    row: "P3",
    goal: "`/run`, 64 connections, in memory: at least 0.4 times a bare echo",
    measured: "13,162/s",
    against: "59,148/s",
    ratio: "0.23x",
    met: false,
    date: "2026-11-21",
    source: readme("http-routes"),
    reason: "All jobs are on the heap and keep the garbage collector busy: 78 µs of CPU time for a request."
  },
  {
    row: "P3",
    goal: "`/run`, 64 connections, D2: at least 1.5 times BullMQ's stack of the same class",
    measured: "8,632/s",
    against: "8,273/s",
    ratio: "1.04x",
    met: false,
    date: "2026-11-21",
    source: readme("http-compared-with-other-stacks"),
    reason: "Both stacks run the jobs on the same two cores while they accept more."
  },
  {
    row: "P3",
    goal: "one `/run`, D2: at most BullMQ's p50 of the same class",
    measured: "0.83 ms",
    against: "0.50 ms",
    ratio: "1.7x",
    met: false,
    date: "2026-11-21",
    source: readme("http-compared-with-other-stacks"),
    reason: "Redis syncs in a separate process, on the other core. Stint's process waits for its own sync."
  },
  {
    row: "P3",
    goal: "jobs done while 64 connections submit: at least BullMQ's of the same class",
    measured: "5,054/s",
    against: "7,485/s",
    ratio: "0.68x",
    met: false,
    date: "2026-11-21",
    source: readme("http-compared-with-other-stacks"),
    reason: "248 µs of CPU time for a job against 196 µs. Redis uses the second core."
  },
  {
    row: "P3",
    goal: "`/runsync`, 1 connection: p50 at most 0.25 times Restate's",
    measured: "1.25 ms",
    against: "3.16 ms",
    ratio: "0.40x",
    met: false,
    date: "2026-11-21",
    source: readme("http-compared-with-other-stacks"),
    reason: "A lone call is a chain of synced commits: the submission, the take and the result."
  },
  {
    row: "P3",
    goal: "`/runsync`, 1 connection, D2: p50 at most BullMQ's of the same class",
    measured: "1.25 ms",
    against: "1.62 ms",
    ratio: "0.77x",
    met: true,
    date: "2026-11-21",
    source: readme("http-compared-with-other-stacks")
  },
  {
    row: "P3",
    goal: "`/runsync`, 64 connections, D2: at least 2 times BullMQ's of the same class",
    measured: "4,152/s",
    against: "1,837/s",
    ratio: "2.15x",
    met: true,
    date: "2026-11-21",
    source: readme("http-compared-with-other-stacks")
  },
  {
    row: "P4",
    goal: "D2: at least 3 times the best embedded queue",
    measured: "13,785 jobs/s",
    against: "2,149 jobs/s",
    ratio: "6.4x",
    met: true,
    date: "2026-11-21",
    source: readme("queue-core")
  },
  {
    row: "P4",
    goal: "D2: at least 2 times BullMQ of the same class",
    measured: "13,785 jobs/s",
    against: "9,053 jobs/s",
    ratio: "1.5x",
    met: false,
    date: "2026-11-21",
    source: readme("queue-core"),
    reason:
      "CPU time decides: a profile of a job shows 30 % in three SQL writes, 13 % in the WAL, 12 % in Effect, 7 % in reads, 7 % in garbage, " +
      "6 % in Schemas. Redis uses the second core."
  },
  {
    row: "P4",
    goal: "D1: at least 1.5 times plainjob",
    measured: "16,810 jobs/s",
    against: "10,254 jobs/s",
    ratio: "1.6x",
    met: true,
    date: "2026-11-21",
    source: readme("queue-core")
  },
  {
    row: "P4",
    goal: "PostgreSQL: at least 4 times graphile-worker with its defaults",
    measured: "3,338 jobs/s",
    against: "738 jobs/s",
    ratio: "4.5x",
    met: true,
    date: "2026-11-28",
    source: readme("postgresql")
  },
  {
    row: "P4",
    goal: "PostgreSQL: at least 4 times pg-boss in its best configuration",
    measured: "3,338 jobs/s",
    against: "856 jobs/s",
    ratio: "3.9x",
    met: false,
    date: "2026-11-28",
    source: readme("postgresql"),
    reason: "The program waits for its only writing connection for 40 % of the time; statements take 29 %, the sync 6 %."
  },
  {
    row: "P4",
    goal: "PostgreSQL: at least 0.4 times SQLite, D2",
    measured: "3,338 jobs/s",
    against: "10,853 jobs/s",
    ratio: "0.31x",
    met: false,
    date: "2026-11-28",
    source: readme("postgresql"),
    reason: "As above; also 100 encoded values for each job."
  },
  {
    row: "P5",
    goal: "claim p50 with 1,000,000 ready jobs, D2: at most 1.1 times that with 1,000",
    measured: "0.41 ms",
    against: "0.39 ms",
    ratio: "0.96x",
    met: true,
    source: readme("backlog")
  },
  {
    row: "P5",
    goal: "drain beside 1,100,000 other jobs, D2: at least 0.9 times",
    measured: "11,200 jobs/s",
    against: "11,451 jobs/s",
    ratio: "0.94x",
    met: true,
    source: readme("backlog")
  },
  {
    row: "P5",
    goal: "drain beside 1,100,000 other jobs, D1: at least 0.9 times",
    measured: "11,874 jobs/s",
    against: "14,827 jobs/s",
    ratio: "0.80x",
    met: false,
    source: readme("backlog"),
    reason: NOT_EXAMINED
  },
  {
    row: "P5",
    goal: "claim p50 with 1,000,000 ready jobs, PostgreSQL: at most 1.2 times",
    measured: "1.47 ms",
    against: "1.65 ms",
    ratio: "0.73x",
    met: true,
    date: "2026-11-28",
    source: readme("backlog")
  },
  {
    row: "P5",
    goal: "drain beside 2,000,000 ended jobs: at least 0.9 times",
    met: false,
    source: readme("backlog"),
    reason: "Not measured: the benchmark has 1,000,000 ended jobs."
  },
  {
    row: "P6",
    goal: "1,000 workers with stop polls and heartbeats: at most 2 % of a core",
    measured: "4.12 %",
    met: false,
    source: readme("idle"),
    reason: "100 heartbeats a second, which every SDK sends for an idle worker. With polls for jobs alone it is 0.90 %."
  },
  {
    row: "P6",
    goal: "no growth of memory in 10 min",
    measured: "1.9 MiB/min",
    met: false,
    source: readme("idle"),
    reason: "Garbage that is not collected yet: 480,000 heartbeats in a row leave the platform at 201 MiB. " +
      "[The soak](../reliability/README.md) measures memory after full collections."
  },
  {
    row: "P6",
    goal: "three nodes with PostgreSQL: at most 4 statements a second for each",
    measured: "3.5",
    met: true,
    date: "2026-11-28",
    source: readme("idle")
  },
  {
    row: "P7",
    goal: "a new process: at most 1.2 times a bare `node handler.ts`",
    measured: "267 ms",
    against: "133 ms",
    ratio: "2.0x",
    met: false,
    date: "2026-11",
    source: "docs/operations/cold-starts.md#measure-an-endpoint",
    reason:
      "Node takes 70 to 100 ms, Stint and Effect about 40 ms, the platform about 30 ms: two synced writes, the start and the delivery."
  },
  {
    row: "P7",
    goal: "a spare process: less than a bare `node handler.ts`",
    measured: "81 ms",
    against: "133 ms",
    ratio: "0.6x",
    met: true,
    date: "2026-11",
    source: "docs/operations/cold-starts.md#measure-an-endpoint"
  },
  {
    row: "P7",
    goal: "a container: at most 1.3 times a bare `podman run`",
    measured: "971 ms",
    against: "487 ms",
    ratio: "2.0x",
    met: false,
    date: "2026-11",
    source: "docs/operations/cold-starts.md#measure-an-endpoint",
    reason:
      "The compile cache ends with the container, so its worker compiles its modules at every start; and it has a network of its own."
  },
  {
    row: "P8",
    goal: "import to first take: at most 40 ms more than `node -e 0`",
    measured: "67.8 ms",
    against: "25.1 ms",
    ratio: "+42.7 ms",
    met: false,
    source: readme("first-take"),
    reason: "4 to 5 ms are the automatic fitness checks."
  },
  {
    row: "P9",
    goal: "20,000 small files, sync to an empty mirror: at most 1.2 times the faster copy",
    measured: "639 ms",
    against: "552 ms",
    ratio: "1.16x",
    met: true,
    date: "2026-11-21",
    source: readme("volume-cache")
  },
  {
    row: "P9",
    goal: "20,000 small files, hydrate: at most 1.2 times the faster copy",
    measured: "680 ms",
    against: "552 ms",
    ratio: "1.23x",
    met: false,
    date: "2026-11-21",
    source: readme("volume-cache"),
    reason: "The median of the ratios of the rounds is 1.13x; the machine was busy."
  },
  {
    row: "P9",
    goal: "20 files of 100 MB, sync and hydrate: at most 1.2 times the faster copy",
    measured: "509 and 518 ms",
    against: "864 ms",
    ratio: "0.6x",
    met: true,
    date: "2026-11-21",
    source: readme("volume-cache")
  },
  {
    row: "P9",
    goal: "one small file changed, with `trustDirectories`: at least 20 times faster than a copy of all files",
    measured: "64 ms",
    against: "1807 ms",
    ratio: "28x",
    met: true,
    date: "2026-11-21",
    source: readme("volume-cache")
  },
  {
    row: "P9",
    goal: "one small file changed, without `trustDirectories`: at least 20 times faster",
    measured: "182 ms",
    against: "1807 ms",
    ratio: "10x",
    met: false,
    date: "2026-11-21",
    source: readme("volume-cache"),
    reason: "The sync checks every file."
  },
  {
    row: "P10",
    goal: "three steps, 32 connections: p50 at most 0.5 times Restate's",
    measured: "38.6 ms",
    against: "78.4 ms",
    ratio: "0.53x",
    met: false,
    date: "2026-11-28",
    source: readme("pipelines"),
    reason: "Platform, worker and load share two cores, and a run costs 1.5 ms of CPU time. Two days before, it was 0.50x."
  },
  {
    row: "P10",
    goal: "three steps, 32 connections: at least 2 times Restate's runs a second",
    measured: "786 runs/s",
    against: "390 runs/s",
    ratio: "1.85x",
    met: false,
    date: "2026-11-28",
    source: readme("pipelines"),
    reason: "As above. Two days before, it was 2.00x."
  },
  {
    row: "P10",
    goal: "three steps, 1 connection: p50 at most 0.5 times Restate's",
    measured: "6.75 ms",
    against: "8.16 ms",
    ratio: "0.85x",
    met: false,
    date: "2026-11-28",
    source: readme("pipelines"),
    reason: "A lone run is a chain of synced commits: the submission, the take, two steps, and the third step with the end."
  },
  {
    row: "P11",
    goal: "empty jobs, one at a time: at least 0.85 times without tracing",
    measured: "2,433 jobs/s",
    against: "3,303 jobs/s",
    ratio: "0.80x",
    met: false,
    date: "2026-11-21",
    source: readme("tracing"),
    reason:
      "Tracing takes 30 to 35 µs of the worker's thread for a job, half of it for OpenTelemetry's span objects and their encoding."
  },
  {
    row: "P11",
    goal: "empty jobs, 50 at once: at least 0.85 times",
    measured: "13,679 jobs/s",
    against: "24,482 jobs/s",
    ratio: "0.56x",
    met: false,
    date: "2026-11-21",
    source: readme("tracing"),
    reason: "As above: a job takes 41 µs in all, so the goal leaves 7 µs for four spans."
  },
  {
    row: "P11",
    goal: "jobs of 10 ms, 50 at once: at least 0.85 times",
    measured: "3,229 jobs/s",
    against: "3,723 jobs/s",
    ratio: "0.92x",
    met: true,
    date: "2026-11-21",
    source: readme("tracing")
  },
  {
    row: "P12",
    goal: "`pnpm test` on two cores: at most 6 min",
    met: false,
    source: "CONTRIBUTING.md#scripts",
    reason: "No figure is published. `pnpm test` prints its duration."
  },
  {
    row: "P13",
    goal: "installed: SDK at most 45 MB",
    measured: "12.5 MB",
    against: "BullMQ 14 MB, Restate's SDK 9 MB",
    met: true,
    source: "docs/operations/install.md"
  },
  {
    row: "P13",
    goal: "installed: promise client at most 1 MB",
    measured: "0.4 MB",
    met: true,
    source: "docs/operations/install.md"
  },
  {
    row: "P13",
    goal: "installed: CLI without a Redis client",
    measured: "44.6 MB, without one",
    met: true,
    source: "docs/operations/install.md"
  }
]

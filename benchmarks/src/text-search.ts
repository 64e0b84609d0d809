/**
 * The cost of the index of words (docs/decisions/0079-words-of-jobs.md, docs/decisions/0092-words-in-postgresql.md).
 *
 * ```
 *   P4           the queue's core with and without the index, alternately: jobs per second and CPU time per job
 *   build        an index of N ended jobs with inputs of about 600 characters: CPU time and disk space per job
 *   search       the time of a page of 50 jobs: a rare word, a common one, two words, a beginning, a word of no job; with and without the index
 * ```
 *
 * `--jobs N` (default 100000), `--rounds N` of P4 (default 7; 0 skips it), `--seconds N` per subject and round (default 1). Takes about 3 minutes.
 * `--postgres`: build and search over PostgreSQL, without P4. Searches are measured when all jobs have just ended, and again when their ends are certain
 * to be indexed, half a minute later.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { parseSearch } from "@stint/contract/JobSearch"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Postgres from "@stint/store-postgres"
import { startCluster } from "@stint/store-postgres/testing"
import * as Sqlite from "@stint/store-sqlite"
import { TextIndex } from "@stint/store/TextIndex"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { startCore } from "./CoreSubject.ts"
import { compare, median } from "./Rounds.ts"
import type { Running } from "./SubjectProcess.ts"

const { values } = parseArgs({
  options: {
    jobs: { type: "string", default: "100000" },
    rounds: { type: "string", default: "7" },
    seconds: { type: "string", default: "1" },
    postgres: { type: "boolean", default: false }
  }
})
const JOBS = Number(values.jobs)
const LANES = 32
const STINT = fileURLToPath(import.meta.resolve("./subjects/stint.ts"))

const print = (line: string) => void process.stdout.write(`${line}\n`)

const measureCore = async (durability: "D2" | "D1"): Promise<void> => {
  const running: Array<Running> = []
  try {
    const subject = (name: string, args: ReadonlyArray<string>) =>
      startCore({ lanes: LANES, seconds: Number(values.seconds), running }, name, STINT, [durability, ...args])
    const subjects = [await subject("without the index", []), await subject("with the index", ["indexed"])]
    await compare(`Queue core, ${durability}, ${LANES} in flight`, "jobs/s", Number(values.rounds), subjects)
  } finally {
    for (const one of running) await one.end()
  }
}

const endpoint = Schema.decodeUnknownSync(Endpoint)({ id: "bench", source: { type: "external" }, createdAt: 0 })

/** Words of a vocabulary of 20,000, in which the word n is about n times as rare as the first one. */
const word = (): string => `word${Math.floor(20_000 ** Math.random())}`

const inputOf = (n: number) => ({
  order: `order${n}`,
  kind: n % 2 === 0 ? "even" : "odd",
  text: Array.from({ length: 60 }, word).join(" ")
})

const QUERIES = [
  ["a rare word", `input:order${Math.floor(JOBS / 3)}`],
  ["a word of every second job", "input:even"],
  ["two words of many jobs", "input:even text:word2"],
  ["two words that no job has both", "input:even input:odd"],
  ["the beginning of a word", "input:word77*"],
  ["a word of no job", "input:absent"]
] as const

/** `pages`: the size of the database in bytes. */
const measureSearch = Effect.fnUntraced(function*<E, R>(pages: Effect.Effect<number, E, R>) {
  const queue = yield* JobQueue.JobQueue
  const index = yield* TextIndex
  const start = Date.now() - JOBS * 10
  for (let n = 0; n < JOBS; n += 100) {
    yield* Effect.forEach(
      Array.from({ length: 100 }, (_, offset) => n + offset),
      (one) =>
        Effect.flatMap(
          queue.submit({ endpoint, input: toJsonText(inputOf(one)), id: JobId.make(uuidV7At(start + one * 10)) }),
          ({ id }) => queue.cancel(endpoint.id, id)
        ),
      { concurrency: "unbounded", discard: true }
    )
  }
  const searchAll = Effect.fnUntraced(function*(title: string) {
    for (const [name, text] of QUERIES) {
      const { search } = parseSearch(text)
      if (search === undefined) throw new Error(text)
      const millis: Array<number> = []
      let shown = ""
      for (let round = 0; round < 5; round++) {
        const begun = performance.now()
        const { jobs, next } = yield* queue.search({ endpoints: [endpoint.id], search, now: Date.now() })
        millis.push(performance.now() - begun)
        shown = `${jobs.length} jobs${next === null ? "" : ", and more pages"}`
      }
      print(
        `${title}: ${name.padEnd(32)} ${median(millis).toFixed(1).padStart(8)} ms (longest ${
          Math.max(...millis).toFixed(1)
        })   ${shown}`
      )
    }
  })
  yield* searchAll("without the index")
  const before = yield* pages
  const cpu = process.cpuUsage()
  const begun = performance.now()
  const steps: Array<number> = []
  for (let more = true; more;) {
    const at = performance.now()
    more = yield* index.step
    steps.push(performance.now() - at)
  }
  const { system, user } = process.cpuUsage(cpu)
  const after = yield* pages
  const sorted = steps.toSorted((a, b) => a - b)
  print(
    `build: ${JOBS} jobs in ${((performance.now() - begun) / 1000).toFixed(1)} s, ${
      ((user + system) / JOBS).toFixed(0)
    } µs of CPU and ${((after - before) / JOBS).toFixed(0)} bytes per job; inputs have ${
      JSON.stringify(inputOf(0)).length
    } bytes; ${steps.length} steps, median ${median(steps).toFixed(1)} ms, 99 % below ${
      (sorted[Math.floor(sorted.length * 0.99)] ?? 0).toFixed(1)
    } ms, longest ${(sorted.at(-1) ?? 0).toFixed(1)} ms`
  )
  if (values.postgres) {
    yield* searchAll("with the index, just ended")
    yield* Effect.sleep("50 seconds")
    while (yield* index.step);
  }
  yield* searchAll("with the index")
})

const overSqlite = async () => {
  const folder = await mkdtemp(join(tmpdir(), "stint-benchmark-"))
  const layer = JobQueue.layer.pipe(
    Layer.provide(WorkerRegistry.layer),
    Layer.provideMerge(Sqlite.SqliteJobStore.layer),
    Layer.provideMerge(Sqlite.SqliteDatabase.layer({ file: join(folder, "jobs.db"), durability: "D1" }))
  )
  const pages = Effect.flatMap(Sqlite.SqliteDatabase.SqliteDatabase, (db) =>
    db.read(
      "pages",
      () => Number(db.statement("SELECT page_count * page_size AS n FROM pragma_page_count, pragma_page_size").get()?.["n"])
    ))
  try {
    await Effect.runPromise(Effect.provide(measureSearch(pages), layer))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const overPostgres = async () => {
  const cluster = await startCluster({})
  const layer = JobQueue.layer.pipe(
    Layer.provide(WorkerRegistry.layer),
    Layer.provideMerge(Layer.merge(Postgres.PostgresJobStore.layer, Postgres.PostgresTextIndex.layer)),
    Layer.provideMerge(Postgres.PostgresDatabase.layer({ url: Redacted.make(cluster.url("postgres")) }))
  )
  const pages = Effect.flatMap(
    Postgres.PostgresDatabase.PostgresDatabase,
    (db) => db.read("pages", async (query) => Number((await query("SELECT pg_database_size(current_database())"))[0]?.[0]))
  )
  try {
    await Effect.runPromise(Effect.provide(measureSearch(pages), layer))
  } finally {
    await cluster.stop()
  }
}

if (values.postgres) await overPostgres()
else {
  if (Number(values.rounds) > 0) {
    await measureCore("D2")
    await measureCore("D1")
  }
  await overSqlite()
}

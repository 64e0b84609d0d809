/**
 * What the statements of a node read while its tables have many rows. Each call has its own node, because a connection reports what it has read when
 * it closes. The counts are those of the server: rows of sequential scans, and entries of indexes.
 */
import { assert, describe, it } from "@effect/vitest"
import type { JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { Scenario } from "@stint/store-testing"
import { AuditStore } from "@stint/store/AuditStore"
import { BatchStore } from "@stint/store/BatchStore"
import { BuildStore } from "@stint/store/BuildStore"
import { BulkStore } from "@stint/store/BulkStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import { JobLogStore } from "@stint/store/JobLogStore"
import { JobStore } from "@stint/store/JobStore"
import { RunStore } from "@stint/store/RunStore"
import { ScheduleStore } from "@stint/store/ScheduleStore"
import { TextIndex } from "@stint/store/TextIndex"
import { UsageStore } from "@stint/store/UsageStore"
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { LISTS } from "../src/Heartbeat.ts"
import { COUNTS, ENDPOINT, fill, idOf, LATER, node, NOW } from "./FilledTables.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

type Stores = Effect.Success<ReturnType<typeof node>>

/** A call of a store. */
interface Call {
  readonly name: string
  readonly run: (stores: Stores) => Effect.Effect<unknown, unknown>
  /** The greatest number of rows and index entries that it may read. */
  readonly most: number
  /** Without this index, it reads more. */
  readonly index?: string
  /** Whether it reads more until the server has counted the rows, which it does a minute after they were added. */
  readonly needsStatistics?: true
}

/** The number of jobs, lines or deliveries that a call asks for. */
const LIMIT = 20

const jobs = (stores: Stores) => Context.get(stores, JobStore)
const outbox = (stores: Stores) => Context.get(stores, WebhookStore)
const runs = (stores: Stores) => Context.get(stores, RunStore)
const batches = (stores: Stores) => Context.get(stores, BatchStore)

const holder = (n: number) => ({ endpoint: ENDPOINT, worker: `worker${n % 50}`, now: NOW })

const heartbeat = (n: number) => ({ _tag: "Heartbeat", ...holder(n) }) as const

const JOB_CALLS: ReadonlyArray<Call> = [
  { name: "open a node", run: () => Effect.void, most: 200 },
  { name: "submit", run: (stores) => jobs(stores).insert(Scenario.record({ endpoint: ENDPOINT })), most: 200 },
  {
    name: "submit with a key and quotas",
    run: (stores) =>
      jobs(stores).insert(
        Scenario.record({ endpoint: ENDPOINT }),
        { key: "once", owner: "ann", fingerprint: "f" },
        { endpoint: { waitingJobs: LATER, storedBytes: LATER }, key: { waitingJobs: LATER } }
      ),
    most: 200
  },
  {
    name: "claim",
    run: (stores) => jobs(stores).claim(ENDPOINT, LIMIT, { _tag: "Claim", now: NOW, worker: "ann" }),
    most: 1_000,
    index: "ready_line"
  },
  {
    name: "the heartbeat of a worker",
    run: (stores) => jobs(stores).applyRunning({ endpoint: ENDPOINT, worker: "worker1" }, heartbeat(1)),
    most: 200,
    index: "running_of"
  },
  {
    name: "the jobs of a worker that takes others",
    run: (stores) =>
      jobs(stores).applyRunning({ endpoint: ENDPOINT, worker: "nobody" }, {
        _tag: "Return",
        endpoint: ENDPOINT,
        worker: "nobody",
        now: NOW
      }),
    most: 200
  },
  {
    name: "a result",
    run: (stores) =>
      jobs(stores).apply(ENDPOINT, idOf("running", 2), {
        _tag: "Finish",
        ...holder(2),
        output: toJsonText("done"),
        error: null
      }),
    most: 200
  },
  {
    name: "a failure",
    run: (stores) =>
      jobs(stores).apply(ENDPOINT, idOf("running", 3), { _tag: "Finish", ...holder(3), output: null, error: "no" }),
    most: 200
  },
  {
    name: "a chunk",
    run: (stores) =>
      jobs(stores).append(
        ENDPOINT,
        idOf("running", 4),
        { _tag: "Chunk", ...holder(4), attempt: 1, number: 1 },
        toJsonText("x")
      ),
    most: 200
  },
  {
    name: "a cancel",
    run: (stores) => jobs(stores).apply(ENDPOINT, idOf("ready", 9_000), { _tag: "Cancel", now: NOW, endpoint: ENDPOINT }),
    most: 200
  },
  {
    name: "a cancel that releases a held job",
    run: (stores) => jobs(stores).apply(ENDPOINT, idOf("held", 9), { _tag: "Cancel", now: NOW, endpoint: ENDPOINT }),
    most: 500
  },
  {
    name: "a retry",
    run: (stores) => jobs(stores).apply(ENDPOINT, idOf("ended", 99_990), { _tag: "Retry", now: NOW, endpoint: ENDPOINT }),
    most: 200
  },
  {
    name: "a part of a purge",
    // A cancelled job of a key may release others of it.
    run: (stores) => jobs(stores).applyWaiting(ENDPOINT, { _tag: "Cancel", now: NOW, endpoint: ENDPOINT }, LIMIT),
    most: 4_000,
    index: "ready_listed",
    needsStatistics: true
  },
  {
    // Reads all jobs that workers hold.
    name: "timers, of which none is due",
    run: (stores) => jobs(stores).tick({ _tag: "Tick", now: NOW, random: 0 }, LIMIT),
    most: 500,
    index: "delayed_due"
  },
  {
    name: "the end of a retention",
    run: (stores) => jobs(stores).tick({ _tag: "Tick", now: 9_000, random: 0 }, LIMIT),
    most: 2_500,
    index: "ended_due"
  },
  { name: "the depth of an endpoint", run: (stores) => jobs(stores).depth(ENDPOINT), most: 500 },
  { name: "the status of a waiting job", run: (stores) => jobs(stores).get(ENDPOINT, idOf("ready", 9_001)), most: 100 },
  { name: "the status of an ended job", run: (stores) => jobs(stores).get(ENDPOINT, idOf("ended", 50_000)), most: 100 },
  { name: "an input", run: (stores) => jobs(stores).input(ENDPOINT, idOf("ended", 50_000)), most: 100 },
  { name: "a stream", run: (stores) => jobs(stores).drain(ENDPOINT, idOf("ended", 1_000), LIMIT), most: 200 },
  {
    name: "a stream from a chunk on",
    run: (stores) => jobs(stores).peek(ENDPOINT, idOf("ended", 1_001), { attempt: 1, chunk: 5 }, LIMIT),
    most: 200
  },
  {
    name: "the jobs before a waiting one",
    run: (stores) => jobs(stores).ahead(ENDPOINT, idOf("ready", 9_001), 500),
    most: 1_000,
    needsStatistics: true
  },
  { name: "the key of a held job", run: (stores) => jobs(stores).keyUsage(ENDPOINT, idOf("held", 8), 500), most: 1_000 },
  ...[undefined, "IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED"].map((status): Call => ({
    name: `a page of the list of jobs, ${status ?? "any status"}`,
    run: (stores) =>
      jobs(stores).list(ENDPOINT, {
        limit: LIMIT,
        status: status as undefined,
        after: { createdAt: 10_000, id: "ready-10000" }
      }),
    most: 1_000,
    needsStatistics: true
  })),
  {
    name: "the first page of the list of jobs",
    run: (stores) => jobs(stores).list(ENDPOINT, { limit: LIMIT }),
    most: 1_000,
    index: "ended_listed",
    needsStatistics: true
  },
  {
    name: "a page of the jobs of a time",
    run: (stores) => jobs(stores).list(ENDPOINT, { limit: LIMIT, createdAfter: 40_000, createdBefore: 50_000 }),
    most: 1_000
  },
  {
    name: "a page of the jobs with a tag",
    run: (stores) =>
      jobs(stores).list(ENDPOINT, { limit: LIMIT, tag: "nightly", after: { createdAt: 50_000, id: "ended-50000" } }),
    most: 1_000
  },
  ...[undefined, "COMPLETED" as const].map((status): Call => ({
    name: `a page of the jobs with a rare word, ${status ?? "any status"}`,
    run: (stores) =>
      jobs(stores).list(ENDPOINT, { limit: LIMIT, status, words: [{ word: "rare", isPrefix: false, fields: ["input"] }] }),
    // The planner sorts the delayed jobs.
    most: status === undefined ? 5_000 : 200,
    ...(status === undefined ? { index: "text_words_in" } : {}),
    needsStatistics: true
  })),
  { name: "the state of the index of words", run: (stores) => Context.get(stores, TextIndex).state, most: 200 },
  {
    name: "the texts of a search",
    run: (stores) => jobs(stores).texts(ENDPOINT, Array.from({ length: LIMIT }, (_, n): JobId => idOf("ended", 1 + 1_000 * n))),
    most: 500
  }
]

const RECORD_CALLS: ReadonlyArray<Call> = [
  {
    name: "a page of a log",
    run: (stores) => Context.get(stores, JobLogStore).read(ENDPOINT, idOf("ended", 5), 5, LIMIT),
    most: 200,
    index: "log_pieces_of"
  },
  {
    name: "lines of a log",
    run: (stores) =>
      Context.get(stores, JobLogStore).append([{
        endpoint: ENDPOINT,
        job: idOf("running", 5),
        missed: 0,
        lines: [{ time: NOW, level: "INFO", source: "log", attempt: 1, worker: "ann", message: "hello" }]
      }]),
    most: 200
  },
  { name: "the next delivery", run: (stores) => outbox(stores).nextDueAt, most: 200 },
  {
    name: "deliveries, of which none is due",
    run: (stores) => outbox(stores).claimDue(NOW - 2, LIMIT, LATER),
    most: 200,
    index: "deliveries_due"
  },
  { name: "deliveries that are due together", run: (stores) => outbox(stores).claimDue(NOW, LIMIT, LATER), most: 500 },
  {
    name: "the outcome of a delivery",
    run: (stores) => outbox(stores).settle(ENDPOINT, "retried-7", 0, { _tag: "Delivered", at: NOW, status: 200, error: null }),
    most: 100
  },
  { name: "a delivery", run: (stores) => outbox(stores).get(ENDPOINT, "sent-7"), most: 100 },
  {
    name: "the deliveries of a job",
    run: (stores) => outbox(stores).list({ job: idOf("ended", 7), limit: LIMIT }),
    most: 200,
    index: "deliveries_of_job"
  },
  {
    name: "a page of the deliveries of an endpoint",
    run: (stores) => outbox(stores).list({ endpoint: ENDPOINT, limit: LIMIT, after: { createdAt: 20_000, id: "sent-20000" } }),
    most: 500
  },
  { name: "a page of failed deliveries", run: (stores) => outbox(stores).list({ state: "failed", limit: LIMIT }), most: 200 },
  { name: "the removal of old deliveries", run: (stores) => outbox(stores).removeBefore(NOW, LIMIT), most: 500 },
  {
    name: "the removal of the deliveries of an endpoint",
    run: (stores) => outbox(stores).removeEnded(ENDPOINT, LIMIT),
    most: 500,
    needsStatistics: true
  },
  {
    name: "the attempts of a delivery",
    run: (stores) => Context.get(stores, WebhookAttemptStore).attemptCounts("sent-7"),
    most: 200
  },
  {
    name: "the removal of old attempts",
    run: (stores) => Context.get(stores, WebhookAttemptStore).removeBefore(NOW, LIMIT),
    most: 500,
    index: "webhook_attempts_begun"
  },
  { name: "batches, of which none is due", run: (stores) => batches(stores).sweep(NOW, LIMIT), most: 500 },
  { name: "a batch", run: (stores) => batches(stores).get(ENDPOINT, "batch-7"), most: 100 },
  { name: "a page of batches", run: (stores) => batches(stores).list(ENDPOINT, LIMIT, LIMIT), most: 500 },
  { name: "a page of requests", run: (stores) => batches(stores).requests(ENDPOINT, "batch-7", 0, LIMIT), most: 500 },
  { name: "schedules, of which none is due", run: (stores) => Context.get(stores, ScheduleStore).due(NOW), most: 200 },
  { name: "a run", run: (stores) => runs(stores).get(ENDPOINT, idOf("ended", 7)), most: 200 },
  { name: "a page of a run", run: (stores) => runs(stores).entries(ENDPOINT, idOf("ended", 7), 2, LIMIT), most: 200 },
  { name: "the open paths of a run", run: (stores) => runs(stores).open(ENDPOINT, idOf("ended", 7), LIMIT), most: 200 },
  {
    name: "an event",
    run: (stores) =>
      runs(stores).send(
        ENDPOINT,
        { name: "approval", key: "mine", body: toJsonText(true), id: "once", expiresAt: LATER },
        NOW
      ),
    most: 500
  },
  { name: "bulk operations", run: (stores) => Context.get(stores, BulkStore).unended, most: 200 },
  { name: "builds", run: (stores) => Context.get(stores, BuildStore).unended, most: 200 },
  { name: "the error groups of an endpoint", run: (stores) => Context.get(stores, ErrorGroupStore).list(ENDPOINT, 0), most: 200 },
  {
    name: "a page of the audit",
    run: (stores) => Context.get(stores, AuditStore).list({ limit: LIMIT, before: 25_000 }),
    most: 200
  },
  {
    name: "the removal of old audit entries",
    run: (stores) => Context.get(stores, AuditStore).trim({ before: 9_000, entries: 2 * COUNTS.deliveries }, LIMIT),
    most: 1_000
  },
  {
    name: "a page of the usage",
    run: (stores) => Context.get(stores, UsageStore).list({ from: 3_600_000 * 100, to: 3_600_000 * 200, limit: LIMIT }),
    most: 200
  },
  {
    name: "the removal of an endpoint that has jobs",
    run: (stores) =>
      Effect.andThen(
        Context.get(stores, EndpointStore).put(Scenario.endpoint({ id: ENDPOINT })),
        Context.get(stores, EndpointStore).remove(ENDPOINT)
      ),
    most: 500
  }
]

/** The tables that do not grow with the number of jobs. The rows of `nodes` are those of this test. */
const FROM = "WHERE schemaname = 'stint' AND relname NOT IN ('nodes', 'settings', 'text_state')"

/** What the server has counted since it began. */
const READ = `SELECT 'rows of ' || relname, seq_tup_read::float8 FROM pg_stat_user_tables ${FROM}
  UNION ALL SELECT indexrelname, idx_tup_read::float8 FROM pg_stat_user_indexes ${FROM}`

const OPEN = "SELECT count(*)::int FROM pg_stat_activity WHERE application_name = 'stint'"

/** What a call has read, by table and index. */
const readBy = Effect.fnUntraced(function*(address: string, { run }: Pick<Call, "run">) {
  const sql = (text: string) => Effect.promise(() => execute(address, text))
  const counts = Effect.gen(function*() {
    yield* sql(OPEN).pipe(Effect.repeat({ until: ([row]) => row?.[0] === 0 }))
    return new Map((yield* sql(READ)).map(([name, count]) => [String(name), Number(count)]))
  })
  const before = yield* counts
  yield* Effect.scoped(Effect.flatMap(node(address), run))
  return [...yield* counts].flatMap(([name, count]) => {
    const read = count - (before.get(name) ?? 0)
    return read === 0 ? [] : [{ name, read }]
  }).sort((a, b) => b.read - a.read)
})

/** Each heartbeat reads these tables as a whole. They do not grow with the number of jobs either. */
const LISTED = new Set(LISTS.map((list) => `rows of ${list}`))

/** What is wrong with a call; undefined: nothing. */
const problemOf = ({ most, name }: Call, read: Effect.Success<ReturnType<typeof readBy>>): string | undefined => {
  const sum = read.reduce((all, one) => all + one.read, 0)
  const isWhole = read.some((one) => one.name.startsWith("rows of") && !LISTED.has(one.name))
  return sum <= most && !isWhole
    ? undefined
    : `${name} reads ${sum}: ${read.map(({ name, read }) => `${read} ${name}`).join(", ")}`
}

const CALLS = [...JOB_CALLS, ...RECORD_CALLS]

describe.skipIf(missing !== undefined)(missing ?? "statements of a node over many rows", () => {
  const cluster = testCluster({ settings: ["autovacuum = off"] })
  const { url } = makeDatabases(cluster)

  it.live(
    "read few of them, whether or not the planner has counted the rows, and more without an index",
    () =>
      Effect.gen(function*() {
        const address = yield* url
        const sql = (text: string) => Effect.promise(() => execute(address, text))
        const problems = (calls: ReadonlyArray<Call>) =>
          Effect.map(
            Effect.forEach(calls, (call) => Effect.map(readBy(address, call), (read) => problemOf(call, read))),
            (found) => found.filter((one) => one !== undefined)
          )
        yield* fill(address)
        yield* problems(CALLS.slice(0, 1))
        const withoutStatistics = CALLS.filter(({ needsStatistics }) => needsStatistics !== true)
        assert.deepStrictEqual(yield* problems(withoutStatistics), [], "the planner knows nothing")
        yield* sql("ANALYZE")
        assert.deepStrictEqual(yield* problems(CALLS), [], "the planner has counted the rows")
        for (const call of CALLS) {
          if (call.index === undefined) continue
          yield* sql(`DROP INDEX stint.${call.index}`)
          assert.lengthOf(yield* problems([call]), 1, `${call.name} without ${call.index}`)
        }
      }).pipe(Effect.scoped),
    300_000
  )
})

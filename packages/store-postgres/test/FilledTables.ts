/**
 * For tests: a database with many rows in every table that grows, as after a day of work. Times are small numbers of milliseconds, and at
 * {@link NOW} nothing is due except what the comments say.
 */
import { BatchId } from "@stint/contract/Batch"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { Scenario } from "@stint/store-testing"
import * as BatchMachine from "@stint/store/BatchMachine"
import { JobStore } from "@stint/store/JobStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { layer } from "../src/index.ts"
import { execute } from "./TestCluster.ts"

export const ENDPOINT = EndpointId.make("letters")
export const NOW = 1_000
/** Far after every other time. */
export const LATER = 1_000_000_000
const DEFINITION = "d".repeat(64)

/** The number of rows of each kind. */
export const COUNTS = {
  ended: 100_000,
  ready: 20_000,
  delayed: 2_000,
  running: 200,
  deliveries: 50_000,
  due: 5_000,
  batches: 5_000,
  logged: 20_000,
  runs: 10_000,
  schedules: 2_000,
  others: 5_000
} as const

/** The id of a copied row: `ended` n is a job of the table `ended`, and so on. */
export const idOf = (kind: string, n: number): JobId => JobId.make(`${kind}-${n}`)

/** A node with all stores. */
export const node = (address: string) => Layer.build(layer({ url: Redacted.make(address) }))

const series = (count: number): string => `generate_series(1, ${count}) n`

/** Copies of a row. `LATERAL`, because otherwise the server makes the row again for each of its columns. */
const copies = (from: string, to: string, where: string, kind: string, count: number, changes: string): string =>
  `INSERT INTO stint.${to} SELECT copy.* FROM (SELECT to_jsonb(r) AS body FROM stint.${from} r WHERE ${where} OFFSET 0) one, ${
    series(count)
  }, LATERAL jsonb_populate_record(NULL::stint.${to}, one.body || jsonb_build_object('id', '${kind}-' || n, ${changes})) copy`

/** Copies of a job, as rows of `jobs` and of the table of its state. `changes`: JSON members of the state. */
const jobs = (template: string, kind: string, place: string, count: number, changes: string): ReadonlyArray<string> => [
  copies("jobs", "jobs", `r.id = '${template}'`, kind, count, `'seq', n + 1000, 'created_at', n`),
  copies("ready", place, `r.id = '${template}'`, kind, count, `'seq', n + 1000, 'created_at', n, 'queued_at', n, ${changes}`)
]

/** The body of every batch. */
const BATCH = JSON.stringify(BatchMachine.created({
  id: BatchId.make("batch_template"),
  endpoint: ENDPOINT,
  owner: "ann",
  name: null,
  webhook: null,
  policy: null,
  createdAt: 0,
  retentionMs: LATER
}))

const statements = (template: string): ReadonlyArray<string> => [
  ...jobs(template, "ready", "ready", COUNTS.ready, `'priority', n % 3`),
  ...jobs(template, "delayed", "delayed", COUNTS.delayed, `'not_before', ${LATER} + n, 'due_at', ${LATER} + n`),
  ...jobs(
    template,
    "held",
    "delayed",
    COUNTS.delayed,
    `'held', true, 'concurrency_key', 'key' || n % 20, 'concurrency_limit', 1`
  ),
  ...jobs(
    template,
    "running",
    "running",
    COUNTS.running,
    `'status', 'IN_PROGRESS', 'worker', 'worker' || n % 50, 'attempt', 1, 'started_at', 0, 'lease_expires_at', 10000, 'due_at', 10000`
  ),
  // From 2,000 on, one is due each millisecond.
  ...jobs(
    template,
    "ended",
    "ended",
    COUNTS.ended,
    `'status', CASE WHEN n % 10 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, 'attempt', 1, 'finished_at', n, 'due_at', 2000 + n, 'chunks', 10`
  ),
  `INSERT INTO stint.tags SELECT endpoint, 'nightly', created_at, id FROM stint.ended WHERE seq % 5 = 0`,
  // Every job has the word `poem`, and ten have `rare`. All have ended before the frontier.
  `INSERT INTO stint.text_words SELECT id, endpoint, created_at, finished_at, attempt, outcome_bytes, 20,
     ('''eletters'' ''ipoem'' ''iword' || seq % 5000 || '''' || CASE WHEN seq % 10000 = 0 THEN ' ''irare''' ELSE '' END)::tsvector FROM stint.ended`,
  `INSERT INTO stint.text_state VALUES (true, 1, 0, 4000000000000, true)`,
  `INSERT INTO stint.chunks SELECT 'ended-' || n, 1, c, '"x"' FROM ${series(2_000)}, generate_series(1, 10) c`,
  `INSERT INTO stint.job_logs SELECT 'ended-' || n, 30, 30, 300 FROM ${series(COUNTS.logged)}`,
  `INSERT INTO stint.log_pieces (job, last, lines, bytes, body)
   SELECT 'ended-' || n, 10 * p, 10, 100, '[]' FROM ${series(COUNTS.logged)}, generate_series(1, 3) p`,
  `INSERT INTO stint.deliveries (id, job, endpoint, event, url, state, created_at, attempts, next_at, settled_at, last_status, body)
   SELECT 'sent-' || n, 'ended-' || n, '${ENDPOINT}', 'completed', 'http://a.example/', 'delivered', n, 1, NULL, n, 200, '{}'
   FROM ${series(COUNTS.deliveries)}`,
  // These are due, all at the same time: a purge has ended their jobs together.
  `INSERT INTO stint.deliveries (id, job, endpoint, event, url, state, created_at, attempts, next_at, body)
   SELECT kind || '-' || n, 'ended-' || n, '${ENDPOINT}', 'completed', 'http://a.example/', 'pending', n, 0, at, '{}'
   FROM ${series(COUNTS.due)}, (VALUES ('due', ${NOW - 1}), ('retried', ${LATER})) u (kind, at)`,
  `INSERT INTO stint.webhook_attempts (delivery, at, duration_ms, status, final)
   SELECT 'sent-' || n, n, 7, 200, true FROM ${series(COUNTS.deliveries)}`,
  `INSERT INTO stint.batches (id, endpoint, owner, created_at, ended, due_at, body)
   SELECT 'batch-' || n, '${ENDPOINT}', 'ann', n, true, ${LATER} + n, '${BATCH}' FROM ${series(COUNTS.batches)}`,
  `INSERT INTO stint.batch_requests (batch, id, options) SELECT 'batch-' || n % ${COUNTS.batches}, 'request-' || n, '{}' FROM ${
    series(10 * COUNTS.batches)
  }`,
  `INSERT INTO stint.runs SELECT 'ended-' || n, 'ended-' || n, '${ENDPOINT}', '${DEFINITION}', 'doing', false, 10, 0, NULL FROM ${
    series(COUNTS.runs)
  }`,
  `INSERT INTO stint.run_entries (run, path, kind, n, at, open, news, body)
   SELECT 'ended-' || n, 'node' || e, 'end', e, n, false, 0, '"x"' FROM ${series(COUNTS.runs)}, generate_series(1, 10) e`,
  `INSERT INTO stint.run_children SELECT 'step-' || n, '${ENDPOINT}', 'ended-' || n, 'node1', 'ended-' || n FROM ${
    series(COUNTS.runs)
  }`,
  `INSERT INTO stint.run_waits SELECT '${ENDPOINT}', 'approval', 'other' || n, n, 'ended-' || n, 'node1' FROM ${
    series(COUNTS.runs)
  }`,
  `INSERT INTO stint.run_events (endpoint, name, key, id, expires_at, body)
   SELECT 'other' || n % 100, 'approval', 'other' || n, 'event' || n, ${LATER} + n, '"x"' FROM ${series(COUNTS.runs)}`,
  `INSERT INTO stint.schedules SELECT '${ENDPOINT}', 'schedule' || n, 'id' || n, 1, ${LATER} + n, 0, '{}' FROM ${
    series(COUNTS.schedules)
  }`,
  `INSERT INTO stint.audit (kind, at, action, target, key, name, via, address, result, status)
   SELECT 'platform', 2000 + n, 'keys.createKey', 'key/' || n, 'ann', 'ann', 'api', '::1', 'done', 201 FROM ${
    series(COUNTS.deliveries)
  }`,
  `INSERT INTO stint.usage_hours SELECT 3600000::bigint * (1 + n / 50), 'other' || n % 50, 1, '', 1, 1, 1, 1, 1 FROM ${
    series(COUNTS.deliveries)
  }`,
  `INSERT INTO stint.error_groups SELECT 'other' || n, 'fingerprint', n, '{}' FROM ${series(COUNTS.others)}`,
  `INSERT INTO stint.tallies SELECT 'endpoint', 'other' || n, no, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0 FROM ${
    series(COUNTS.others)
  }, (SELECT min(no) AS no FROM stint.nodes) node`,
  `INSERT INTO stint.removed_endpoints SELECT 'removed' || n FROM ${series(COUNTS.others)}`,
  `INSERT INTO stint.releases SELECT 'other' || n, 1, NULL, '{}' FROM ${series(COUNTS.others)}`,
  `INSERT INTO stint.builds SELECT 'other' || n, 1, 'succeeded', '{}' FROM ${series(COUNTS.others)}`
]

/** Fills an empty database. */
export const fill = Effect.fnUntraced(function*(address: string) {
  const template = Scenario.record({ endpoint: ENDPOINT })
  yield* Effect.scoped(Effect.flatMap(node(address), (stores) => Context.get(stores, JobStore).insert(template)))
  for (const statement of statements(template.id)) yield* Effect.promise(() => execute(address, statement))
})

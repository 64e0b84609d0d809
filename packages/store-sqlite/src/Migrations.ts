/**
 * The tables, as migration steps. `PRAGMA user_version` is the number of steps applied to a file.
 *
 * ```
 *   jobs      one row per job: the head, without payloads. Only read through its indexes:
 *               jobs_ready     ready, by endpoint, priority, turn and submission     claim
 *               jobs_slots     ready or running, with a concurrency key              count of its slots
 *               jobs_held      held because of their concurrency key                 release
 *               jobs_oldest    ready and not low priority, by time in the queue      depth
 *               jobs_running   running, by endpoint and worker                       lost workers
 *               jobs_delayed   in a backoff                                          a clock that was set back
 *               jobs_keys      with an idempotency key, by endpoint, key and owner   submit
 *               jobs_due       all, by the time of the next timer                    tick
 *               jobs_listed    all, by endpoint, status and time of submission       list, purge
 *               jobs_of_batch  in a batch, by batch and status                       cancel and removal of a batch
 *   tags      one row per tag of a job                                               list
 *   inputs    the input              \
 *   outcomes  output, error, progress > payloads, by the row number of the job
 *   chunks    the stream             /
 *   tallies   job counts, one row per endpoint
 *   endpoints, removed_endpoints: settings, and the ids of removed endpoints
 *   deliveries, delivery_bodies: the webhook outbox; the log is read without bodies
 *   webhook_secrets: signing secrets, one row per endpoint
 *   webhook_attempts: delivery attempts, informative only
 *   batches   one row per batch, with its counts
 *               batches_listed  by endpoint and time of creation                     list
 *               batches_open    not ended, by endpoint                               create, finalize, sweep
 *               batches_due     with a timer, by its time                            sweep
 *   batch_requests  one row per request; payloads move to the job when it is enqueued
 *   job_logs, log_pieces, log_total: job logs, removed with the job
 *   usage     what endpoints and keys with quotas use, one row each
 *   concurrency_limits  the last known limit for the concurrency keys of an endpoint; null: it no longer has one
 *   keys      access keys: digests of their secrets and permissions
 *   runs      one row per run of a pipeline, beside its job; removed with the job
 *   run_entries, run_children, run_waits, run_events, definitions: the journals of runs, their child jobs, and what they wait for
 *   releases  one row per release of an endpoint, with its settings; removed with the endpoint
 *   handler_schemas  what the handler of an endpoint takes and returns; removed with the endpoint
 *   bulk      one row per bulk operation, with its progress
 *   error_groups, removed_error_groups: the failures of endpoints by fingerprint; removed with the endpoint
 *   upgrades  which version of Stint wrote each version of the tables
 * ```
 *
 * The first six indexes are partial: their size does not depend on the number of ended jobs. The row number of a job (`seq`) is its
 * position in the order of submission.
 *
 * A released step never changes. Changes are appended as new steps.
 */
import type { DatabaseSync } from "node:sqlite"
import { audit, builds, bulk, errorGroups, handlerSchemas, releases, schedules, secrets, usageHours } from "./ControlTables.ts"

const v1 = `
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  endpoint TEXT NOT NULL,
  status TEXT NOT NULL,
  low_priority INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  queued_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  execution_timeout_ms INTEGER NOT NULL,
  lease_ms INTEGER NOT NULL,
  max_attempts INTEGER NOT NULL,
  retention_ms INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  retries INTEGER NOT NULL,
  worker TEXT,
  started_at INTEGER,
  lease_expires_at INTEGER,
  finished_at INTEGER,
  chunks INTEGER NOT NULL,
  drained INTEGER NOT NULL,
  due_at INTEGER NOT NULL
) STRICT;
CREATE INDEX jobs_ready ON jobs (endpoint) WHERE status = 'IN_QUEUE';
CREATE INDEX jobs_oldest ON jobs (endpoint, queued_at) WHERE status = 'IN_QUEUE' AND low_priority = 0;
CREATE INDEX jobs_running ON jobs (endpoint, worker) WHERE status = 'IN_PROGRESS';
CREATE INDEX jobs_due ON jobs (due_at);

CREATE TABLE inputs (
  seq INTEGER PRIMARY KEY,
  input TEXT NOT NULL,
  s3_config TEXT
) STRICT;

CREATE TABLE outcomes (
  seq INTEGER PRIMARY KEY,
  progress TEXT,
  output TEXT,
  error TEXT
) STRICT;

CREATE TABLE chunks (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  number INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (job, attempt, number)
) STRICT;

CREATE TABLE tallies (
  endpoint TEXT PRIMARY KEY,
  waiting INTEGER NOT NULL,
  waiting_low INTEGER NOT NULL,
  running INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  retried INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE endpoints (
  id TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`

/** Trace context of jobs. */
const trace = `
ALTER TABLE inputs ADD COLUMN traceparent TEXT;
ALTER TABLE inputs ADD COLUMN tracestate TEXT;
`

/** Access keys. */
const keys = `
CREATE TABLE keys (
  id TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
`

/** Priority, backoff, tags, idempotency keys, lists, webhooks and removed endpoints. */
const options = `
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN not_before INTEGER;
ALTER TABLE jobs ADD COLUMN ttl_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN retry TEXT;
ALTER TABLE jobs ADD COLUMN webhook TEXT;
ALTER TABLE jobs ADD COLUMN tags TEXT;
ALTER TABLE jobs ADD COLUMN idempotency_key TEXT;
ALTER TABLE jobs ADD COLUMN fingerprint TEXT;
UPDATE jobs SET ttl_ms = expires_at - created_at;
DROP INDEX jobs_ready;
DROP INDEX jobs_oldest;
CREATE INDEX jobs_ready ON jobs (endpoint, priority DESC) WHERE status = 'IN_QUEUE' AND not_before IS NULL;
CREATE INDEX jobs_oldest ON jobs (endpoint, queued_at) WHERE status = 'IN_QUEUE' AND not_before IS NULL AND low_priority = 0;
CREATE UNIQUE INDEX jobs_keys ON jobs (endpoint, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_listed ON jobs (endpoint, status, created_at);

ALTER TABLE outcomes ADD COLUMN last_error TEXT;
ALTER TABLE tallies ADD COLUMN delayed INTEGER NOT NULL DEFAULT 0;

CREATE TABLE tags (
  endpoint TEXT NOT NULL,
  tag TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (endpoint, tag, created_at, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE removed_endpoints (
  id TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

CREATE TABLE deliveries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  job TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  event TEXT NOT NULL,
  url TEXT NOT NULL,
  state TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  next_at INTEGER,
  settled_at INTEGER,
  last_status INTEGER,
  last_error TEXT
) STRICT;
CREATE INDEX deliveries_due ON deliveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_unsent ON deliveries (job) WHERE event = 'progress' AND attempts = 0;
CREATE INDEX deliveries_of_job ON deliveries (job);
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint, state);
CREATE INDEX deliveries_in_state ON deliveries (state);
CREATE INDEX deliveries_ended ON deliveries (settled_at) WHERE next_at IS NULL;

CREATE TABLE delivery_bodies (
  seq INTEGER PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
`

/** Signing secrets and delivery attempts of webhooks. */
const webhooks = `
CREATE TABLE webhook_secrets (
  endpoint TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE webhook_attempts (
  seq INTEGER PRIMARY KEY,
  delivery TEXT NOT NULL,
  at INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  status INTEGER,
  error TEXT,
  final INTEGER NOT NULL
) STRICT;
CREATE INDEX webhook_attempts_of ON webhook_attempts (delivery);
CREATE INDEX webhook_attempts_begun ON webhook_attempts (at);
`

/** Batches and their requests. */
const batches = `
ALTER TABLE jobs ADD COLUMN batch TEXT;
CREATE INDEX jobs_of_batch ON jobs (batch, status) WHERE batch IS NOT NULL;

CREATE TABLE batches (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  endpoint TEXT NOT NULL,
  status TEXT NOT NULL,
  name TEXT,
  webhook TEXT,
  policy TEXT,
  created_at INTEGER NOT NULL,
  touched_at INTEGER NOT NULL,
  finalized_at INTEGER,
  ended_at INTEGER,
  retention_ms INTEGER NOT NULL,
  total INTEGER NOT NULL,
  unfed INTEGER NOT NULL,
  running INTEGER NOT NULL,
  completed INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  cancelled INTEGER NOT NULL,
  due_at INTEGER
) STRICT;
CREATE INDEX batches_listed ON batches (endpoint, created_at);
CREATE INDEX batches_open ON batches (endpoint) WHERE ended_at IS NULL;
CREATE INDEX batches_due ON batches (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE batch_requests (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  batch TEXT NOT NULL,
  id TEXT NOT NULL UNIQUE,
  input TEXT,
  s3_config TEXT,
  options TEXT
) STRICT;
CREATE INDEX batch_requests_of ON batch_requests (batch);
CREATE INDEX batch_requests_aside ON batch_requests (batch) WHERE input IS NOT NULL;
`

/** Trace context of deliveries. */
const webhookTrace = `
ALTER TABLE delivery_bodies ADD COLUMN traceparent TEXT;
ALTER TABLE delivery_bodies ADD COLUMN tracestate TEXT;
`

/** Job logs and their size. */
const logs = `
CREATE TABLE job_logs (
  job INTEGER PRIMARY KEY,
  last INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT;

CREATE TABLE log_pieces (
  seq INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  last INTEGER NOT NULL,
  lines INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX log_pieces_of ON log_pieces (job, last);

CREATE TABLE log_total (
  bytes INTEGER NOT NULL
) STRICT;
INSERT INTO log_total (bytes) VALUES (0);

CREATE TRIGGER log_total_begins AFTER INSERT ON job_logs BEGIN
  UPDATE log_total SET bytes = bytes + NEW.bytes;
END;
CREATE TRIGGER log_total_moves AFTER UPDATE OF bytes ON job_logs BEGIN
  UPDATE log_total SET bytes = bytes + NEW.bytes - OLD.bytes;
END;
CREATE TRIGGER log_total_ends AFTER DELETE ON job_logs BEGIN
  UPDATE log_total SET bytes = bytes - OLD.bytes;
END;
CREATE TRIGGER logs_go_with_their_job AFTER DELETE ON jobs
WHEN EXISTS (SELECT 1 FROM job_logs WHERE job = OLD.seq)
BEGIN
  DELETE FROM log_pieces WHERE job = OLD.seq;
  DELETE FROM job_logs WHERE job = OLD.seq;
END;
`

/** Lists the delivery log by creation time instead of by row number. */
const deliveryLists = `
DROP INDEX deliveries_of_job;
DROP INDEX deliveries_of_endpoint;
DROP INDEX deliveries_in_state;
CREATE INDEX deliveries_of_job ON deliveries (job, created_at);
CREATE INDEX deliveries_of_endpoint ON deliveries (endpoint, state, created_at);
CREATE INDEX deliveries_in_state ON deliveries (state, created_at);
`

/** Finds the jobs in a backoff, to move their backoffs when the clock was set back. */
const delayedJobs = `CREATE INDEX jobs_delayed ON jobs (seq) WHERE not_before IS NOT NULL`

/** The access key to which idempotency keys and batches belong. Rows of earlier versions have no owner: every caller finds them. */
const owners = `
ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT '';
DROP INDEX jobs_keys;
CREATE UNIQUE INDEX jobs_keys ON jobs (endpoint, idempotency_key, owner) WHERE idempotency_key IS NOT NULL;
ALTER TABLE batches ADD COLUMN owner TEXT NOT NULL DEFAULT '';
`

/** The jobs that must run on a worker of their own. */
const isolated = `
ALTER TABLE jobs ADD COLUMN isolated INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tallies ADD COLUMN isolated INTEGER NOT NULL DEFAULT 0;
`

/** Which version of Stint created each table version, so that an older Stint can name the version that it needs. */
const upgrades = `
CREATE TABLE upgrades (
  tables INTEGER PRIMARY KEY,
  stint TEXT NOT NULL,
  at INTEGER NOT NULL
) STRICT;
`

/** What the jobs of endpoints and keys with quotas use. */
const usage = `
CREATE TABLE usage (
  scope TEXT NOT NULL,
  id TEXT NOT NULL,
  waiting INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  counted INTEGER NOT NULL,
  PRIMARY KEY (scope, id)
) STRICT, WITHOUT ROWID;
`

/** The release that ran the last attempt of a job. */
const jobReleases = `
ALTER TABLE jobs ADD COLUMN release INTEGER;
`

/** Concurrency keys: the slots of running and ready jobs, and held jobs, which are not ready. */
const concurrency = `
ALTER TABLE jobs ADD COLUMN concurrency_key TEXT;
ALTER TABLE jobs ADD COLUMN concurrency_limit INTEGER;
ALTER TABLE jobs ADD COLUMN turn INTEGER DEFAULT 0;
DROP INDEX jobs_ready;
DROP INDEX jobs_oldest;
CREATE INDEX jobs_ready ON jobs (endpoint, priority DESC, turn)
  WHERE status = 'IN_QUEUE' AND not_before IS NULL AND turn IS NOT NULL;
CREATE INDEX jobs_oldest ON jobs (endpoint, queued_at)
  WHERE status = 'IN_QUEUE' AND not_before IS NULL AND turn IS NOT NULL AND low_priority = 0;
CREATE INDEX jobs_slots ON jobs (endpoint, concurrency_key)
  WHERE concurrency_key IS NOT NULL AND turn IS NOT NULL AND not_before IS NULL AND finished_at IS NULL;
CREATE TABLE concurrency_limits (
  endpoint TEXT PRIMARY KEY,
  max INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX jobs_held ON jobs (endpoint, concurrency_key, priority DESC) WHERE turn IS NULL AND not_before IS NULL;
`

/** Runs of pipelines: their journals, child jobs, waits, events and definitions. */
const runs = `
CREATE TABLE runs (
  run TEXT PRIMARY KEY,
  endpoint TEXT NOT NULL,
  definition TEXT NOT NULL,
  phase TEXT NOT NULL,
  undo INTEGER NOT NULL,
  last INTEGER NOT NULL,
  wanted INTEGER NOT NULL,
  held TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX runs_held ON runs (endpoint) WHERE held IS NOT NULL;

CREATE TABLE run_entries (
  run TEXT NOT NULL,
  path TEXT NOT NULL,
  kind TEXT NOT NULL,
  n INTEGER NOT NULL,
  at INTEGER NOT NULL,
  body TEXT,
  until INTEGER,
  open INTEGER NOT NULL,
  news INTEGER NOT NULL,
  PRIMARY KEY (run, path, kind)
) STRICT;
CREATE UNIQUE INDEX run_entries_numbered ON run_entries (run, n);
CREATE INDEX run_entries_open ON run_entries (run, n) WHERE open = 1;

CREATE TABLE run_children (
  job TEXT PRIMARY KEY,
  endpoint TEXT NOT NULL,
  run TEXT NOT NULL,
  path TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX run_children_of ON run_children (run);

CREATE TABLE run_waits (
  endpoint TEXT NOT NULL,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  run TEXT NOT NULL,
  path TEXT NOT NULL,
  PRIMARY KEY (endpoint, name, key, at, run, path)
) STRICT, WITHOUT ROWID;
CREATE INDEX run_waits_of ON run_waits (run, path);

CREATE TABLE run_events (
  seq INTEGER PRIMARY KEY,
  endpoint TEXT NOT NULL,
  name TEXT NOT NULL,
  key TEXT NOT NULL,
  id TEXT,
  body TEXT,
  expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX run_events_kept ON run_events (endpoint, name, key) WHERE body IS NOT NULL;
CREATE UNIQUE INDEX run_events_ids ON run_events (endpoint, id) WHERE id IS NOT NULL;
CREATE INDEX run_events_expiring ON run_events (expires_at);

CREATE TABLE definitions (
  endpoint TEXT NOT NULL,
  hash TEXT NOT NULL,
  graph TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (endpoint, hash)
) STRICT;
`

/** How long the steps of pipelines ran, in milliseconds. Null in entries of earlier versions. */
const stepTimes = `ALTER TABLE run_entries ADD COLUMN ms INTEGER`

/** The inputs of the steps of pipelines that are not outputs of other nodes. Null in entries of earlier versions. */
const stepInputs = `ALTER TABLE run_entries ADD COLUMN input TEXT`

/** The steps, in order. Only append: `test/Migrations.test.ts` pins each released step by its hash. */
export const steps: ReadonlyArray<string> = [
  v1,
  trace,
  keys,
  options,
  webhooks,
  batches,
  webhookTrace,
  logs,
  deliveryLists,
  delayedJobs,
  owners,
  isolated,
  upgrades,
  releases,
  secrets,
  usage,
  jobReleases,
  builds,
  concurrency,
  runs,
  audit,
  schedules,
  bulk,
  usageHours,
  errorGroups,
  handlerSchemas,
  stepTimes,
  stepInputs
]

/** The table version of this program. */
export const LATEST = steps.length

/**
 * Whether the file was written by a development version that had the steps `keys`, `options` and `webhooks`, but not yet `trace`, which was
 * later inserted before them.
 */
const lacksTrace = (db: DatabaseSync, version: number): boolean => {
  if (version < 2 || version > 4) return false
  const columns = db.prepare("SELECT name FROM pragma_table_info('inputs')").all()
  return !columns.some(({ name }) => name === "traceparent")
}

/**
 * The number of steps that a file with `user_version` has. Adds the step `trace` to a file that lacks it, so that the file has the same steps
 * as every other file with its new version.
 */
export const repair = (db: DatabaseSync, version: number): number => {
  if (!lacksTrace(db, version)) return version
  db.exec(trace)
  return version + 1
}

/**
 * Applies the steps after `from`. Default for `to`: {@link LATEST}. The caller's transaction includes all of them: an interrupted migration leaves
 * the file for the version of Stint that wrote it, and its copy stays the one to go back to.
 */
export const migrate = (db: DatabaseSync, from: number, to = LATEST): void => {
  for (const step of steps.slice(from, to)) db.exec(step)
  db.exec(`PRAGMA user_version = ${to}`)
}

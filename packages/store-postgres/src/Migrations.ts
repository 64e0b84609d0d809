/**
 * The tables, in the schema `stint`, as migration steps. `stint.settings.version` is the number of steps applied to a database.
 *
 * ```
 *   jobs      what a job is: its input and settings. Inserted once and never updated
 *   ready     \
 *   delayed    > where a job stands: it has a row in exactly one of these tables
 *   running   |    ready_line   by endpoint, priority and order of submission   claim
 *   ended     /    running_of   by endpoint and worker                          lost workers
 *   runs, run_entries, run_children, run_waits, run_events, definitions: the journals of pipeline runs, beside their jobs
 *   run_cancels: children of ended runs that the timers cancel
 *   concurrency_limits: the present limit of an endpoint's concurrency keys; the keys themselves are in the four tables (ConcurrencySlots.ts)
 *   schedules: what is due, and the version of each schedule
 *   chunks, tags, tallies, deliveries, batches, batch_requests, job_logs, log_pieces and the tables of control data: as in SQLite
 * ```
 *
 * Rows move between the four tables, so the hot tables `ready`, `delayed` and `running` stay small however many jobs have ended. The lease of a
 * running job has no index: a heartbeat changes no index, and PostgreSQL then writes the new row into the same page (HOT). Instead, the sweep reads
 * all jobs that workers hold.
 *
 * A released step never changes. Changes are appended as new steps.
 */

/** Vacuums a hot table after a thousand changes: a claim would otherwise read the dead rows of earlier claims. */
const HOT = "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0"

const STATE = `
  id text COLLATE "C" NOT NULL,
  endpoint text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  status text NOT NULL,
  priority int NOT NULL,
  low_priority boolean NOT NULL,
  isolated boolean NOT NULL,
  created_at bigint NOT NULL,
  queued_at bigint NOT NULL,
  expires_at bigint NOT NULL,
  not_before bigint,
  attempt int NOT NULL,
  retries int NOT NULL,
  worker text,
  release int,
  started_at bigint,
  lease_expires_at bigint,
  finished_at bigint,
  chunks int NOT NULL,
  drained int NOT NULL,
  due_at bigint NOT NULL,
  outcome_bytes bigint NOT NULL,
  chunk_bytes bigint NOT NULL,
  batch text COLLATE "C",
  last_error text,
  progress text,
  output text,
  error text`

const v1 = `
CREATE SEQUENCE stint.job_seq AS bigint;
CREATE SEQUENCE stint.node_no AS int;

CREATE TABLE stint.nodes (
  no int PRIMARY KEY,
  started_at timestamptz NOT NULL,
  seen_at timestamptz NOT NULL
);

CREATE TABLE stint.jobs (
  id text COLLATE "C" PRIMARY KEY,
  endpoint text COLLATE "C" NOT NULL,
  seq bigint NOT NULL,
  created_at bigint NOT NULL,
  owner text COLLATE "C" NOT NULL,
  idempotency_key text COLLATE "C",
  fingerprint text,
  spec text NOT NULL,
  hooked boolean NOT NULL,
  input_bytes bigint NOT NULL,
  input text NOT NULL,
  s3_config text,
  traceparent text,
  tracestate text
) WITH (toast_tuple_target = 4080);
CREATE UNIQUE INDEX jobs_keys ON stint.jobs (endpoint, idempotency_key, owner) WHERE idempotency_key IS NOT NULL;
CREATE INDEX jobs_listed ON stint.jobs (endpoint, created_at, id);

CREATE TABLE stint.ready (${STATE}, PRIMARY KEY (id)) WITH (${HOT});
CREATE INDEX ready_line ON stint.ready (endpoint, priority DESC, seq);
CREATE INDEX ready_listed ON stint.ready (endpoint, created_at, seq);
CREATE INDEX ready_due ON stint.ready (due_at);
CREATE INDEX ready_isolated ON stint.ready (endpoint) WHERE isolated;
CREATE INDEX ready_batch ON stint.ready (batch, seq) WHERE batch IS NOT NULL;

CREATE TABLE stint.delayed (${STATE}, PRIMARY KEY (id)) WITH (${HOT});
CREATE INDEX delayed_listed ON stint.delayed (endpoint, created_at, seq);
CREATE INDEX delayed_due ON stint.delayed (due_at);
CREATE INDEX delayed_isolated ON stint.delayed (endpoint) WHERE isolated;
CREATE INDEX delayed_batch ON stint.delayed (batch, seq) WHERE batch IS NOT NULL;

CREATE TABLE stint.running (${STATE}, PRIMARY KEY (id)) WITH (fillfactor = 50, ${HOT});
CREATE INDEX running_of ON stint.running (endpoint, worker);
CREATE INDEX running_isolated ON stint.running (endpoint) WHERE isolated;

CREATE TABLE stint.ended (${STATE}, PRIMARY KEY (id));
CREATE INDEX ended_listed ON stint.ended (endpoint, status, created_at, id);
CREATE INDEX ended_due ON stint.ended (due_at) WHERE batch IS NULL;
CREATE INDEX ended_batch ON stint.ended (batch, seq) WHERE batch IS NOT NULL;

CREATE TABLE stint.chunks (
  job text COLLATE "C" NOT NULL,
  attempt int NOT NULL,
  number int NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (job, attempt, number)
);

CREATE TABLE stint.tags (
  endpoint text COLLATE "C" NOT NULL,
  tag text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  PRIMARY KEY (endpoint, tag, created_at, id)
);
CREATE INDEX tags_of_job ON stint.tags (id);

CREATE TABLE stint.tallies (
  scope text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  node int NOT NULL,
  gen bigint NOT NULL,
  waiting bigint NOT NULL,
  waiting_low bigint NOT NULL,
  delayed bigint NOT NULL,
  running bigint NOT NULL,
  completed bigint NOT NULL,
  failed bigint NOT NULL,
  retried bigint NOT NULL,
  isolated bigint NOT NULL,
  bytes bigint NOT NULL,
  PRIMARY KEY (scope, id, node, gen)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0);

CREATE TABLE stint.endpoints (
  id text COLLATE "C" PRIMARY KEY,
  body text NOT NULL
);
CREATE TABLE stint.removed_endpoints (
  id text COLLATE "C" PRIMARY KEY
);
CREATE TABLE stint.releases (
  endpoint text COLLATE "C" NOT NULL,
  number int NOT NULL,
  code text,
  body text NOT NULL,
  PRIMARY KEY (endpoint, number)
);
CREATE TABLE stint.keys (
  id text COLLATE "C" PRIMARY KEY,
  body text NOT NULL
);
CREATE TABLE stint.secrets (
  name text COLLATE "C" PRIMARY KEY,
  body text NOT NULL
);
CREATE TABLE stint.webhook_secrets (
  endpoint text COLLATE "C" PRIMARY KEY,
  body text NOT NULL
);
CREATE TABLE stint.webhook_attempts (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  delivery text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  duration_ms bigint NOT NULL,
  status int,
  error text,
  final boolean NOT NULL
);
CREATE INDEX webhook_attempts_of ON stint.webhook_attempts (delivery, seq);
CREATE INDEX webhook_attempts_begun ON stint.webhook_attempts (at);

CREATE TABLE stint.deliveries (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text COLLATE "C" NOT NULL UNIQUE,
  job text COLLATE "C" NOT NULL,
  endpoint text COLLATE "C" NOT NULL,
  event text NOT NULL,
  url text NOT NULL,
  state text NOT NULL,
  created_at bigint NOT NULL,
  attempts int NOT NULL,
  next_at bigint,
  settled_at bigint,
  last_status int,
  last_error text,
  body text NOT NULL,
  traceparent text,
  tracestate text
) WITH (fillfactor = 70);
CREATE INDEX deliveries_due ON stint.deliveries (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX deliveries_unsent ON stint.deliveries (job) WHERE event = 'progress' AND attempts = 0;
CREATE INDEX deliveries_of_job ON stint.deliveries (job, created_at, id);
CREATE INDEX deliveries_of_endpoint ON stint.deliveries (endpoint, state, created_at, id);
CREATE INDEX deliveries_in_state ON stint.deliveries (state, created_at, id);
CREATE INDEX deliveries_ended ON stint.deliveries (settled_at) WHERE next_at IS NULL;

CREATE TABLE stint.batches (
  id text COLLATE "C" PRIMARY KEY,
  seq bigint GENERATED ALWAYS AS IDENTITY,
  endpoint text COLLATE "C" NOT NULL,
  owner text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  ended boolean NOT NULL,
  due_at bigint,
  body text NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX batches_listed ON stint.batches (endpoint, created_at, seq);
CREATE INDEX batches_open ON stint.batches (endpoint) WHERE NOT ended;
CREATE INDEX batches_due ON stint.batches (due_at) WHERE due_at IS NOT NULL;

CREATE TABLE stint.batch_requests (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  batch text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL UNIQUE,
  input text,
  s3_config text,
  options text
);
CREATE INDEX batch_requests_of ON stint.batch_requests (batch, seq);
CREATE INDEX batch_requests_aside ON stint.batch_requests (batch, seq) WHERE input IS NOT NULL;

CREATE TABLE stint.job_logs (
  job text COLLATE "C" PRIMARY KEY,
  last int NOT NULL,
  lines int NOT NULL,
  bytes bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE stint.log_pieces (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job text COLLATE "C" NOT NULL,
  last int NOT NULL,
  lines int NOT NULL,
  bytes bigint NOT NULL,
  body text NOT NULL
);
CREATE INDEX log_pieces_of ON stint.log_pieces (job, last);
`

/** What a node reports to the others about its workers, for their health pages, and whether it is shutting down. */
const v2 = `
ALTER TABLE stint.nodes ADD COLUMN report text, ADD COLUMN leaving boolean NOT NULL DEFAULT false;
ALTER TABLE stint.nodes SET (fillfactor = 50);
`

/** The audit log. Ids are never reused, so that a cursor stays valid after old entries are removed. */
const v3 = `
CREATE TABLE stint.audit (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kind text NOT NULL,
  at bigint NOT NULL,
  action text NOT NULL,
  target text NOT NULL,
  key text NOT NULL,
  name text NOT NULL,
  via text NOT NULL,
  address text NOT NULL,
  result text NOT NULL,
  status int NOT NULL
);
CREATE INDEX audit_kinds ON stint.audit (kind, id);
CREATE INDEX audit_times ON stint.audit (at);
`

/**
 * Runs of pipelines: their journals, child jobs, waits, events and definitions. `is_run` shows without a lookup whether a job is a run, and is exact
 * under the lock of the job. `root` is the job at the top of nested runs, whose row serves as the lock for all of them (RunLoads.ts).
 */
const v4 = `
ALTER TABLE stint.ready ADD COLUMN is_run boolean NOT NULL DEFAULT false;
ALTER TABLE stint.delayed ADD COLUMN is_run boolean NOT NULL DEFAULT false;
ALTER TABLE stint.running ADD COLUMN is_run boolean NOT NULL DEFAULT false;
ALTER TABLE stint.ended ADD COLUMN is_run boolean NOT NULL DEFAULT false;

CREATE TABLE stint.runs (
  run text COLLATE "C" PRIMARY KEY,
  root text COLLATE "C" NOT NULL,
  endpoint text COLLATE "C" NOT NULL,
  definition text COLLATE "C" NOT NULL,
  phase text NOT NULL,
  undo boolean NOT NULL,
  last int NOT NULL,
  wanted int NOT NULL,
  held text
) WITH (fillfactor = 50, ${HOT});
CREATE INDEX runs_held ON stint.runs (endpoint) WHERE held IS NOT NULL;

CREATE TABLE stint.run_entries (
  run text COLLATE "C" NOT NULL,
  path text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL,
  n int NOT NULL,
  at bigint NOT NULL,
  until bigint,
  open boolean NOT NULL,
  news int NOT NULL,
  body text,
  PRIMARY KEY (run, path, kind)
);
CREATE UNIQUE INDEX run_entries_numbered ON stint.run_entries (run, n);
CREATE INDEX run_entries_open ON stint.run_entries (run, n) WHERE open;
CREATE INDEX run_entries_timed ON stint.run_entries (run, until) WHERE open AND until IS NOT NULL;

CREATE TABLE stint.run_children (
  job text COLLATE "C" PRIMARY KEY,
  endpoint text COLLATE "C" NOT NULL,
  run text COLLATE "C" NOT NULL,
  path text COLLATE "C" NOT NULL,
  root text COLLATE "C" NOT NULL
);
CREATE INDEX run_children_of ON stint.run_children (run);

CREATE TABLE stint.run_waits (
  endpoint text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  run text COLLATE "C" NOT NULL,
  path text COLLATE "C" NOT NULL
);
CREATE INDEX run_waits_for ON stint.run_waits (endpoint, name, key, at);
CREATE INDEX run_waits_of ON stint.run_waits (run);

CREATE TABLE stint.run_events (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  endpoint text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  id text COLLATE "C",
  expires_at bigint NOT NULL,
  body text
);
CREATE INDEX run_events_kept ON stint.run_events (endpoint, name, key, seq) WHERE body IS NOT NULL;
CREATE UNIQUE INDEX run_events_ids ON stint.run_events (endpoint, id) WHERE id IS NOT NULL;
CREATE INDEX run_events_expiring ON stint.run_events (expires_at);

CREATE TABLE stint.definitions (
  endpoint text COLLATE "C" NOT NULL,
  hash text COLLATE "C" NOT NULL,
  graph text NOT NULL,
  at bigint NOT NULL,
  PRIMARY KEY (endpoint, hash)
);
`

/** Schedules. A change replaces the preceding version. */
const v5 = `
CREATE TABLE stint.schedules (
  endpoint text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  id text COLLATE "C" NOT NULL,
  version int NOT NULL,
  due_at bigint,
  checked_at bigint NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (endpoint, name)
) WITH (fillfactor = 50);
CREATE INDEX schedules_due ON stint.schedules (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX schedules_checked ON stint.schedules (checked_at) WHERE due_at IS NOT NULL;
`

/**
 * Columns that nodes of an earlier version neither read nor write, so that they can run alongside newer nodes until they are replaced.
 *
 * `running` gets two partial indexes. Their columns never change while a row stays, so that heartbeats still change no index.
 */
const v6 = `
CREATE INDEX running_parked ON stint.running (not_before, seq) WHERE worker IS NULL;
CREATE INDEX running_leased ON stint.running (id) WHERE worker IS NOT NULL;
CREATE INDEX runs_nested ON stint.runs (root) WHERE run <> root;

CREATE TABLE stint.run_cancels (
  job text COLLATE "C" PRIMARY KEY,
  endpoint text COLLATE "C" NOT NULL
);

${
  ["ready", "delayed", "running", "ended"].map((table) =>
    `ALTER TABLE stint.${table} ADD COLUMN concurrency_key text COLLATE "C", ADD COLUMN concurrency_limit int,
  ADD COLUMN held boolean NOT NULL DEFAULT false;`
  ).join("\n")
}
CREATE INDEX ready_slots ON stint.ready (endpoint, concurrency_key) WHERE concurrency_key IS NOT NULL;
CREATE INDEX running_slots ON stint.running (endpoint, concurrency_key) WHERE concurrency_key IS NOT NULL;
CREATE INDEX delayed_held ON stint.delayed (endpoint, concurrency_key, priority DESC, seq) WHERE held;
CREATE TABLE stint.concurrency_limits (
  endpoint text COLLATE "C" PRIMARY KEY,
  max int
);
CREATE SEQUENCE stint.slot_no AS bigint START WITH 549755813888;

ALTER TABLE stint.nodes ADD COLUMN version text, ADD COLUMN clock bigint;

CREATE TABLE stint.build_settings (
  endpoint text COLLATE "C" PRIMARY KEY,
  body text NOT NULL
);
CREATE TABLE stint.builds (
  endpoint text COLLATE "C" NOT NULL,
  number int NOT NULL,
  state text NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (endpoint, number)
);
CREATE INDEX builds_unended ON stint.builds (endpoint, number) WHERE state IN ('queued', 'running');
CREATE TABLE stint.build_logs (
  endpoint text COLLATE "C" NOT NULL,
  build int NOT NULL,
  last int NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (endpoint, build, last)
);
`

/** Bulk operations. */
const v7 = `
CREATE TABLE stint.bulk (
  id text COLLATE "C" PRIMARY KEY,
  version int NOT NULL,
  created_at bigint NOT NULL,
  ended_at bigint,
  body text NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX bulk_listed ON stint.bulk (created_at, id);
CREATE INDEX bulk_unended ON stint.bulk (created_at, id) WHERE ended_at IS NULL;
`

/** What ran. `usage_sources`: the last addition of each process, so that a repeated addition is not added again. */
const usage = `
CREATE TABLE stint.usage_hours (
  hour bigint NOT NULL,
  endpoint text COLLATE "C" NOT NULL,
  release bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  attempts bigint NOT NULL,
  execution_ms bigint NOT NULL,
  worker_ms bigint NOT NULL,
  cpu_ms bigint NOT NULL,
  gpu_ms bigint NOT NULL,
  PRIMARY KEY (hour, endpoint, release, key)
) WITH (fillfactor = 50);

CREATE TABLE stint.usage_sources (
  source text COLLATE "C" PRIMARY KEY,
  sequence bigint NOT NULL,
  at bigint NOT NULL
) WITH (fillfactor = 50);
`

/** Error groups, the number of groups removed because an endpoint had too many, and the group of each failed job. */
const v9 = `
CREATE TABLE stint.error_groups (
  endpoint text COLLATE "C" NOT NULL,
  fingerprint text COLLATE "C" NOT NULL,
  last_seen bigint NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (endpoint, fingerprint)
) WITH (fillfactor = 50);
CREATE INDEX error_groups_seen ON stint.error_groups (endpoint, last_seen DESC, fingerprint);

CREATE TABLE stint.removed_error_groups (
  endpoint text COLLATE "C" PRIMARY KEY,
  groups int NOT NULL
);

ALTER TABLE stint.ended ADD COLUMN error_group text;
`

/**
 * The order in which timers fire. A sweep reads as many rows as it fires, even if many more are due at the same time, for example because a purge
 * or a batch has ended them together. Jobs with a concurrency key are not ordered by `seq`, so they have their own index.
 */
const v10 = `
DROP INDEX stint.ready_due;
DROP INDEX stint.delayed_due;
DROP INDEX stint.ended_due;
CREATE INDEX ready_due ON stint.ready (due_at, seq);
CREATE INDEX ready_due_keyed ON stint.ready (due_at) WHERE concurrency_key IS NOT NULL;
CREATE INDEX delayed_due ON stint.delayed (due_at, seq);
CREATE INDEX delayed_due_keyed ON stint.delayed (due_at) WHERE concurrency_key IS NOT NULL;
CREATE INDEX ended_due ON stint.ended (due_at, seq) WHERE batch IS NULL;
CREATE INDEX ended_due_keyed ON stint.ended (due_at) WHERE batch IS NULL AND concurrency_key IS NOT NULL;
`

/** What the handlers of endpoints take and return. */
const v11 = `
CREATE TABLE stint.handler_schemas (
  endpoint text COLLATE "C" PRIMARY KEY,
  body text NOT NULL
);
`

/** How long the steps of pipelines ran. Null in entries of earlier versions. */
const v12 = `
ALTER TABLE stint.run_entries ADD COLUMN ms bigint;
`

/** The inputs of the steps of pipelines that are not outputs of other nodes. Null in entries of earlier versions. */
const v13 = `
ALTER TABLE stint.run_entries ADD COLUMN input text;
`

/**
 * The order in which deliveries are claimed. A claim reads as many rows as it claims, even if many more are due at the same time, for example because
 * a purge has ended their jobs together.
 */
const v14 = `
DROP INDEX stint.deliveries_due;
CREATE INDEX deliveries_due ON stint.deliveries (next_at, seq) WHERE next_at IS NOT NULL;
`

/**
 * The index of words (PostgresTextIndex.ts). `text_words`: the words of ended jobs, and which end of its job each row is of. `text_state`: one row, once a
 * node has begun to index. Ended jobs are indexed in the order of their ends. No statement uses `jobs_listed`.
 */
const v15 = `
CREATE TABLE stint.text_words (
  id text COLLATE "C" PRIMARY KEY,
  endpoint text COLLATE "C" NOT NULL,
  created_at bigint NOT NULL,
  finished_at bigint NOT NULL,
  attempt int NOT NULL,
  outcome_bytes bigint NOT NULL,
  size int NOT NULL,
  words tsvector NOT NULL
);
CREATE INDEX text_words_in ON stint.text_words USING gin (words) WITH (gin_pending_list_limit = 1024);
CREATE INDEX text_words_oldest ON stint.text_words (created_at) INCLUDE (size);
CREATE TABLE stint.text_state (
  one boolean PRIMARY KEY CHECK (one),
  version int NOT NULL,
  start bigint NOT NULL,
  frontier bigint NOT NULL,
  complete boolean NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX ended_finished ON stint.ended (finished_at, id);
DROP INDEX stint.jobs_listed;
`

/** The steps, in order. Only append: `test/Migrations.test.ts` pins each released step by its hash. */
export const steps: ReadonlyArray<string> = [v1, v2, v3, v4, v5, v6, v7, usage, v9, v10, v11, v12, v13, v14, v15]

/** The version of the tables of this program. */
export const LATEST = steps.length

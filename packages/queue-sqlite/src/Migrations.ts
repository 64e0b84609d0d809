/**
 * The tables, version by version. `PRAGMA user_version` says how many of these steps a file has seen.
 *
 * ```
 *   jobs      one small row a job: what the state machine decides by. All that is ever scanned, and only by its indexes:
 *               jobs_ready     waiting, by endpoint and order of submission        claim, purge
 *               jobs_oldest    waiting and not low priority, by time in the queue   depth
 *               jobs_running   running, by endpoint and worker                     a worker is gone
 *               jobs_due       all, by the time of the next timer                  tick
 *   inputs    what was put in        \
 *   outcomes  what came out           > payloads, found by the job's row number when they are asked for
 *   chunks    what was streamed      /
 *   tallies   one row an endpoint: how many jobs are in which state
 *   endpoints
 * ```
 *
 * The first three indexes are partial: they hold the jobs of now, however many finished ones are kept. A job's row number (`seq`) is
 * its place in line.
 *
 * A step that was released never changes; a change of the tables is a new step at the end.
 */
import type { DatabaseSync } from "node:sqlite"

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

/** The caller's span. */
const v2 = `
ALTER TABLE inputs ADD COLUMN traceparent TEXT;
ALTER TABLE inputs ADD COLUMN tracestate TEXT;
`

const steps: ReadonlyArray<string> = [v1, v2]

/** The version that this program writes. */
export const LATEST = steps.length

/** Takes a file that has seen `version` steps to {@link LATEST}. Each step is kept whole or not at all. */
export const migrate = (db: DatabaseSync, version: number): void => {
  for (const [index, step] of steps.entries()) {
    if (index < version) continue
    db.exec(`BEGIN IMMEDIATE; ${step}; PRAGMA user_version = ${index + 1}; COMMIT`)
  }
}

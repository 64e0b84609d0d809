/**
 * The migration steps of control data. See Migrations.ts for their order.
 */

/** Releases of endpoints. */
export const releases = `
CREATE TABLE releases (
  endpoint TEXT NOT NULL,
  number INTEGER NOT NULL,
  code TEXT,
  body TEXT NOT NULL,
  PRIMARY KEY (endpoint, number)
) STRICT;
`

/** What the handlers of endpoints take and return. */
export const handlerSchemas = `
CREATE TABLE handler_schemas (
  endpoint TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
`

/** Secrets, with encrypted values. */
export const secrets = `
CREATE TABLE secrets (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
`

/** Builds of endpoints, their settings and their logs. A row of a log has the lines up to the number `last`. */
export const builds = `
CREATE TABLE build_settings (
  endpoint TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE builds (
  endpoint TEXT NOT NULL,
  number INTEGER NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (endpoint, number)
) STRICT;
CREATE INDEX builds_unended ON builds (state) WHERE state IN ('queued', 'running');

CREATE TABLE build_logs (
  endpoint TEXT NOT NULL,
  build INTEGER NOT NULL,
  last INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (endpoint, build, last)
) STRICT;
`

/** The audit log. Ids are never reused, so that a cursor stays valid after old entries are removed. */
export const audit = `
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL,
  at INTEGER NOT NULL,
  action TEXT NOT NULL,
  target TEXT NOT NULL,
  key TEXT NOT NULL,
  name TEXT NOT NULL,
  via TEXT NOT NULL,
  address TEXT NOT NULL,
  result TEXT NOT NULL,
  status INTEGER NOT NULL
) STRICT;
CREATE INDEX audit_kinds ON audit (kind, id);
CREATE INDEX audit_times ON audit (at);
`

/**
 * Schedules. `due_at` is when a schedule has something to decide, `checked_at` when that time was computed: when the clock is set back far, `due_at`
 * must be computed again.
 */
export const schedules = `
CREATE TABLE schedules (
  endpoint TEXT NOT NULL,
  name TEXT NOT NULL,
  id TEXT NOT NULL,
  version INTEGER NOT NULL,
  due_at INTEGER,
  checked_at INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (endpoint, name)
) STRICT;
CREATE INDEX schedules_due ON schedules (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX schedules_checked ON schedules (checked_at) WHERE due_at IS NOT NULL;
`

/** Bulk operations. */
export const bulk = `
CREATE TABLE bulk (
  id TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER,
  body TEXT NOT NULL
) STRICT;
CREATE INDEX bulk_listed ON bulk (created_at, id);
CREATE INDEX bulk_unended ON bulk (created_at, id) WHERE ended_at IS NULL;
`

/** What ran. `usage_sources`: the last addition of each process, so that a repeated addition is not added again. */
export const usageHours = `
CREATE TABLE usage_hours (
  hour INTEGER NOT NULL,
  endpoint TEXT NOT NULL,
  release INTEGER NOT NULL,
  key TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  execution_ms INTEGER NOT NULL,
  worker_ms INTEGER NOT NULL,
  cpu_ms INTEGER NOT NULL,
  gpu_ms INTEGER NOT NULL,
  PRIMARY KEY (hour, endpoint, release, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_sources (
  source TEXT PRIMARY KEY,
  sequence INTEGER NOT NULL,
  at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`

/** Error groups, the number of groups removed because an endpoint had too many, and the group of each failed job. */
export const errorGroups = `
CREATE TABLE error_groups (
  endpoint TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  last_seen INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (endpoint, fingerprint)
) STRICT;
CREATE INDEX error_groups_seen ON error_groups (endpoint, last_seen DESC, fingerprint);

CREATE TABLE removed_error_groups (
  endpoint TEXT PRIMARY KEY,
  groups INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

ALTER TABLE outcomes ADD COLUMN error_group TEXT;
`

/**
 * The migration step of usage. See Migrations.ts for its place.
 */

/** What ran. `usage_sources`: the last addition of each process, so that a repeated one is not added again. */
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

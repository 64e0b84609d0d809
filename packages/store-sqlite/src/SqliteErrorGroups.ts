/**
 * Error groups in SQLite: part of `SqliteJobStore`, because a group and its job change in one transaction.
 */
import { identifyFailure, type JobFailure, withFailure, withResolution } from "@stint/store/ErrorGroupMachine"
import { ErrorGroupRecord, ErrorGroupStore, GROUP_RETENTION_MILLIS, GROUPS_KEPT } from "@stint/store/ErrorGroupStore"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(ErrorGroupRecord)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)
const decodeCount = Schema.decodeUnknownSync(Schema.Struct({ groups: Schema.Int }))

/** The rows of error groups. */
export interface ErrorGroupRows {
  /** Adds a failure to its group, within a transaction. Returns the fingerprint. */
  readonly record: (failure: JobFailure) => string
}

/** Creates the rows and the store of a database file. */
export const make = (
  db: SqliteDatabase["Service"]
): { readonly rows: ErrorGroupRows; readonly service: ErrorGroupStore["Service"] } => {
  const sql = {
    get: db.statement(`SELECT body FROM error_groups WHERE endpoint = ? AND fingerprint = ?`),
    list: db.statement(
      `SELECT body FROM error_groups INDEXED BY error_groups_seen WHERE endpoint = ? AND last_seen >= ? ORDER BY last_seen DESC, fingerprint`
    ),
    put: db.statement(
      `INSERT INTO error_groups (endpoint, fingerprint, last_seen, body) VALUES (?, ?, ?, ?)
       ON CONFLICT (endpoint, fingerprint) DO UPDATE SET last_seen = excluded.last_seen, body = excluded.body`
    ),
    expire: db.statement(`DELETE FROM error_groups INDEXED BY error_groups_seen WHERE endpoint = ? AND last_seen < ?`),
    prune: db.statement(
      `DELETE FROM error_groups WHERE endpoint = ?1 AND fingerprint IN (
         SELECT fingerprint FROM error_groups WHERE endpoint = ?1 ORDER BY last_seen DESC, fingerprint LIMIT -1 OFFSET ${GROUPS_KEPT})`
    ),
    removed: db.statement(`SELECT groups FROM removed_error_groups WHERE endpoint = ?`),
    addRemoved: db.statement(
      `INSERT INTO removed_error_groups (endpoint, groups) VALUES (?, ?)
       ON CONFLICT (endpoint) DO UPDATE SET groups = groups + excluded.groups`
    )
  }

  const get = (endpoint: string, fingerprint: string): ErrorGroupRecord | undefined => {
    const row = sql.get.get(endpoint, fingerprint)
    return row === undefined ? undefined : decodeRow(row).body
  }

  const put = (endpoint: string, group: ErrorGroupRecord) => {
    sql.put.run(endpoint, group.fingerprint, group.lastSeen, encodeBody(group))
  }

  const rows: ErrorGroupRows = {
    record: (failure) => {
      const { at, endpoint } = failure
      const identity = identifyFailure(failure)
      const known = get(endpoint, identity.fingerprint)
      put(endpoint, withFailure(known, failure, identity))
      if (known === undefined) {
        sql.expire.run(endpoint, at - GROUP_RETENTION_MILLIS)
        const { changes } = sql.prune.run(endpoint)
        if (changes > 0) sql.addRemoved.run(endpoint, changes)
      }
      return identity.fingerprint
    }
  }

  const service = ErrorGroupStore.of({
    list: (endpoint, since) =>
      db.read("list error groups", () => {
        const removed = sql.removed.get(endpoint)
        return {
          groups: sql.list.all(endpoint, since).map((row) => decodeRow(row).body),
          removed: removed === undefined ? 0 : decodeCount(removed).groups
        }
      }),
    get: (endpoint, fingerprint) => db.read("read error group", () => get(endpoint, fingerprint)),
    resolve: (endpoint, fingerprint, resolution) =>
      db.write("resolve error group", () => {
        const known = get(endpoint, fingerprint)
        if (known === undefined) return undefined
        const changed = withResolution(known, resolution)
        put(endpoint, changed)
        return changed
      })
  })
  return { rows, service }
}

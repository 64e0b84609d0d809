/**
 * What a transaction writes to the error groups of its endpoints. A group changes in the transaction of its job, just before the commit
 * (TransactionWrites.ts).
 *
 * Only a transaction in which a job has failed does anything here. It then takes one lock for each endpoint with a failure, after all its other locks
 * and ordered by number, so that transactions do not deadlock. It holds them for one round trip.
 */
import { identifyFailure, type JobFailure, withFailure } from "@stint/store/ErrorGroupMachine"
import { ErrorGroupRecord, GROUP_RETENTION_MILLIS, GROUPS_KEPT } from "@stint/store/ErrorGroupStore"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { insertAll, transpose } from "./JobColumns.ts"
import { lockNumber } from "./Transaction.ts"

const Body = Schema.fromJsonString(ErrorGroupRecord)
/** Decodes a row of one body. */
export const decodeBody = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const decodeKeyed = Schema.decodeUnknownSync(Schema.Tuple([Schema.String, Body]))
/** Encodes a group. */
export const encodeBody = Schema.encodeSync(Body)

const GROUP = { endpoint: "text", fingerprint: "text", last_seen: "bigint", body: "text" } as const

const PUT = `${insertAll("error_groups", GROUP)}
  ON CONFLICT (endpoint, fingerprint) DO UPDATE SET last_seen = excluded.last_seen, body = excluded.body`

const MARK = `UPDATE stint.ended e SET error_group = u.fingerprint
  FROM unnest($1::text[], $2::text[]) AS u (id, fingerprint) WHERE e.id = u.id`

const EXPIRE = `DELETE FROM stint.error_groups WHERE endpoint = $1 AND last_seen < $2`

const PRUNE = `WITH removed AS (
    DELETE FROM stint.error_groups WHERE endpoint = $1 AND fingerprint IN (
      SELECT fingerprint FROM stint.error_groups WHERE endpoint = $1 ORDER BY last_seen DESC, fingerprint OFFSET ${GROUPS_KEPT}
    ) RETURNING 1
  ) INSERT INTO stint.removed_error_groups (endpoint, groups) SELECT $1, count(*) FROM removed HAVING count(*) > 0
  ON CONFLICT (endpoint) DO UPDATE SET groups = removed_error_groups.groups + excluded.groups`

/** Waits until no other transaction changes groups of these endpoints. */
export const lockGroups = (query: Query, endpoints: ReadonlyArray<string>) =>
  query(`SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) AS n`, [
    [...new Set(endpoints)].map((endpoint) => lockNumber(`errors\n${endpoint}`)).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0))
  ])

/** A statement and its values. */
type Statement = readonly [text: string, values: ReadonlyArray<unknown>]

/** The statements that add the failures of a transaction to their groups. They must be its last reads. */
export const statementsOf = async (query: Query, failures: ReadonlyArray<JobFailure>): Promise<ReadonlyArray<Statement>> => {
  if (failures.length === 0) return []
  const identified = failures.map((failure) => ({ failure, identity: identifyFailure(failure) }))
  const keyOf = (endpoint: string, fingerprint: string) => `${endpoint}\n${fingerprint}`
  // Sent together: the server reads the groups once it has the locks.
  const [, rows] = await Promise.all([
    lockGroups(query, failures.map(({ endpoint }) => endpoint)),
    query(
      `SELECT g.endpoint, g.body FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[])) AS u (endpoint, fingerprint)
       JOIN stint.error_groups g ON g.endpoint = u.endpoint AND g.fingerprint = u.fingerprint`,
      [failures.map(({ endpoint }) => endpoint), identified.map(({ identity }) => identity.fingerprint)]
    )
  ])
  const groups = new Map(rows.map((row) => {
    const [endpoint, group] = decodeKeyed(row)
    return [keyOf(endpoint, group.fingerprint), { endpoint, group }] as const
  }))
  /** The last failure of each endpoint with a new group. */
  const grown = new Map<string, number>()
  for (const { failure, identity } of identified) {
    const { at, endpoint } = failure
    const key = keyOf(endpoint, identity.fingerprint)
    const known = groups.get(key)?.group
    if (known === undefined) grown.set(endpoint, at)
    groups.set(key, { endpoint, group: withFailure(known, failure, identity) })
  }
  return [
    [
      PUT,
      transpose(
        [...groups.values()].map(({ endpoint, group }) => [endpoint, group.fingerprint, group.lastSeen, encodeBody(group)])
      )
    ],
    [MARK, transpose(identified.map(({ failure: { job }, identity: { fingerprint } }) => [job, fingerprint]))],
    ...[...grown].flatMap(([endpoint, at]): ReadonlyArray<Statement> => [
      [EXPIRE, [endpoint, at - GROUP_RETENTION_MILLIS]],
      [PRUNE, [endpoint]]
    ])
  ]
}

/** Runs within the transaction that removes an endpoint. */
export const removeAll = async (query: Query, endpoint: string): Promise<void> => {
  await Promise.all([
    query(`DELETE FROM stint.error_groups WHERE endpoint = $1`, [endpoint]),
    query(`DELETE FROM stint.removed_error_groups WHERE endpoint = $1`, [endpoint])
  ])
}

/**
 * The firings of schedules that one transaction stores together with their jobs.
 */
import { follows, ScheduleRecord } from "@stint/store/ScheduleStore"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"

const encodeBody = Schema.encodeSync(Schema.fromJsonString(ScheduleRecord))
const decodeVersion = Schema.decodeUnknownSync(
  Schema.Tuple([Schema.String, Schema.String, Schema.String, Schema.Int])
)

/** The version of a schedule. */
type Version = Pick<ScheduleRecord, "id" | "version">

/** The schedules of one transaction. */
export interface ScheduleWork {
  /** The stored versions, by {@link keyOf}. */
  readonly versions: Map<string, Version>
  readonly firings: Array<ScheduleRecord>
}

const keyOf = ({ endpoint, name }: { readonly endpoint: string; readonly name: string }): string => `${endpoint}\n${name}`

/** A transaction without schedules. */
export const make = (): ScheduleWork => ({ versions: new Map(), firings: [] })

/** Locks the schedules that fire, and reads their versions. */
export const load = async (query: Query, { versions }: ScheduleWork, firings: ReadonlyArray<ScheduleRecord>) => {
  if (firings.length === 0) return
  const rows = await query(
    `SELECT s.endpoint, s.name, s.id, s.version FROM (SELECT DISTINCT * FROM unnest($1::text[], $2::text[])) AS u (endpoint, name)
     JOIN stint.schedules s ON s.endpoint = u.endpoint AND s.name = u.name ORDER BY s.endpoint, s.name FOR UPDATE OF s`,
    [firings.map(({ endpoint }) => endpoint), firings.map(({ name }) => name)]
  )
  for (const row of rows) {
    const [endpoint, name, id, version] = decodeVersion(row)
    versions.set(keyOf({ endpoint, name }), { id, version })
  }
}

/** Whether a firing was decided for the current version of its schedule. */
export const isNext = ({ versions }: ScheduleWork, firing: ScheduleRecord): boolean =>
  follows(firing, versions.get(keyOf(firing)))

/** Stores a firing. */
export const fire = ({ firings, versions }: ScheduleWork, firing: ScheduleRecord): void => {
  versions.set(keyOf(firing), firing)
  firings.push(firing)
}

/** The values of a schedule, in the order of {@link INSERT} and {@link UPDATE}. */
export const valuesOf = (schedule: ScheduleRecord): ReadonlyArray<unknown> => {
  const { checkedAt, dueAt, endpoint, id, name, version } = schedule
  return [endpoint, name, id, version, dueAt, checkedAt, encodeBody(schedule)]
}

/** Stores the first version. Fails when there is a schedule. */
const FIRST =
  `INSERT INTO stint.schedules (endpoint, name, id, version, due_at, checked_at, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`

/** Stores the first version, unless there is a schedule. */
export const INSERT = `${FIRST} ON CONFLICT DO NOTHING RETURNING 1`

/** Replaces the preceding version. */
export const UPDATE = `UPDATE stint.schedules SET version = $4, due_at = $5, checked_at = $6, body = $7
  WHERE endpoint = $1 AND name = $2 AND id = $3 AND version = $4 - 1 RETURNING 1`

/** The statements for the firings of a transaction. */
export const statementsOf = (
  { firings }: ScheduleWork
): ReadonlyArray<readonly [text: string, values: ReadonlyArray<unknown>]> =>
  firings.map((firing) => [firing.version === 1 ? FIRST : UPDATE, valuesOf(firing)])

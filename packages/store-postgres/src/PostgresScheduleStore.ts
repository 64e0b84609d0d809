/**
 * Schedules in PostgreSQL. A firing is a change made by `PostgresJobStore`, in the transaction of its job.
 */
import { EndpointId } from "@stint/contract/Ids"
import { ScheduleName } from "@stint/contract/Schedule"
import { ScheduleRecord, ScheduleStore, SET_BACK_MILLIS } from "@stint/store/ScheduleStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { PostgresDatabase } from "./PostgresDatabase.ts"
import * as ScheduleWork from "./ScheduleWork.ts"

const decodeBody = Schema.decodeUnknownSync(Schema.Tuple([Schema.fromJsonString(ScheduleRecord)]))
const decodeKey = Schema.decodeUnknownSync(Schema.Tuple([EndpointId, ScheduleName]))

/** Two ranges of indexes. With `OR`, a planner that does not know the times reads all schedules. */
const DUE = `SELECT endpoint, name FROM (
    SELECT endpoint, name, due_at FROM stint.schedules WHERE due_at <= $1
    UNION SELECT endpoint, name, due_at FROM stint.schedules WHERE due_at IS NOT NULL AND checked_at > $2
  ) s ORDER BY due_at`

/** The schedules of a database. */
export const layer: Layer.Layer<ScheduleStore, never, PostgresDatabase> = Layer.effect(
  ScheduleStore,
  Effect.gen(function*() {
    const db = yield* PostgresDatabase
    return ScheduleStore.of({
      get: (endpoint, name) =>
        db.read("read schedule", async (query) => {
          const [row] = await query(`SELECT body FROM stint.schedules WHERE endpoint = $1 AND name = $2`, [endpoint, name])
          return row === undefined ? undefined : decodeBody(row)[0]
        }),
      list: (endpoint) =>
        db.read("list schedules", async (query) => {
          const rows = await query(
            `SELECT body FROM stint.schedules WHERE $1::text IS NULL OR endpoint = $1 ORDER BY endpoint, name`,
            [endpoint ?? null]
          )
          return rows.map((row) => decodeBody(row)[0])
        }),
      put: (after) =>
        db.write("put schedule", async (query) => {
          const stored = await query(
            after.version === 1 ? ScheduleWork.INSERT : ScheduleWork.UPDATE,
            ScheduleWork.valuesOf(after)
          )
          return stored.length > 0
        }),
      remove: (endpoint, name) =>
        db.write("remove schedule", async (query) => {
          const removed = await query(`DELETE FROM stint.schedules WHERE endpoint = $1 AND name = $2 RETURNING 1`, [
            endpoint,
            name
          ])
          return removed.length > 0
        }),
      due: (now) =>
        db.read("find due schedules", async (query) => {
          const rows = await query(DUE, [now, now + SET_BACK_MILLIS])
          return rows.map((row) => {
            const [id, name] = decodeKey(row)
            return { endpoint: id, name }
          })
        })
    })
  })
)

/**
 * The depths of endpoints: how many jobs of each wait and run. The autoscaler of an idle platform reads all of them at the same time (`AlignedSleep`), and
 * reads of one turn share a statement.
 */
import type { EndpointId } from "@stint/contract/Ids"
import type { Depth } from "@stint/store/JobStore"
import type { StoreError } from "@stint/store/StoreError"
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import type { PostgresDatabase } from "./PostgresDatabase.ts"
import * as SharedReads from "./SharedReads.ts"
import * as TallyRows from "./TallyRows.ts"

const decodeOldest = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Schema.Int]))

/** How many jobs a step of the search for the oldest one reads. */
const OLDEST_STEP = 100

/**
 * The smallest `queued_at` of the ready jobs without low priority. A job is never queued before it was created, so the scan in order of creation ends
 * early. Only jobs that returned to the queue make it longer.
 */
const oldestQueuedAt = async (query: Query, endpoint: EndpointId): Promise<number | null> => {
  let oldest: number | null = null
  for (let offset = 0;; offset += OLDEST_STEP) {
    const rows = await query(
      `SELECT queued_at, created_at FROM stint.ready WHERE endpoint = $1 AND NOT low_priority
       ORDER BY created_at, seq LIMIT ${OLDEST_STEP} OFFSET $2`,
      [endpoint, offset]
    )
    for (const row of rows) {
      const [queuedAt, createdAt] = decodeOldest(row)
      if (oldest !== null && createdAt >= oldest) return oldest
      oldest = Math.min(oldest ?? queuedAt, queuedAt)
    }
    if (rows.length < OLDEST_STEP) return oldest
  }
}

/** Reads the depth of an endpoint. */
export const make = (db: PostgresDatabase["Service"]): (endpoint: EndpointId) => Effect.Effect<Depth, StoreError> =>
  SharedReads.make((endpoints: ReadonlyArray<EndpointId>) =>
    db.read("depth", async (query) => {
      const ids = [...new Set(endpoints)]
      const countsOf = await TallyRows.readAll(query, "endpoint", ids)
      const depths = new Map(
        await Promise.all(ids.map(async (id): Promise<readonly [EndpointId, Depth]> => {
          const depth = TallyRows.depthOf(countsOf(id))
          return [id, { ...depth, oldestQueuedAt: depth.waiting > depth.waitingLow ? await oldestQueuedAt(query, id) : null }]
        }))
      )
      return endpoints.flatMap((id) => depths.get(id) ?? [])
    })
  )

/**
 * Endpoints in PostgreSQL, and their releases. All endpoints are cached in memory, because each request reads one.
 *
 * Changes by other nodes appear within {@link REFRESH}: each heartbeat reads the version of the list, and the list is read if it is another one. Without
 * recent heartbeats, the list is read that often. An endpoint that is not in the cache is read at once, so that a request right after its
 * creation on another node finds it. Requests for unknown endpoints share a statement ({@link SharedReads}), so that many of them do not load the
 * database.
 *
 * The ids of removed endpoints are stored, and later transactions reject jobs for these endpoints. A removal and the insertion of jobs take the
 * same advisory lock, so no job can be inserted between the check for unfinished jobs and the removal.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { EndpointSchema } from "@stint/contract/HandlerSchema"
import { EndpointStore, type RemoveResult } from "@stint/store/EndpointStore"
import * as OutageLog from "@stint/store/OutageLog"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import * as ErrorGroupWrites from "./ErrorGroupWrites.ts"
import { EMPTY, LISTED_VERSION, type ListRead } from "./Heartbeat.ts"
import { IS_OPEN } from "./PostgresBatches.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"
import * as PostgresReleases from "./PostgresReleases.ts"
import * as SharedReads from "./SharedReads.ts"
import { endpointLock, lockNumber } from "./Transaction.ts"

/** The longest time until a change to an endpoint reaches the other nodes. */
const REFRESH: Duration.Input = "1 second"

/** An endpoint list that was read within this share of the time is not read again. */
const RECENT_SHARE = 0.9

const Body = Schema.fromJsonString(Endpoint)
const decodeRow = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const decodeFound = Schema.decodeUnknownSync(Schema.Tuple([Schema.String, Body]))
const encodeBody = Schema.encodeSync(Body)

const SchemaBody = Schema.fromJsonString(EndpointSchema)
const decodeSchemaRow = Schema.decodeUnknownSync(Schema.Tuple([SchemaBody]))
const encodeSchema = Schema.encodeSync(SchemaBody)

const readEndpoint = async (query: Query, id: string): Promise<Endpoint | undefined> => {
  const [row] = await query(`SELECT body FROM stint.endpoints WHERE id = $1`, [id])
  return row === undefined ? undefined : decodeRow(row)[0]
}

/** All endpoints, each with the version of the list. */
const LIST = `SELECT body, ${LISTED_VERSION} FROM stint.endpoints ORDER BY id`
const decodeListed = Schema.decodeUnknownSync(Schema.Tuple([Body, Schema.String]))
const decodeVersion = Schema.decodeUnknownSync(Schema.String)

const BUSY =
  `SELECT EXISTS (SELECT 1 FROM stint.ready WHERE endpoint = $1) OR EXISTS (SELECT 1 FROM stint.delayed WHERE endpoint = $1)
  OR EXISTS (SELECT 1 FROM stint.running WHERE endpoint = $1)
  OR EXISTS (SELECT 1 FROM stint.batches WHERE endpoint = $1 AND ${IS_OPEN})`

const make = Effect.gen(function*() {
  const db = yield* PostgresDatabase
  const endpoints = new Map<string, Endpoint>()
  /** The list that was read last, and each endpoint by the text of its row. */
  let last: ListRead & { readonly list: ReadonlyArray<Endpoint>; readonly byText: ReadonlyMap<unknown, Endpoint> } = {
    list: [],
    byText: new Map(),
    at: -Infinity,
    version: undefined
  }
  /** Incremented with each change by this node: a read that began before must not overwrite it. */
  let changes = 0

  const changed = () => {
    changes += 1
    last = { ...last, version: undefined }
  }
  const known = (endpoint: Endpoint) => {
    changed()
    endpoints.set(endpoint.id, endpoint)
  }

  const find = SharedReads.make((ids: ReadonlyArray<string>) =>
    db.read("read endpoint", async (query) => {
      const unique = [...new Set(ids)]
      const rows = await query(`SELECT id, body FROM stint.endpoints WHERE id = ANY($1::text[])`, [unique])
      const found = new Map(rows.map((row) => decodeFound(row)))
      return ids.map((id) => Option.fromUndefinedOr(found.get(id)))
    })
  )

  /** Reads all endpoints. Returns the objects of the last read where nothing has changed, and the same array if all of them are the same. */
  const list = Effect.suspend(() => {
    const before = changes
    const at = db.heartbeat.time()
    return Effect.map(db.read("list endpoints", (query) => query(LIST)), (rows) => {
      const { byText, list } = last
      const all = rows.map((row) => byText.get(row[0]) ?? decodeListed(row)[0])
      const isSame = all.length === list.length && all.every((endpoint, index) => endpoint === list[index])
      const version = changes === before ? decodeVersion(rows[0]?.[1] ?? EMPTY) : undefined
      last = isSame
        ? { list, byText, at, version }
        : { list: all, byText: new Map(all.map((endpoint, index) => [rows[index]?.[0], endpoint])), at, version }
      if (changes === before) {
        endpoints.clear()
        for (const endpoint of all) endpoints.set(endpoint.id, endpoint)
      }
      return last.list
    })
  })
  const isCurrent = () => db.heartbeat.isCurrent("endpoints", last)
  const recentList = Effect.suspend(() => isCurrent() ? Effect.succeed(last.list) : list)
  const refresh = Effect.suspend(() => {
    // The autoscaler lists the endpoints as often.
    const wasRead = !db.heartbeat.isRecent() && db.heartbeat.time() - last.at < Duration.toMillis(REFRESH) * RECENT_SHARE
    return isCurrent() || wasRead ? Effect.void : Effect.asVoid(list)
  })
  yield* list
  const outage = OutageLog.make({
    onFailure: (problem) =>
      Effect.logWarning(
        `The endpoints cannot be refreshed: ${problem}. The node continues with the settings that it read last.`
      )
  })
  yield* Effect.forkScoped(
    Effect.forever(Effect.andThen(outage.watch(refresh), Effect.timeoutOption(db.heartbeat.next, REFRESH)))
  )

  const write = async (query: Query, endpoint: Endpoint) => {
    await Promise.all([
      query(`INSERT INTO stint.endpoints (id, body) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET body = excluded.body`, [
        endpoint.id,
        encodeBody(endpoint)
      ]),
      query(`DELETE FROM stint.removed_endpoints WHERE id = $1`, [endpoint.id])
    ])
  }

  const lock = (query: Query, id: string) => query(`SELECT pg_advisory_xact_lock($1)`, [String(lockNumber(endpointLock(id)))])

  const releases = PostgresReleases.make(db, { read: readEndpoint, write, lock, written: known })

  const service = EndpointStore.of({
    get: (id) =>
      Effect.suspend((): Effect.Effect<Endpoint | undefined, StoreError> => {
        const cached = endpoints.get(id)
        if (cached !== undefined) return Effect.succeed(cached)
        const before = changes
        return Effect.map(find(id), (found) => {
          const endpoint = Option.getOrUndefined(found)
          if (endpoint !== undefined && changes === before) endpoints.set(id, endpoint)
          return endpoints.get(id) ?? endpoint
        })
      }),
    list,
    recentList,
    create: (endpoint) =>
      db.write("create endpoint", async (query) => {
        await lock(query, endpoint.id)
        if ((await readEndpoint(query, endpoint.id)) !== undefined) return false
        await write(query, endpoint)
        return true
      }).pipe(
        Effect.tap((created) => Effect.sync(() => created && known(endpoint))),
        Effect.uninterruptible
      ),
    put: (endpoint) =>
      db.write("put endpoint", async (query) => {
        await lock(query, endpoint.id)
        await write(query, endpoint)
      }).pipe(
        Effect.tap(() => Effect.sync(() => known(endpoint))),
        Effect.uninterruptible
      ),
    remove: (id) =>
      db.write("remove endpoint", async (query): Promise<RemoveResult> => {
        await lock(query, id)
        if ((await readEndpoint(query, id)) === undefined) return "missing"
        if ((await query(BUSY, [id]))[0]?.[0] === true) return "busy"
        await Promise.all([
          query(`DELETE FROM stint.endpoints WHERE id = $1`, [id]),
          releases.removeAll(query, id),
          query(`DELETE FROM stint.handler_schemas WHERE endpoint = $1`, [id]),
          ErrorGroupWrites.removeAll(query, id),
          query(`INSERT INTO stint.removed_endpoints (id) VALUES ($1) ON CONFLICT DO NOTHING`, [id])
        ])
        return "removed"
      }).pipe(
        Effect.tap((removal) =>
          Effect.sync(() => {
            if (removal !== "removed") return
            changed()
            endpoints.delete(id)
          })
        ),
        Effect.uninterruptible
      ),
    schema: (id) =>
      db.read("read schema", async (query) => {
        const [row] = await query(`SELECT body FROM stint.handler_schemas WHERE endpoint = $1`, [id])
        return row === undefined ? undefined : decodeSchemaRow(row)[0]
      }),
    putSchema: (id, schema) =>
      db.write("put schema", async (query) => {
        // A removal takes the same lock, so that no schema remains.
        await lock(query, id)
        await query(
          `INSERT INTO stint.handler_schemas (endpoint, body) SELECT id, $2 FROM stint.endpoints WHERE id = $1
           ON CONFLICT (endpoint) DO UPDATE SET body = excluded.body`,
          [id, encodeSchema(schema)]
        )
      })
  })
  return Context.make(EndpointStore, service).pipe(Context.add(ReleaseStore, releases.service))
})

/** The stores of endpoints and releases of a database. */
export const layer: Layer.Layer<EndpointStore | ReleaseStore, StoreError, PostgresDatabase> = Layer.effectContext(make)

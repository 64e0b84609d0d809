/**
 * Endpoints in SQLite, and their releases. All endpoints are cached in memory, because each request reads one.
 *
 * The ids of removed endpoints are stored, and later transactions reject jobs for these endpoints. No job can therefore be inserted between
 * the check for unfinished jobs and the removal.
 */
import { Endpoint } from "@stint/contract/Endpoint"
import { EndpointSchema } from "@stint/contract/HandlerSchema"
import { EndpointStore, type RemoveResult } from "@stint/store/EndpointStore"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"
import * as SqliteReleases from "./SqliteReleases.ts"

const Body = Schema.fromJsonString(Endpoint)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)

const SchemaBody = Schema.fromJsonString(EndpointSchema)
const decodeSchemaRow = Schema.decodeUnknownSync(Schema.Struct({ body: SchemaBody }))
const encodeSchema = Schema.encodeSync(SchemaBody)

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const {
    body,
    endpoints,
    forgetRemovedErrors,
    hasBatch,
    isBusy,
    isKept,
    put,
    markRemoved,
    remove,
    putSchema,
    removeErrors,
    removeSchema,
    schema,
    unmarkRemoved
  } = yield* db.read("open", () => ({
    endpoints: new Map<string, Endpoint>(
      db.statement(`SELECT body FROM endpoints`).all().map((row) => {
        const endpoint = decodeRow(row).body
        return [endpoint.id, endpoint]
      })
    ),
    body: db.statement(`SELECT body FROM endpoints WHERE id = ?`),
    put: db.statement(`INSERT OR REPLACE INTO endpoints (id, body) VALUES (?, ?)`),
    remove: db.statement(`DELETE FROM endpoints WHERE id = ?`),
    removeErrors: db.statement(`DELETE FROM error_groups WHERE endpoint = ?`),
    schema: db.statement(`SELECT body FROM handler_schemas WHERE endpoint = ?`),
    putSchema: db.statement(`INSERT OR REPLACE INTO handler_schemas (endpoint, body) SELECT id, ? FROM endpoints WHERE id = ?`),
    removeSchema: db.statement(`DELETE FROM handler_schemas WHERE endpoint = ?`),
    forgetRemovedErrors: db.statement(`DELETE FROM removed_error_groups WHERE endpoint = ?`),
    isKept: db.statement(`SELECT 1 FROM endpoints WHERE id = ?`),
    isBusy: db.statement(
      `SELECT 1 FROM jobs INDEXED BY jobs_listed WHERE endpoint = ? AND status IN ('IN_QUEUE', 'IN_PROGRESS') LIMIT 1`
    ),
    hasBatch: db.statement(
      `SELECT 1 FROM batches INDEXED BY batches_open WHERE endpoint = ? AND ended_at IS NULL AND status <> 'DRAFT' LIMIT 1`
    ),
    markRemoved: db.statement(`INSERT OR IGNORE INTO removed_endpoints (id) VALUES (?)`),
    unmarkRemoved: db.statement(`DELETE FROM removed_endpoints WHERE id = ?`)
  }))

  /** All endpoints, by id. The same array until one changes, because the autoscaler compares it by identity, four times a second. */
  let sorted: ReadonlyArray<Endpoint> | undefined
  const changed = () => {
    sorted = undefined
  }

  const write = (endpoint: Endpoint) => {
    put.run(endpoint.id, encodeBody(endpoint))
    unmarkRemoved.run(endpoint.id)
  }

  const releases = yield* db.read("open releases", () =>
    SqliteReleases.make(db, {
      read: (id) => {
        const row = body.get(id)
        return row === undefined ? undefined : decodeRow(row).body
      },
      write,
      written: (endpoint) => {
        endpoints.set(endpoint.id, endpoint)
        changed()
      }
    }))

  const service = EndpointStore.of({
    get: (id) => Effect.sync(() => endpoints.get(id)),
    list: Effect.sync(() => sorted ??= [...endpoints.values()].sort((a, b) => (a.id < b.id ? -1 : 1))),
    create: (endpoint) =>
      db.write("create endpoint", () => {
        if (isKept.get(endpoint.id) !== undefined) return false
        write(endpoint)
        return true
      }).pipe(
        Effect.tap((created) =>
          Effect.sync(() => {
            if (!created) return
            endpoints.set(endpoint.id, endpoint)
            changed()
          })
        ),
        Effect.uninterruptible
      ),
    put: (endpoint) =>
      db.write("put endpoint", () => write(endpoint)).pipe(
        Effect.tap(() =>
          Effect.sync(() => {
            endpoints.set(endpoint.id, endpoint)
            changed()
          })
        ),
        Effect.uninterruptible
      ),
    remove: (id) =>
      db.write("remove endpoint", (): RemoveResult => {
        if (isKept.get(id) === undefined) return "missing"
        if (isBusy.get(id) !== undefined || hasBatch.get(id) !== undefined) return "busy"
        remove.run(id)
        releases.removeAll(id)
        removeSchema.run(id)
        removeErrors.run(id)
        forgetRemovedErrors.run(id)
        markRemoved.run(id)
        return "removed"
      }).pipe(
        Effect.tap((removal) =>
          Effect.sync(() => {
            if (removal === "removed" && endpoints.delete(id)) changed()
          })
        ),
        Effect.uninterruptible
      ),
    schema: (id) =>
      db.read("read schema", () => {
        const row = schema.get(id)
        return row === undefined ? undefined : decodeSchemaRow(row).body
      }),
    putSchema: (id, reported) => db.write("put schema", () => void putSchema.run(encodeSchema(reported), id))
  })
  return Context.make(EndpointStore, service).pipe(Context.add(ReleaseStore, releases.service))
})

/** The stores of endpoints and releases of a database file. */
export const layer: Layer.Layer<EndpointStore | ReleaseStore, StoreError, SqliteDatabase> = Layer.effectContext(make)

/**
 * Releases in PostgreSQL, one row each. They are read when an endpoint is deployed or its workers change, so they are not cached.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import { Release } from "@stint/contract/Release"
import * as ReleaseMachine from "@stint/store/ReleaseMachine"
import { baseOf, type DeployResult, type ReleaseStore } from "@stint/store/ReleaseStore"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import type { PostgresDatabase } from "./PostgresDatabase.ts"

const Body = Schema.fromJsonString(Release)
const decodeRow = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const encodeBody = Schema.encodeSync(Body)
const decodeCode = Schema.decodeUnknownSync(Schema.String)

/** The endpoints of the same database. */
export interface EndpointRows {
  readonly read: (query: Query, id: string) => Promise<Endpoint | undefined>
  readonly write: (query: Query, endpoint: Endpoint) => Promise<void>
  /** Locks the endpoint against changes by other transactions. */
  readonly lock: (query: Query, id: string) => Promise<unknown>
  /** Called after the commit. */
  readonly written: (endpoint: Endpoint) => void
}

/** The releases of a database. */
export interface Releases {
  readonly service: ReleaseStore["Service"]
  /** Removes the releases of an endpoint, inside a transaction. */
  readonly removeAll: (query: Query, id: EndpointId) => Promise<unknown>
}

/** The releases of an endpoint by number. A change reads the few that it needs from memory. */
const readAll = async (query: Query, id: EndpointId): Promise<ReadonlyMap<number, Release>> => {
  const rows = await query(`SELECT body FROM stint.releases WHERE endpoint = $1`, [id])
  return new Map(rows.map((row) => {
    const [release] = decodeRow(row)
    return [release.number, release]
  }))
}

/** Creates the release store. */
export const make = (db: PostgresDatabase["Service"], endpoints: EndpointRows): Releases => {
  const write = async (query: Query, { endpoint, releases }: ReleaseMachine.ReleaseChange) => {
    await endpoints.write(query, endpoint)
    for (const release of releases) {
      await query(
        `INSERT INTO stint.releases (endpoint, number, code, body) VALUES ($1, $2, $3, $4)
         ON CONFLICT (endpoint, number) DO UPDATE SET code = excluded.code, body = excluded.body`,
        [release.endpoint, release.number, release.code?.hash ?? null, encodeBody(release)]
      )
    }
  }

  return {
    removeAll: (query, id) => query(`DELETE FROM stint.releases WHERE endpoint = $1`, [id]),
    service: {
      deploy: (base, deployment) =>
        db.write("deploy", async (query): Promise<DeployResult> => {
          const { id } = deployment.settings
          await endpoints.lock(query, id)
          const before = await endpoints.read(query, id)
          if (baseOf(before) !== base) return { _tag: "Moved", base: baseOf(before) }
          const stored = await readAll(query, id)
          const change = ReleaseMachine.deploy(before, Math.max(0, ...stored.keys()), (number) => stored.get(number), deployment)
          await write(query, change)
          const [{ number: last }] = change.releases
          const obsolete = [...stored.keys()].filter((number) => ReleaseMachine.isObsolete(change.endpoint, last, number))
          await query(`DELETE FROM stint.releases WHERE endpoint = $1 AND number = ANY($2::int[])`, [id, obsolete])
          return { _tag: "Deployed", release: change.releases[0], endpoint: change.endpoint }
        }).pipe(
          Effect.tap((result) => Effect.sync(() => result._tag === "Deployed" && endpoints.written(result.endpoint))),
          Effect.uninterruptible
        ),
      settle: (id, number, outcome) =>
        db.write("settle release", async (query) => {
          await endpoints.lock(query, id)
          const stored = await readAll(query, id)
          const before = await endpoints.read(query, id)
          const change = ReleaseMachine.settle(before, number, (one) => stored.get(one), outcome)
          if (change === undefined) return undefined
          await write(query, change)
          return change.endpoint
        }).pipe(
          Effect.tap((endpoint) => Effect.sync(() => endpoint !== undefined && endpoints.written(endpoint))),
          Effect.uninterruptible
        ),
      get: (id, number) =>
        db.read("read release", async (query) => {
          const [row] = await query(`SELECT body FROM stint.releases WHERE endpoint = $1 AND number = $2::bigint`, [
            id,
            number
          ])
          return row === undefined ? undefined : decodeRow(row)[0]
        }),
      list: (id, { before = 2 ** 31 - 1, limit }) =>
        db.read("list releases", async (query) => {
          const rows = await query(
            `SELECT body FROM stint.releases WHERE endpoint = $1 AND number < $2::bigint ORDER BY number DESC LIMIT $3`,
            [id, before, limit]
          )
          return rows.map((row) => decodeRow(row)[0])
        }),
      codes: db.read("list release code", async (query) => {
        const rows = await query(`SELECT code FROM stint.releases WHERE code IS NOT NULL`)
        return new Set(rows.map(([code]) => decodeCode(code)))
      })
    }
  }
}

/**
 * Releases in SQLite, one row each. They are read when an endpoint is deployed or its workers change, so they are not cached.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import type { EndpointId } from "@stint/contract/Ids"
import { Release } from "@stint/contract/Release"
import * as ReleaseMachine from "@stint/store/ReleaseMachine"
import { baseOf, type DeployResult, type ReleaseStore } from "@stint/store/ReleaseStore"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(Release)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)
const decodeLatest = Schema.decodeUnknownSync(Schema.Struct({ latest: Schema.NullOr(Schema.Int) }))
const decodeCode = Schema.decodeUnknownSync(Schema.Struct({ code: Schema.String }))
const decodeNumber = Schema.decodeUnknownSync(Schema.Struct({ number: Schema.Int }))

/** The endpoints of the same database. */
export interface EndpointRows {
  /** The stored endpoint, inside a transaction. */
  readonly read: (id: EndpointId) => Endpoint | undefined
  /** Writes an endpoint inside a transaction. */
  readonly write: (endpoint: Endpoint) => void
  /** Called after the commit. */
  readonly written: (endpoint: Endpoint) => void
}

/** The releases of a database. */
export interface Releases {
  readonly service: ReleaseStore["Service"]
  /** Removes the releases of an endpoint, inside a transaction. */
  readonly removeAll: (id: EndpointId) => void
}

/** Prepares the statements. Throws when the database fails. */
export const make = (db: SqliteDatabase["Service"], endpoints: EndpointRows): Releases => {
  const get = db.statement(`SELECT body FROM releases WHERE endpoint = ? AND number = ?`)
  const latest = db.statement(`SELECT max(number) AS latest FROM releases WHERE endpoint = ?`)
  const list = db.statement(`SELECT body FROM releases WHERE endpoint = ? AND number < ? ORDER BY number DESC LIMIT ? + 0`)
  const numbers = db.statement(`SELECT number FROM releases WHERE endpoint = ?`)
  const codes = db.statement(`SELECT code FROM releases WHERE code IS NOT NULL`)
  const put = db.statement(`INSERT OR REPLACE INTO releases (endpoint, number, code, body) VALUES (?, ?, ?, ?)`)
  const remove = db.statement(`DELETE FROM releases WHERE endpoint = ? AND number = ?`)
  const removeAll = db.statement(`DELETE FROM releases WHERE endpoint = ?`)

  const read = (id: EndpointId) => (number: number): Release | undefined => {
    const row = get.get(id, number)
    return row === undefined ? undefined : decodeRow(row).body
  }
  const latestOf = (id: EndpointId) => decodeLatest(latest.get(id)).latest ?? 0
  const write = ({ endpoint, releases }: ReleaseMachine.ReleaseChange) => {
    endpoints.write(endpoint)
    for (const release of releases) put.run(release.endpoint, release.number, release.code?.hash ?? null, encodeBody(release))
  }

  return {
    removeAll: (id) => void removeAll.run(id),
    service: {
      deploy: (base, deployment) =>
        db.write("deploy", (): DeployResult => {
          const { id } = deployment.settings
          const before = endpoints.read(id)
          if (baseOf(before) !== base) return { _tag: "Moved", base: baseOf(before) }
          const change = ReleaseMachine.deploy(before, latestOf(id), read(id), deployment)
          write(change)
          const [{ number: last }] = change.releases
          for (const row of numbers.all(id)) {
            const { number } = decodeNumber(row)
            if (ReleaseMachine.isObsolete(change.endpoint, last, number)) remove.run(id, number)
          }
          return { _tag: "Deployed", release: change.releases[0], endpoint: change.endpoint }
        }).pipe(
          Effect.tap((result) => Effect.sync(() => result._tag === "Deployed" && endpoints.written(result.endpoint))),
          Effect.uninterruptible
        ),
      settle: (id, number, outcome) =>
        db.write("settle release", () => {
          const change = ReleaseMachine.settle(endpoints.read(id), number, read(id), outcome)
          if (change === undefined) return undefined
          write(change)
          return change.endpoint
        }).pipe(
          Effect.tap((endpoint) => Effect.sync(() => endpoint !== undefined && endpoints.written(endpoint))),
          Effect.uninterruptible
        ),
      get: (id, number) => db.read("read release", () => read(id)(number)),
      list: (id, { before = Number.MAX_SAFE_INTEGER, limit }) =>
        db.read("list releases", () => list.all(id, before, limit).map((row) => decodeRow(row).body)),
      codes: db.read("list release code", () => new Set(codes.all().map((row) => decodeCode(row).code)))
    }
  }
}

/**
 * Webhook signing secrets in SQLite.
 */
import { EndpointId } from "@stint/contract/Ids"
import type { StoreError } from "@stint/store/StoreError"
import { WebhookSecret, WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(WebhookSecret)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const decodeEndpoint = Schema.decodeUnknownSync(Schema.Struct({ endpoint: EndpointId }))
const encodeBody = Schema.encodeSync(Body)

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const { all, get, put, remove } = yield* db.read("open webhook secrets", () => ({
    all: db.statement(`SELECT endpoint FROM webhook_secrets ORDER BY endpoint`),
    remove: db.statement(`DELETE FROM webhook_secrets WHERE endpoint = ?`),
    get: db.statement(`SELECT body FROM webhook_secrets WHERE endpoint = ?`),
    put: db.statement(`INSERT OR REPLACE INTO webhook_secrets (endpoint, body) VALUES (?, ?)`)
  }))
  const find = (endpoint: string): WebhookSecret | undefined => {
    const row = get.get(endpoint)
    return row === undefined ? undefined : decodeRow(row).body
  }

  return WebhookSecretStore.of({
    get: (endpoint) => db.read("get webhook secret", () => find(endpoint)),
    update: (endpoint, change) =>
      db.write("change webhook secret", () => {
        const changed = change(find(endpoint))
        put.run(endpoint, encodeBody(changed))
        return changed
      }),
    endpoints: db.read("list webhook secrets", () => all.all().map((row) => decodeEndpoint(row).endpoint)),
    remove: (endpoint) => db.write("remove webhook secret", () => void remove.run(endpoint))
  })
})

/** The secrets of a database file. */
export const layer: Layer.Layer<WebhookSecretStore, StoreError, SqliteDatabase> = Layer.effect(WebhookSecretStore, make)

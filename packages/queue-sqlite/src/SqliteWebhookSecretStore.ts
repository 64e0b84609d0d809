/**
 * What webhooks are signed with, in the same file as their endpoints.
 */
import type { QueueError } from "@stint/queue/QueueError"
import { WebhookSecret, WebhookSecretStore } from "@stint/queue/WebhookSecretStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(WebhookSecret)
const decodeRow = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBody = Schema.encodeSync(Body)

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const { get, put } = yield* db.read("open webhook secrets", () => ({
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
      })
  })
})

/** The secrets of a database file. */
export const layer: Layer.Layer<WebhookSecretStore, QueueError, SqliteDatabase> = Layer.effect(WebhookSecretStore, make)

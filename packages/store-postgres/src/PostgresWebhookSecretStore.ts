/**
 * Webhook signing secrets in PostgreSQL.
 */
import { EndpointId } from "@stint/contract/Ids"
import { WebhookSecret, WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"
import { lockNumber } from "./Transaction.ts"

const Body = Schema.fromJsonString(WebhookSecret)
const decodeRow = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const decodeEndpoint = Schema.decodeUnknownSync(Schema.Tuple([EndpointId]))
const encodeBody = Schema.encodeSync(Body)

const find = async (query: Query, endpoint: EndpointId): Promise<WebhookSecret | undefined> => {
  const [row] = await query(`SELECT body FROM stint.webhook_secrets WHERE endpoint = $1`, [endpoint])
  return row === undefined ? undefined : decodeRow(row)[0]
}

const make = Effect.map(PostgresDatabase, (db) =>
  WebhookSecretStore.of({
    get: (endpoint) => db.read("get webhook secret", (query) => find(query, endpoint)),
    update: (endpoint, change) =>
      db.write("change webhook secret", async (query) => {
        // A lock, because without a row two nodes could create two secrets.
        await query(`SELECT pg_advisory_xact_lock($1)`, [String(lockNumber(`webhook secret\n${endpoint}`))])
        const changed = change(await find(query, endpoint))
        await query(
          `INSERT INTO stint.webhook_secrets (endpoint, body) VALUES ($1, $2) ON CONFLICT (endpoint) DO UPDATE SET body = excluded.body`,
          [endpoint, encodeBody(changed)]
        )
        return changed
      }),
    endpoints: db.read(
      "list webhook secrets",
      async (query) =>
        (await query(`SELECT endpoint FROM stint.webhook_secrets ORDER BY endpoint`)).map((row) => decodeEndpoint(row)[0])
    ),
    remove: (endpoint) =>
      Effect.asVoid(
        db.write("remove webhook secret", (query) => query(`DELETE FROM stint.webhook_secrets WHERE endpoint = $1`, [endpoint]))
      )
  }))

/** The secrets of a database. */
export const layer: Layer.Layer<WebhookSecretStore, never, PostgresDatabase> = Layer.effect(WebhookSecretStore, make)

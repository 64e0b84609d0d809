/**
 * Settings of all nodes in PostgreSQL, in the table that also has the version of the tables.
 */
import { SharedSettings } from "@stint/store/SharedSettings"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"

const decodeRow = Schema.decodeUnknownSync(Schema.Tuple([Schema.String]))

/** Keeps the names apart from those of the store itself. */
const keyOf = (name: string): string => `shared.${name}`

const read = async (query: Query, name: string): Promise<string | undefined> => {
  const [row] = await query(`SELECT value FROM stint.settings WHERE key = $1`, [keyOf(name)])
  return row === undefined ? undefined : decodeRow(row)[0]
}

/** Replaces a setting. */
export const put = async (query: Query, name: string, value: string): Promise<void> => {
  await query(`INSERT INTO stint.settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, [
    keyOf(name),
    value
  ])
}

const make = Effect.gen(function*() {
  const db = yield* PostgresDatabase
  return SharedSettings.of({
    get: (name) => db.read("read setting", (query) => read(query, name)),
    settle: (name, value) =>
      db.write("settle setting", async (query) => {
        // Waits for another node that inserts the same setting.
        await query(`INSERT INTO stint.settings (key, value) VALUES ($1, $2) ON CONFLICT DO NOTHING`, [keyOf(name), value])
        return (await read(query, name)) ?? value
      })
  })
})

/** The shared settings of a database. */
export const layer: Layer.Layer<SharedSettings, never, PostgresDatabase> = Layer.effect(SharedSettings, make)

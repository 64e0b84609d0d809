/** Error groups in PostgreSQL, as they are read and resolved. The transactions of jobs write them (ErrorGroupWrites.ts). */
import { withResolution } from "@stint/store/ErrorGroupMachine"
import { type ErrorGroupRecord, ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import * as Schema from "effect/Schema"
import type { Query } from "./Connection.ts"
import { decodeBody, encodeBody, lockGroups } from "./ErrorGroupWrites.ts"
import { escapeNul } from "./NulText.ts"
import type { PostgresDatabase } from "./PostgresDatabase.ts"

const decodeCount = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int]))

const readGroup = async (query: Query, endpoint: string, fingerprint: string): Promise<ErrorGroupRecord | undefined> => {
  const [row] = await query(`SELECT body FROM stint.error_groups WHERE endpoint = $1 AND fingerprint = $2`, [
    endpoint,
    escapeNul(fingerprint)
  ])
  return row === undefined ? undefined : decodeBody(row)[0]
}

/** The error groups of a database. */
export const make = (db: PostgresDatabase["Service"]): ErrorGroupStore["Service"] =>
  ErrorGroupStore.of({
    list: (endpoint, since) =>
      db.read("list error groups", async (query) => {
        const [rows, [removed]] = await Promise.all([
          query(
            `SELECT body FROM stint.error_groups WHERE endpoint = $1 AND last_seen >= $2 ORDER BY last_seen DESC, fingerprint`,
            [endpoint, since]
          ),
          query(`SELECT groups FROM stint.removed_error_groups WHERE endpoint = $1`, [endpoint])
        ])
        return { groups: rows.map((row) => decodeBody(row)[0]), removed: removed === undefined ? 0 : decodeCount(removed)[0] }
      }),
    get: (endpoint, fingerprint) => db.read("read error group", (query) => readGroup(query, endpoint, fingerprint)),
    resolve: (endpoint, fingerprint, resolution) =>
      db.write("resolve error group", async (query) => {
        await lockGroups(query, [endpoint])
        const known = await readGroup(query, endpoint, fingerprint)
        if (known === undefined) return undefined
        const changed = withResolution(known, resolution)
        await query(`UPDATE stint.error_groups SET body = $3 WHERE endpoint = $1 AND fingerprint = $2`, [
          endpoint,
          fingerprint,
          encodeBody(changed)
        ])
        return changed
      })
  })

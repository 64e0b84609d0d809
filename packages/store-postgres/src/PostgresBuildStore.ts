/**
 * Builds in PostgreSQL. A row of a log contains the lines that were appended together. The lock of an endpoint's builds keeps their numbers unique
 * and the lines of their logs in order, even if several nodes write.
 */
import { Build, BuildSettings, hasEnded } from "@stint/contract/Build"
import type { EndpointId } from "@stint/contract/Ids"
import { BuildStore, isObsolete, newBuild } from "@stint/store/BuildStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Query, Row } from "./Connection.ts"
import { escapeNul, unescapeNul } from "./NulText.ts"
import { PostgresDatabase } from "./PostgresDatabase.ts"
import { lockNumber } from "./Transaction.ts"

const Body = Schema.fromJsonString(Build)
const decodeBody = Schema.decodeUnknownSync(Schema.Tuple([Body]))
const encodeBody = Schema.encodeSync(Body)
const Settings = Schema.fromJsonString(BuildSettings)
const decodeSettings = Schema.decodeUnknownSync(Schema.Tuple([Settings]))
const encodeSettings = Schema.encodeSync(Settings)
const Lines = Schema.fromJsonString(Schema.Array(Schema.Struct({ time: Schema.Int, text: Schema.String })))
const decodePiece = Schema.decodeUnknownSync(Schema.Tuple([Schema.Int, Lines]))
const encodeLines = Schema.encodeSync(Lines)

const toBuild = (row: Row): Build => decodeBody(row)[0]

const toPiece = ([last, body]: Row) => decodePiece([last, unescapeNul(String(body))])

const readSettings = async (query: Query, endpoint: EndpointId): Promise<BuildSettings | undefined> => {
  const [row] = await query(`SELECT body FROM stint.build_settings WHERE endpoint = $1`, [endpoint])
  return row === undefined ? undefined : decodeSettings(row)[0]
}

const readBuild = async (query: Query, endpoint: EndpointId, number: number): Promise<Build | undefined> => {
  const [row] = await query(`SELECT body FROM stint.builds WHERE endpoint = $1 AND number = $2::bigint`, [endpoint, number])
  return row === undefined ? undefined : toBuild(row)
}

const writeBuild = (query: Query, build: Build) =>
  query(
    `INSERT INTO stint.builds (endpoint, number, state, body) VALUES ($1, $2, $3, $4)
     ON CONFLICT (endpoint, number) DO UPDATE SET state = excluded.state, body = excluded.body`,
    [build.endpoint, build.number, build.state, encodeBody(build)]
  )

const lockBuilds = (query: Query, endpoint: EndpointId) =>
  query(`SELECT pg_advisory_xact_lock($1)`, [String(lockNumber(`builds\n${endpoint}`))])

const make = Effect.gen(function*() {
  const db = yield* PostgresDatabase
  return BuildStore.of({
    settings: (endpoint) => db.read("read build settings", (query) => readSettings(query, endpoint)),
    saveSettings: (endpoint, settings) =>
      db.write("save build settings", async (query) => {
        await query(
          `INSERT INTO stint.build_settings (endpoint, body) VALUES ($1, $2) ON CONFLICT (endpoint) DO UPDATE SET body = excluded.body`,
          [endpoint, encodeSettings(settings)]
        )
      }),
    create: (request) =>
      db.write("create build", async (query) => {
        const { endpoint } = request
        await lockBuilds(query, endpoint)
        const settings = await readSettings(query, endpoint)
        if (settings === undefined) return undefined
        const rows = await query(`SELECT body FROM stint.builds WHERE endpoint = $1 ORDER BY number`, [endpoint])
        const builds = rows.map(toBuild)
        const build = newBuild((builds.at(-1)?.number ?? 0) + 1, settings, request)
        await writeBuild(query, build)
        const obsolete = builds.filter((one) => isObsolete(build.number, one)).map(({ number }) => number)
        await query(`DELETE FROM stint.builds WHERE endpoint = $1 AND number = ANY($2::int[])`, [endpoint, obsolete])
        await query(`DELETE FROM stint.build_logs WHERE endpoint = $1 AND build = ANY($2::int[])`, [endpoint, obsolete])
        return build
      }),
    update: (build) =>
      db.write("update build", async (query) => {
        await lockBuilds(query, build.endpoint)
        const stored = await readBuild(query, build.endpoint, build.number)
        if (stored === undefined || hasEnded(stored)) return false
        await writeBuild(query, build)
        return true
      }),
    get: (endpoint, number) => db.read("read build", (query) => readBuild(query, endpoint, number)),
    list: (endpoint, { before, limit }) =>
      db.read("list builds", async (query) => {
        const rows = await query(
          `SELECT body FROM stint.builds WHERE endpoint = $1 AND ($2::bigint IS NULL OR number < $2) ORDER BY number DESC LIMIT $3`,
          [endpoint, before ?? null, limit]
        )
        return rows.map(toBuild)
      }),
    hasSucceeded: (endpoint) =>
      db.read(
        "find a successful build",
        async (query) =>
          (await query(`SELECT 1 FROM stint.builds WHERE endpoint = $1 AND state = 'succeeded' LIMIT 1`, [endpoint])).length > 0
      ),
    unended: db.read(
      "list builds that have not ended",
      async (query) =>
        (await query(`SELECT body FROM stint.builds WHERE state IN ('queued', 'running') ORDER BY endpoint, number`)).map(toBuild)
    ),
    appendLog: (endpoint, number, lines) =>
      lines.length === 0 ? Effect.void : db.write("append to the log of a build", async (query) => {
        await lockBuilds(query, endpoint)
        await query(
          `INSERT INTO stint.build_logs (endpoint, build, last, body)
           SELECT $1, $2, $3 + coalesce((SELECT max(last) FROM stint.build_logs WHERE endpoint = $1 AND build = $2), 0), $4
           WHERE EXISTS (SELECT 1 FROM stint.builds WHERE endpoint = $1 AND number = $2)`,
          [endpoint, number, lines.length, escapeNul(encodeLines(lines))]
        )
      }),
    readLog: (endpoint, number, after, limit) =>
      // Each row has at least one line, so `limit` rows contain at least `limit` lines.
      db.read("read the log of a build", async (query) => {
        const rows = await query(
          `SELECT last, body FROM stint.build_logs WHERE endpoint = $1 AND build = $2::bigint AND last > $3::bigint ORDER BY last LIMIT $4`,
          [endpoint, number, after, limit]
        )
        return rows.map(toPiece).flatMap(([last, lines]) =>
          lines.map((line, at) => ({ ...line, number: last - lines.length + at + 1 }))
        ).filter((line) => line.number > after).slice(0, limit)
      }),
    removeAll: (endpoint) =>
      db.write("remove builds", async (query) => {
        await lockBuilds(query, endpoint)
        for (const table of ["build_settings", "builds", "build_logs"]) {
          await query(`DELETE FROM stint.${table} WHERE endpoint = $1`, [endpoint])
        }
      })
  })
})

/** The builds of a database. */
export const layer: Layer.Layer<BuildStore, never, PostgresDatabase> = Layer.effect(BuildStore, make)

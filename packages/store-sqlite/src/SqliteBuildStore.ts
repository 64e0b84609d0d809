/**
 * Builds in SQLite. A row of a log contains the lines that were appended together.
 */
import { Build, BuildSettings, hasEnded } from "@stint/contract/Build"
import type { EndpointId } from "@stint/contract/Ids"
import { BuildStore, isObsolete, newBuild } from "@stint/store/BuildStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const Body = Schema.fromJsonString(Build)
const decodeBuild = Schema.decodeUnknownSync(Schema.Struct({ body: Body }))
const encodeBuild = Schema.encodeSync(Body)
const Settings = Schema.fromJsonString(BuildSettings)
const decodeSettings = Schema.decodeUnknownSync(Schema.Struct({ body: Settings }))
const encodeSettings = Schema.encodeSync(Settings)
const Lines = Schema.fromJsonString(Schema.Array(Schema.Struct({ time: Schema.Int, text: Schema.String })))
const decodeLines = Schema.decodeUnknownSync(Schema.Struct({ last: Schema.Int, body: Lines }))
const encodeLines = Schema.encodeSync(Lines)
const decodeLatest = Schema.decodeUnknownSync(Schema.Struct({ latest: Schema.NullOr(Schema.Int) }))

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const sql = yield* db.read("open builds", () => ({
    settings: db.statement(`SELECT body FROM build_settings WHERE endpoint = ?`),
    putSettings: db.statement(`INSERT OR REPLACE INTO build_settings (endpoint, body) VALUES (?, ?)`),
    removeSettings: db.statement(`DELETE FROM build_settings WHERE endpoint = ?`),
    get: db.statement(`SELECT body FROM builds WHERE endpoint = ? AND number = ?`),
    latest: db.statement(`SELECT max(number) AS latest FROM builds WHERE endpoint = ?`),
    put: db.statement(`INSERT OR REPLACE INTO builds (endpoint, number, state, body) VALUES (?, ?, ?, ?)`),
    list: db.statement(`SELECT body FROM builds WHERE endpoint = ? AND number < ? ORDER BY number DESC LIMIT ? + 0`),
    all: db.statement(`SELECT body FROM builds WHERE endpoint = ?`),
    succeeded: db.statement(`SELECT 1 FROM builds WHERE endpoint = ? AND state = 'succeeded' LIMIT 1`),
    unended: db.statement(`SELECT body FROM builds WHERE state IN ('queued', 'running') ORDER BY endpoint, number`),
    remove: db.statement(`DELETE FROM builds WHERE endpoint = ? AND number = ?`),
    removeAll: db.statement(`DELETE FROM builds WHERE endpoint = ?`),
    append: db.statement(`INSERT INTO build_logs (endpoint, build, last, body) VALUES (?, ?, ?, ?)`),
    last: db.statement(`SELECT max(last) AS latest FROM build_logs WHERE endpoint = ? AND build = ?`),
    pieces: db.statement(
      `SELECT last, body FROM build_logs WHERE endpoint = ? AND build = ? AND last > ? ORDER BY last LIMIT ? + 0`
    ),
    removeLog: db.statement(`DELETE FROM build_logs WHERE endpoint = ? AND build = ?`),
    removeLogs: db.statement(`DELETE FROM build_logs WHERE endpoint = ?`)
  }))

  const read = (endpoint: EndpointId, number: number): Build | undefined => {
    const row = sql.get.get(endpoint, number)
    return row === undefined ? undefined : decodeBuild(row).body
  }
  const settingsOf = (endpoint: EndpointId) => {
    const row = sql.settings.get(endpoint)
    return row === undefined ? undefined : decodeSettings(row).body
  }
  const write = (build: Build) => void sql.put.run(build.endpoint, build.number, build.state, encodeBuild(build))

  return BuildStore.of({
    settings: (endpoint) => db.read("read build settings", () => settingsOf(endpoint)),
    saveSettings: (endpoint, settings) =>
      db.write("save build settings", () => void sql.putSettings.run(endpoint, encodeSettings(settings))),
    create: (request) =>
      db.write("create build", () => {
        const settings = settingsOf(request.endpoint)
        if (settings === undefined) return undefined
        const number = (decodeLatest(sql.latest.get(request.endpoint)).latest ?? 0) + 1
        const build = newBuild(number, settings, request)
        write(build)
        for (const row of sql.all.all(request.endpoint)) {
          const old = decodeBuild(row).body
          if (!isObsolete(number, old)) continue
          sql.remove.run(request.endpoint, old.number)
          sql.removeLog.run(request.endpoint, old.number)
        }
        return build
      }),
    update: (build) =>
      db.write("update build", () => {
        const stored = read(build.endpoint, build.number)
        if (stored === undefined || hasEnded(stored)) return false
        write(build)
        return true
      }),
    get: (endpoint, number) => db.read("read build", () => read(endpoint, number)),
    list: (endpoint, { before = Number.MAX_SAFE_INTEGER, limit }) =>
      db.read("list builds", () => sql.list.all(endpoint, before, limit).map((row) => decodeBuild(row).body)),
    hasSucceeded: (endpoint) => db.read("find a successful build", () => sql.succeeded.get(endpoint) !== undefined),
    unended: db.read("list builds that have not ended", () => sql.unended.all().map((row) => decodeBuild(row).body)),
    appendLog: (endpoint, number, lines) =>
      lines.length === 0 ? Effect.void : db.write("append to the log of a build", () => {
        if (read(endpoint, number) === undefined) return
        const last = decodeLatest(sql.last.get(endpoint, number)).latest ?? 0
        sql.append.run(endpoint, number, last + lines.length, encodeLines(lines))
      }),
    readLog: (endpoint, number, after, limit) =>
      // Each row has at least one line, so `limit` rows contain at least `limit` lines.
      db.read("read the log of a build", () =>
        sql.pieces.all(endpoint, number, after, limit).flatMap((row) => {
          const { body, last } = decodeLines(row)
          return body.map((line, at) => ({ ...line, number: last - body.length + at + 1 }))
        }).filter((line) => line.number > after).slice(0, limit)),
    removeAll: (endpoint) =>
      db.write("remove builds", () => {
        sql.removeSettings.run(endpoint)
        sql.removeAll.run(endpoint)
        sql.removeLogs.run(endpoint)
      })
  })
})

/** The builds of a database file. */
export const layer: Layer.Layer<BuildStore, StoreError, SqliteDatabase> = Layer.effect(BuildStore, make)

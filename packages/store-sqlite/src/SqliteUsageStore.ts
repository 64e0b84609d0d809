/**
 * Usage in SQLite.
 */
import type { StoreError } from "@stint/store/StoreError"
import { UsageRecord, UsageStore } from "@stint/store/UsageStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { SqliteDatabase } from "./SqliteDatabase.ts"

const decodeRow = Schema.decodeUnknownSync(UsageRecord)
const decodeCount = Schema.decodeUnknownSync(Schema.Struct({ records: Schema.Int }))

const SUMS = ["attempts", "execution_ms", "worker_ms", "cpu_ms", "gpu_ms"]

const make = Effect.gen(function*() {
  const db = yield* SqliteDatabase
  const sql = yield* db.read("open usage", () => ({
    number: db.statement(
      `INSERT INTO usage_sources (source, sequence, at) VALUES ($source, $sequence, $at)
       ON CONFLICT (source) DO UPDATE SET sequence = $sequence, at = $at WHERE sequence < $sequence`
    ),
    add: db.statement(
      `INSERT INTO usage_hours (hour, endpoint, release, key, ${SUMS.join(", ")}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
       ON CONFLICT (hour, endpoint, release, key) DO UPDATE SET ${
        SUMS.map((sum) => `${sum} = ${sum} + excluded.${sum}`).join(", ")
      }`
    ),
    list: db.statement(
      `SELECT hour, endpoint, release, key, attempts, execution_ms AS executionMs, worker_ms AS workerMs, cpu_ms AS cpuMs, gpu_ms AS gpuMs
       FROM usage_hours
       WHERE hour >= $from AND hour < $to AND (hour, endpoint, release, key) > ($hour, $endpoint, $release, $key)
       ORDER BY hour, endpoint, release, key LIMIT $limit + 0`
    ),
    count: db.statement(`SELECT count(*) AS records FROM usage_hours`),
    forget: db.statement(`DELETE FROM usage_sources WHERE at < ?`),
    trim: db.statement(
      `DELETE FROM usage_hours WHERE (hour, endpoint, release, key) IN (
         SELECT hour, endpoint, release, key FROM usage_hours WHERE hour < ?
         ORDER BY hour, endpoint, release, key LIMIT ? + 0)`
    )
  }))

  return UsageStore.of({
    add: ({ at, records, sequence, source }) =>
      db.write("add usage", () => {
        if (sql.number.run({ source, sequence, at }).changes === 0) return false
        for (const { attempts, cpuMs, endpoint, executionMs, gpuMs, hour, key, release, workerMs } of records) {
          sql.add.run(hour, endpoint, release, key, attempts, executionMs, workerMs, cpuMs, gpuMs)
        }
        return true
      }),
    list: ({ after, from, limit, to }) =>
      db.read("list usage", () => {
        const { endpoint, hour, key, release } = after ?? { hour: Number.MIN_SAFE_INTEGER, endpoint: "", release: 0, key: "" }
        // The first hour is given twice, so that the index finds the start of the page within an hour with many records.
        return sql.list.all({ from: Math.max(from, hour), to, hour, endpoint, release, key, limit }).map((row) => decodeRow(row))
      }),
    trim: ({ before, records }, limit) =>
      db.write("trim usage", () => {
        sql.forget.run(before)
        const removed = Number(sql.trim.run(before, limit).changes)
        const excess = decodeCount(sql.count.get()).records - records
        return excess <= 0
          ? removed
          : removed + Number(sql.trim.run(Number.MAX_SAFE_INTEGER, Math.min(excess, limit - removed)).changes)
      })
  })
})

/** The usage of a database file. */
export const layer: Layer.Layer<UsageStore, StoreError, SqliteDatabase> = Layer.effect(UsageStore, make)

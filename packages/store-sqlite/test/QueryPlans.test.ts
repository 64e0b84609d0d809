import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteEndpointStore from "../src/SqliteEndpointStore.ts"
import * as SqliteJobLogStore from "../src/SqliteJobLogStore.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import * as SqliteWebhookAttemptStore from "../src/SqliteWebhookAttemptStore.ts"
import * as SqliteWebhookStore from "../src/SqliteWebhookStore.ts"

/** Every statement that the stores prepare. */
const statements = Effect.gen(function*() {
  const db = yield* SqliteDatabase.SqliteDatabase
  const texts = new Set<string>()
  const spied = SqliteDatabase.SqliteDatabase.of({
    ...db,
    statement: (sql) => {
      texts.add(sql)
      return db.statement(sql)
    }
  })
  yield* Layer.build(
    Layer.mergeAll(
      SqliteJobStore.layer,
      SqliteEndpointStore.layer,
      SqliteJobLogStore.layer,
      SqliteWebhookAttemptStore.layer,
      SqliteWebhookStore.layer
    )
  ).pipe(
    Effect.provideService(SqliteDatabase.SqliteDatabase, spied)
  )
  return [...texts]
})

/** The tables that grow with the number of ended jobs. */
const LARGE = /\b(jobs|runs|inputs|outcomes|chunks|tags|deliveries|delivery_bodies|batch_requests)\b/

/** A range of all ids: a scan by another name. */
const ALL_IDS = /^SEARCH (jobs|runs) .*\((id|run)>\?\)/

it.live("P5: no statement scans ended jobs, and none sorts rows that an index already orders", () =>
  Effect.gen(function*() {
    const db = yield* SqliteDatabase.SqliteDatabase
    const texts = yield* statements
    assert.isAbove(texts.length, 20)
    const steps = yield* db.read("explain", () =>
      texts.flatMap((sql) =>
        db.statement(`EXPLAIN QUERY PLAN ${sql}`).all().map((row) => ({ sql, detail: String(row["detail"]) }))
      ))
    const suspicious = steps.filter(({ detail }) =>
      detail.includes("TEMP B-TREE") || (detail.startsWith("SCAN") && LARGE.test(detail)) || ALL_IDS.test(detail)
    )
    // Recovery reads all running and all delayed jobs once, using the indexes that contain only these jobs.
    const isRecovery = ({ sql }: (typeof suspicious)[number]) =>
      sql.endsWith("INDEXED BY jobs_running WHERE status = 'IN_PROGRESS' AND worker IS NOT NULL ORDER BY seq") ||
      sql.endsWith("INDEXED BY jobs_delayed WHERE not_before IS NOT NULL AND status = 'IN_QUEUE' ORDER BY seq")
    // A list sorts rows from the same millisecond by id. The index already orders the milliseconds.
    const isListOrder = ({ detail, sql }: (typeof suspicious)[number]) =>
      detail === "USE TEMP B-TREE FOR LAST TERM OF ORDER BY" && sql.endsWith("created_at DESC, id DESC LIMIT ? + 0")
    // An endpoint has as many definitions as its pipeline had versions.
    const isVersions = ({ sql }: (typeof suspicious)[number]) =>
      sql.startsWith("SELECT hash, at FROM definitions WHERE endpoint = ? ORDER BY at")
    // The open runs of an endpoint are sorted by their ids, only when a person asks for them. An index would cost every run a write.
    const isOpenRuns = ({ detail, sql }: (typeof suspicious)[number]) =>
      detail === "USE TEMP B-TREE FOR ORDER BY" &&
      sql.endsWith("AND status IN ('IN_QUEUE', 'IN_PROGRESS') ORDER BY run LIMIT ? + 0")
    assert.deepStrictEqual(
      suspicious.filter((one) =>
        !isRecovery(one) && !isListOrder(one) && !isVersions(one) && !isOpenRuns(one)
      ),
      []
    )
    assert.strictEqual(suspicious.filter(isVersions).length, 1)
    assert.strictEqual(suspicious.filter(isOpenRuns).length, 1)
    assert.strictEqual(suspicious.filter(isRecovery).length, 3)
    assert.strictEqual(suspicious.filter(isListOrder).length, 5)
  }).pipe(Effect.provide(SqliteDatabase.layer({ file: ":memory:" }))))

it.live("re-prepares no statement for a bound LIMIT", () =>
  Effect.gen(function*() {
    const texts = yield* statements
    assert.deepStrictEqual(texts.filter((sql) => /LIMIT \?(?! \+ 0)/.test(sql)), [])
    assert.isAbove(texts.filter((sql) => sql.includes("LIMIT ? + 0")).length, 10)
  }).pipe(Effect.provide(SqliteDatabase.layer({ file: ":memory:" }))))

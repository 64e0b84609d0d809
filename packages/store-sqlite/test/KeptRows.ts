/**
 * The rows of a file that a released version wrote: compared column by column, and read through the stores (fixtures/schemaRows.ts).
 */
import { assert } from "@effect/vitest"
import { KeyId } from "@stint/contract/AccessKey"
import { BatchId } from "@stint/contract/Batch"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { ScheduleName } from "@stint/contract/Schedule"
import { Scenario } from "@stint/store-testing"
import { AuditStore } from "@stint/store/AuditStore"
import { BatchStore } from "@stint/store/BatchStore"
import { BuildStore } from "@stint/store/BuildStore"
import { BulkStore } from "@stint/store/BulkStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { ErrorGroupStore } from "@stint/store/ErrorGroupStore"
import { JobLogStore } from "@stint/store/JobLogStore"
import { JobStore } from "@stint/store/JobStore"
import { KeyStore } from "@stint/store/KeyStore"
import { ReleaseStore } from "@stint/store/ReleaseStore"
import { RunStore } from "@stint/store/RunStore"
import { ScheduleStore } from "@stint/store/ScheduleStore"
import { SecretStore } from "@stint/store/SecretStore"
import { UsageStore } from "@stint/store/UsageStore"
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { DatabaseSync } from "node:sqlite"
import { DEFINITION, ERROR_GROUP, KEY } from "./fixtures/schemaRows.ts"

/** The columns of each table of a file. */
export type Columns = ReadonlyMap<string, ReadonlyArray<string>>

export const columnsOf = (file: string): Columns => {
  using db = new DatabaseSync(file, { readOnly: true })
  const tables = db.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'").all()
  return new Map(tables.map(({ name }) => [
    String(name),
    db.prepare("SELECT name FROM pragma_table_info(?)").all(String(name)).map((column) => String(column["name"]))
  ]))
}

/** The rows of each table, with these columns only, in a comparable form. */
export const rowsOf = (file: string, columns: Columns): ReadonlyMap<string, ReadonlyArray<Readonly<Record<string, unknown>>>> => {
  using db = new DatabaseSync(file, { readOnly: true })
  return new Map(
    [...columns].map(([table, names]) => {
      const list = names.map((name) => `"${name}"`).join(", ")
      return [table, db.prepare(`SELECT ${list} FROM ${table} ORDER BY ${list}`).all().map((row) => ({ ...row }))]
    })
  )
}

const red = EndpointId.make("red")
const blue = EndpointId.make("blue")
const id = (text: string) => JobId.make(text)

/** Reads every row through the stores. `columns`: those of the file before its migration. Changes nothing. */
export const expectKept = Effect.fnUntraced(function*(columns: Columns) {
  const has = (table: string, column: string): boolean => columns.get(table)?.includes(column) === true

  const store = yield* JobStore
  const get = (job: string) => store.get(blue, id(job))
  assert.deepInclude(yield* (yield* EndpointStore).get("blue"), { id: blue, createdAt: 0 })
  assert.deepInclude(yield* store.get(red, id("running")), { progress: toJsonText("half"), chunks: 1, worker: "ann" })
  assert.deepInclude(yield* get("done"), {
    status: "COMPLETED",
    output: toJsonText({ n: 5 }),
    batchId: has("jobs", "batch") ? BatchId.make("batch_1") : null,
    owner: has("jobs", "owner") ? KEY : "",
    release: has("jobs", "release") ? 1 : null
  })
  assert.strictEqual(yield* store.input(red, id("ended")), toJsonText(3))

  if (has("inputs", "traceparent")) {
    const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    assert.deepInclude(yield* store.traceOf(red, id("waiting")), { traceparent, tracestate: "a=b" })
  }
  if (has("keys", "id")) {
    assert.deepInclude(yield* (yield* KeyStore).get(KEY), {
      id: KeyId.make(KEY),
      name: "a team",
      endpoints: [red, blue],
      digest: "a".repeat(64),
      previous: [{ digest: "b".repeat(64), until: 700 }]
    })
  }
  if (has("deliveries", "id")) {
    assert.deepInclude(yield* get("later"), {
      status: "IN_QUEUE",
      notBefore: 40_000,
      priority: 7,
      lastError: "not yet",
      retry: { onError: true, backoff: { initialMs: 100, factor: 2, maxMs: 1_000 } },
      webhook: { url: "https://example.com/hook", events: ["completed"], errorTraceback: "none" },
      isolated: has("jobs", "isolated")
    })
    assert.deepInclude(yield* store.get(red, id("waiting")), { tags: ["blue"] })
    const again = yield* store.insert(Scenario.record({ endpoint: red }), { key: "order 17", owner: "", fingerprint: "f" })
    assert.deepInclude(again, { _tag: "Duplicate" })
    assert.deepStrictEqual(yield* store.insert(Scenario.record({ endpoint: EndpointId.make("gone") })), { _tag: "EndpointGone" })
    const webhooks = yield* WebhookStore
    assert.deepInclude(yield* webhooks.get(blue, "01-delivered"), {
      state: "delivered",
      lastStatus: 204,
      body: toJsonText({ id: "done" }),
      traceparent: has("delivery_bodies", "traceparent") ? "00-trace" : null,
      tracestate: has("delivery_bodies", "traceparent") ? "c=d" : null
    })
    assert.deepInclude(yield* webhooks.get(red, "02-pending"), {
      state: "pending",
      attempts: 2,
      nextAt: 90_000,
      lastError: "HTTP 500"
    })
    assert.deepStrictEqual((yield* webhooks.list({ limit: 10 })).deliveries.map((delivery) => delivery.id), [
      "02-pending",
      "01-delivered"
    ])
  }
  if (has("webhook_secrets", "body")) {
    const secret = yield* (yield* WebhookSecretStore).get(blue)
    assert.deepStrictEqual(
      [secret?.createdAt, secret && Redacted.value(secret.secret), secret?.previous && Redacted.value(secret.previous.secret)],
      [600, "whsec_bmV3", "whsec_b2xk"]
    )
    assert.deepStrictEqual(yield* (yield* WebhookAttemptStore).list("02-pending"), [
      { delivery: "02-pending", at: 3_050, durationMs: 20, status: null, error: "connection refused", final: false },
      { delivery: "02-pending", at: 3_150, durationMs: 30, status: 500, error: "HTTP 500", final: true }
    ])
  }
  if (has("batches", "id")) {
    const batches = yield* BatchStore
    assert.deepInclude(yield* batches.get(blue, "batch_1"), {
      status: "FINALIZED",
      name: "nightly",
      webhook: "https://example.com/batch",
      policy: { ttl: 60_000 },
      total: 2,
      notEnqueued: 1,
      completed: 1,
      owner: has("batches", "owner") ? KEY : ""
    })
    assert.deepStrictEqual((yield* batches.requests(blue, "batch_1", 0, 10))?.ids, [id("done"), id("next")])
    assert.deepInclude(yield* batches.get(red, "batch_2"), { status: "COMPLETED", endedAt: 920 })
  }
  if (has("job_logs", "job")) {
    const { last, lines } = yield* (yield* JobLogStore).read(blue, id("done"), 0, 10)
    assert.deepStrictEqual([last, lines], [3, [
      { number: 2, time: 2_100, level: "INFO", source: "log", attempt: 1, worker: "bob", chunk: 0, message: "began" },
      { number: 3, time: 2_900, level: "ERROR", source: "platform", attempt: 1, worker: null, chunk: 0, message: "ended" }
    ]])
  }
  if (has("releases", "body")) {
    const releases = yield* ReleaseStore
    assert.deepInclude(yield* releases.get(blue, 1), { message: "the first one", state: "superseded", activatedAt: 710 })
    assert.deepStrictEqual(yield* releases.codes, new Set(["c".repeat(64)]))
  }
  if (has("secrets", "body")) {
    const secrets = yield* (yield* SecretStore).list
    assert.deepStrictEqual(secrets.map(({ key, name, sealed }) => [String(name), key, sealed]), [["TOKEN", "k1", "c2VhbGVk"]])
  }
  if (has("builds", "body")) {
    const builds = yield* BuildStore
    const settings = { repository: "https://git.example.com/team/blue.git", ref: "main" }
    assert.deepStrictEqual(yield* builds.settings(blue), settings)
    assert.deepInclude(yield* builds.get(blue, 1), { state: "failed", reason: "no Dockerfile", settings })
    const log = yield* builds.readLog(blue, 1, 0, 10)
    assert.deepStrictEqual(log.map(({ number, text }) => [number, text]), [[1, "clone"], [2, "no Dockerfile"]])
  }
  if (has("concurrency_limits", "max")) {
    assert.deepInclude(yield* get("held"), { status: "IN_QUEUE", concurrency: { key: "acme", limit: 1, held: true } })
    assert.deepInclude(yield* get("slot"), { status: "IN_PROGRESS", concurrency: { key: "acme", limit: 1, held: false } })
    assert.deepInclude(yield* store.keyUsage(blue, id("held"), 10), { running: 1, held: 0 })
  }
  if (has("runs", "run")) {
    const runs = yield* RunStore
    assert.deepInclude((yield* runs.get(blue, id("run")))?.run, {
      definition: DEFINITION,
      phase: "doing",
      undo: true,
      last: 4,
      held: null
    })
    assert.deepInclude((yield* runs.get(blue, id("other-run")))?.run, { undo: false, held: "another definition" })
    const entries = yield* runs.entries(blue, id("run"), 0, 10)
    assert.deepStrictEqual(
      entries.map(({ body, kind, path, until }) => [path, kind, until, body === null ? null : JSON.parse(body)]),
      [
        ["list", "step", null, [1, 2]],
        ["child", "spawn", 50_000, { endpoint: "blue", job: "step-child" }],
        ["nap", "sleep", 45_000, null],
        ["approval", "wait", null, { name: "approved", key: "order 17" }]
      ]
    )
    assert.deepStrictEqual((yield* runs.open(blue, id("run"), 10)).map(({ path }) => path), ["child", "nap", "approval"])
    assert.strictEqual(yield* runs.definition(blue, DEFINITION), toJsonText({ name: "blue", nodes: [] }))
    for (const event of ["e0", "e1"]) {
      const sent = { name: "approved", key: "order 18", body: toJsonText(true), id: event, expiresAt: 90_000 }
      assert.deepInclude(yield* runs.send(blue, sent, 3_000), { isDuplicate: true })
    }
  }
  if (has("audit", "action")) {
    const entries = yield* (yield* AuditStore).list({ limit: 10 })
    assert.deepStrictEqual(entries.map(({ action, id, result }) => [id, action, result]), [
      [2, "endpoints.remove", "refused"],
      [1, "keys.createKey", "done"]
    ])
  }
  if (has("schedules", "body")) {
    assert.deepInclude(yield* (yield* ScheduleStore).get(blue, ScheduleName.make("nightly")), {
      version: 3,
      nextAt: 86_400_000,
      job: id("done"),
      last: { scheduledFor: 0, at: 10, trigger: "time", outcome: "submitted", job: id("done") }
    })
  }
  if (has("bulk", "body")) {
    const operations = yield* BulkStore
    assert.deepInclude(yield* operations.get("b1"), {
      version: 3,
      state: "running",
      done: 1,
      cursor: { createdAt: 1_000, id: "done" }
    })
    assert.deepStrictEqual((yield* operations.unended).map(({ id }) => id), ["b1"])
  }
  if (has("usage_hours", "cpu_ms")) {
    const usage = yield* (yield* UsageStore).list({ from: 0, to: 7_200_000, limit: 10 })
    assert.deepStrictEqual(usage.map(({ attempts, gpuMs, key, workerMs }) => [key, attempts, workerMs, gpuMs]), [
      ["", 0, 10_000, 20_000],
      [KEY, 3, 0, 0]
    ])
  }
  if (has("error_groups", "body")) {
    const errors = yield* ErrorGroupStore
    assert.deepStrictEqual(yield* errors.list("red", 0), { groups: [{ ...ERROR_GROUP, jobs: [id("ended")] }], removed: 2 })
    const { jobs } = yield* (yield* JobStore).list(red, { limit: 10, status: "FAILED" })
    assert.deepStrictEqual(jobs.map(({ errorGroup, id }) => [String(id), errorGroup]), [["ended", ERROR_GROUP.fingerprint]])
  }
})

import { assert, describe, it } from "@effect/vitest"
import { BatchId } from "@stint/contract/Batch"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { Scenario } from "@stint/store-testing"
import { BatchStore } from "@stint/store/BatchStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import { submitted } from "@stint/store/JobMachine"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { createHash } from "node:crypto"
import { existsSync, mkdirSync, statSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { fileURLToPath } from "node:url"
import * as SqliteStores from "../src/index.ts"
import * as MigrationCopy from "../src/MigrationCopy.ts"
import * as Migrations from "../src/Migrations.ts"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteEndpointStore from "../src/SqliteEndpointStore.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import * as TableVersions from "../src/TableVersions.ts"
import { columnsOf, expectKept, rowsOf } from "./KeptRows.ts"
import { FOLDER, schemaOf, SCHEMAS, writeOld } from "./OldFiles.ts"
import { tempFile } from "./TestDatabase.ts"

it.live("finds the job of an idempotency key, and a batch, that an earlier version stored without an owner", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    mkdirSync(dirname(file), { recursive: true })
    const old = new DatabaseSync(file)
    old.exec("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
    Migrations.migrate(old, 0, 9)
    old.exec(`
      PRAGMA application_id = ${SqliteDatabase.APPLICATION_ID};
      INSERT INTO jobs VALUES
        (1, 'known', 'red', 'IN_QUEUE', 0, 1000, 1000, 61000, 30000, 5000, 2, 9000, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 61000,
         0, NULL, 60000, NULL, NULL, NULL, 'order 17', 'same', NULL);
      INSERT INTO inputs (seq, input) VALUES (1, '1');
      INSERT INTO batches VALUES
        (1, 'batch_1', 'red', 'DRAFT', NULL, NULL, NULL, 0, 0, NULL, NULL, 9000, 0, 0, 0, 0, 0, 0, NULL);
    `)
    old.close()
    const stores = SqliteJobStore.layer.pipe(Layer.provide(SqliteDatabase.layer({ file, lockWaitMs: 0 })))
    yield* Effect.gen(function*() {
      const store = yield* JobStore
      const red = EndpointId.make("red")
      const insert = (id: string, owner: string, fingerprint = "same") =>
        store.insert(
          submitted({
            id: JobId.make(id),
            endpoint: red,
            input: toJsonText(1),
            s3Config: null,
            traceparent: null,
            tracestate: null,
            lowPriority: false,
            createdAt: 2_000,
            ttlMs: 60_000,
            executionTimeoutMs: 30_000,
            leaseMs: 5_000,
            maxAttempts: 2,
            retentionMs: 9_000
          }),
          { key: "order 17", owner, fingerprint }
        )
      assert.deepInclude(yield* insert("again", "ann"), { _tag: "Duplicate" })
      assert.deepInclude(yield* insert("other", "bob", "different"), { _tag: "KeyConflict", id: JobId.make("known") })
      assert.deepInclude(yield* (yield* BatchStore).get(red, "batch_1", "ann"), { id: BatchId.make("batch_1"), status: "DRAFT" })
    }).pipe(Effect.provide(stores))
  }))

it.live("R1: migrates a file of the first version with its jobs and endpoints, and accepts new ones", () =>
  Effect.gen(function*() {
    const file = yield* tempFile
    mkdirSync(dirname(file), { recursive: true })
    const old = new DatabaseSync(file)
    old.exec("PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL")
    Migrations.migrate(old, 0, 1)
    old.exec(`
      PRAGMA application_id = ${SqliteDatabase.APPLICATION_ID};
      INSERT INTO jobs VALUES
        (1, 'waiting', 'red', 'IN_QUEUE', 0, 1000, 1000, 61000, 30000, 5000, 2, 9000, 0, 0, NULL, NULL, NULL, NULL, 0, 0, 61000),
        (2, 'running', 'red', 'IN_PROGRESS', 0, 1000, 1000, 61000, 30000, 5000, 2, 9000, 1, 0, 'ann', 2000, 7000, NULL, 1, 0, 7000),
        (3, 'ended', 'red', 'FAILED', 0, 1000, 1000, 61000, 30000, 5000, 2, 9000, 1, 0, 'ann', 2000, NULL, 3000, 0, 0, 12000);
      INSERT INTO inputs VALUES (1, '1', NULL), (2, '2', NULL), (3, '3', '{}');
      INSERT INTO outcomes VALUES (3, NULL, NULL, 'no such city');
      INSERT INTO chunks VALUES (2, 1, 1, '"chunk"');
      INSERT INTO tallies VALUES ('red', 1, 0, 1, 0, 1, 0);
      INSERT INTO endpoints VALUES ('red', '${
      JSON.stringify({ id: "red", source: { type: "external" }, createdAt: 0, maxAttempts: 4 })
    }');
    `)
    old.close()
    const stores = Layer.mergeAll(SqliteJobStore.layer, SqliteEndpointStore.layer).pipe(
      Layer.provide(SqliteDatabase.layer({ file, lockWaitMs: 0 }))
    )
    yield* Effect.gen(function*() {
      const store = yield* JobStore
      const red = EndpointId.make("red")
      assert.deepInclude(yield* (yield* EndpointStore).get("red"), { maxAttempts: 4 })
      assert.deepInclude(yield* store.get(red, JobId.make("ended")), {
        status: "FAILED",
        error: "no such city",
        lastError: null,
        ttlMs: 60_000,
        priority: 0,
        retry: null,
        webhook: null,
        tags: []
      })
      const { jobs } = yield* store.list(red, { limit: 10 })
      assert.deepStrictEqual(jobs.map((job) => job.id as string), ["waiting", "running", "ended"])
      assert.deepStrictEqual((yield* store.drain(red, JobId.make("running"), 10))?.chunks.map(String), [`"chunk"`])
      assert.deepInclude(yield* store.depth(red), { waiting: 1, delayed: 0, running: 1, failed: 1 })
      const claimed = yield* store.claim(red, 10, { _tag: "Claim", now: 2_000, worker: "bob" })
      assert.deepStrictEqual(claimed.jobs.map((job) => [job.id as string, job.input as string]), [["waiting", "1"]])
      const retried = yield* store.apply(red, JobId.make("ended"), { _tag: "Retry", now: 5_000, endpoint: red })
      assert.deepInclude(retried._tag === "Changed" ? retried.after : undefined, { createdAt: 1_000, expiresAt: 65_000 })
    }).pipe(Effect.provide(stores))
  }))

/** The first 16 hexadecimal digits of the SHA-256 of each step. A released step never changes: append a step and its hash. */
const HASHES = [
  "b239703e903272af",
  "876b10cfc978a62a",
  "be8633484c65528f",
  "32fa96568b446c5d",
  "f224234209929ef3",
  "d68b3202119fb43a",
  "755ebd7e9b7c227e",
  "c1e4222e593ec74e",
  "17786321f811178e",
  "23e8b7ad76dcfb99",
  "819ba01a7257fd90",
  "42a45750ac5b99e5",
  "55ae95a07927fcc7",
  "a98f536fc25c06f2",
  "6ec230670468e714",
  "79b09dd12790ddee",
  "508f3f8eda50b886",
  "28990231a9f0ae26",
  "95e362c4db4d8180",
  "a741e956efb6b49e",
  "f3da1efddc2f7d1d",
  "86f502bdea292e8b",
  "0610a44dfec894e1",
  "52dc5f376088b853",
  "e75aad42b1215269",
  "4386b53327985dca",
  "532f5f474cb6a568",
  "ef7e21c4e2b196ce"
]

describe("files of earlier versions", () => {
  it("keeps every released step unchanged", () => {
    const hashes = Migrations.steps.map((step) => createHash("sha256").update(step).digest("hex").slice(0, 16))
    assert.deepStrictEqual(hashes, HASHES, "A released step was changed, removed or moved, or a new step has no hash here.")
  })

  it("has a schema of every version in fixtures/schemas, so that its files are opened below", () => {
    for (let version = 1; version <= Migrations.LATEST; version++) {
      const path = fileURLToPath(new URL(`v${version}.sql`, FOLDER))
      assert.isTrue(existsSync(path), `${path} is missing: run fixtures/schemaWriter.ts`)
    }
  })

  for (const schema of SCHEMAS) {
    it.live(`opens a file with the tables of ${schema}, keeps every row of every table and accepts new jobs`, () =>
      Effect.gen(function*() {
        const fresh = yield* tempFile
        const file = yield* tempFile
        const version = writeOld(file, schema)
        const columns = columnsOf(file)
        const before = rowsOf(file, columns)
        const empty = [...before].flatMap(([table, rows]) =>
          (columns.get(table) ?? []).filter((column) => rows.every((row) => row[column] === null)).map((column) =>
            `${table}.${column}`
          )
        )
        assert.deepStrictEqual(empty, [], "Add rows to fixtures/schemaRows.ts, and run fixtures/schemaWriter.ts.")
        const lines: Array<string> = []
        const layer = (file: string) =>
          SqliteStores.layer({ file, lockWaitMs: 0 }).pipe(
            Layer.provideMerge(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))]))
          )
        yield* Effect.provide(Effect.void, layer(fresh), { local: true })
        assert.deepStrictEqual(lines, [])
        yield* Effect.provide(expectKept(columns), layer(file), { local: true })
        for (const [table, rows] of rowsOf(file, columns)) {
          const kept = table === "upgrades" ? rows.filter((row) => row["tables"] !== Migrations.LATEST) : rows
          assert.deepStrictEqual(kept, before.get(table), table)
        }
        yield* Effect.gen(function*() {
          const store = yield* JobStore
          const red = EndpointId.make("red")
          assert.deepInclude(yield* (yield* EndpointStore).get("red"), { maxAttempts: 4 })
          const { jobs } = yield* store.list(red, { limit: 10 })
          assert.deepStrictEqual(jobs.map((job) => job.id as string), ["waiting", "running", "ended"])
          assert.deepInclude(yield* store.get(red, JobId.make("ended")), { status: "FAILED", error: "no such city" })
          assert.deepStrictEqual((yield* store.drain(red, JobId.make("running"), 10))?.chunks.map(String), [`"chunk"`])
          assert.deepInclude(yield* store.depth(red), { waiting: 1, delayed: 0, running: 1, failed: 1 })
          const claimed = yield* store.claim(red, 10, { _tag: "Claim", now: 2_000, worker: "bob" })
          assert.deepStrictEqual(claimed.jobs.map((job) => [job.id as string, job.input as string]), [["waiting", "1"]])
          assert.deepStrictEqual(yield* store.insert(Scenario.record({ endpoint: red })), { _tag: "Inserted" })
        }).pipe(Effect.provide(layer(file), { local: true }))
        assert.deepStrictEqual(schemaOf(file), schemaOf(fresh))

        // Nothing but the migration is logged: the counts of the quotas fit the jobs.
        const copy = MigrationCopy.pathOf(file, version)
        assert.strictEqual(existsSync(copy), version < Migrations.LATEST)
        assert.strictEqual(lines.length, version < Migrations.LATEST ? 1 : 0, lines.join("\n"))
        if (version === Migrations.LATEST) return
        assert.include(
          lines.join("\n"),
          `were migrated from version ${version} to ${Migrations.LATEST}. The database from before is ${copy}`
        )
        assert.include(schemaOf(copy), `version ${version}`)
        assert.strictEqual(statSync(copy).mode & 0o777, 0o600)
        assert.deepStrictEqual(rowsOf(copy, columns), before)
        using kept = new DatabaseSync(copy, { readOnly: true })
        assert.strictEqual(kept.prepare("PRAGMA application_id").get()?.["application_id"], SqliteDatabase.APPLICATION_ID)
      }))
  }

  it.live("leaves a file whose migration fails as it was, and records the version of Stint with the last step", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      writeOld(file, "v8.sql")
      const columns = columnsOf(file)
      const before = [schemaOf(file), rowsOf(file, columns)]
      const change = (sql: string) => {
        using db = new DatabaseSync(file)
        db.exec(sql)
      }
      const open = Effect.exit(Effect.provide(Effect.void, SqliteDatabase.layer({ file, lockWaitMs: 0 }), { local: true }))
      // The step that creates this table fails, after others that succeed.
      change("CREATE TABLE schedules (id TEXT)")
      assert.strictEqual((yield* open)._tag, "Failure")
      change("DROP TABLE schedules")
      assert.deepStrictEqual([schemaOf(file), rowsOf(file, columns)], before)
      assert.strictEqual((yield* open)._tag, "Success")
      using db = new DatabaseSync(file, { readOnly: true })
      assert.isString(TableVersions.versionOf(db, Migrations.LATEST))
    }))

  it.effect("writes no copy when the disk has no room for it", () =>
    Effect.gen(function*() {
      const file = yield* tempFile
      const version = writeOld(file, "v8.sql")
      const db = new DatabaseSync(file)
      assert.strictEqual(MigrationCopy.write(db, file, version, 64 * 1024 * 1024)._tag, "NoRoom")
      assert.isFalse(existsSync(MigrationCopy.pathOf(file, version)))
      assert.strictEqual(MigrationCopy.write(db, file, version, 65 * 1024 * 1024)._tag, "Copied")
      db.close()
    }))
})

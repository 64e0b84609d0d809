import { assert, it } from "@effect/vitest"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { mkdirSync } from "node:fs"
import { dirname } from "node:path"
import { DatabaseSync } from "node:sqlite"
import * as Migrations from "../src/Migrations.ts"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteEndpointStore from "../src/SqliteEndpointStore.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { tempFile } from "./TestDatabase.ts"

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

/**
 * A node of a new version starts while nodes of an older one work.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { Client } from "pg"
import * as Migrations from "../src/Migrations.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import { execute, missing, testCluster } from "./TestCluster.ts"

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

/** The version whose next step changes all tables of jobs. */
const OLD = 3

const WAITS = "SELECT count(*) FROM pg_locks WHERE NOT granted"

describe.skipIf(missing !== undefined)(missing ?? "an upgrade", () => {
  const cluster = testCluster()

  it.live("a node starts although its migration and a transaction of an older node deadlock", () =>
    Effect.gen(function*() {
      const address = cluster.url("postgres")
      const sql = (text: string) => Effect.promise(() => execute(address, text))
      yield* sql("CREATE SCHEMA stint; CREATE TABLE stint.settings (key text PRIMARY KEY, value text NOT NULL)")
      for (const step of Migrations.steps.slice(0, OLD)) yield* sql(step)
      yield* sql(`INSERT INTO stint.settings (key, value) VALUES ('version', '${OLD}')`)

      const older = new Client({ connectionString: address })
      yield* Effect.acquireRelease(Effect.promise(() => older.connect()), () => Effect.promise(() => older.end()))
      const read = (table: string) => Effect.promise(() => older.query(`SELECT 1 FROM stint.${table}`))
      yield* Effect.promise(() => older.query("BEGIN"))
      yield* read("running")
      const starting = yield* Effect.forkChild(
        Effect.exit(Layer.build(PostgresDatabase.layer({ url: Redacted.make(address) }))),
        { startImmediately: true }
      )
      yield* sql(WAITS).pipe(Effect.repeat({ until: ([row]) => Number(row?.[0]) > 0 }))
      // The migration holds this table, and waits for the other one.
      yield* read("ready")
      yield* Effect.promise(() => older.query("COMMIT"))
      const started = yield* Fiber.join(starting)
      assert.strictEqual(started._tag, "Success")
    }).pipe(Effect.scoped))
})

/** Migrates the tables without a node, for nodes whose user may not create tables. */
import { assert, describe, it, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Postgres from "../src/index.ts"
import { migrate } from "../src/Migrate.ts"
import * as Migrations from "../src/Migrations.ts"
import { execute, missing, testCluster } from "./TestCluster.ts"

vi.setConfig({ testTimeout: 60_000, hookTimeout: 120_000 })

describe.skipIf(missing !== undefined)(missing ?? "the migration without a node", () => {
  const cluster = testCluster()
  const sql = (address: string, ...statements: ReadonlyArray<string>) =>
    Effect.promise(async () => {
      for (const text of statements) await execute(address, text)
    })
  const created = Effect.fnUntraced(function*(name: string) {
    yield* sql(cluster.url("postgres"), `CREATE DATABASE ${name}`)
    return cluster.url(name)
  })
  const migrated = (address: string) => migrate({ url: Redacted.make(address) })
  const node = (address: string) =>
    Effect.scoped(Layer.build(Postgres.layer({ url: Redacted.make(address) }))).pipe(Effect.asVoid)

  it.live("creates the tables, so that a node can start even if its user may not create tables", () =>
    Effect.gen(function*() {
      const owner = yield* created("owned")
      const address = new URL(owner)
      address.username = "node"
      yield* sql(owner, "CREATE ROLE node LOGIN")
      const refused = yield* Effect.flip(node(address.href))
      assert.match(refused.message, /must own the database, or have the right to create the schema/)
      const first = yield* migrated(owner)
      assert.strictEqual(first.version, Migrations.LATEST)
      assert.notInclude(first.database, "@")
      yield* sql(
        owner,
        "GRANT USAGE ON SCHEMA stint TO node",
        "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA stint TO node",
        "GRANT USAGE ON ALL SEQUENCES IN SCHEMA stint TO node"
      )
      yield* node(address.href)
      assert.deepStrictEqual(yield* migrated(owner), first)
    }))

  it.live("registers no node, and refuses tables of a newer version", () =>
    Effect.gen(function*() {
      const address = yield* created("newer")
      yield* migrated(address)
      yield* sql(address, "DO $$ BEGIN ASSERT (SELECT count(*) FROM stint.nodes) = 0; END $$")
      yield* sql(address, `UPDATE stint.settings SET value = '${Migrations.LATEST + 1}' WHERE key = 'version'`)
      const refused = yield* Effect.flip(migrated(address))
      assert.strictEqual(refused.reason._tag, "TablesNewer")
    }))

  it.live("names the address without its password when nothing listens there", () =>
    Effect.gen(function*() {
      const refused = yield* Effect.flip(migrated("postgres://stint:hunter22@127.0.0.1:1/none"))
      assert.match(refused.message, /^No connection to PostgreSQL at 127\.0\.0\.1:1\/none: /)
      assert.notInclude(refused.message, "hunter22")
    }))
})

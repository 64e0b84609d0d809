/**
 * Servers with a standby (docs/operations/postgresql.md): a node uses no standby, and confirms nothing that the standby of a primary does not have.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import { startCluster } from "../src/testing.ts"
import { execute, missing, testCluster } from "./TestCluster.ts"

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 })

const storeAt = (url: string) => PostgresJobStore.layer.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(url) })))

describe.skipIf(missing !== undefined)(missing ?? "a server with a standby", () => {
  const cluster = testCluster({ fsync: true })
  const database = (statement: string) => Effect.promise(() => execute(cluster.url("postgres"), statement))

  it.live("a node does not start with a standby, and says why", () =>
    Effect.gen(function*() {
      yield* Effect.scoped(Layer.build(storeAt(cluster.url("postgres"))))
      const standby = yield* Effect.acquireRelease(
        Effect.promise(() =>
          startCluster({
            prepare: (run, data) => run("pg_basebackup", "-D", data, "-h", cluster.folder, "-U", "stint", "-c", "fast", "-R")
          })
        ),
        ({ stop }) => Effect.promise(stop)
      )
      const failed = yield* Effect.flip(Layer.build(storeAt(standby.url("postgres"))))
      assert.include(failed.message, "is a standby")
    }).pipe(Effect.scoped))

  it.live("R11: fails a commit whose wait for the standby the server has given up", () =>
    Effect.gen(function*() {
      const store = yield* JobStore
      yield* store.insert(Scenario.record())
      yield* Effect.acquireRelease(
        database("ALTER SYSTEM SET synchronous_standby_names = 'away'").pipe(Effect.andThen(database("SELECT pg_reload_conf()"))),
        () => database("ALTER SYSTEM RESET synchronous_standby_names").pipe(Effect.andThen(database("SELECT pg_reload_conf()")))
      )
      const inserting = yield* Effect.forkChild(Effect.flip(store.insert(Scenario.record())))
      // What an operator does, and the server itself for a node that was frozen for longer than its deadline.
      const cancel = database("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
      yield* cancel.pipe(
        Effect.flatMap(({ length }) => length > 0 ? Effect.void : Effect.fail("no commit waits")),
        Effect.retry(Schedule.spaced("20 millis"))
      )
      const failed = yield* Fiber.join(inserting)
      assert.include(failed.message, "standby")
    }).pipe(Effect.provide(storeAt(cluster.url("postgres"))), Effect.scoped))
})

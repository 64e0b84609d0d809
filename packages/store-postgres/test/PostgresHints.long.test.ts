import { assert, describe, it, vi } from "@effect/vitest"
import { withDivergentClock } from "@stint/store-testing"
import { Nodes } from "@stint/store/Nodes"
import { SharedSettings } from "@stint/store/SharedSettings"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresNodes from "../src/PostgresNodes.ts"
import * as PostgresSettings from "../src/PostgresSettings.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

const ENDPOINTS = Array.from({ length: 100 }, (_, n) => `endpoint-${n}`)

/** Waits until a node sees what another one did. */
const eventually = (condition: () => boolean) =>
  Effect.suspend(() => condition() ? Effect.void : Effect.fail("not yet")).pipe(Effect.retry(Schedule.spaced("20 millis")))

describe.skipIf(missing !== undefined)(missing ?? "nodes of a database", () => {
  const cluster = testCluster()
  const { url } = makeDatabases(cluster)

  const node = Effect.fnUntraced(function*(address: string) {
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const layer = PostgresNodes.layer.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(address) })))
    const nodes = Context.get(yield* Layer.buildWithScope(Layer.fresh(layer), scope), Nodes)
    const received: Array<string> = []
    nodes.subscribe("jobs", (hint) => void received.push(hint === undefined ? "all" : `${hint.key} ${hint.count}`))
    return { nodes, received, close: Scope.close(scope, Exit.void) }
  })

  const rule = (title: string, body: (address: string) => Effect.Effect<void, unknown, Scope.Scope>) =>
    it.live(title, () => Effect.scoped(Effect.flatMap(url, body)))

  rule("each endpoint is owned by one node, and by another when that node leaves or ends", (address) =>
    Effect.gen(function*() {
      const first = yield* node(address)
      assert.isTrue(ENDPOINTS.every(first.nodes.owns))
      const second = yield* node(address)
      yield* eventually(() => first.nodes.hasOthers() && second.nodes.hasOthers())
      assert.isTrue(first.nodes.isOldest())
      assert.isFalse(second.nodes.isOldest())
      const owned = ENDPOINTS.filter(first.nodes.owns)
      assert.deepStrictEqual(ENDPOINTS.filter((id) => !second.nodes.owns(id)), owned)
      assert.isAbove(owned.length, 20)
      assert.isBelow(owned.length, 80)
      yield* first.nodes.leave
      assert.isFalse(ENDPOINTS.some(first.nodes.owns))
      yield* eventually(() => ENDPOINTS.every(second.nodes.owns))
      assert.isTrue(second.nodes.hasOthers())
      yield* first.close
      yield* eventually(() => !second.nodes.hasOthers())
    }))

  rule(
    "keeps no connection to a standby, on which it cannot listen, and continues after the promotion",
    (address) =>
      Effect.gen(function*() {
        const first = yield* node(address)
        const refused = () =>
          readFileSync(join(cluster.folder, "log"), "utf8").split("cannot execute LISTEN during recovery").length - 1
        yield* Effect.promise(async () => {
          await cluster.ctl("-m", "fast", "stop")
          writeFileSync(join(cluster.folder, "data", "standby.signal"), "")
          await cluster.ctl("start")
        })
        yield* eventually(() => refused() >= 3)
        const sessions = yield* Effect.promise(() =>
          execute(
            cluster.url("postgres"),
            "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%LISTEN%' AND pid <> pg_backend_pid()"
          )
        )
        assert.isAtMost(sessions.length, 1)
        yield* Effect.promise(() => cluster.ctl("promote"))
        const second = yield* node(address)
        yield* eventually(() => first.nodes.hasOthers() && second.nodes.hasOthers())
      })
  )

  rule(
    "a node with a wrong clock warns once, and says once that the clock is right again",
    (address) =>
      withDivergentClock((setWallClock) =>
        Effect.gen(function*() {
          const logged: Array<string> = []
          const logger = Logger.make(({ logLevel, message }) => void logged.push(`${logLevel} ${String(message)}`))
          const beats = () => Effect.promise(() => execute(address, "SELECT clock FROM stint.nodes"))
          yield* setWallClock(-90_000)
          yield* Effect.gen(function*() {
            yield* node(address)
            yield* eventually(() => logged.length > 0)
            assert.match(logged[0] ?? "", /^Warn The clock of this machine is (89|90)\.\d s behind that of localhost\/test\d+\./)
            yield* setWallClock(90_000 + 30_000)
            // Two heartbeats with the clock wrong in the other direction.
            for (let beat = 0; beat < 2; beat++) {
              const [before] = yield* beats()
              yield* beats().pipe(Effect.repeat({ until: ([now]) => now?.[0] !== before?.[0] }))
            }
            assert.strictEqual(logged.length, 1)
            yield* setWallClock(-30_000)
            yield* eventually(() => logged.length > 1)
            assert.match(logged[1] ?? "", /^Info The clock of this machine agrees with that of localhost\/test\d+ again\.$/)
            yield* setWallClock(2_000)
            yield* eventually(() => logged.length > 2)
            assert.match(logged[2] ?? "", /^Warn The clock of this machine is \d\.\d s ahead of/)
          }).pipe(Effect.provide(Logger.layer([logger])))
        })
      )
  )

  rule("nodes agree on a shared setting, even when they start together", (address) =>
    Effect.gen(function*() {
      const settings = Effect.map(
        Layer.build(Layer.fresh(
          PostgresSettings.layer.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(address) })))
        )),
        (context) => Context.get(context, SharedSettings)
      )
      const nodes = yield* Effect.all([settings, settings, settings], { concurrency: "unbounded" })
      const name = "of this test"
      assert.isUndefined(yield* nodes[0].get(name))
      const settled = yield* Effect.forEach(nodes, ({ settle }, at) => settle(name, `node ${at}`), { concurrency: "unbounded" })
      assert.strictEqual(new Set(settled).size, 1)
      assert.strictEqual(yield* nodes[2].get(name), settled[0])
      // Settings are not removed between tests.
      yield* Effect.promise(() => execute(address, "DELETE FROM stint.settings WHERE key LIKE 'shared.%'"))
    }))

  rule("hints reach the other nodes, and all waiters read again after a lost connection", (address) =>
    Effect.gen(function*() {
      const first = yield* node(address)
      const second = yield* node(address)
      const heard: Array<ReadonlyArray<string>> = []
      first.nodes.setReport("workers", () => "two workers")
      first.nodes.setReport("limits", () => "")
      second.nodes.setReport("workers", () => "none", (reports) => void heard.push([...reports.values()]))
      yield* eventually(() => first.nodes.hasOthers() && second.nodes.hasOthers())
      for (const key of ["a", "b", "a"]) first.nodes.publish("jobs", key, 2)
      yield* eventually(() => second.received.includes("a 4") && second.received.includes("b 2"))
      assert.notInclude(first.received, "a 4")
      yield* eventually(() => [...second.nodes.reports("workers").values()].includes("two workers"))
      assert.isTrue(heard.some((all) => all.includes("two workers")))
      assert.strictEqual(second.nodes.reports("limits").size, 0)

      const wakes = () => second.received.filter((one) => one === "all").length
      const before = wakes()
      yield* Effect.promise(() =>
        execute(
          cluster.url("postgres"),
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test%' AND pid <> pg_backend_pid()"
        )
      )
      yield* eventually(() => wakes() > before)
      // More hints than one notification can carry.
      const keys = Array.from({ length: 2_000 }, (_, n) => `job-${n}-${"x".repeat(20)}`)
      yield* eventually(() => {
        first.nodes.publish("jobs", "again")
        return second.received.some((one) => one.startsWith("again "))
      })
      for (const key of keys) first.nodes.publish("jobs", key)
      yield* eventually(() => {
        const received = new Set(second.received)
        return keys.every((key) => received.has(`${key} 1`))
      })
    }))
})

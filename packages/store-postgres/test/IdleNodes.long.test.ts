/**
 * What idle nodes ask their database, and how soon they notice what another node has changed. The clock stands still except where a test moves it, so a
 * heartbeat stays recent until then.
 */
import { assert, describe, it, vi } from "@effect/vitest"
import { KeyId } from "@stint/contract/AccessKey"
import { SecretName } from "@stint/contract/Secret"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import { JobStore } from "@stint/store/JobStore"
import { type KeyRecord, KeyStore } from "@stint/store/KeyStore"
import { Nodes } from "@stint/store/Nodes"
import { type SecretRecord, SecretStore } from "@stint/store/SecretStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { Client } from "pg"
import * as Postgres from "../src/index.ts"
import { node as nodeWithoutHeartbeats } from "./RunNode.ts"
import { execute, makeDatabases, missing, testCluster } from "./TestCluster.ts"

// A database on a busy machine takes longer than a store in this process.
vi.setConfig({ testTimeout: 300_000, hookTimeout: 120_000 })

const LISTS = "SELECT body, (sum(%"
const ASKS = "SELECT least(%"

const endpoint = Scenario.endpoint()

const KEY: KeyRecord = {
  id: KeyId.make("000000000000000a"),
  name: "ci",
  scopes: ["jobs"],
  endpoints: "all",
  prefix: "stint_000000000000000a_abcd",
  createdAt: 1,
  digest: "d".repeat(64),
  previous: []
}

const SECRET: SecretRecord = {
  name: SecretName.make("token"),
  version: "0123456789abcdef",
  createdAt: 1,
  updatedAt: 1,
  key: "a1b2c3d4",
  sealed: "AAECAwQ="
}

const turn = Effect.promise(() => new Promise<void>((done) => void setImmediate(done)))

/** Waits until something is so, without moving the clock. */
const eventually = (condition: Effect.Effect<boolean, unknown>) =>
  Effect.andThen(turn, condition).pipe(Effect.repeat({ until: (isSo) => isSo }), Effect.asVoid)

describe.skipIf(missing !== undefined)(missing ?? "idle nodes", () => {
  const cluster = testCluster({ settings: ["shared_preload_libraries = 'pg_stat_statements'"] })
  const { url } = makeDatabases(cluster)

  const calls = (pattern: string) =>
    Effect.promise(async () => {
      const server = cluster.url("postgres")
      await execute(server, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
      const [row] = await execute(
        server,
        `SELECT coalesce(sum(calls), 0)::int FROM pg_stat_statements WHERE query LIKE '${pattern}'`
      )
      return Number(row?.[0])
    })

  /** The result of an effect, and how often it ran statements. */
  const counted = <A, E>(pattern: string, effect: Effect.Effect<A, E>) =>
    Effect.gen(function*() {
      const before = yield* calls(pattern)
      const result = yield* effect
      return [result, (yield* calls(pattern)) - before] as const
    })

  const node = Effect.fnUntraced(function*(address: string) {
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const stores = yield* Layer.buildWithScope(Layer.fresh(Postgres.layer({ url: Redacted.make(address) })), scope)
    const nodes = Context.get(stores, Nodes)
    let beats = 0
    nodes.setReport("test", () => "", () => void (beats += 1))
    return {
      address,
      nodes,
      beats: () => beats,
      jobs: Context.get(stores, JobStore),
      endpoints: Context.get(stores, EndpointStore),
      keys: Context.get(stores, KeyStore),
      secrets: Context.get(stores, SecretStore)
    }
  })
  type Node = Effect.Success<ReturnType<typeof node>>

  /** Waits until the nodes have the response to each statement. Otherwise, time would pass while one is under way, and the next heartbeat would be late. */
  const quiet = Effect.fnUntraced(function*(nodes: ReadonlyArray<Node>) {
    const active =
      "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND pid <> pg_backend_pid()"
    for (const address of new Set(nodes.map((one) => one.address))) {
      yield* eventually(Effect.map(Effect.promise(() => execute(address, active)), (rows) => rows.length === 0))
    }
    for (let n = 0; n < 10; n++) yield* turn
  })

  /** A second passes, in which each node receives a heartbeat. */
  const second = Effect.fnUntraced(function*(nodes: ReadonlyArray<Node>) {
    yield* quiet(nodes)
    const before = nodes.map(({ beats }) => beats())
    yield* TestClock.adjust("1 second")
    yield* eventually(Effect.sync(() => nodes.every(({ beats }, at) => beats() > (before[at] ?? 0))))
    // Until the next heartbeat is planned.
    yield* quiet(nodes)
  })

  /** Two nodes that know each other. */
  const pair = Effect.fnUntraced(function*(address: string) {
    const nodes = [yield* node(address), yield* node(address)] as const
    yield* second(nodes)
    const [oldest, other] = nodes
    assert.isTrue(oldest.nodes.isOldest())
    assert.isFalse(other.nodes.isOldest())
    return { nodes, oldest, other }
  })

  const rule = (title: string, body: (address: string) => Effect.Effect<void, unknown, Scope.Scope>) =>
    it.effect(title, () => Effect.scoped(Effect.flatMap(url, body)))

  rule("read no list again until another node changes it, and then within a second", (address) =>
    Effect.gen(function*() {
      const { nodes, oldest, other } = yield* pair(address)
      const readAll = (at: Node) => Effect.all([at.endpoints.recentList ?? Effect.die("missing"), at.secrets.list])
      yield* oldest.endpoints.put(endpoint)
      yield* oldest.keys.put(KEY)
      yield* oldest.secrets.put([SECRET])
      for (let n = 0; n < 5; n++) {
        yield* second(nodes)
        yield* readAll(oldest)
        yield* readAll(other)
      }
      const idle = Effect.gen(function*() {
        for (let n = 0; n < 10; n++) {
          yield* second(nodes)
          yield* readAll(oldest)
          yield* readAll(other)
        }
      })
      assert.strictEqual((yield* counted(LISTS, idle))[1], 0)
      assert.deepStrictEqual(yield* readAll(other), [[endpoint], [SECRET]])

      const changed = { ...endpoint, leaseMs: 2_000 }
      for (const change of [changed, undefined, endpoint]) {
        yield* change === undefined ? oldest.endpoints.remove(endpoint.id) : oldest.endpoints.put(change)
        // Its own changes, at once.
        assert.deepStrictEqual((yield* readAll(oldest))[0], change === undefined ? [] : [change])
        yield* second(nodes)
        yield* eventually(Effect.map(other.endpoints.get(endpoint.id), (found) => found?.leaseMs === change?.leaseMs))
        assert.deepStrictEqual((yield* readAll(other))[0], change === undefined ? [] : [change])
      }
      for (const secrets of [[{ ...SECRET, sealed: "BBBB" }], [], [SECRET]]) {
        yield* secrets.length === 0 ? oldest.secrets.remove(SECRET.name) : oldest.secrets.put(secrets)
        assert.deepStrictEqual(yield* oldest.secrets.list, secrets)
        yield* second(nodes)
        assert.deepStrictEqual(yield* other.secrets.list, secrets)
      }
      yield* oldest.keys.put({ ...KEY, revokedAt: 7 })
      for (let n = 0; n < 5; n++) yield* second(nodes)
      yield* eventually(Effect.map(other.keys.get(KEY.id), (key) => key?.revokedAt === 7))
    }))

  rule(
    "read the lists and ask for timers as often as without heartbeats while the heartbeats do not arrive",
    (address) =>
      Effect.gen(function*() {
        const { nodes, other } = yield* pair(address)
        yield* other.endpoints.put(endpoint)
        yield* other.keys.put(KEY)
        yield* other.secrets.put([SECRET])
        // Until all lists are read after these changes. A heartbeat in four reads the version of the keys.
        for (let n = 0; n < 9; n++) yield* second(nodes)
        const blocker = new Client({ connectionString: address })
        yield* Effect.promise(() => blocker.connect())
        yield* Effect.addFinalizer(() => Effect.promise(() => blocker.end()))
        yield* Effect.promise(() => blocker.query("BEGIN; LOCK TABLE stint.nodes"))
        const sql = (text: string) => Effect.promise(() => execute(address, text))
        yield* sql("UPDATE stint.endpoints SET body = replace(body, '10000', '2000')")
        yield* sql(`UPDATE stint.keys SET body = replace(body, '"ci"', '"cd"')`)
        yield* sql("DELETE FROM stint.secrets")
        yield* TestClock.adjust("1250 millis")
        yield* eventually(Effect.map(other.endpoints.get(endpoint.id), (found) => found?.leaseMs === 2_000))
        yield* TestClock.adjust("3750 millis")
        yield* eventually(Effect.map(other.keys.get(KEY.id), (key) => key?.name === "cd"))
        assert.deepStrictEqual(yield* other.secrets.list, [])
        const [, asks] = yield* counted(ASKS, firings(other, 250, 2_500))
        assert.strictEqual(asks, 10)
      })
  )

  /** The times at which timers fire, of a check every 250 ms. */
  const firings = ({ jobs }: Pick<Node, "jobs">, from: number, to: number) =>
    Effect.gen(function*() {
      const found: Array<number> = []
      for (let now = from; now <= to; now += 250) {
        const applied = yield* jobs.tick({ _tag: "Tick", now, random: 0 }, 100)
        if (applied.length > 0) found.push(now)
      }
      return found
    })

  const delayed = (notBefore: number) => Scenario.record({ notBefore })

  rule("ask for timers once a second, and every 250 ms without heartbeats", (address) =>
    Effect.gen(function*() {
      const { oldest, other } = yield* pair(address)
      for (const one of [oldest, other]) {
        const [found, asks] = yield* counted(ASKS, firings(one, 0, 9_750))
        assert.deepStrictEqual(found, [])
        assert.strictEqual(asks, 10)
      }
      const [, asks] = yield* counted(ASKS, firings(yield* nodeWithoutHeartbeats(address), 0, 9_750))
      assert.strictEqual(asks, 40)
    }))

  rule("fire the timers that they have written on time, also when they are not the oldest", (address) =>
    Effect.gen(function*() {
      const { other } = yield* pair(address)
      assert.deepStrictEqual(yield* firings(other, 0, 0), [])
      for (const at of [400, 1_100, 2_250, 2_900]) yield* other.jobs.insert(delayed(at))
      assert.deepStrictEqual(yield* firings(other, 250, 4_000), [500, 1_250, 2_250, 3_000])
      // A lease that ends.
      yield* other.jobs.insert(Scenario.record({ endpoint: endpoint.id, leaseMs: 1_000 }))
      yield* other.jobs.claim(endpoint.id, 100, { _tag: "Claim", now: 4_000, worker: "ann" })
      assert.deepStrictEqual(yield* firings(other, 4_250, 5_000), [5_000])
    }))

  rule(
    "fire the timers of another node on time if they are the oldest, and else within a second",
    (address) =>
      Effect.gen(function*() {
        const { oldest, other } = yield* pair(address)
        for (const one of [oldest, other]) assert.deepStrictEqual(yield* firings(one, 0, 0), [])
        // The node that has written them ends before they are due. The next ask of the oldest one is before them.
        for (const at of [1_300, 2_700]) yield* other.jobs.insert(delayed(at))
        assert.deepStrictEqual(yield* firings(oldest, 250, 4_000), [1_500, 2_750])
        // Its next ask is after them.
        yield* other.jobs.insert(delayed(4_100))
        assert.deepStrictEqual(yield* firings(oldest, 4_250, 6_000), [5_000])
        // Those of the oldest node, at another one.
        assert.deepStrictEqual(yield* firings(other, 6_000, 6_000), [])
        yield* oldest.jobs.insert(delayed(6_100))
        assert.deepStrictEqual(yield* firings(other, 6_250, 8_000), [7_000])
      })
  )
})

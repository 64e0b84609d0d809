/**
 * For tests: the stores of two nodes with the same database as one, with every call at a random node.
 */
import { afterEach, assert, it } from "@effect/vitest"
import { KeyId } from "@stint/contract/AccessKey"
import { counted, SeededRandom } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as KeyCache from "@stint/store/KeyCache"
import { KeyStore } from "@stint/store/KeyStore"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import * as PostgresAuditStore from "../src/PostgresAuditStore.ts"
import * as PostgresBuildStore from "../src/PostgresBuildStore.ts"
import * as PostgresBulkStore from "../src/PostgresBulkStore.ts"
import * as PostgresDatabase from "../src/PostgresDatabase.ts"
import * as PostgresEndpointStore from "../src/PostgresEndpointStore.ts"
import * as PostgresJobLogStore from "../src/PostgresJobLogStore.ts"
import * as PostgresJobStore from "../src/PostgresJobStore.ts"
import * as PostgresKeyStore from "../src/PostgresKeyStore.ts"
import * as PostgresRunStore from "../src/PostgresRunStore.ts"
import * as PostgresScheduleStore from "../src/PostgresScheduleStore.ts"
import * as PostgresSecretStore from "../src/PostgresSecretStore.ts"
import * as PostgresUsageStore from "../src/PostgresUsageStore.ts"
import * as PostgresWebhookAttemptStore from "../src/PostgresWebhookAttemptStore.ts"
import * as PostgresWebhookSecretStore from "../src/PostgresWebhookSecretStore.ts"
import * as PostgresWebhookStore from "../src/PostgresWebhookStore.ts"
import { execute, makeDatabases, type testCluster } from "./TestCluster.ts"

const STORES = Layer.mergeAll(
  PostgresAuditStore.layer,
  PostgresBuildStore.layer,
  PostgresBulkStore.layer,
  PostgresEndpointStore.layer,
  PostgresJobLogStore.layer,
  PostgresJobStore.layer,
  PostgresKeyStore.layer,
  PostgresRunStore.layer,
  PostgresScheduleStore.layer,
  PostgresSecretStore.layer,
  PostgresUsageStore.layer,
  PostgresWebhookAttemptStore.layer,
  PostgresWebhookSecretStore.layer,
  PostgresWebhookStore.layer
)

type Stores = Layer.Success<typeof STORES>

/** A node with all stores, with its own connections, caches and number. */
export const node = (address: string) =>
  Layer.build(STORES.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(address) }))))

const NO_KEY = KeyId.make("f".repeat(16))

/**
 * A node caches the endpoints for a second, and the keys for five (docs/operations/many-nodes.md). So a read of them comes that much later: `list` reads
 * the endpoints again. Keys are read again as time passes, and a change waits until they are.
 */
const afterRefresh = (node: Context.Context<Stores>): Context.Context<Stores> => {
  const endpoints = Context.get(node, EndpointStore)
  const keys = Context.get(node, KeyStore)
  const readKeys = Effect.andThen(TestClock.adjust(KeyCache.SHARED_REFRESH), Effect.orDie(keys.update(NO_KEY, (key) => key)))
  return node.pipe(
    Context.add(EndpointStore, { ...endpoints, get: (id) => Effect.andThen(endpoints.list, endpoints.get(id)) }),
    Context.add(KeyStore, {
      ...keys,
      get: (id) => Effect.andThen(readKeys, keys.get(id)),
      list: Effect.andThen(readKeys, keys.list)
    })
  )
}

/**
 * The services of several nodes as one. Each call of a method, and each run of an effect, goes to the node that `pick` returns. `called`: receives the
 * service and the node.
 */
const spread = <Services>(
  nodes: ReadonlyArray<Context.Context<Services>>,
  pick: () => number,
  called: (service: string, node: number) => void
): Context.Context<Services> => {
  const servicesOf = (key: string): ReadonlyArray<object> => nodes.map(({ mapUnsafe }) => mapUnsafe.get(key))
  const [first] = nodes
  if (first === undefined) throw new Error("there is no node")
  return Context.makeUnsafe(
    new Map([...first.mapUnsafe.keys()].map((key) => {
      const services = servicesOf(key)
      const memberOfAny = (member: string | symbol): unknown => {
        const node = pick()
        called(key, node)
        return Reflect.get(services[node] ?? {}, member)
      }
      const proxy = new Proxy(services[0] ?? {}, {
        get: (service, member) => {
          const value: unknown = Reflect.get(service, member)
          if (Effect.isEffect(value)) return counted(Effect.suspend(() => memberOfAny(member) as typeof value))
          if (typeof value !== "function") return value
          return (...args: ReadonlyArray<unknown>) =>
            counted(Effect.suspend(() => Reflect.apply(memberOfAny(member) as typeof value, undefined, args)))
        }
      })
      return [key, proxy] as const
    }))
  )
}

/** The stores of two nodes, without keys, and their keys, for suites that are registered in the same `describe`. A failed test prints the seed. */
export const twoNodes = (cluster: ReturnType<typeof testCluster>) => {
  const seed = SeededRandom.runSeed()
  const { url } = makeDatabases(cluster)
  const called = new Map<string, Set<number>>()

  afterEach(({ task }) => {
    if (task.result?.state === "fail") process.stderr.write(`STINT_PROPERTY_SEED=${seed}: ${task.name}\n`)
  })

  const all = Effect.gen(function*() {
    const address = yield* url
    const random = SeededRandom.seededRandom(seed)
    return spread(
      [afterRefresh(yield* node(address)), afterRefresh(yield* node(address))],
      () => random() < 0.5 ? 0 : 1,
      (service, at) => {
        called.set(service, (called.get(service) ?? new Set()).add(at))
      }
    )
  })

  return {
    // Other services read keys if there are any, and time passes with each read.
    stores: Layer.effectContext(Effect.map(all, Context.omit(KeyStore))),
    keys: Layer.effectContext(Effect.map(all, Context.pick(KeyStore))),
    /** Registers the rule that each of these services was called at both nodes, after their suites. */
    calledAtBoth: (services: ReadonlyArray<{ readonly key: string }>) => {
      it("were called at both nodes", () => {
        assert.deepStrictEqual(services.filter(({ key }) => called.get(key)?.size !== 2).map(({ key }) => key), [])
      })
    }
  }
}

/** The number of deadlocks in a cluster since it began. */
export const deadlocks = async (cluster: ReturnType<typeof testCluster>): Promise<unknown> => {
  const [row] = await execute(cluster.url("postgres"), "SELECT sum(deadlocks)::int FROM pg_stat_database")
  return row?.[0]
}

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
import * as PostgresTextIndex from "../src/PostgresTextIndex.ts"
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
  PostgresRunStore.layer,
  PostgresScheduleStore.layer,
  PostgresSecretStore.layer,
  PostgresTextIndex.layer,
  PostgresUsageStore.layer,
  PostgresWebhookAttemptStore.layer,
  PostgresWebhookSecretStore.layer,
  PostgresWebhookStore.layer
)

type Stores = Layer.Success<typeof STORES>

const build = <Services, E>(stores: Layer.Layer<Services, E, PostgresDatabase.PostgresDatabase>, address: string) =>
  Layer.build(stores.pipe(Layer.provide(PostgresDatabase.layer({ url: Redacted.make(address) }))))

/** A node with all stores except that of keys, with its own connections, caches and number. */
export const node = (address: string) => build(STORES, address)

const NO_KEY = KeyId.make("f".repeat(16))

/**
 * A node caches the endpoints for a second (docs/operations/many-nodes.md). So a read of one comes after a read of all, which also changes the cache.
 */
const afterEndpoints = (stores: Context.Context<Stores>): Context.Context<Stores> => {
  const endpoints = Context.get(stores, EndpointStore)
  return Context.add(stores, EndpointStore, {
    ...endpoints,
    get: (id) => Effect.andThen(endpoints.list, endpoints.get(id))
  })
}

/** A node caches the keys for five seconds. So a read of them comes that much later, after a change, which waits until they are read again. */
const afterKeys = (store: Context.Context<KeyStore>): Context.Context<KeyStore> => {
  const keys = Context.get(store, KeyStore)
  const readKeys = Effect.andThen(TestClock.adjust(KeyCache.SHARED_REFRESH), Effect.orDie(keys.update(NO_KEY, (key) => key)))
  return Context.make(KeyStore, {
    ...keys,
    get: (id) => Effect.andThen(readKeys, keys.get(id)),
    list: Effect.andThen(readKeys, keys.list)
  })
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

  const both = <Services, E>(
    layer: Layer.Layer<Services, E, PostgresDatabase.PostgresDatabase>,
    delayed: (node: Context.Context<Services>) => Context.Context<Services>
  ) =>
    Layer.effectContext(Effect.gen(function*() {
      const address = yield* url
      const random = SeededRandom.seededRandom(seed)
      const nodes = [delayed(yield* build(layer, address)), delayed(yield* build(layer, address))]
      return spread(nodes, () => random() < 0.5 ? 0 : 1, (service, at) => {
        called.set(service, (called.get(service) ?? new Set()).add(at))
      })
    }))

  return {
    stores: both(STORES, afterEndpoints),
    // Apart, because other services read keys if there are any, and time passes with each read.
    keys: both(PostgresKeyStore.layer, afterKeys),
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

import { assert, describe, it } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type { Query, Row } from "../src/Connection.ts"
import * as Heartbeat from "../src/Heartbeat.ts"
import { PostgresDatabase } from "../src/PostgresDatabase.ts"
import * as PostgresEndpointStore from "../src/PostgresEndpointStore.ts"

const endpoint = Scenario.endpoint({ leaseMs: 1_000 })
const rowOf = (one: typeof endpoint): Row => [JSON.stringify(one)]

/** A store over a database that answers a lookup only when the test says so, and knows no endpoint otherwise. */
const make = Effect.gen(function*() {
  const lookups: Array<{ readonly answer: (rows: ReadonlyArray<Row>) => void; readonly ids: ReadonlyArray<unknown> }> = []
  const query: Query = (text, values = []) =>
    text.startsWith("SELECT") && text.includes("id = ANY")
      ? new Promise((answer) => lookups.push({ answer, ids: values.flat() }))
      : Promise.resolve([])
  const run = <A>(_: string, body: (query: Query) => Promise<A>) => Effect.promise(() => body(query))
  const heartbeat = Heartbeat.make(yield* Clock.Clock)
  const db = { read: run, write: run, heartbeat } as unknown as PostgresDatabase["Service"]
  const stores = yield* Layer.build(PostgresEndpointStore.layer.pipe(Layer.provide(Layer.succeed(PostgresDatabase, db))))
  const lookup = Effect.promise(() => new Promise(setImmediate)).pipe(
    Effect.map(() => lookups.shift()),
    Effect.repeat({ until: (one) => one !== undefined }),
    Effect.map((one) => one ?? assert.fail("there is no lookup"))
  )
  return { endpoints: Context.get(stores, EndpointStore), lookups, lookup }
})

describe("the endpoints that a node knows", () => {
  it.effect("are not replaced by a lookup that began before a change", () =>
    Effect.gen(function*() {
      const { endpoints, lookup } = yield* make
      const changed = { ...endpoint, leaseMs: 2_000 }
      const early = yield* Effect.forkChild(endpoints.get(endpoint.id))
      const { answer } = yield* lookup
      yield* endpoints.put(changed)
      answer([[endpoint.id, ...rowOf(endpoint)]])
      assert.deepStrictEqual(yield* Fiber.join(early), changed)
      assert.deepStrictEqual(yield* endpoints.get(endpoint.id), changed)
    }))

  it.effect("are looked up together when they are unknown, however many requests ask for them", () =>
    Effect.gen(function*() {
      const { endpoints, lookup, lookups } = yield* make
      const requests = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 100 }, (_, n) => `unknown${n % 10}`), endpoints.get, { concurrency: "unbounded" })
      )
      const { answer, ids } = yield* lookup
      assert.lengthOf(ids, 10)
      answer([["unknown3", ...rowOf(endpoint)]])
      const found = yield* Fiber.join(requests)
      assert.lengthOf(found.filter((one) => one !== undefined), 10)
      assert.lengthOf(lookups, 0)
    }))
})

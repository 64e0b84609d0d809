import { assert, describe, it } from "@effect/vitest"
import type { EndpointSource } from "@stint/contract/Endpoint"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { PoolError, PoolUnavailable } from "../src/PoolError.ts"
import { endpointOf, resolvedOf } from "../src/testing.ts"
import { type OrphanedWorker, type StartRequest, WorkerPool } from "../src/WorkerPool.ts"
import * as WorkerPools from "../src/WorkerPools.ts"

const worker = WorkerId.make("w-1")

const SOURCES = {
  handler: { type: "handler", file: "handler.ts" },
  command: { type: "command", command: ["run"] },
  container: { type: "container", image: "llm:1" },
  external: { type: "external" }
} satisfies Record<string, EndpointSource>

const requestFor = (type: keyof typeof SOURCES): Effect.Effect<StartRequest> =>
  Effect.map(endpointOf({ source: SOURCES[type] }), (endpoint) => ({ endpoint: resolvedOf(endpoint), worker, variables: {} }))

const orphan = (id: string): OrphanedWorker => ({
  id: WorkerId.make(id),
  endpoint: EndpointId.make("tested"),
  isRunning: false,
  adopt: () => Effect.never
})

/** A pool that records its calls. */
const recording = (name: string, supports: ReadonlyArray<EndpointSource["type"]>, calls: Array<string>) =>
  Layer.effect(
    WorkerPool,
    Effect.acquireRelease(
      Effect.sync(() => {
        calls.push(`${name} built`)
        return WorkerPool.of({
          supports,
          prepare: ({ source }) => Effect.sync(() => void calls.push(`${name} prepares ${source.type}`)),
          start: ({ endpoint, worker }) =>
            Effect.sync(() => {
              calls.push(`${name} starts ${endpoint.source.type}`)
              return { id: worker, exit: Effect.never, drain: Effect.void, kill: Effect.void }
            }),
          orphans: [orphan(`${name}-1`)]
        })
      }),
      () => Effect.sync(() => void calls.push(`${name} closed`))
    )
  )

describe("WorkerPools", () => {
  it.effect("starts and prepares each source with the pool that supports it, and lists the orphans of all pools", () => {
    const calls: Array<string> = []
    return Effect.gen(function*() {
      const pool = yield* WorkerPool
      assert.deepStrictEqual(pool.supports, ["handler", "command", "container"])
      assert.deepStrictEqual(pool.orphans.map(({ id }) => id), [WorkerId.make("one-1"), WorkerId.make("two-1")])
      for (const type of ["container", "handler", "command"] as const) {
        const request = yield* requestFor(type)
        yield* pool.prepare(request.endpoint)
        yield* pool.start(request)
      }
      assert.deepStrictEqual(calls, [
        ...["one built", "two built"],
        ...["two prepares container", "two starts container"],
        ...["one prepares handler", "one starts handler"],
        ...["one prepares command", "one starts command"]
      ])
    }).pipe(
      Effect.scoped,
      // The first pool of a type wins.
      Effect.provide(
        WorkerPools.layer([recording("one", ["handler", "command"], calls), recording("two", ["container", "handler"], calls)])
      )
    )
  })

  it.effect("refuses a source that no pool supports", () =>
    Effect.gen(function*() {
      const pool = yield* WorkerPool
      const request = yield* requestFor("external")
      yield* pool.prepare(request.endpoint)
      const error = yield* Effect.flip(Effect.scoped(pool.start(request)))
      assert.strictEqual(error.reason._tag, "Unsupported")
    }).pipe(Effect.provide(WorkerPools.layer([recording("one", ["handler"], [])]))))

  it.effect("loads a lazy pool for its first worker, once, and closes it with the layer", () =>
    Effect.gen(function*() {
      const calls: Array<string> = []
      let loads = 0
      const scope = yield* Scope.make()
      const context = yield* Layer.buildWithScope(
        WorkerPools.layer([
          recording("one", ["handler"], calls),
          WorkerPools.lazy(
            ["container"],
            Effect.suspend(() => {
              loads += 1
              return Effect.succeed(recording("two", ["container"], calls))
            })
          )
        ]),
        scope
      )
      const pool = yield* Effect.provideContext(WorkerPool, context)
      assert.deepStrictEqual(pool.supports, ["handler", "container"])
      yield* Effect.scoped(pool.start(yield* requestFor("handler")))
      assert.deepStrictEqual([loads, calls], [0, ["one built", "one starts handler"]])
      const request = yield* requestFor("container")
      yield* Effect.scoped(
        Effect.all([pool.prepare(request.endpoint), pool.start(request), pool.start(request)], { concurrency: "unbounded" })
      )
      assert.strictEqual(loads, 1)
      assert.strictEqual(calls.filter((call) => call === "two built").length, 1)
      yield* Scope.close(scope, Exit.void)
      assert.sameMembers(calls.slice(-2), ["two closed", "one closed"])
    }))

  it.effect("tries again for the next worker when a lazy pool could not be loaded", () => {
    const reason = new PoolUnavailable({ problem: "it is not installed", hint: "Install it." })
    const calls: Array<string> = []
    let loads = 0
    const load = Effect.suspend(() => {
      loads += 1
      return loads < 3 ? Effect.fail(new PoolError({ reason })) : Effect.succeed(recording("two", ["container"], calls))
    })
    return Effect.gen(function*() {
      const pool = yield* WorkerPool
      const request = yield* requestFor("container")
      yield* pool.prepare(request.endpoint)
      const error = yield* Effect.flip(Effect.scoped(pool.start(request)))
      assert.strictEqual(error.message, "No worker can be started: it is not installed. Install it.")
      yield* Effect.scoped(pool.start(request))
      assert.deepStrictEqual(calls, ["two built", "two starts container"])
    }).pipe(Effect.provide(WorkerPools.lazy(["container"], load)))
  })
})

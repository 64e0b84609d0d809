import { assert, describe, it } from "@effect/vitest"
import type { EndpointSource } from "@stint/contract/Endpoint"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as MachinePool from "../src/MachinePool.ts"
import { endpointOf, resolvedOf } from "../src/testing.ts"
import { type OrphanedWorker, type StartRequest, WorkerPool } from "../src/WorkerPool.ts"

const LOST = { _tag: "Lost", reason: "it ended.", log: [] } as const

/** A worker of an earlier platform, which has GPU 0. */
const orphan = (isRunning: boolean): OrphanedWorker => ({
  id: WorkerId.make("w-old"),
  endpoint: EndpointId.make("tested"),
  isRunning,
  reserved: { gpus: 1, cpus: 0, memoryBytes: 0 },
  gpuIds: ["0"],
  adopt: () => Effect.succeed({ id: WorkerId.make("w-old"), exit: Effect.succeed(LOST), drain: Effect.void, kill: Effect.void })
})

/** A machine with two GPUs, over a pool that records its requests. */
const machine = (
  requests: Array<StartRequest>,
  orphans: ReadonlyArray<OrphanedWorker> = [],
  options: Partial<MachinePool.Options> = {}
) =>
  MachinePool.layer({ capacity: { cpus: 4, memoryBytes: 1024 ** 3, gpuIds: ["0", "1"] }, ...options }).pipe(
    Layer.provide(Layer.succeed(
      WorkerPool,
      WorkerPool.of({
        supports: ["handler", "command", "container"],
        prepare: () => Effect.void,
        start: (request) =>
          Effect.sync(() => {
            requests.push(request)
            return { id: request.worker, exit: Effect.never, drain: Effect.void, kill: Effect.void }
          }),
        orphans
      })
    ))
  )

let count = 0
const begin = Effect.fnUntraced(function*(limits: { readonly gpus?: number }, source: "command" | "container" = "command") {
  const pool = yield* WorkerPool
  const of: EndpointSource = source === "command"
    ? { type: "command", command: ["worker"], ...limits }
    : { type: "container", image: "worker:1", ...limits }
  const scope = yield* Scope.make()
  const request = {
    endpoint: resolvedOf(yield* endpointOf({ source: of })),
    worker: WorkerId.make(`w-${++count}`),
    variables: {}
  }
  yield* Scope.provide(pool.start(request), scope)
  return { end: Scope.close(scope, Exit.void) }
})

describe("MachinePool", () => {
  it.effect("gives each worker GPUs of its own, whether it is a process or a container, and others none", () => {
    const requests: Array<StartRequest> = []
    return Effect.gen(function*() {
      yield* begin({ gpus: 1 })
      yield* begin({ gpus: 1 }, "container")
      yield* begin({})
      assert.deepStrictEqual(requests.map(({ gpuIds }) => gpuIds), [["0"], ["1"], undefined])
    }).pipe(Effect.provide(machine(requests)))
  })

  it.effect("refuses a worker for lack of GPUs, names the worker in its way, and reports when there is room again", () =>
    Effect.gen(function*() {
      const pool = yield* WorkerPool
      const first = yield* begin({ gpus: 2 })
      const error = yield* Effect.flip(begin({ gpus: 1 }))
      assert.strictEqual(error.message, "There is no capacity for another worker: this machine has 0 of 2 GPUs free.")
      assert.strictEqual(error.reason._tag === "NoCapacity" && error.reason.blockedBy?.length, 1)
      const room = yield* Deferred.make<void>()
      yield* (pool.changes ?? Stream.empty).pipe(
        Stream.runForEach(({ _tag }) => _tag === "Room" ? Deferred.succeed(room, undefined) : Effect.void),
        Effect.forkScoped({ startImmediately: true })
      )
      assert.isFalse(yield* Deferred.isDone(room))
      yield* first.end
      yield* Deferred.await(room)
      yield* begin({ gpus: 2 })
    }).pipe(Effect.scoped, Effect.provide(machine([]))))

  it.effect("keeps the GPU of a worker of an earlier platform until that worker has ended", () => {
    const requests: Array<StartRequest> = []
    return Effect.gen(function*() {
      const pool = yield* WorkerPool
      yield* begin({ gpus: 1 })
      yield* Effect.flip(begin({ gpus: 1 }))
      for (const one of pool.orphans) yield* Effect.scoped(one.adopt({}))
      yield* begin({ gpus: 1 })
      assert.deepStrictEqual(requests.map(({ gpuIds }) => gpuIds), [["1"], ["0"]])
    }).pipe(Effect.provide(machine(requests, [orphan(true)])))
  })

  it.effect("keeps nothing for a worker that had ended before, and counts no worker that runs on other machines", () =>
    Effect.gen(function*() {
      yield* begin({ gpus: 2 })
      yield* begin({ gpus: 64 }, "container")
    }).pipe(Effect.provide(machine([], [orphan(false)], { sources: ["handler", "command"] }))))
})

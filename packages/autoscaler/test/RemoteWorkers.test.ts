/**
 * Workers on other machines: lost connections to machines, workers that are found later, and new room.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Autoscaler from "@stint/autoscaler/Autoscaler"
import { EndpointId, WorkerId } from "@stint/contract/Ids"
import { toJsonText } from "@stint/contract/Json"
import { NoCapacity, PoolError } from "@stint/pool/PoolError"
import type { WorkerExit } from "@stint/pool/WorkerExit"
import { type OrphanedWorker, type PoolChange, WorkerPool } from "@stint/pool/WorkerPool"
import { JobQueue, WorkerRegistry } from "@stint/queue"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { after, deploy, jobOf, now, states, submit, withoutAutoscaler } from "./TestPlatform.ts"

/** A pool whose workers are on another machine: the tests call the queue on their behalf. */
const remotePool = Effect.gen(function*() {
  const changes = yield* Queue.unbounded<PoolChange>()
  const ends = new Map<string, Deferred.Deferred<WorkerExit>>()
  const starts: Array<WorkerId> = []
  /** `isDeaf`: workers do not end when they are asked to. */
  const state = { isDeaf: false, isFull: false }
  const pool = WorkerPool.of({
    supports: ["handler", "command"],
    prepare: () => Effect.void,
    orphans: [],
    changes: Stream.fromQueue(changes),
    start: ({ worker }) =>
      Effect.suspend(() => {
        if (state.isFull) return Effect.fail(new PoolError({ reason: new NoCapacity({ problem: "no agent is connected" }) }))
        starts.push(worker)
        const exit = Deferred.makeUnsafe<WorkerExit>()
        ends.set(worker, exit)
        const end = Effect.suspend(() =>
          state.isDeaf ? Effect.void : Effect.asVoid(Deferred.succeed(exit, { _tag: "Exited", code: 0, log: [] }))
        )
        return Effect.succeed({ id: worker, exit: Deferred.await(exit), drain: end, kill: end })
      })
  })
  const lose = (worker: string) =>
    Effect.suspend(() => {
      const exit = ends.get(worker)
      return exit === undefined
        ? Effect.die(new Error(`no worker ${worker}`))
        : Effect.asVoid(
          Deferred.succeed(exit, { _tag: "Lost", reason: "agent one has not called for 10 s.", log: [], mayRun: true })
        )
    })
  return { pool, changes, lose, starts, state }
})

type Remote = Effect.Success<typeof remotePool>

const test = (
  title: string,
  body: (remote: Remote) => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler> | Scope.Scope>
) =>
  it.effect(title, () =>
    Effect.gen(function*() {
      const scope = yield* Scope.make()
      const exit = yield* Effect.exit(Scope.provide(
        Effect.gen(function*() {
          const remote = yield* remotePool
          const pool = Layer.succeedContext(Context.make(WorkerPool, remote.pool))
          yield* Layer.build(Autoscaler.layer().pipe(Layer.provide(pool)))
          yield* body(remote)
        }),
        scope
      ))
      const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
      yield* after("2 minutes")
      yield* Fiber.join(closing)
      return yield* exit
    }).pipe(Effect.provide(withoutAutoscaler)))

const LEASE = 5_000

/** An endpoint with a job that one of the pool's workers has taken. */
const takenJob = Effect.fnUntraced(function*({ starts }: Remote) {
  const queue = yield* JobQueue.JobQueue
  const registry = yield* WorkerRegistry.WorkerRegistry
  const endpoint = yield* deploy({ workers: { max: 1 }, leaseMs: LEASE })
  const job = yield* submit(endpoint)
  yield* after(300)
  const worker = starts[0] ?? WorkerId.make("none")
  yield* queue.take({ endpoint: endpoint.id, worker, limit: 1, waitMs: 0, holding: false })
  return { endpoint, job, queue, registry, worker }
})

describe("Autoscaler: workers on other machines", () => {
  test("does not count a lost worker, and runs its job elsewhere when its lease has ended", (remote) =>
    Effect.gen(function*() {
      const { endpoint, job, queue, worker } = yield* takenJob(remote)
      assert.deepStrictEqual(yield* states(endpoint), ["running"])
      yield* remote.lose(worker)
      yield* now
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "IN_PROGRESS", "the lease decides, not the lost connection")
      assert.deepStrictEqual(yield* states(endpoint), ["draining"])
      yield* after(LEASE + 1_000)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "IN_QUEUE")
      yield* after(2_000)
      assert.lengthOf(remote.starts, 2)
      const [taken] = yield* queue.take({
        endpoint: endpoint.id,
        worker: remote.starts[1] ?? worker,
        limit: 1,
        waitMs: 0,
        holding: false
      })
      assert.strictEqual(taken?.id, job)
    }))

  test("lets a lost worker keep its job while its heartbeats arrive, and gives it no others", (remote) =>
    Effect.gen(function*() {
      const { endpoint, job, queue, worker } = yield* takenJob(remote)
      yield* remote.lose(worker)
      const waiting = yield* submit(endpoint)
      for (let seconds = 0; seconds < 60; seconds += 1) {
        yield* queue.heartbeat(endpoint.id, worker, [job])
        yield* after("1 second")
      }
      yield* queue.finish({ endpoint: endpoint.id, worker, job }, { output: toJsonText("done"), error: null })
      const done = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([done.status, done.retries], ["COMPLETED", 0])
      const take = queue.take({ endpoint: endpoint.id, worker, limit: 1, waitMs: 0, holding: false })
      assert.deepStrictEqual(yield* take, [])
      // The same after a silence long enough for the platform to forget it.
      yield* after("2 minutes")
      assert.deepStrictEqual(yield* take, [])
      assert.strictEqual((yield* jobOf(endpoint, waiting)).status, "IN_QUEUE")
    }))

  test("takes the jobs of a worker that was lost before it could be stopped, and gives it no others", (remote) =>
    Effect.gen(function*() {
      remote.state.isDeaf = true
      const { endpoint, job, queue, worker } = yield* takenJob(remote)
      yield* queue.removeWorker(endpoint.id, worker, "stop")
      yield* after(200)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "IN_PROGRESS", "the worker has not been killed yet")
      yield* remote.lose(worker)
      yield* after(100)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "IN_QUEUE")
      const take = queue.take({ endpoint: endpoint.id, worker, limit: 1, waitMs: 0, holding: false })
      assert.deepStrictEqual(yield* take, [])
      yield* after("2 minutes")
      assert.deepStrictEqual(yield* take, [])
    }))

  test("forgets a worker of an endpoint that no longer exists", (remote) =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = EndpointId.make("deleted")
      const worker = WorkerId.make("w-found")
      const exit = Deferred.makeUnsafe<WorkerExit>()
      const end = Effect.asVoid(Deferred.succeed(exit, { _tag: "Exited", code: 0, log: [] }))
      const orphan: OrphanedWorker = {
        id: worker,
        endpoint,
        isRunning: true,
        adopt: () => Effect.as(Effect.addFinalizer(() => end), { id: worker, exit: Deferred.await(exit), drain: end, kill: end })
      }
      yield* Queue.offer(remote.changes, { _tag: "Orphan", orphan })
      yield* after("1 minute")
      assert.isTrue(yield* Deferred.isDone(exit))
      assert.deepStrictEqual(yield* registry.list(endpoint), [])
    }))

  test("forgets a lost worker that does not call", (remote) =>
    Effect.gen(function*() {
      const { endpoint, registry, worker } = yield* takenJob(remote)
      yield* remote.lose(worker)
      yield* after("1 minute")
      const known = yield* registry.list(endpoint.id)
      assert.notInclude(known.map(({ id }) => id), worker)
    }))

  test("adopts a worker that the pool finds later: it finishes its job and exits", (remote) =>
    Effect.gen(function*() {
      const { endpoint, job, queue, worker } = yield* takenJob(remote)
      yield* remote.lose(worker)
      yield* now
      const exit = Deferred.makeUnsafe<WorkerExit>()
      const calls: Array<string> = []
      const orphan: OrphanedWorker = {
        id: worker,
        endpoint: endpoint.id,
        isRunning: true,
        adopt: () =>
          Effect.succeed({
            id: worker,
            exit: Deferred.await(exit),
            drain: Effect.sync(() => void calls.push("drain")),
            kill: Effect.sync(() => void calls.push("kill"))
          })
      }
      yield* Queue.offer(remote.changes, { _tag: "Orphan", orphan })
      yield* after("1 second")
      assert.deepStrictEqual([calls, yield* states(endpoint)], [[], ["draining"]])
      yield* queue.finish({ endpoint: endpoint.id, worker, job }, { output: toJsonText("done"), error: null })
      yield* after(200)
      assert.deepStrictEqual(calls, ["drain"])
      yield* Deferred.succeed(exit, { _tag: "Exited", code: 0, log: [] })
      yield* now
      assert.deepStrictEqual(yield* states(endpoint), [])
    }))

  test("starts a worker at once when there is room again, without waiting for the backoff", (remote) =>
    Effect.gen(function*() {
      remote.state.isFull = true
      const endpoint = yield* deploy({ workers: { max: 1 } })
      yield* submit(endpoint)
      // The backoff grows.
      yield* after("2 minutes")
      assert.deepStrictEqual(yield* states(endpoint), ["throttled"])
      remote.state.isFull = false
      yield* Queue.offer(remote.changes, { _tag: "Room" })
      yield* after(100)
      assert.lengthOf(remote.starts, 1)
    }))
})

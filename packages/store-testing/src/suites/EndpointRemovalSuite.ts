/**
 * The conformance suite for removing endpoints from a store of endpoints and jobs.
 */
import { assert, describe, it } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scenario from "../Scenario.ts"

/** Registers the rules for removing endpoints. The layer is built for every test. */
export const endpointRemovalSuite = <E>(name: string, store: Layer.Layer<JobStore | EndpointStore, E>): void => {
  const world = JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(store, WorkerRegistry.layer)))
  const rule = (title: string, body: Effect.Effect<void, unknown, JobQueue.JobQueue | EndpointStore>) =>
    it.effect(title, () => Effect.provide(body, world))

  describe(`removal of endpoints: ${name}`, () => {
    rule(
      "refuses to remove an endpoint with jobs that have not ended",
      Effect.gen(function*() {
        const endpoints = yield* EndpointStore
        const { queue, endpoint, fail, finish, submit, takeOne } = yield* Scenario.make({
          retry: { onError: true, backoff: { initialMs: 1_000 } }
        })
        yield* endpoints.put(endpoint)
        const remove = endpoints.remove(endpoint.id)
        yield* submit()
        assert.strictEqual(yield* remove, "busy")
        const job = yield* takeOne("ann")
        assert.strictEqual(yield* remove, "busy")
        yield* fail(job, "busy")
        assert.strictEqual(yield* remove, "busy")
        assert.deepStrictEqual(yield* endpoints.get(endpoint.id), endpoint)
        yield* queue.purge(endpoint.id)
        yield* submit()
        yield* finish(yield* takeOne("ann"))
        assert.strictEqual(yield* remove, "removed")
        assert.strictEqual(yield* endpoints.get(endpoint.id), undefined)
      })
    )

    rule(
      "refuses a submission to a removed endpoint until it is created again",
      Effect.gen(function*() {
        const endpoints = yield* EndpointStore
        const { queue, endpoint, submit } = yield* Scenario.make()
        yield* endpoints.create(endpoint)
        yield* endpoints.remove(endpoint.id)
        assert.strictEqual(yield* Scenario.reasonOf(submit()), "EndpointGone")
        assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 0)
        assert.deepStrictEqual((yield* queue.list(endpoint.id)).jobs, [])
        yield* endpoints.create(endpoint)
        yield* submit()
        assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 1)
      })
    )

    rule(
      "lets either a removal or a concurrent submission win, so that no job is without its endpoint",
      Effect.gen(function*() {
        const endpoints = yield* EndpointStore
        const { queue, endpoint, submit } = yield* Scenario.make()
        for (let round = 0; round < 20; round++) {
          yield* endpoints.put(endpoint)
          const submitting = Effect.exit(submit())
          const removing = endpoints.remove(endpoint.id)
          yield* Effect.all(round % 2 === 0 ? [submitting, removing, submitting] : [removing, submitting, removing], {
            concurrency: "unbounded",
            discard: true
          })
          const isThere = (yield* endpoints.get(endpoint.id)) !== undefined
          const { waiting } = yield* queue.depth(endpoint.id)
          assert.isTrue(isThere || waiting === 0, `round ${round}: ${waiting} jobs of a removed endpoint`)
          yield* queue.purge(endpoint.id)
        }
      })
    )
  })
}

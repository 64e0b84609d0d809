/**
 * Rules for retries: which attempts are retried, how often, and when.
 */
import { assert } from "@effect/vitest"
import { Endpoint } from "@stint/contract/Endpoint"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** A retry rule that retries errors, for the first time after 8 s. */
const patient = { onError: true, backoff: { initialMs: 8_000, factor: 2, maxMs: 60_000 } } as const

/** Registers the rules. */
export const retryRules = (rule: Rule): void => {
  rule(
    "retries an error when the request enables it, keeps the error text, and fails the job after the last attempt",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, fail, finish, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit({ policy: { retry: { onError: true } } })
        assert.strictEqual(yield* fail(yield* takeOne("ann"), "busy"), "accepted")
        const waiting = yield* queue.get(endpoint.id, id)
        const { error, finishedAt, lastError, notBefore, retries, status } = waiting
        assert.deepStrictEqual({ error, finishedAt, lastError, notBefore, retries, status }, {
          error: null,
          finishedAt: null,
          lastError: "busy",
          notBefore: null,
          retries: 1,
          status: "IN_QUEUE"
        })
        assert.strictEqual(yield* fail(yield* takeOne("ann"), "busy again"), "accepted")
        const failed = yield* queue.get(endpoint.id, id)
        assert.deepInclude(failed, { status: "FAILED", error: "busy again", lastError: null, retries: 1 })
        const other = yield* submit({ policy: { retry: { onError: true } } })
        yield* fail(yield* takeOne("ann"), "busy")
        yield* finish(yield* takeOne("ann"), 1)
        assert.deepInclude(yield* queue.get(endpoint.id, other.id), {
          status: "COMPLETED",
          output: Scenario.text(1),
          lastError: null
        })
      })
  )

  rule(
    "prefers each part of the request's retry rule to the endpoint's, and falls back to the endpoint's `maxAttempts`",
    () =>
      Effect.gen(function*() {
        const plain = yield* Scenario.make({ maxAttempts: 7 })
        const ruled = yield* Scenario.make({ maxAttempts: 7, retry: { maxAttempts: 5, onError: true } })
        const own = { retry: { maxAttempts: 3, backoff: { initialMs: 1_000, factor: 3, maxMs: 9_000 } } }
        const shown = ({ maxAttempts, retry }: { readonly maxAttempts: number; readonly retry: unknown }) => ({
          maxAttempts,
          retry
        })
        assert.deepStrictEqual(shown(yield* plain.submit()), { maxAttempts: 7, retry: null })
        assert.deepStrictEqual(shown(yield* ruled.submit()), { maxAttempts: 5, retry: { onError: true, backoff: null } })
        assert.deepStrictEqual(shown(yield* ruled.submit({ policy: own })), {
          maxAttempts: 3,
          retry: { onError: true, backoff: own.retry.backoff }
        })
        assert.deepStrictEqual(shown(yield* plain.submit({ policy: own })), {
          maxAttempts: 3,
          retry: { onError: false, backoff: own.retry.backoff }
        })
        // An endpoint that was stored before retry rules existed.
        const { retry: _, ...old } = Schema.encodeSync(Endpoint)(plain.endpoint)
        assert.strictEqual(Schema.decodeUnknownSync(Endpoint)(old).maxAttempts, 7)
      })
  )

  rule(
    "does not offer a retried job or start workers for it until its backoff ends, and then wakes a worker",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, fail, submit, take, takeOne } = yield* Scenario.make({ retry: patient })
        const { id } = yield* submit()
        yield* fail(yield* takeOne("ann"), "busy")
        const { notBefore } = yield* queue.get(endpoint.id, id)
        assert.isNotNull(notBefore)
        assert.isAtLeast(notBefore ?? 0, 4_000)
        assert.isAtMost(notBefore ?? 0, 8_000)
        assert.deepStrictEqual(yield* take("ann"), [])
        const { delayed, oldestQueuedAt, waiting } = yield* queue.depth(endpoint.id)
        assert.deepStrictEqual({ delayed, oldestQueuedAt, waiting }, { delayed: 1, oldestQueuedAt: null, waiting: 0 })
        assert.strictEqual((yield* queue.position(endpoint.id, id)).ahead, null)
        const taking = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
        yield* Scenario.settle
        yield* Scenario.pass((notBefore ?? 0) - 1)
        yield* queue.tick
        yield* Scenario.settle
        assert.isFalse(Scenario.isDone(taking))
        yield* TestClock.adjust(1)
        yield* queue.tick
        const [job] = yield* Fiber.join(taking)
        assert.strictEqual(job?.id, id)
        // The backoff is not part of the queue delay.
        assert.strictEqual(job?.queuedAt, notBefore)
      })
  )

  rule("R1, R5: keeps a backoff across a restart of the platform", () =>
    Effect.gen(function*() {
      const { endpoint, fail, submit, takeOne } = yield* Scenario.make({ retry: patient })
      const { id } = yield* submit()
      yield* fail(yield* takeOne("ann"), "busy")
      const world = JobQueue.layer.pipe(Layer.provide(WorkerRegistry.layer))
      yield* Effect.gen(function*() {
        const restarted = yield* JobQueue.JobQueue
        const take = restarted.take({ endpoint: endpoint.id, worker: "bob", limit: 1, waitMs: 0, holding: false })
        assert.deepStrictEqual(yield* take, [])
        yield* TestClock.adjust(8_000)
        yield* restarted.tick
        assert.deepStrictEqual((yield* take).map((job) => job.id), [id])
      }).pipe(Effect.provide(world, { local: true }))
    }))

  rule(
    "applies the backoff to a lost worker's job, but not to an unstarted job or a caller's retry",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, fail, submit, take, takeOne } = yield* Scenario.make({ retry: patient, maxAttempts: 2 })
        const { id } = yield* submit()
        yield* takeOne("ann")
        yield* queue.workerGone(endpoint.id, "ann", undefined)
        assert.strictEqual((yield* takeOne("bob")).id, id)
        yield* queue.workerGone(endpoint.id, "bob", "Worker bob was killed by SIGKILL.")
        const lost = yield* queue.get(endpoint.id, id)
        assert.isNotNull(lost.notBefore)
        assert.strictEqual(lost.lastError, "Worker bob was killed by SIGKILL.")
        yield* TestClock.adjust(8_000)
        yield* queue.tick
        yield* fail(yield* takeOne("cid"), "busy")
        assert.strictEqual((yield* queue.get(endpoint.id, id)).status, "FAILED")
        yield* queue.retry(endpoint.id, id)
        assert.deepStrictEqual((yield* take("dee")).map((job) => job.id), [id])
      })
  )

  rule("R8: cancels and purges a job in its backoff", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, status, submit, takeOne } = yield* Scenario.make({ retry: patient })
      const jobs = yield* Effect.replicateEffect(submit(), 2)
      yield* fail(yield* takeOne("ann"), "busy")
      yield* fail(yield* takeOne("ann"), "busy")
      const [first, second] = jobs
      assert.strictEqual((yield* queue.cancel(endpoint.id, first?.id ?? "")).status, "CANCELLED")
      assert.strictEqual(yield* queue.purge(endpoint.id), 1)
      assert.strictEqual(yield* status(second?.id ?? ""), "CANCELLED")
      yield* TestClock.adjust(60_000)
      yield* queue.tick
      assert.deepStrictEqual(yield* queue.depth(endpoint.id).pipe(Effect.map(({ delayed, waiting }) => [delayed, waiting])), [
        0,
        0
      ])
    }))

  rule("R2: retries a failed attempt once, however often its error is delivered", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, submit, takeOne } = yield* Scenario.make({ retry: { onError: true }, maxAttempts: 10 })
      const { id } = yield* submit()
      const job = yield* takeOne("ann")
      yield* Effect.all([1, 2, 3].map(() => Effect.exit(fail(job, "busy"))), { concurrency: "unbounded" })
      const { attempt, retries, status } = yield* queue.get(endpoint.id, id)
      assert.deepStrictEqual({ attempt, retries, status }, { attempt: 1, retries: 1, status: "IN_QUEUE" })
    }))
}

/**
 * Rules for isolated jobs: jobs whose worker was lost run on a worker that runs no other job, so that a job that kills its workers does not
 * take other jobs with it again.
 */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

const KILLED = "Worker ann was killed by SIGABRT."

const ids = (jobs: ReadonlyArray<{ readonly id: string }>) => jobs.map((job) => job.id)

/** Submits jobs that one worker takes together and loses. */
const lostTogether = Effect.fnUntraced(function*(count: number, settings: Parameters<typeof Scenario.make>[0] = {}) {
  const scenario = yield* Scenario.make({ maxAttempts: 3, ...settings })
  const lost = yield* Effect.replicateEffect(scenario.submit(), count)
  assert.deepStrictEqual(ids(yield* scenario.take("ann", { limit: count })), ids(lost))
  yield* scenario.queue.workerGone(scenario.endpoint.id, "ann", KILLED)
  return { ...scenario, lost: ids(lost) }
})

/** A worker with a job waits for another one, which it may not take because an isolated job waits for a free worker. */
const heldBack = Effect.gen(function*() {
  const scenario = yield* Scenario.make({ maxAttempts: 3 })
  const { endpoint, queue, started, submit, take } = scenario
  yield* started("cid")
  const isolated = yield* started("zoe")
  yield* queue.workerGone(endpoint.id, "zoe", KILLED)
  const other = yield* submit()
  const taking = yield* Effect.forkChild(take("cid", { waitMs: 60_000 }))
  yield* Scenario.settle
  assert.isFalse(Scenario.isDone(taking))
  return { ...scenario, isolated, other, taking }
})

/** Registers the rules. */
export const isolationRules = (rule: Rule): void => {
  rule("gives jobs that were lost together to workers one at a time, and other jobs together", () =>
    Effect.gen(function*() {
      const { finish, lost, submit, take } = yield* lostTogether(3)
      const others = ids(yield* Effect.replicateEffect(submit(), 3))
      for (const id of lost) {
        const taken = yield* take("bob", { limit: 8 })
        assert.deepStrictEqual(ids(taken), [id])
        assert.deepStrictEqual(yield* take("bob", { limit: 8 }), [])
        for (const job of taken) yield* finish(job)
      }
      assert.deepStrictEqual(ids(yield* take("bob", { limit: 8 })), others)
    }))

  rule("a job that kills its worker again costs no other job an attempt", () =>
    Effect.gen(function*() {
      const { endpoint, finish, lost, queue, take } = yield* lostTogether(8)
      const [culprit] = lost
      const workers = Array.from({ length: 30 }, (_, at) => `worker ${at}`)
      for (const worker of workers) {
        for (const job of yield* take(worker, { limit: 8 })) {
          if (job.id === culprit) yield* queue.workerGone(endpoint.id, worker, KILLED)
          else yield* finish(job)
        }
      }
      const reports = yield* Effect.forEach(lost, (id) => queue.get(endpoint.id, id))
      assert.deepStrictEqual(
        reports.map(({ attempt, status }) => ({ attempt, status })),
        lost.map((id) => id === culprit ? { attempt: 3, status: "FAILED" } : { attempt: 2, status: "COMPLETED" })
      )
    }))

  rule(
    "isolates the jobs of a worker whose leases expire, and of a worker that asks for jobs because it was restarted",
    () =>
      Effect.gen(function*() {
        const { endpoint, queue, submit, take } = yield* Scenario.make({ maxAttempts: 3 })
        const [first, second] = ids(yield* Effect.replicateEffect(submit(), 2))
        yield* take("ann", { limit: 2 })
        yield* TestClock.adjust(10_000)
        yield* queue.tick
        assert.deepStrictEqual(ids(yield* take("bob", { limit: 2 })), [first])
        assert.deepStrictEqual(ids(yield* take("cid", { limit: 2 })), [second])
        assert.deepStrictEqual(ids(yield* take("cid", { limit: 2, holding: false })), [second])
        assert.strictEqual((yield* queue.depth(endpoint.id)).isolated, 2)
      })
  )

  rule(
    "does not isolate jobs that a worker returned, whose error is retried, or that the machine took down with the platform",
    () =>
      Effect.gen(function*() {
        const { endpoint, fail, queue, submit, take } = yield* Scenario.make({ maxAttempts: 4 })
        const policy = { retry: { onError: true } } as const
        const jobs = ids(yield* Effect.replicateEffect(submit({ policy }), 2))
        yield* take("ann", { limit: 2 })
        yield* queue.workerGone(endpoint.id, "ann", undefined)
        yield* take("bob", { limit: 2 })
        yield* queue.workerGone(endpoint.id, "bob", "Its process had ended before the platform started.", "blameless")
        for (const job of yield* take("cid", { limit: 2 })) yield* fail(job, "busy")
        assert.deepStrictEqual(ids(yield* take("dan", { limit: 2 })), jobs)
        assert.strictEqual((yield* queue.depth(endpoint.id)).isolated, 0)
      })
  )

  rule(
    "an error that a worker survives ends the isolation, and a caller's retry of a job that killed its worker keeps it",
    () =>
      Effect.gen(function*() {
        const { endpoint, fail, lost, queue, submit, take, takeOne } = yield* lostTogether(1, { maxAttempts: 2 })
        const id = lost[0] ?? ""
        yield* takeOne("bob")
        yield* queue.workerGone(endpoint.id, "bob", KILLED)
        assert.strictEqual((yield* queue.depth(endpoint.id)).isolated, 0)
        yield* queue.retry(endpoint.id, id)
        const other = yield* submit()
        const [retried] = yield* take("cid", { limit: 2 })
        assert.strictEqual(retried?.id, id)
        if (retried !== undefined) yield* fail(retried, "no such city")
        yield* queue.retry(endpoint.id, id)
        assert.deepStrictEqual(ids(yield* take("cid", { limit: 2 })), [id, other.id])
      })
  )

  rule(
    "frees one worker, the one with the fewest jobs, for each isolated job at the head of the queue, and no other",
    () =>
      Effect.gen(function*() {
        const { endpoint, finish, queue, submit, take } = yield* Scenario.make({ maxAttempts: 3 })
        yield* submit()
        yield* take("zoe")
        yield* Effect.replicateEffect(submit(), 6)
        yield* take("ann", { limit: 3 })
        yield* take("bob", { limit: 2 })
        const [last] = yield* take("cid", { limit: 1 })
        yield* queue.workerGone(endpoint.id, "zoe", KILLED)
        const more = ids(yield* Effect.replicateEffect(submit(), 3))
        assert.deepStrictEqual(yield* take("cid"), [])
        assert.deepStrictEqual(ids(yield* take("bob")), more.slice(0, 1))
        assert.deepStrictEqual(ids(yield* take("ann")), more.slice(1, 2))
        if (last !== undefined) yield* finish(last)
        const [isolated] = yield* take("cid", { limit: 4 })
        assert.deepInclude(isolated, { isolated: true, attempt: 2 })
        assert.deepStrictEqual(ids(yield* take("bob")), more.slice(2))
      })
  )

  rule("wakes a waiting take when the worker's last job ends and an isolated job is ready for it", () =>
    Effect.gen(function*() {
      const { endpoint, finish, queue, started, take } = yield* Scenario.make({ maxAttempts: 3 })
      const lost = yield* started("zoe")
      const own = yield* started("bob")
      yield* queue.workerGone(endpoint.id, "zoe", KILLED)
      const taking = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(taking))
      yield* finish(own)
      yield* Scenario.settle
      assert.deepStrictEqual(ids(yield* Fiber.join(taking)), [lost.id])
    }))

  rule(
    "wakes a waiting take when its worker's isolated job ends, and another worker's take when this worker may not take the job",
    () =>
      Effect.gen(function*() {
        const { endpoint, finish, queue, started, submit, take, takeOne } = yield* Scenario.make({ maxAttempts: 3 })
        yield* started("zoe")
        yield* queue.workerGone(endpoint.id, "zoe", KILLED)
        const isolated = yield* takeOne("ann")
        const ann = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
        yield* Scenario.settle
        const bob = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
        yield* Scenario.settle
        const first = yield* submit()
        assert.deepStrictEqual(ids(yield* Fiber.join(bob)), [first.id])
        yield* finish(isolated)
        const second = yield* submit()
        assert.deepStrictEqual(ids(yield* Fiber.join(ann)), [second.id])
      })
  )

  rule(
    "R5: gives a job at once to a worker that was held back for an isolated job when a free worker takes that one",
    () =>
      Effect.gen(function*() {
        const { isolated, other, take, taking } = yield* heldBack
        assert.deepStrictEqual(ids(yield* take("ann")), [isolated.id])
        // No time passes.
        assert.deepStrictEqual(ids(yield* Fiber.join(taking)), [other.id])
      })
  )

  rule(
    "R5: gives a job at once to a worker that was held back for an isolated job when that one is cancelled",
    () =>
      Effect.gen(function*() {
        const { endpoint, isolated, other, queue, taking } = yield* heldBack
        yield* queue.cancel(endpoint.id, isolated.id)
        assert.deepStrictEqual(ids(yield* Fiber.join(taking)), [other.id])
      })
  )

  rule("times out an isolated job that expired, and claims the next", () =>
    Effect.gen(function*() {
      const { endpoint, queue, started, status, submit, take } = yield* Scenario.make({ maxAttempts: 3 })
      const lost = yield* started("zoe")
      yield* TestClock.adjust(1_000)
      yield* queue.workerGone(endpoint.id, "zoe", KILLED)
      yield* TestClock.adjust(298_999)
      const fresh = ids(yield* Effect.replicateEffect(submit(), 2))
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(ids(yield* take("ann", { limit: 4 })), fresh)
      assert.strictEqual(yield* status(lost.id), "TIMED_OUT")
    }))
}

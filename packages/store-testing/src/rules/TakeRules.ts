/**
 * Rules for takes: which worker receives which job, and when.
 */
import { assert } from "@effect/vitest"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

const ids = (jobs: ReadonlyArray<{ readonly id: string }>) => jobs.map((job) => job.id)

/** Registers the rules. `isOneNode`: `SuiteOptions.isOneNode`. */
export const takeRules = (rule: Rule, isOneNode: boolean): void => {
  rule("claims jobs in order of submission, as many as requested", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      const submitted = yield* Effect.replicateEffect(submit(), 5)
      assert.deepStrictEqual(ids(yield* take("ann", { limit: 2 })), ids(submitted.slice(0, 2)))
      assert.deepStrictEqual(ids(yield* take("bob")), ids(submitted.slice(2, 3)))
      assert.deepStrictEqual(ids(yield* take("ann", { limit: 10 })), ids(submitted.slice(3)))
      assert.deepStrictEqual(yield* take("ann", { limit: 10 }), [])
    }))

  rule("marks a taken job as in progress, with its worker, its attempt and a lease", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit, takeOne } = yield* Scenario.make()
      yield* submit()
      yield* TestClock.adjust(500)
      const job = yield* takeOne("ann")
      assert.strictEqual(job.status, "IN_PROGRESS")
      const { attempt, leaseExpiresAt, startedAt, worker } = yield* queue.get(endpoint.id, job.id)
      assert.deepStrictEqual({ attempt, leaseExpiresAt, startedAt, worker }, {
        attempt: 1,
        leaseExpiresAt: 10_500,
        startedAt: 500,
        worker: "ann"
      })
      const workers = yield* (yield* WorkerRegistry).list(endpoint.id)
      assert.deepStrictEqual(workers.map(({ jobs, state }) => ({ jobs, state })), [{ jobs: [job.id], state: "running" }])
    }))

  rule(
    "stores with a job the release of the worker that took it last, and none for a worker whose release is unknown",
    () =>
      Effect.gen(function*() {
        const registry = yield* WorkerRegistry
        const { endpoint, fail, finish, queue, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit({ policy: { retry: { maxAttempts: 3, onError: true } } })
        const stored = Effect.map(queue.get(endpoint.id, id), ({ release }) => release)
        assert.isNull(yield* stored)
        yield* registry.starting(endpoint.id, "ann", 7)
        assert.strictEqual((yield* takeOne("ann")).release, 7)
        assert.strictEqual(yield* stored, 7)
        yield* fail(yield* queue.get(endpoint.id, id), "busy")
        assert.strictEqual(yield* stored, 7)
        const second = yield* takeOne("external")
        assert.isNull(second.release)
        yield* fail(second, "busy")
        registry.labelled(endpoint.id, "ann", 8)
        yield* finish(yield* takeOne("ann"), 1)
        assert.strictEqual(yield* stored, 8)
        const { jobs } = yield* queue.list(endpoint.id)
        assert.deepStrictEqual(jobs.map(({ release }) => release), [8])
      })
  )

  rule("gives a worker only jobs of its own endpoint", () =>
    Effect.gen(function*() {
      const { queue, submit } = yield* Scenario.make()
      yield* submit()
      const options = { worker: "ann", limit: 10, waitMs: 0, holding: false }
      assert.deepStrictEqual(yield* queue.take({ endpoint: Scenario.elsewhere, ...options }), [])
    }))

  rule("wakes a waiting take when a job is submitted", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      const taking = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(taking))
      const job = yield* submit()
      assert.deepStrictEqual(ids(yield* Fiber.join(taking)), [job.id])
    }))

  rule("returns no job from a waiting take when it times out, and not before", () =>
    Effect.gen(function*() {
      const { take } = yield* Scenario.make()
      const taking = yield* Effect.forkChild(take("ann", { waitMs: 10_000 }))
      yield* Scenario.settle
      yield* Scenario.pass(9_999)
      assert.isFalse(Scenario.isDone(taking))
      yield* Scenario.pass(1)
      assert.deepStrictEqual(yield* Fiber.join(taking), [])
    }))

  if (isOneNode) {
    rule("treats a job as lost that a claim of the same worker receives at the same time", () =>
      Effect.gen(function*() {
        const store = yield* JobStore
        const { endpoint, submit } = yield* Scenario.make()
        const worker = { endpoint: endpoint.id, worker: "ann" }
        const lose = store.applyRunning(worker, {
          _tag: "LoseLease",
          now: 0,
          ...worker,
          cause: "Worker ann requested another job."
        })
        // Opens the connections for reads, so that a read does not come long after the claim.
        assert.deepStrictEqual(yield* Effect.replicateEffect(lose, 4), [[], [], [], []])
        const { id } = yield* submit()
        const claim = store.claim(endpoint.id, 1, { _tag: "Claim", now: 0, worker: "ann" })
        // A claim that reads payloads from elsewhere may return after the loss, without the job.
        const [, lost] = yield* Effect.all([claim, lose], { concurrency: 2 })
        assert.deepStrictEqual(lost.map((one) => one._tag === "Changed" ? one.after.id : one._tag), [id])
      }))

    rule("gives a job to the worker that has waited longest, and wakes only that worker", () =>
      Effect.gen(function*() {
        const { submit, take } = yield* Scenario.make()
        const first = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
        yield* Scenario.settle
        const second = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
        yield* Scenario.settle
        const a = yield* submit()
        assert.deepStrictEqual(ids(yield* Fiber.join(first)), [a.id])
        yield* Scenario.settle
        assert.isFalse(Scenario.isDone(second))
        const b = yield* submit()
        assert.deepStrictEqual(ids(yield* Fiber.join(second)), [b.id])
      }))
  }

  rule("gives every job to exactly one of two workers", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      const jobs = yield* Effect.replicateEffect(submit(), 40)
      const taken = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => n),
        (n) => take(`worker-${n}`, { limit: 1 + n % 4 }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(ids(taken.flat()).sort(), ids(jobs).sort())
    }))

  rule("loses no wake-up, whichever of submission and take comes first", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      const count = 24
      // Takes and submissions interleave at random. No time passes, so only a wake-up can end a wait.
      const both = yield* Effect.forEach(
        Array.from({ length: 2 * count }, (_, n) => n),
        (n): Effect.Effect<ReadonlyArray<{ readonly id: string }>, unknown> =>
          n % 2 === 0
            ? Effect.andThen(Effect.replicateEffect(Effect.yieldNow, n % 5), take(`worker-${n}`, { waitMs: 60_000 }))
            : Effect.andThen(Effect.replicateEffect(Effect.yieldNow, n % 7), submit()).pipe(Effect.as([])),
        { concurrency: "unbounded" }
      )
      assert.strictEqual(new Set(ids(both.flat())).size, count)
    }))

  rule("claims no job for a waiting take that is interrupted", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit, take } = yield* Scenario.make()
      const taking = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      yield* Fiber.interrupt(taking)
      assert.isTrue(Scenario.wasInterrupted(taking))
      const job = yield* submit()
      assert.strictEqual((yield* queue.get(endpoint.id, job.id)).status, "IN_QUEUE")
      assert.deepStrictEqual(ids(yield* take("bob", { waitMs: 60_000 })), [job.id])
    }))

  rule("passes a wake-up that coincides with an interruption to the next waiting take", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* Scenario.make()
      const interrupted = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      yield* Scenario.settle
      const next = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
      yield* Scenario.settle
      const submitting = yield* Effect.forkChild(submit())
      yield* Fiber.interrupt(interrupted)
      const job = yield* Fiber.join(submitting)
      const exit = interrupted.pollUnsafe()
      // If the interruption came first, the next worker was woken. If the job came first, ann has it.
      if (exit?._tag === "Success") {
        assert.deepStrictEqual(ids(exit.value), [job.id])
        yield* Fiber.interrupt(next)
      } else {
        assert.deepStrictEqual(ids(yield* Fiber.join(next)), [job.id])
      }
    }))

  rule("treats a job as lost when its worker reports that it is running no jobs", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, take, takeOne } = yield* Scenario.make()
      const job = yield* started("ann")
      const again = yield* takeOne("ann", { holding: false })
      assert.strictEqual(again.id, job.id)
      assert.strictEqual(again.attempt, 2)
      assert.strictEqual(again.retries, 1)
      // The worker does not receive a stop signal for the job that it has just taken again.
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
      assert.deepStrictEqual(yield* take("ann", { holding: false }), [])
      const ended = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(ended.status, "FAILED")
      assert.include(ended.error ?? "", "requested another one without delivering a result")
      assert.include(ended.error ?? "", "attempt 2 of 2")
    }))

  rule("keeps the jobs of a worker that runs them when it takes more", () =>
    Effect.gen(function*() {
      const { started, status, take } = yield* Scenario.make()
      const job = yield* started("ann")
      assert.deepStrictEqual(yield* take("ann", { holding: true }), [])
      assert.strictEqual(yield* status(job.id), "IN_PROGRESS")
    }))

  rule("gives a job that one worker lost to a waiting worker at once", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, take } = yield* Scenario.make()
      const job = yield* started("ann")
      const waiting = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
      yield* Scenario.settle
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann exited with code 1.")
      assert.deepStrictEqual(ids(yield* Fiber.join(waiting)), [job.id])
    }))

  rule(
    "gives the job of a worker that is gone to the next worker, and not to a take that it has left open",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, started, take } = yield* Scenario.make()
        const job = yield* started("ann")
        const left = yield* Effect.forkChild(take("ann", { waitMs: 60_000, holding: true }))
        yield* Scenario.settle
        const waiting = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
        yield* Scenario.settle
        yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
        assert.deepStrictEqual(ids(yield* Fiber.join(waiting)), [job.id])
        assert.deepStrictEqual(yield* Fiber.join(left), [])
      })
  )

  rule(
    "delays the take of a draining worker by a second, so that repeated takes cost little",
    () =>
      Effect.gen(function*() {
        const { endpoint, queue, submit, take } = yield* Scenario.make()
        yield* take("ann", { waitMs: 0 })
        yield* queue.drainWorker(endpoint.id, "ann")
        yield* submit()
        const asking = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
        yield* TestClock.adjust(999)
        yield* Scenario.settle
        assert.isFalse(Scenario.isDone(asking))
        yield* TestClock.adjust(1)
        assert.deepStrictEqual(yield* Fiber.join(asking), [])
      })
  )

  rule("gives a draining worker no job, and ends its open take at once", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, submit, take, status } = yield* Scenario.make()
      const running = yield* started("ann")
      const draining = yield* Effect.forkChild(take("ann", { waitMs: 60_000 }))
      const other = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
      yield* Scenario.settle
      yield* queue.drainWorker(endpoint.id, "ann")
      assert.deepStrictEqual(yield* Fiber.join(draining), [])
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(other))
      const job = yield* submit()
      assert.deepStrictEqual(yield* take("ann"), [])
      assert.deepStrictEqual(ids(yield* Fiber.join(other)), [job.id])
      assert.strictEqual(yield* status(running.id), "IN_PROGRESS")
    }))

  rule("ends every wait when the queue closes", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, take } = yield* Scenario.make()
      const job = yield* started("ann")
      const taking = yield* Effect.forkChild(take("bob", { waitMs: 60_000 }))
      const ending = yield* Effect.forkChild(queue.awaitEnd(endpoint.id, job.id, 60_000))
      const draining = yield* Effect.forkChild(queue.drain(endpoint.id, job.id, 60_000))
      const stopping = yield* Effect.forkChild(queue.stopSignals(endpoint.id, "ann", 60_000))
      const scaling = yield* Effect.forkChild(queue.awaitDemand(endpoint.id, 60_000))
      yield* Scenario.settle
      yield* queue.completeWaits
      assert.deepStrictEqual(yield* Fiber.join(taking), [])
      assert.strictEqual((yield* Fiber.join(ending)).status, "IN_PROGRESS")
      assert.deepStrictEqual((yield* Fiber.join(draining)).chunks, [])
      assert.deepStrictEqual(yield* Fiber.join(stopping), [])
      yield* Fiber.join(scaling)
      assert.deepStrictEqual(yield* take("bob", { waitMs: 60_000 }), [])
    }))
}

/**
 * Rules for results: which worker's writes are accepted, and for how long.
 */
import { assert } from "@effect/vitest"
import { type JsonText, toJsonText } from "@stint/contract/Json"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const resultRules = (rule: Rule): void => {
  rule("completes the job with its result, and frees its worker", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* TestClock.adjust(700)
      assert.strictEqual(yield* finish(job, { sum: 3 }), "accepted")
      const ended = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(ended.status, "COMPLETED")
      assert.strictEqual(ended.output, `{"sum":3}`)
      assert.strictEqual(ended.error, null)
      assert.strictEqual(ended.worker, "ann")
      assert.strictEqual(ended.finishedAt, 700)
      assert.strictEqual(ended.leaseExpiresAt, null)
      const workers = yield* (yield* WorkerRegistry).list(endpoint.id)
      assert.deepStrictEqual(workers.map(({ idleSince, state }) => ({ idleSince, state })), [{ idleSince: 700, state: "idle" }])
      assert.deepStrictEqual(yield* queue.stopSignals(endpoint.id, "ann", 0), [])
    }))

  rule("fails the job with its error, and keeps the output delivered with it", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.finish(Scenario.holderOf(job), { output: toJsonText({ rest: 1 }), error: "no such city" })
      const ended = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(ended.status, "FAILED")
      assert.strictEqual(ended.error, "no such city")
      assert.strictEqual(ended.output, `{"rest":1}`)
      // Without a retry rule, a job is retried only after its worker is lost, never after an error.
      assert.strictEqual(ended.retries, 0)
    }))

  rule("completes a job without output", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* queue.progress(Scenario.holderOf(job), toJsonText("half"))
      yield* queue.finish(Scenario.holderOf(job), { output: null, error: null })
      const { error, output, progress, status } = yield* queue.get(endpoint.id, job.id)
      assert.deepStrictEqual({ error, output, progress, status }, {
        error: null,
        output: null,
        progress: null,
        status: "COMPLETED"
      })
    }))

  rule("R2: keeps the first result and ignores a repeated one", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      assert.strictEqual(yield* finish(job, 1), "accepted")
      assert.strictEqual(yield* finish(job, 2), "ignored")
      assert.strictEqual(yield* fail(job, "late"), "ignored")
      const { error, output, status } = yield* queue.get(endpoint.id, job.id)
      assert.deepStrictEqual({ error, output, status }, { error: null, output: "1", status: "COMPLETED" })
    }))

  rule("R2: accepts exactly one of several concurrent results", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const verdicts = yield* Effect.forEach([1, 2, 3, 4, 5], (n) => Effect.map(finish(job, n), (verdict) => ({ n, verdict })), {
        concurrency: "unbounded"
      })
      const accepted = verdicts.filter(({ verdict }) => verdict === "accepted")
      assert.strictEqual(accepted.length, 1)
      assert.strictEqual((yield* queue.get(endpoint.id, job.id)).output, String(accepted[0]?.n))
    }))

  rule("shows progress while the job runs, renews the lease with it, and removes it at the end", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const holder = Scenario.holderOf(job)
      yield* TestClock.adjust(9_000)
      assert.strictEqual(yield* queue.progress(holder, toJsonText({ done: 10 })), "accepted")
      assert.strictEqual(yield* queue.progress(holder, toJsonText({ done: 20 })), "accepted")
      const running = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(running.progress, `{"done":20}`)
      assert.strictEqual(running.leaseExpiresAt, 19_000)
      yield* finish(job)
      assert.strictEqual((yield* queue.get(endpoint.id, job.id)).progress, null)
    }))

  rule("ignores progress and chunks after the end", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* finish(job)
      const before = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(yield* queue.progress(Scenario.holderOf(job), toJsonText("late")), "ignored")
      assert.strictEqual(yield* queue.append(Scenario.holderOf(job), toJsonText("late")), "ignored")
      assert.deepStrictEqual(yield* queue.get(endpoint.id, job.id), before)
      assert.deepStrictEqual((yield* queue.drain(endpoint.id, job.id, 0)).chunks, [])
    }))

  rule("R2: refuses a worker that lost its job, and names the worker that holds it", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, takeOne } = yield* Scenario.make()
      const stale = yield* started("ann")
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      const fresh = yield* takeOne("bob")
      assert.strictEqual(fresh.id, stale.id)

      const writes: ReadonlyArray<Effect.Effect<unknown, unknown>> = [
        queue.progress(Scenario.holderOf(stale), toJsonText("stale")),
        queue.append(Scenario.holderOf(stale), toJsonText("stale")),
        queue.finish(Scenario.holderOf(stale), { output: toJsonText("stale"), error: null })
      ]
      for (const write of writes) {
        const error = yield* Effect.flip(write)
        assert.deepInclude(error, { _tag: "LeaseLost", worker: "ann", holder: "bob" })
      }
      const { chunks, progress, status, worker } = yield* queue.get(endpoint.id, stale.id)
      assert.deepStrictEqual({ chunks, progress, status, worker }, {
        chunks: 0,
        progress: null,
        status: "IN_PROGRESS",
        worker: "bob"
      })
      yield* queue.finish(Scenario.holderOf(fresh), { output: toJsonText("fresh"), error: null })
      // The same holds after the end: the stored result is bob's, so ann's result is not a repetition of it.
      assert.strictEqual(
        yield* Scenario.reasonOf(queue.finish(Scenario.holderOf(stale), { output: toJsonText("stale"), error: null })),
        "LeaseLost"
      )
      assert.strictEqual((yield* queue.get(endpoint.id, stale.id)).output, `"fresh"`)
    }))

  rule("R2: refuses an earlier attempt of the same worker when the write names its attempt", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, takeOne } = yield* Scenario.make()
      const stale = yield* started("ann")
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      const fresh = yield* takeOne("ann")
      assert.strictEqual(fresh.attempt, 2)
      const output: JsonText = toJsonText("stale")
      assert.strictEqual(
        yield* Scenario.reasonOf(queue.finish(Scenario.holderOf(stale), { output, error: null })),
        "LeaseLost"
      )
      assert.strictEqual((yield* queue.get(endpoint.id, stale.id)).status, "IN_PROGRESS")
      // A worker that sends no attempt is identified by its name only.
      const { attempt: _, ...nameless } = Scenario.holderOf(fresh)
      assert.strictEqual(yield* queue.finish(nameless, { output, error: null }), "accepted")
    }))

  rule("refuses a worker with the same name on another endpoint", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const before = yield* queue.get(endpoint.id, job.id)
      yield* TestClock.adjust(1_000)
      const namesake = { ...Scenario.holderOf(job), endpoint: Scenario.elsewhere }
      const output = toJsonText("mine")
      assert.strictEqual(yield* Scenario.reasonOf(queue.progress(namesake, output)), "JobMissing")
      assert.strictEqual(yield* Scenario.reasonOf(queue.append(namesake, output)), "JobMissing")
      assert.strictEqual(yield* Scenario.reasonOf(queue.finish(namesake, { output, error: null })), "JobMissing")
      yield* queue.heartbeat(Scenario.elsewhere, "ann", [job.id])
      yield* queue.returnJobs(Scenario.elsewhere, "ann", [job.id])
      yield* queue.workerGone(Scenario.elsewhere, "ann", "Worker ann exited with code 1.")
      assert.deepStrictEqual(yield* queue.get(endpoint.id, job.id), before)
    }))

  rule("wakes a caller that waits for the end, with the result", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const waiting = yield* Effect.forEach([1, 2, 3], () => Effect.forkChild(queue.awaitEnd(endpoint.id, job.id, 60_000)))
      yield* Scenario.settle
      yield* queue.progress(Scenario.holderOf(job), toJsonText("half"))
      yield* Scenario.settle
      assert.isFalse(waiting.some(Scenario.isDone))
      yield* finish(job, 42)
      for (const fiber of waiting) assert.strictEqual((yield* Fiber.join(fiber)).output, "42")
      // After the job's end, the call returns at once.
      assert.strictEqual((yield* queue.awaitEnd(endpoint.id, job.id, 60_000)).output, "42")
    }))

  rule("returns the current state to a caller whose wait times out", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const waiting = yield* Effect.forkChild(queue.awaitEnd(endpoint.id, job.id, 5_000))
      yield* Scenario.settle
      yield* Scenario.pass(5_000)
      assert.strictEqual((yield* Fiber.join(waiting)).status, "IN_PROGRESS")
    }))
}

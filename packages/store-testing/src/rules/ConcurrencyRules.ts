/**
 * Rules for concurrency keys: only a limited number of an endpoint's jobs with the same key run at a time
 * (docs/spec/endpoints.md#concurrency-keys).
 */
import { assert } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import type { JobRecord } from "@stint/store/JobRecord"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

const ids = (jobs: ReadonlyArray<{ readonly id: string }>) => jobs.map((job) => job.id)

const of = (customer: unknown) => ({ input: toJsonText({ customer }) })

/** An endpoint whose jobs use their customer as the key. */
const limited = Effect.fnUntraced(function*(limit: number, settings: Parameters<typeof Scenario.make>[0] = {}) {
  const scenario = yield* Scenario.make({ concurrency: { key: "input.customer", limit }, ...settings })
  return { ...scenario, submitFor: (customer: unknown) => scenario.submit(of(customer)) }
})

/**
 * Callers of three customers submit while six workers take and end jobs in different ways, all at the same time. Fails when
 * more jobs of a key run than its limit allows, and when a job is left over.
 */
export const racingKeys = Effect.gen(function*() {
  const limit = 2
  const perCustomer = 30
  const { endpoint, fail, finish, queue, submitFor, take } = yield* limited(limit, {
    maxAttempts: 3,
    retry: { onError: true }
  })
  const running = new Map<string, number>()
  const excess: Array<string> = []
  const ended = new Set<string>()
  const worker = Effect.fnUntraced(function*(name: string) {
    for (let round = 0; ended.size < 3 * perCustomer; round++) {
      const jobs = yield* take(name, { limit: 3 })
      for (const { concurrency, id } of jobs) {
        const key = concurrency?.key ?? ""
        const count = (running.get(key) ?? 0) + 1
        running.set(key, count)
        if (count > limit) excess.push(`${id} is job ${count} of key "${key}"`)
      }
      yield* Effect.yieldNow
      yield* Effect.forEach(jobs, (job, at) => {
        const key = job.concurrency?.key ?? ""
        running.set(key, (running.get(key) ?? 0) - 1)
        if ((round + at) % 5 === 0 && job.attempt === 1) return fail(job, "busy")
        if ((round + at) % 7 === 0 && job.attempt < 3) return queue.returnJobs(endpoint.id, name, [job.id])
        ended.add(job.id)
        return (round + at) % 3 === 0 ? queue.cancel(endpoint.id, job.id) : finish(job)
      }, { concurrency: "unbounded", discard: true })
      if (jobs.length === 0) yield* Effect.yieldNow
    }
  })
  const callers = ["ann", "bob", "cid"].map((customer) =>
    Effect.replicateEffect(submitFor(customer), perCustomer, { concurrency: 4 })
  )
  yield* Effect.all([...callers, ...["w1", "w2", "w3", "w4", "w5", "w6"].map(worker)], {
    concurrency: "unbounded",
    discard: true
  })
  assert.deepStrictEqual(excess, [])
  assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 0, delayed: 0, running: 0 })
})

/** Registers the rules. */
export const concurrencyRules = (rule: Rule): void => {
  rule("runs no more jobs of a key at a time than its limit, and does not hold up other keys", () =>
    Effect.gen(function*() {
      const { finish, submitFor, take } = yield* limited(2)
      const acme = yield* Effect.replicateEffect(submitFor("acme"), 4)
      const other = yield* submitFor("other")
      const taken = yield* take("w1", { limit: 10 })
      assert.deepStrictEqual(ids(taken), ids([...acme.slice(0, 2), other]))
      assert.deepStrictEqual(yield* take("w2", { limit: 10 }), [])
      for (const job of taken.slice(0, 1)) yield* finish(job)
      assert.deepStrictEqual(ids(yield* take("w2", { limit: 10 })), ids(acme.slice(2, 3)))
    }))

  rule("no job exceeds the limit or is left over when submissions, takes, errors, returns and cancels race", () => racingKeys)

  rule(
    "alternates between keys, so that a key with many jobs delays another key by no more jobs than its limit",
    () =>
      Effect.gen(function*() {
        const { finish, submitFor, takeOne } = yield* limited(2)
        const many = ids(yield* Effect.replicateEffect(submitFor("many"), 6))
        const some = ids(yield* Effect.replicateEffect(submitFor("some"), 3))
        const one = ids([yield* submitFor("one")])
        const order: Array<string> = []
        for (let at = 0; at < 10; at++) {
          const job = yield* takeOne("w1")
          order.push(job.id)
          yield* finish(job)
        }
        assert.deepStrictEqual(order, [
          ...many.slice(0, 2),
          ...some.slice(0, 2),
          ...one,
          ...many.slice(2, 4),
          ...some.slice(2),
          ...many.slice(4)
        ])
      })
  )

  rule("releases the held jobs of a key by priority, then in order of submission", () =>
    Effect.gen(function*() {
      const { finish, submit, takeOne } = yield* limited(1)
      const first = yield* submit(of("acme"))
      const jobs = yield* Effect.forEach([0, 5, 0, 9], (priority) => submit({ ...of("acme"), priority }))
      const order: Array<string> = []
      for (let at = 0; at < 5; at++) {
        const job = yield* takeOne("w1")
        order.push(job.id)
        yield* finish(job)
      }
      assert.deepStrictEqual<unknown>(order, [first.id, ...[3, 1, 0, 2].map((at) => jobs[at]?.id)])
    }))

  rule(
    "does not count held jobs as waiting, and measures the wait of a released job from its release",
    () =>
      Effect.gen(function*() {
        const { endpoint, finish, queue, submitFor, takeOne } = yield* limited(1)
        yield* submitFor("acme")
        const held = yield* submitFor("acme")
        assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 1, delayed: 1, running: 0, oldestQueuedAt: 0 })
        const running = yield* takeOne("w1")
        assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 0, delayed: 1, running: 1, oldestQueuedAt: null })
        yield* TestClock.adjust(7_000)
        yield* finish(running)
        assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 1, delayed: 0, running: 0, oldestQueuedAt: 7_000 })
        assert.deepInclude(yield* queue.get(endpoint.id, held.id), { createdAt: 0, queuedAt: 7_000 })
      })
  )

  rule("frees the slot of a job however the job ends, and while it waits for its next attempt", () =>
    Effect.gen(function*() {
      const backoff = { initialMs: 5_000, factor: 1, maxMs: 5_000 }
      const { endpoint, fail, queue, submitFor, take, takeOne } = yield* limited(1, {
        retry: { onError: true, maxAttempts: 2, backoff }
      })
      const jobs = ids(yield* Effect.replicateEffect(submitFor("acme"), 6))
      // An error that is retried later.
      yield* fail(yield* takeOne("w1"), "busy")
      // A cancel while it runs, and one while it is ready.
      yield* queue.cancel(endpoint.id, (yield* takeOne("w1")).id)
      yield* queue.cancel(endpoint.id, jobs[2] ?? "")
      // A lost worker.
      const lost = yield* takeOne("w1")
      assert.strictEqual(lost.id, jobs[3])
      yield* queue.workerGone(endpoint.id, "w1", "Worker w1 was killed by SIGKILL.")
      // The worker returns it unstarted: it is still the next job of its key.
      const [returned] = yield* take("w2")
      assert.strictEqual(returned?.id, jobs[4])
      yield* queue.returnJobs(endpoint.id, "w2", [returned?.id ?? ""])
      assert.deepStrictEqual(ids(yield* take("w2", { limit: 9 })), jobs.slice(4, 5))
      // The jobs whose backoff ended ask for a slot again, after the job that was released earlier.
      yield* TestClock.adjust(5_000)
      yield* queue.tick
      assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 0, delayed: 3, running: 1 })
      for (const left of [jobs[0], jobs[3], jobs[5]]) {
        yield* queue.workerGone(endpoint.id, "w2", undefined)
        for (const job of yield* take("w2")) yield* queue.cancel(endpoint.id, job.id)
        const [next] = yield* take("w2")
        assert.strictEqual(next?.id, left)
      }
    }))

  rule(
    "frees the slot of a ready or running job whose lease, execution timeout or time to live ends",
    () =>
      Effect.gen(function*() {
        const { endpoint, queue, status, submit, take, takeOne } = yield* limited(1, { maxAttempts: 1 })
        const short = yield* submit({ ...of("acme"), policy: { ttl: 10_000 } })
        const next = yield* submit(of("acme"))
        const last = yield* submit(of("acme"))
        yield* TestClock.adjust(10_000)
        assert.deepStrictEqual(ids(yield* take("w1", { limit: 5 })), [next.id])
        assert.strictEqual(yield* status(short.id), "TIMED_OUT")
        yield* TestClock.adjust(10_000)
        while (yield* queue.tick);
        assert.strictEqual(yield* status(next.id), "FAILED")
        assert.strictEqual((yield* takeOne("w2")).id, last.id)
        assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 0, delayed: 0, running: 1 })
      })
  )

  rule(
    "a take that finds expired jobs takes the job that they held up, before jobs of a lower priority",
    () =>
      Effect.gen(function*() {
        const { status, submit, take } = yield* limited(1)
        const first = yield* submit({ ...of("initech"), priority: 9 })
        const acme = { ...of("acme"), priority: 5 }
        const short = yield* Effect.replicateEffect(submit({ ...acme, policy: { ttl: 10_000 } }), 2)
        const held = yield* submit(acme)
        const other = yield* submit(of("globex"))
        yield* TestClock.adjust(10_000)
        assert.deepStrictEqual(ids(yield* take("w1", { limit: 3 })), [first.id, held.id, other.id])
        for (const { id } of short) assert.strictEqual(yield* status(id), "TIMED_OUT")
      })
  )

  rule("cancels, times out and purges held jobs, and a retried job asks for a slot again", () =>
    Effect.gen(function*() {
      const { endpoint, finish, queue, status, submit, submitFor, takeOne } = yield* limited(1)
      const running = yield* Effect.andThen(submitFor("acme"), takeOne("w1"))
      const [cancelled, purged] = ids(yield* Effect.replicateEffect(submitFor("acme"), 2))
      const expired = yield* submit({ ...of("acme"), policy: { ttl: 10_000 } })
      yield* queue.cancel(endpoint.id, cancelled ?? "")
      yield* TestClock.adjust(5_000)
      yield* queue.heartbeat(endpoint.id, "w1", [running.id])
      yield* TestClock.adjust(5_000)
      while (yield* queue.tick);
      assert.strictEqual(yield* status(expired.id), "TIMED_OUT")
      assert.strictEqual(yield* queue.purge(endpoint.id), 1)
      assert.strictEqual(yield* status(purged ?? ""), "CANCELLED")
      yield* queue.retry(endpoint.id, expired.id)
      assert.deepInclude(yield* queue.depth(endpoint.id), { waiting: 0, delayed: 1, running: 1 })
      yield* finish(running)
      assert.strictEqual((yield* takeOne("w1")).id, expired.id)
    }))

  rule("wakes a waiting take when a slot becomes free", () =>
    Effect.gen(function*() {
      const { finish, submitFor, take, takeOne } = yield* limited(1)
      yield* submitFor("acme")
      const running = yield* takeOne("w1")
      const held = yield* submitFor("acme")
      const taking = yield* Effect.forkChild(take("w2", { waitMs: 60_000 }))
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(taking))
      yield* finish(running)
      yield* Scenario.settle
      assert.deepStrictEqual(ids(yield* Fiber.join(taking)), [held.id])
    }))

  rule("applies a raised, lowered or removed limit when a job of the key is submitted or ends", () =>
    Effect.gen(function*() {
      const { endpoint, finish, queue, submitFor } = yield* limited(1)
      const take = (limit: number | undefined) =>
        queue.take({ endpoint: endpoint.id, worker: "w1", limit: 20, waitMs: 0, holding: true, keyLimit: limit })
      const end = (jobs: ReadonlyArray<JobRecord>) => Effect.forEach(jobs, (job) => finish(job), { discard: true })
      yield* Effect.replicateEffect(submitFor("acme"), 12)
      const first = yield* take(3)
      assert.strictEqual(first.length, 1)
      yield* end(first)
      const raised = yield* take(3)
      assert.strictEqual(raised.length, 3)
      yield* take(2)
      yield* end(raised.slice(0, 1))
      assert.strictEqual((yield* take(2)).length, 0)
      yield* end(raised.slice(1, 2))
      const lowered = yield* take(2)
      assert.strictEqual(lowered.length, 1)
      yield* take(undefined)
      yield* end(lowered)
      assert.strictEqual((yield* take(undefined)).length, 7)
      assert.deepInclude(yield* queue.depth(endpoint.id), { delayed: 0, running: 8 })
    }))

  rule("uses strings, numbers and missing values of the input as keys, or one key for all jobs", () =>
    Effect.gen(function*() {
      const { submit, take } = yield* limited(1)
      const inputs = ["7", 7, 7.0, "", null, undefined, "é\"\\", { a: [1] }, { a: [1] }, "x".repeat(300), `${"x".repeat(299)}y`]
      const jobs = yield* Effect.forEach(inputs, (customer) => submit(of(customer)))
      yield* submit({ input: toJsonText("no object") })
      const distinct = [0, 3, 6, 7, 9, 10].map((at) => jobs[at]?.id)
      assert.deepStrictEqual<unknown>(ids(yield* take("w1", { limit: 20 })), distinct)
      const constant = yield* Scenario.make({ id: "numbers", concurrency: { key: "database", limit: 2 } })
      yield* Effect.forEach([1, 2, 3], (customer) => constant.submit(of(customer)))
      assert.strictEqual((yield* constant.take("w1", { limit: 9 })).length, 2)
    }))

  rule("keeps the limits of endpoints apart, and explains what a held job waits for", () =>
    Effect.gen(function*() {
      const here = yield* limited(2)
      const there = yield* limited(2, { id: "numbers" })
      yield* Effect.replicateEffect(there.submitFor("acme"), 2)
      const jobs = yield* Effect.replicateEffect(here.submitFor("acme"), 4)
      yield* here.submit({ ...of("acme"), priority: 3 })
      yield* here.takeOne("w1")
      const usage = (id: string) => Effect.map(here.queue.position(here.endpoint.id, id), ({ key }) => key)
      assert.deepStrictEqual(yield* usage(jobs[3]?.id ?? ""), { running: 1, ready: 1, held: 2 })
      assert.deepStrictEqual(yield* usage(jobs[2]?.id ?? ""), { running: 1, ready: 1, held: 1 })
      assert.isUndefined(yield* usage(jobs[0]?.id ?? ""))
    }))
}

/**
 * Rules for submissions: the stored job equals what the caller sent.
 */
import { assert } from "@effect/vitest"
import { JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
import { JobQueue } from "@stint/queue/JobQueue"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const submitRules = (rule: Rule): void => {
  rule("reports the store's durability", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* JobQueue).durability, (yield* JobStore).durability)
    }))

  rule("returns the input of a job, unchanged, even after its end, and not for another endpoint", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      assert.strictEqual(yield* queue.input(endpoint.id, job.id), job.input)
      yield* finish(job, { sum: 3 })
      assert.strictEqual(yield* queue.input(endpoint.id, job.id), job.input)
      assert.strictEqual(yield* Scenario.reasonOf(queue.input(Scenario.elsewhere, job.id)), "JobMissing")
      assert.strictEqual(yield* Scenario.reasonOf(queue.input(endpoint.id, "unknown")), "JobMissing")
    }))

  rule("queues a submitted job with the endpoint's limits, overridden by the caller's", () =>
    Effect.gen(function*() {
      yield* TestClock.adjust(1_000)
      const { queue, endpoint, submit } = yield* Scenario.make()
      const plain = yield* submit()
      const own = yield* submit({ policy: { ttl: 20_000, executionTimeout: 5_000, lowPriority: true } })
      const expected = {
        id: plain.id,
        endpoint: endpoint.id,
        status: "IN_QUEUE",
        lowPriority: false,
        priority: 0,
        createdAt: 1_000,
        queuedAt: 1_000,
        notBefore: null,
        ttlMs: 300_000,
        retry: null,
        webhook: null,
        tags: [],
        expiresAt: 301_000,
        executionTimeoutMs: 60_000,
        leaseMs: 10_000,
        maxAttempts: 2,
        retentionMs: 600_000,
        attempt: 0,
        retries: 0,
        isolated: false,
        concurrency: null,
        worker: null,
        release: null,
        startedAt: null,
        leaseExpiresAt: null,
        finishedAt: null,
        progress: null,
        output: null,
        error: null,
        lastError: null,
        chunks: 0,
        drained: 0,
        batchId: null,
        owner: ""
      }
      assert.deepStrictEqual<unknown>(plain, {
        ...expected,
        input: plain.input,
        s3Config: null,
        traceparent: null,
        tracestate: null
      })
      assert.deepStrictEqual<unknown>(yield* queue.get(endpoint.id, plain.id), expected)
      const { executionTimeoutMs, expiresAt, lowPriority } = yield* queue.get(endpoint.id, own.id)
      assert.deepStrictEqual({ executionTimeoutMs, expiresAt, lowPriority }, {
        executionTimeoutMs: 5_000,
        expiresAt: 21_000,
        lowPriority: true
      })
    }))

  rule("returns payloads byte by byte, whatever their size and content", () =>
    Effect.gen(function*() {
      const scenario = yield* Scenario.make()
      const texts = [
        "{}",
        "null",
        `{"spaces"  :\t[1, 2.50e3 ],"emoji":"\u{1F680}é","escaped":"\\u0000\\ud800"}`,
        `"${"x".repeat(3_000_000)}"`
      ]
      for (const text of texts) {
        const sent = JsonText.make(text)
        yield* scenario.submit({ input: sent, s3Config: sent })
        const [job] = yield* scenario.take("ann")
        assert.isTrue(job?.input === sent && job.s3Config === sent, "the input or the s3Config changed on its way to the worker")
        if (job === undefined) continue
        yield* scenario.queue.progress(Scenario.holderOf(job), sent)
        assert.isTrue((yield* scenario.queue.get(job.endpoint, job.id)).progress === sent, "the progress changed")
        yield* scenario.queue.append(Scenario.holderOf(job), sent)
        assert.isTrue((yield* scenario.queue.drain(job.endpoint, job.id, 0)).chunks[0] === sent, "the chunk changed")
        yield* scenario.queue.finish(Scenario.holderOf(job), { output: sent, error: `a\u0000b\n${text.slice(0, 100)}` })
        const ended = yield* scenario.queue.get(job.endpoint, job.id)
        assert.isTrue(ended.output === sent, "the output changed")
        assert.strictEqual(ended.error, `a\u0000b\n${text.slice(0, 100)}`)
      }
    }))

  rule("passes the caller's span to each worker that takes the job", () =>
    Effect.gen(function*() {
      const { endpoint, queue, submit, take } = yield* Scenario.make()
      const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
      const traced = yield* submit({ trace: { traceparent, tracestate: `vendor="1",other=2` } })
      const [first] = yield* take("ann")
      yield* queue.returnJobs(endpoint.id, "ann", [traced.id])
      const [second] = yield* take("bob")
      for (const job of [traced, first, second]) {
        assert.strictEqual(job?.traceparent, traceparent)
        assert.strictEqual(job?.tracestate, `vendor="1",other=2`)
      }
      yield* submit({ trace: { traceparent } })
      const [stateless] = yield* take("bob")
      assert.strictEqual(stateless?.traceparent, traceparent)
      assert.isNull(stateless?.tracestate)
      yield* submit()
      const [untraced] = yield* take("bob")
      assert.isNull(untraced?.traceparent)
    }))

  rule("finds a job only on its own endpoint", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      const job = yield* submit()
      for (const id of ["unknown", "", "x".repeat(1_000)]) {
        assert.strictEqual(yield* Scenario.reasonOf(queue.get(endpoint.id, id)), "JobMissing")
        assert.strictEqual(yield* Scenario.reasonOf(queue.cancel(endpoint.id, id)), "JobMissing")
        assert.strictEqual(yield* Scenario.reasonOf(queue.retry(endpoint.id, id)), "JobMissing")
        assert.strictEqual(yield* Scenario.reasonOf(queue.drain(endpoint.id, id, 0)), "JobMissing")
        assert.strictEqual(yield* Scenario.reasonOf(queue.awaitEnd(endpoint.id, id, 0)), "JobMissing")
      }
      assert.strictEqual(yield* Scenario.reasonOf(queue.get(Scenario.elsewhere, job.id)), "JobMissing")
      assert.strictEqual(yield* Scenario.reasonOf(queue.cancel(Scenario.elsewhere, job.id)), "JobMissing")
      assert.strictEqual(yield* Scenario.reasonOf(queue.retry(Scenario.elsewhere, job.id)), "JobMissing")
      assert.strictEqual(yield* Scenario.reasonOf(queue.drain(Scenario.elsewhere, job.id, 0)), "JobMissing")
      assert.strictEqual((yield* queue.get(endpoint.id, job.id)).status, "IN_QUEUE")
    }))

  rule("treats a duplicate job id as a defect that changes nothing", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit, take } = yield* Scenario.make()
      const id = JobId.make("once")
      yield* submit({ id, input: JsonText.make("1") })
      const second = yield* Effect.exit(submit({ id, input: JsonText.make("2") }))
      assert.isTrue(Exit.hasDies(second))
      assert.strictEqual((yield* queue.depth(endpoint.id)).waiting, 1)
      const jobs = yield* take("ann", { limit: 10 })
      assert.deepStrictEqual(jobs.map((job) => job.input), ["1"])
    }))
}

/**
 * Rules for streams: readers receive every chunk once and in order, and no chunks of a lost attempt.
 */
import { assert } from "@effect/vitest"
import { JsonText, toJsonText } from "@stint/contract/Json"
import { JobStore, MAX_READ_CHARACTERS } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** Registers the rules. */
export const streamRules = (rule: Rule): void => {
  rule("R9: each read returns the unread chunks in order, even after the job's end", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const append = (n: number) => queue.append(Scenario.holderOf(job), toJsonText(n))
      const drain = Effect.map(queue.drain(endpoint.id, job.id, 0), ({ chunks }) => chunks.map(Number))
      assert.deepStrictEqual(yield* drain, [])
      for (const n of [1, 2, 3]) assert.strictEqual(yield* append(n), "accepted")
      assert.deepStrictEqual(yield* drain, [1, 2, 3])
      assert.deepStrictEqual(yield* drain, [])
      yield* append(4)
      yield* finish(job)
      const last = yield* queue.drain(endpoint.id, job.id, 60_000)
      assert.deepStrictEqual(last.chunks.map(Number), [4])
      assert.strictEqual(last.job.status, "COMPLETED")
      assert.isFalse(last.more)
      const { chunks, drained } = yield* queue.get(endpoint.id, job.id)
      assert.deepStrictEqual({ chunks, drained }, { chunks: 4, drained: 4 })
      assert.deepStrictEqual(yield* drain, [])
    }))

  rule("R9: concurrent readers share the chunks and receive none twice", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* Effect.forEach([1, 2, 3, 4, 5, 6, 7, 8], (n) => queue.append(Scenario.holderOf(job), toJsonText(n)), {
        concurrency: "unbounded"
      })
      const read = yield* Effect.replicateEffect(queue.drain(endpoint.id, job.id, 0), 4, { concurrency: "unbounded" })
      assert.deepStrictEqual(read.flatMap(({ chunks }) => chunks.map(Number)).sort((a, b) => a - b), [1, 2, 3, 4, 5, 6, 7, 8])
    }))

  rule("wakes a waiting reader when a chunk arrives", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const reading = yield* Effect.forkChild(queue.drain(endpoint.id, job.id, 60_000))
      yield* Scenario.settle
      assert.isFalse(Scenario.isDone(reading))
      yield* queue.append(Scenario.holderOf(job), toJsonText("first"))
      assert.strictEqual((yield* Fiber.join(reading)).chunks.join(), `"first"`)
    }))

  rule("wakes a waiting reader when the job ends, or when its wait times out", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const impatient = yield* Effect.forkChild(queue.drain(endpoint.id, job.id, 1_000))
      yield* Scenario.settle
      yield* Scenario.pass(1_000)
      assert.strictEqual((yield* Fiber.join(impatient)).job.status, "IN_PROGRESS")
      const patient = yield* Effect.forkChild(queue.drain(endpoint.id, job.id, 60_000))
      yield* Scenario.settle
      yield* finish(job)
      assert.strictEqual((yield* Fiber.join(patient)).job.status, "COMPLETED")
    }))

  rule("renews the lease with each chunk", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* TestClock.adjust(9_000)
      yield* queue.append(Scenario.holderOf(job), toJsonText(1))
      assert.strictEqual((yield* queue.get(endpoint.id, job.id)).leaseExpiresAt, 19_000)
    }))

  rule("removes the chunks of a lost attempt", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, takeOne } = yield* Scenario.make()
      const job = yield* started("ann")
      for (const n of [1, 2, 3]) yield* queue.append(Scenario.holderOf(job), toJsonText(`lost ${n}`))
      assert.strictEqual((yield* queue.drain(endpoint.id, job.id, 0)).chunks.length, 3)
      yield* queue.append(Scenario.holderOf(job), toJsonText("lost 4"))
      yield* TestClock.adjust(10_000)
      yield* queue.tick
      assert.deepStrictEqual((yield* queue.drain(endpoint.id, job.id, 0)).chunks, [])
      const again = yield* takeOne("bob")
      yield* queue.append(Scenario.holderOf(again), toJsonText("kept"))
      assert.strictEqual((yield* queue.drain(endpoint.id, job.id, 0)).chunks.join(), `"kept"`)
    }))

  rule("limits one read to the requested number of chunks and to a maximum size", () =>
    Effect.gen(function*() {
      const { queue, started } = yield* Scenario.make()
      const store = yield* JobStore
      const job = yield* started("ann")
      const large = JsonText.make(`"${"x".repeat(MAX_READ_CHARACTERS / 2)}"`)
      for (const chunk of [toJsonText(1), toJsonText(2), toJsonText(3), large, large, large]) {
        yield* queue.append(Scenario.holderOf(job), chunk)
      }
      const read = (limit: number) =>
        Effect.map(store.drain(job.endpoint, job.id, limit), (drained) => ({
          lengths: drained?.chunks.map((chunk) => chunk.length),
          more: drained?.more
        }))
      assert.deepStrictEqual(yield* read(2), { lengths: [1, 1], more: true })
      assert.deepStrictEqual(yield* read(100), { lengths: [1, large.length, large.length], more: true })
      assert.deepStrictEqual(yield* read(100), { lengths: [large.length], more: false })
    }))

  rule("accepts a repeated chunk and stores it once, and refuses a chunk after a gap", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started, takeOne } = yield* Scenario.make()
      const job = yield* started("ann")
      const append = (n: number, text = `chunk ${n}`) => queue.append(Scenario.holderOf(job), toJsonText(text), n)
      assert.strictEqual(yield* append(1), "accepted")
      assert.strictEqual(yield* append(1, "again"), "accepted")
      assert.strictEqual(yield* append(2), "accepted")
      const before = yield* queue.get(endpoint.id, job.id)
      assert.strictEqual(yield* append(1, "again"), "accepted")
      const gap = yield* Effect.flip(append(4))
      assert.deepInclude(gap, { _tag: "ChunkGap", chunk: 4, expected: 3 })
      assert.strictEqual(yield* Scenario.reasonOf(append(0)), "ChunkGap")
      assert.deepStrictEqual(yield* queue.get(endpoint.id, job.id), before)
      // Sends the chunk concurrently, like a client that timed out and sent it again.
      yield* Effect.all([append(3), append(3), append(3)], { concurrency: "unbounded" })
      assert.deepStrictEqual((yield* queue.drain(endpoint.id, job.id, 0)).chunks.map(String), [
        `"chunk 1"`,
        `"chunk 2"`,
        `"chunk 3"`
      ])
      // Chunk numbers start again with each attempt.
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      const again = yield* takeOne("bob")
      assert.strictEqual(yield* queue.append(Scenario.holderOf(again), toJsonText("new"), 1), "accepted")
    }))
}

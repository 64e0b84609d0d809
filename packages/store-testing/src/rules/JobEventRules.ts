/**
 * Rules for `follow`: readers receive every event once and in order, even across connections.
 */
import { assert } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { decodeEventCursor, type JobEvent } from "@stint/queue/JobEventCursor"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** A short description of an event. */
const summarize = (event: JobEvent): string => {
  switch (event._tag) {
    case "Status":
      return `${event.status} ${event.attempt}`
    case "Progress":
      return `progress ${event.output}`
    case "Chunk":
      return `${event.attempt}.${event.number} ${event.output}`
    case "Log":
      return `log ${event.line.number} ${event.line.message}`
    case "End":
      return event.job.status
  }
}

/** Registers the rules. */
export const jobEventRules = (rule: Rule): void => {
  rule(
    "sends a follower every status, every chunk and the end, and takes nothing from the stream",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, finish, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit()
        const following = yield* Effect.forkChild(Stream.runCollect(queue.follow(endpoint.id, id)))
        yield* Scenario.settle
        const job = yield* takeOne("ann")
        yield* Scenario.settle
        for (const n of [1, 2]) {
          yield* queue.append(Scenario.holderOf(job), toJsonText(`chunk ${n}`))
          yield* Scenario.settle
        }
        yield* queue.progress(Scenario.holderOf(job), toJsonText("half"))
        yield* Scenario.settle
        yield* finish(job, "whole")
        const events = yield* Fiber.join(following)
        assert.deepStrictEqual([...events].map(summarize), [
          "IN_QUEUE 0",
          "IN_PROGRESS 1",
          `1.1 "chunk 1"`,
          `1.2 "chunk 2"`,
          `progress "half"`,
          "COMPLETED"
        ])
        const end = events.at(-1)
        assert.strictEqual(end?._tag === "End" ? end.job.output : undefined, `"whole"`)
        assert.deepStrictEqual((yield* queue.drain(endpoint.id, id, 0)).chunks.map(String), [`"chunk 1"`, `"chunk 2"`])
        // Followers and `drain` are independent in both directions.
        const late = yield* Stream.runCollect(queue.follow(endpoint.id, id))
        assert.deepStrictEqual([...late].map(summarize), ["IN_PROGRESS 1", `1.1 "chunk 1"`, `1.2 "chunk 2"`, "COMPLETED"])
      })
  )

  rule("R9: sends a follower that reconnects anywhere every chunk once and in order", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const count = 450
      const writing = yield* Effect.forkChild(Effect.gen(function*() {
        for (let n = 1; n <= count; n++) {
          yield* queue.append(Scenario.holderOf(job), toJsonText(n), n)
          if (n % 7 === 0) yield* Scenario.settle
        }
        yield* finish(job)
      }))
      const events: Array<JobEvent> = []
      for (let cut = 0; events.at(-1)?._tag !== "End"; cut++) {
        // Each connection receives a few events and is then lost.
        const connection = queue.follow(endpoint.id, job.id, Scenario.resumeAfter(events.at(-1))).pipe(
          Stream.take(1 + (cut * 5) % 17)
        )
        events.push(...yield* Stream.runCollect(connection))
      }
      yield* Fiber.join(writing)
      assert.deepStrictEqual(
        events.flatMap((one) => one._tag === "Chunk" ? [one.number, Number(one.output)] : []),
        Array.from({ length: count }, (_, index) => [index + 1, index + 1]).flat()
      )
      assert.strictEqual(events.filter((one) => one._tag === "Status").length, 1)
      assert.strictEqual(events.filter((one) => one._tag === "End").length, 1)
      // A reader that has received the end receives nothing more.
      assert.deepStrictEqual(
        [...yield* Stream.runCollect(queue.follow(endpoint.id, job.id, Scenario.resumeAfter(events.at(-1))))],
        []
      )
    }))

  rule("sends a status for a new attempt, whose chunks start again at 1", () =>
    Effect.gen(function*() {
      const { queue, endpoint, finish, submit, takeOne } = yield* Scenario.make()
      const { id } = yield* submit()
      const first = yield* takeOne("ann")
      for (const n of [1, 2]) yield* queue.append(Scenario.holderOf(first), toJsonText(`lost ${n}`))
      const before = yield* Stream.runCollect(queue.follow(endpoint.id, id).pipe(Stream.take(3)))
      assert.deepStrictEqual([...before].map(summarize), ["IN_PROGRESS 1", `1.1 "lost 1"`, `1.2 "lost 2"`])
      const following = yield* Effect.forkChild(
        Stream.runCollect(queue.follow(endpoint.id, id, Scenario.resumeAfter(before.at(-1))))
      )
      yield* Scenario.settle
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      yield* Scenario.settle
      const second = yield* takeOne("bob")
      yield* queue.append(Scenario.holderOf(second), toJsonText("kept"))
      yield* finish(second)
      const expected = ["IN_PROGRESS 2", `2.1 "kept"`, "COMPLETED"]
      assert.deepStrictEqual([...yield* Fiber.join(following)].map(summarize), ["IN_QUEUE 1", ...expected])
      // A reader that was disconnected in the meantime receives the new attempt too.
      const away = yield* Stream.runCollect(queue.follow(endpoint.id, id, Scenario.resumeAfter(before.at(-1))))
      assert.deepStrictEqual([...away].map(summarize), expected)
    }))

  rule("continues with a retried job for a reader that has received its end", () =>
    Effect.gen(function*() {
      const { queue, endpoint, fail, finish, started, takeOne } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* fail(job, "no such city")
      const first = yield* Stream.runCollect(queue.follow(endpoint.id, job.id))
      assert.deepStrictEqual([...first].map(summarize), ["IN_PROGRESS 1", "FAILED"])
      yield* TestClock.adjust(1_000)
      yield* queue.retry(endpoint.id, job.id)
      const following = yield* Effect.forkChild(
        Stream.runCollect(queue.follow(endpoint.id, job.id, Scenario.resumeAfter(first.at(-1))))
      )
      yield* Scenario.settle
      yield* finish(yield* takeOne("bob"))
      const events = [...yield* Fiber.join(following)].map(summarize)
      assert.strictEqual(events[0], "IN_QUEUE 1")
      assert.strictEqual(events.at(-1), "COMPLETED")
    }))

  rule("sends a follower only the latest progress", () =>
    Effect.gen(function*() {
      const { queue, endpoint, started } = yield* Scenario.make()
      const job = yield* started("ann")
      for (let n = 0; n < 50; n++) yield* queue.progress(Scenario.holderOf(job), toJsonText(n))
      const events = yield* Stream.runCollect(queue.follow(endpoint.id, job.id).pipe(Stream.take(2)))
      assert.deepStrictEqual([...events].map(summarize), ["IN_PROGRESS 1", "progress 49"])
    }))

  rule("refuses to follow a missing job, and rejects an invalid cursor", () =>
    Effect.gen(function*() {
      const { queue, endpoint, submit } = yield* Scenario.make()
      const { id } = yield* submit()
      const reason = (endpointId: typeof endpoint.id, job: string) =>
        Scenario.reasonOf(Stream.runDrain(queue.follow(endpointId, job)))
      assert.strictEqual(yield* reason(endpoint.id, "unknown"), "JobMissing")
      assert.strictEqual(yield* reason(Scenario.elsewhere, id), "JobMissing")
      for (const text of ["", "1", "1.2.x", "1.-2.r", "1.2.r\n", "99999999999.1.r"]) {
        assert.isUndefined(decodeEventCursor(text), text)
      }
    }))

  rule(
    "ends the stream of a follower when the queue completes its waits, and when the job is removed",
    () =>
      Effect.gen(function*() {
        const { queue, endpoint, finish, started, submit } = yield* Scenario.make()
        const { id } = yield* started("ann")
        const waiting = yield* submit()
        const following = yield* Effect.forkChild(Stream.runCollect(queue.follow(endpoint.id, waiting.id)))
        yield* Scenario.settle
        assert.isFalse(Scenario.isDone(following))
        yield* finish(yield* queue.get(endpoint.id, id))
        yield* TestClock.adjust(600_000)
        yield* queue.tick
        assert.strictEqual(yield* Scenario.reasonOf(Stream.runDrain(queue.follow(endpoint.id, id))), "JobMissing")
        yield* queue.completeWaits
        yield* Fiber.join(following)
      })
  )
}

/**
 * Rules of following a job that logs: every line once, in order, among the other events, also across connections
 * (R9, docs/spec/figures.md#reliability).
 */
import { assert } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import { decodeEventCursor, encodeEventCursor, type JobEvent } from "@stint/queue/JobEventCursor"
import { JobLogs } from "@stint/queue/JobLogs"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as Scenario from "../Scenario.ts"
import type { LogRule, LogWorld } from "./LogRule.ts"

const brief = (told: JobEvent): string => {
  switch (told._tag) {
    case "Status":
      return `${told.status} ${told.attempt}`
    case "Progress":
      return `progress ${told.output}`
    case "Chunk":
      return `chunk ${told.output}`
    case "Log":
      return `log ${told.line.message}`
    case "End":
      return told.job.status
  }
}

const all = Effect.fnUntraced(function*(stream: Stream.Stream<JobEvent, unknown>) {
  return [...yield* Stream.runCollect(stream)]
})

/** What a worker does in one attempt: the letter of each step. */
const steps = fc.array(fc.constantFrom("chunk", "log", "log", "flush", "progress"), { maxLength: 30 })

/** Registers the rules. */
export const logEventRules = (rule: LogRule): void => {
  rule(
    "a follower is told each line behind the chunk that was the latest, live and afterwards alike",
    () =>
      Effect.gen(function*() {
        const logs = yield* JobLogs
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit()
        const following = yield* Effect.forkChild(all(queue.follow(endpoint.id, id)))
        yield* Scenario.settle
        const job = yield* takeOne("ann")
        const say = (message: string) =>
          Effect.andThen(
            logs.write({ endpoint: endpoint.id, worker: "ann", job: id, level: "INFO", source: "log", message }),
            Effect.andThen(logs.flush, Scenario.settle)
          )
        const send = (n: number) => Effect.andThen(queue.append(Scenario.holderOf(job), toJsonText(n)), Scenario.settle)
        yield* say("a")
        yield* send(1)
        yield* send(2)
        yield* say("b")
        yield* say("c")
        yield* send(3)
        yield* finish(job)
        const course = ["IN_PROGRESS 1", "log a", "chunk 1", "chunk 2", "log b", "log c", "chunk 3", "COMPLETED"]
        assert.deepStrictEqual((yield* Fiber.join(following)).map(brief), ["IN_QUEUE 0", ...course])
        assert.deepStrictEqual((yield* all(queue.follow(endpoint.id, id))).map(brief), course)
        // Who wants no lines is told the rest.
        assert.deepStrictEqual(
          (yield* all(queue.follow(endpoint.id, id, undefined, { logs: false }))).map(brief),
          course.filter((one) => !one.startsWith("log"))
        )
      })
  )

  rule("the lines of an attempt that was lost come before the next attempt", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, finish, queue, started, takeOne } = yield* Scenario.make()
      const job = yield* started("ann")
      const say = (worker: string, message: string) =>
        logs.write({ endpoint: endpoint.id, worker, job: job.id, level: "INFO", source: "log", message })
      yield* say("ann", "first")
      yield* queue.append(Scenario.holderOf(job), toJsonText("lost"))
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      yield* logs.flush
      const before = yield* all(queue.follow(endpoint.id, job.id).pipe(Stream.take(2)))
      assert.deepStrictEqual(before.map(brief), ["log first", "IN_QUEUE 1"])
      const again = yield* takeOne("bob")
      yield* queue.append(Scenario.holderOf(again), toJsonText("kept"))
      yield* say("bob", "second")
      yield* finish(again)
      yield* logs.flush
      const rest = ["IN_PROGRESS 2", "chunk \"kept\"", "log second", "COMPLETED"]
      assert.deepStrictEqual((yield* all(queue.follow(endpoint.id, job.id))).map(brief), ["log first", ...rest])
      assert.deepStrictEqual(
        (yield* all(queue.follow(endpoint.id, job.id, Scenario.resumeAfter(before.at(-1))))).map(brief),
        rest
      )
    }))

  rule("a position of a reader that was told no lines is accepted, and it is told them", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, finish, queue, started } = yield* Scenario.make()
      const job = yield* started("ann")
      for (const n of [1, 2]) yield* queue.append(Scenario.holderOf(job), toJsonText(n))
      yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: job.id, level: "INFO", source: "log", message: "a" })
      yield* finish(job)
      yield* logs.flush
      assert.deepStrictEqual((yield* all(queue.follow(endpoint.id, job.id, decodeEventCursor("1.1.r")))).map(brief), [
        "chunk 2",
        "log a",
        "COMPLETED"
      ])
      for (const position of ["1.2.r.", "1.2.r.x", "1.2.r.-1", "1.2.r.1.1", "1.2.r.1234567890"]) {
        assert.isUndefined(decodeEventCursor(position), position)
      }
    }))

  rule("the end waits for what its worker wrote before it", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, finish, queue, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const following = yield* Effect.forkChild(all(queue.follow(endpoint.id, job.id)))
      yield* Scenario.settle
      // Nothing but the follower's wait for the end writes these lines: time does not pass.
      yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: job.id, level: "INFO", source: "log", message: "last word" })
      yield* finish(job)
      yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: job.id, level: "INFO", source: "log", message: "came late" })
      assert.deepStrictEqual((yield* Fiber.join(following)).map(brief), [
        "IN_PROGRESS 1",
        "log last word",
        "log came late",
        "COMPLETED"
      ])
    }))

  rule("a line that comes after the end was told is told to whoever comes back, once", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, finish, queue, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* finish(job)
      const told = yield* all(queue.follow(endpoint.id, job.id))
      const position = Scenario.resumeAfter(told.at(-1))
      const report = yield* queue.get(endpoint.id, job.id)
      assert.isTrue(yield* queue.isCaughtUp(report, position))
      yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: job.id, level: "INFO", source: "stderr", message: "late" })
      yield* logs.flush
      assert.isFalse(yield* queue.isCaughtUp(report, position))
      assert.isTrue(yield* queue.isCaughtUp(report, position, { logs: false }))
      const late = yield* all(queue.follow(endpoint.id, job.id, position))
      assert.deepStrictEqual(late.map(brief), ["log late"])
      assert.isTrue(yield* queue.isCaughtUp(report, Scenario.resumeAfter(late.at(-1))))
      assert.deepStrictEqual(yield* all(queue.follow(endpoint.id, job.id, Scenario.resumeAfter(late.at(-1)))), [])
      assert.deepStrictEqual((yield* all(queue.follow(endpoint.id, job.id))).map(brief), [
        "IN_PROGRESS 1",
        "log late",
        "COMPLETED"
      ])
    }))

  rule(
    "R9: whatever is logged and streamed, and wherever a follower is cut off, it is told all of it once and in order",
    () =>
      Effect.gen(function*() {
        const logs = yield* JobLogs
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make({ maxAttempts: 9 })
        const services = yield* Effect.context<LogWorld>()

        const once = Effect.fnUntraced(function*(attempts: ReadonlyArray<ReadonlyArray<string>>, cuts: ReadonlyArray<number>) {
          const { id } = yield* submit()
          let lines = 0
          const chunks: Array<string> = []
          const working = yield* Effect.forkChild(Effect.gen(function*() {
            for (const [index, course] of attempts.entries()) {
              const worker = `w${index}`
              const job = yield* takeOne(worker)
              chunks.length = 0
              for (const step of course) {
                if (step === "chunk") {
                  chunks.push(`${chunks.length + 1}`)
                  yield* queue.append(Scenario.holderOf(job), toJsonText(chunks.length))
                }
                if (step === "log") {
                  yield* logs.write({
                    endpoint: endpoint.id,
                    worker,
                    job: id,
                    level: "INFO",
                    source: "log",
                    message: `${++lines}`
                  })
                }
                if (step === "progress") yield* queue.progress(Scenario.holderOf(job), toJsonText(lines))
                if (step === "flush") yield* Effect.andThen(logs.flush, Scenario.settle)
              }
              if (index < attempts.length - 1) yield* queue.workerGone(endpoint.id, worker, "Killed.")
              else yield* finish(job)
            }
          }))
          const told: Array<JobEvent> = []
          for (let turn = 0; told.at(-1)?._tag !== "End"; turn++) {
            const after = Scenario.resumeAfter(told.at(-1))
            told.push(...yield* all(queue.follow(endpoint.id, id, after).pipe(Stream.take(cuts[turn % cuts.length] ?? 1))))
          }
          yield* Fiber.join(working)
          assert.deepStrictEqual(
            told.flatMap((one) => one._tag === "Log" ? [one.line.message] : []),
            Array.from({ length: lines }, (_, n) => `${n + 1}`)
          )
          const attempt = attempts.length
          assert.deepStrictEqual(
            told.flatMap((one) => one._tag === "Chunk" && one.attempt === attempt ? [String(one.output)] : []),
            chunks
          )
          assert.strictEqual(told.filter((one) => one._tag === "End").length, 1)
          // The latest progress is told again to who comes back.
          const positions = told.filter((one) => one._tag !== "Progress").map((one) => encodeEventCursor(one.cursor))
          assert.strictEqual(new Set(positions).size, positions.length)
          yield* TestClock.adjust(1)
        })

        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(
              fc.array(steps, { minLength: 1, maxLength: 3 }),
              fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 5 }),
              (attempts, cuts) => Effect.runPromiseWith(services)(once(attempts, cuts))
            ),
            { numRuns: 60 }
          )
        )
      })
  )
}

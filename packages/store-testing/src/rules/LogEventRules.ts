/**
 * Rules for following a job that logs: readers receive every line once and in order among the other events, even across connections (R9,
 * docs/spec/figures.md#reliability).
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
import type { LogRule, LogRuleServices } from "./LogRule.ts"

const summarize = (event: JobEvent): string => {
  switch (event._tag) {
    case "Status":
      return `${event.status} ${event.attempt}`
    case "Progress":
      return `progress ${event.output}`
    case "Chunk":
      return `chunk ${event.output}`
    case "Log":
      return `log ${event.line.message}`
    case "End":
      return event.job.status
  }
}

const all = Effect.fnUntraced(function*(stream: Stream.Stream<JobEvent, unknown>) {
  return [...yield* Stream.runCollect(stream)]
})

/** The steps of a worker in one attempt. */
const steps = fc.array(fc.constantFrom("chunk", "log", "log", "flush", "progress"), { maxLength: 30 })

/** Registers the rules. */
export const logEventRules = (rule: LogRule): void => {
  rule(
    "sends a follower each line after the chunk that preceded it, live and on replay",
    () =>
      Effect.gen(function*() {
        const logs = yield* JobLogs
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit()
        const following = yield* Effect.forkChild(all(queue.follow(endpoint.id, id)))
        yield* Scenario.settle
        const job = yield* takeOne("ann")
        const log = (message: string) =>
          Effect.andThen(
            logs.write({ endpoint: endpoint.id, worker: "ann", job: id, level: "INFO", source: "log", message }),
            Effect.andThen(logs.flush, Scenario.settle)
          )
        const send = (n: number) => Effect.andThen(queue.append(Scenario.holderOf(job), toJsonText(n)), Scenario.settle)
        yield* log("a")
        yield* send(1)
        yield* send(2)
        yield* log("b")
        yield* log("c")
        yield* send(3)
        yield* finish(job)
        const expected = ["IN_PROGRESS 1", "log a", "chunk 1", "chunk 2", "log b", "log c", "chunk 3", "COMPLETED"]
        assert.deepStrictEqual((yield* Fiber.join(following)).map(summarize), ["IN_QUEUE 0", ...expected])
        assert.deepStrictEqual((yield* all(queue.follow(endpoint.id, id))).map(summarize), expected)
        // A reader without log lines receives the other events.
        assert.deepStrictEqual(
          (yield* all(queue.follow(endpoint.id, id, undefined, { logs: false }))).map(summarize),
          expected.filter((one) => !one.startsWith("log"))
        )
      })
  )

  rule("sends the lines of a lost attempt before the next attempt", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, finish, queue, started, takeOne } = yield* Scenario.make()
      const job = yield* started("ann")
      const log = (worker: string, message: string) =>
        logs.write({ endpoint: endpoint.id, worker, job: job.id, level: "INFO", source: "log", message })
      yield* log("ann", "first")
      yield* queue.append(Scenario.holderOf(job), toJsonText("lost"))
      yield* queue.workerGone(endpoint.id, "ann", "Worker ann was killed by SIGKILL.")
      yield* Scenario.settle
      yield* logs.flush
      const lost = ["log first", "log Attempt 1 lost its worker after 0 ms: Worker ann was killed by SIGKILL."]
      const before = yield* all(queue.follow(endpoint.id, job.id).pipe(Stream.take(3)))
      assert.deepStrictEqual(before.map(summarize), [...lost, "IN_QUEUE 1"])
      const again = yield* takeOne("bob")
      yield* queue.append(Scenario.holderOf(again), toJsonText("kept"))
      yield* log("bob", "second")
      yield* finish(again)
      yield* logs.flush
      const rest = ["IN_PROGRESS 2", "chunk \"kept\"", "log second", "COMPLETED"]
      assert.deepStrictEqual((yield* all(queue.follow(endpoint.id, job.id))).map(summarize), [...lost, ...rest])
      assert.deepStrictEqual(
        (yield* all(queue.follow(endpoint.id, job.id, Scenario.resumeAfter(before.at(-1))))).map(summarize),
        rest
      )
    }))

  rule("reports the end of each attempt without a result in the job's log", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, fail, finish, queue, submit, takeOne } = yield* Scenario.make({ maxAttempts: 3 })
      const { id } = yield* submit({ policy: { retry: { onError: true } } })
      const failed = yield* takeOne("ann")
      yield* Scenario.pass(500)
      yield* fail(failed, `{"error_type":"KeyError","error_message":"no user","error_traceback":"at find (/app/users.ts:1:2)"}`)
      yield* Scenario.settle
      yield* takeOne("bob")
      yield* queue.returnJobs(endpoint.id, "bob", [id])
      yield* takeOne("cid")
      yield* Scenario.pass(10_000)
      yield* queue.tick
      yield* Scenario.settle
      const last = yield* takeOne("dan")
      yield* fail(last, "no more")
      yield* Scenario.settle
      yield* queue.retry(endpoint.id, id)
      yield* finish(yield* takeOne("eve"))
      yield* Scenario.settle
      yield* logs.flush
      const { lines } = yield* logs.read(endpoint.id, id)
      assert.deepStrictEqual(
        lines.map(({ attempt, ended, level, message, source, time, worker }) => ({
          attempt,
          ended,
          level,
          message,
          source,
          time,
          worker
        })),
        [
          {
            attempt: 1,
            ended: { outcome: "failed", startedAt: 0, error: "KeyError: no user" },
            level: "WARN",
            message: "Attempt 1 failed after 500 ms: KeyError: no user",
            source: "platform",
            time: 500,
            worker: "ann"
          },
          {
            attempt: 2,
            ended: { outcome: "returned", startedAt: 500 },
            level: "INFO",
            message: "Attempt 2 was returned to the queue after 0 ms.",
            source: "platform",
            time: 500,
            worker: "bob"
          },
          {
            attempt: 3,
            ended: { outcome: "lost", startedAt: 500, error: "Worker cid was silent for 10 s and lost the job." },
            level: "WARN",
            message: "Attempt 3 lost its worker after 10 s: Worker cid was silent for 10 s and lost the job.",
            source: "platform",
            time: 10_500,
            worker: "cid"
          },
          {
            attempt: 4,
            ended: { outcome: "failed", startedAt: 10_500, error: "no more" },
            level: "WARN",
            message: "Attempt 4 failed after 0 ms: no more",
            source: "platform",
            time: 10_500,
            worker: "dan"
          }
        ]
      )
    }))

  rule("accepts the cursor of a reader without log lines, and then sends it the lines", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, finish, queue, started } = yield* Scenario.make()
      const job = yield* started("ann")
      for (const n of [1, 2]) yield* queue.append(Scenario.holderOf(job), toJsonText(n))
      yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: job.id, level: "INFO", source: "log", message: "a" })
      yield* finish(job)
      yield* logs.flush
      assert.deepStrictEqual((yield* all(queue.follow(endpoint.id, job.id, decodeEventCursor("1.1.r")))).map(summarize), [
        "chunk 2",
        "log a",
        "COMPLETED"
      ])
      for (const cursor of ["1.2.r.", "1.2.r.x", "1.2.r.-1", "1.2.r.1.1", "1.2.r.1234567890"]) {
        assert.isUndefined(decodeEventCursor(cursor), cursor)
      }
    }))

  rule("sends the end after the lines that the worker wrote before it", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, finish, queue, started } = yield* Scenario.make()
      const job = yield* started("ann")
      const following = yield* Effect.forkChild(all(queue.follow(endpoint.id, job.id)))
      yield* Scenario.settle
      // Time does not pass, so these lines are written only because the follower waits for the end.
      yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: job.id, level: "INFO", source: "log", message: "last word" })
      yield* finish(job)
      yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: job.id, level: "INFO", source: "log", message: "came late" })
      assert.deepStrictEqual((yield* Fiber.join(following)).map(summarize), [
        "IN_PROGRESS 1",
        "log last word",
        "log came late",
        "COMPLETED"
      ])
    }))

  rule("sends a line stored after the end once to a reader that resumes", () =>
    Effect.gen(function*() {
      const logs = yield* JobLogs
      const { endpoint, finish, queue, started } = yield* Scenario.make()
      const job = yield* started("ann")
      yield* finish(job)
      const events = yield* all(queue.follow(endpoint.id, job.id))
      const cursor = Scenario.resumeAfter(events.at(-1))
      const report = yield* queue.get(endpoint.id, job.id)
      assert.isTrue(yield* queue.isCaughtUp(report, cursor))
      yield* logs.write({ endpoint: endpoint.id, worker: "ann", job: job.id, level: "INFO", source: "stderr", message: "late" })
      yield* logs.flush
      assert.isFalse(yield* queue.isCaughtUp(report, cursor))
      assert.isTrue(yield* queue.isCaughtUp(report, cursor, { logs: false }))
      const late = yield* all(queue.follow(endpoint.id, job.id, cursor))
      assert.deepStrictEqual(late.map(summarize), ["log late"])
      assert.isTrue(yield* queue.isCaughtUp(report, Scenario.resumeAfter(late.at(-1))))
      assert.deepStrictEqual(yield* all(queue.follow(endpoint.id, job.id, Scenario.resumeAfter(late.at(-1)))), [])
      assert.deepStrictEqual((yield* all(queue.follow(endpoint.id, job.id))).map(summarize), [
        "IN_PROGRESS 1",
        "log late",
        "COMPLETED"
      ])
    }))

  rule(
    "R9: sends a follower all lines and chunks once and in order, wherever it reconnects",
    () =>
      Effect.gen(function*() {
        const logs = yield* JobLogs
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make({ maxAttempts: 9 })
        const services = yield* Effect.context<LogRuleServices>()

        const once = Effect.fnUntraced(function*(attempts: ReadonlyArray<ReadonlyArray<string>>, cuts: ReadonlyArray<number>) {
          const { id } = yield* submit()
          let lines = 0
          const chunks: Array<string> = []
          const working = yield* Effect.forkChild(Effect.gen(function*() {
            for (const [index, steps] of attempts.entries()) {
              const worker = `w${index}`
              const job = yield* takeOne(worker)
              chunks.length = 0
              for (const step of steps) {
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
          const events: Array<JobEvent> = []
          for (let turn = 0; events.at(-1)?._tag !== "End"; turn++) {
            const after = Scenario.resumeAfter(events.at(-1))
            events.push(...yield* all(queue.follow(endpoint.id, id, after).pipe(Stream.take(cuts[turn % cuts.length] ?? 1))))
          }
          yield* Fiber.join(working)
          assert.deepStrictEqual(
            events.flatMap((one) => one._tag === "Log" && one.line.source === "log" ? [one.line.message] : []),
            Array.from({ length: lines }, (_, n) => `${n + 1}`)
          )
          const attempt = attempts.length
          assert.deepStrictEqual(
            events.flatMap((one) => one._tag === "Chunk" && one.attempt === attempt ? [String(one.output)] : []),
            chunks
          )
          assert.strictEqual(events.filter((one) => one._tag === "End").length, 1)
          // A reader that resumes receives the latest progress again.
          const cursors = events.filter((one) => one._tag !== "Progress").map((one) => encodeEventCursor(one.cursor))
          assert.strictEqual(new Set(cursors).size, cursors.length)
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

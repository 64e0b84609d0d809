/**
 * The rules of the jobs API (specification 2.1 and 4.1, wire-facts 1, 2 and 8), but for streams, which have a suite of their own.
 */
import { describe, expect } from "@effect/vitest"
import { Job } from "@stint/contract/Job"
import { JobQueue } from "@stint/queue/JobQueue"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { LIMITS, ServerTest } from "./ServerTest.ts"
import type { SuiteIt } from "./SuiteIt.ts"
import { until } from "./TestEndpoint.ts"
import { expectJson, expectProblem } from "./WireClient.ts"

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

/** JSON texts that a parse and a print would change, and the plain ones. */
const INPUTS: ReadonlyArray<string> = [
  "{}",
  "null",
  "[]",
  "\"\"",
  "0",
  "false",
  "{\"name\":\"Ada\"}",
  "{\"a\":{\"b\":[1,2,{\"c\":null}]}}",
  "\"Ünïcödé 漢字 😀 \\u0000 \\ud800\"",
  "{\"seed\":18446744073709551615}",
  "[1e400,-0,1.0,0.1000]",
  "{\"b\":1,\"1\":2,\"a\":3}",
  "{\"__proto__\":{\"x\":1},\"constructor\":null}",
  "{ \"spaced\" :\t[ 1 , 2 ] }",
  "{\"input\":{\"input\":1},\"policy\":\"mine\"}"
]

const took = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.timed(effect), ([duration, value]) => ({ value, millis: Duration.toMillis(duration) }))

const submitting = (it: SuiteIt) => {
  it.effect("run: answers at once with the id and IN_QUEUE, and nothing else", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const answer = yield* endpoint.call(endpoint.path("run"), { json: { input: { name: "Ada" } } })
      expect(answer.status).toBe(200)
      expect(answer.headers.get("content-type")).toMatch(/^application\/json/)
      expect(answer.json).toEqual({ id: expect.stringMatching(new RegExp(`^${UUID}$`)), status: "IN_QUEUE" })
    }))

  it.effect("run: any JSON is an input and reaches the worker exactly as it was sent", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const input of INPUTS) {
        const sent = yield* endpoint.call(endpoint.path("run"), {
          body: `{"before":[{"input":9}], "input" : ${input} ,"after":"}"}`
        })
        expect(sent.status, input).toBe(200)
        const { text } = yield* worker.call(`${worker.addresses.take}&job_in_progress=1`)
        expect(text).toContain(`"input":${input},`)
      }
    }))

  it.effect("run: of two keys `input` the last counts, however it is written", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      yield* endpoint.call(endpoint.path("run"), { body: "{\"input\":1,\"\\u0069nput\":{\"two\":2}}" })
      expect((yield* worker.next).input).toEqual({ two: 2 })
    }))

  it.effect("run: the label and the charset of the body do not matter", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const type of ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "nonsense"]) {
        const answer = yield* endpoint.call(endpoint.path("run"), { body: "{\"input\":{}}", headers: { "content-type": type } })
        expect(answer.status, type).toBe(200)
      }
    }))

  it.effect("run: unknown keys are ignored, s3Config reaches the worker as it came", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const s3Config = { accessId: "a", accessSecret: "b", bucketName: "c", endpointUrl: "https://s3.example", objectPath: "d" }
      const answer = yield* endpoint.call(endpoint.path("run"), {
        json: { input: 1, s3Config, webhookV2: 3, policy: { executionTimeout: 5000, ttl: 10_000, lowPriority: true, other: 1 } }
      })
      expect(answer.status).toBe(200)
      expect(yield* worker.next).toEqual({
        id: expect.any(String),
        input: 1,
        delayTime: expect.any(Number),
        attempt: 1,
        s3Config
      })
    }))

  it.effect("run: jobs go to workers in the order of their submission", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (let i = 0; i < 20; i++) yield* endpoint.run(i)
      const jobs = yield* worker.takeBatch(20)
      expect(jobs.map((job) => job.input)).toEqual(Array.from({ length: 20 }, (_, i) => i))
    }))

  it.effect("runsync: waits for the result and answers with the whole job", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker("the-worker")
      yield* worker.serve((job) => Effect.succeed({ output: { echo: job.input } }))
      const job = yield* endpoint.runsync({ a: 1 })
      expect(job).toEqual({
        id: expect.stringMatching(new RegExp(`^sync-${UUID}$`)),
        status: "COMPLETED",
        delayTime: expect.any(Number),
        executionTime: expect.any(Number),
        output: { echo: { a: 1 } },
        workerId: "the-worker"
      })
      expect(yield* endpoint.status(job.id)).toEqual(job)
    }))

  it.effect("runsync: answers with IN_QUEUE when nobody took the job in time", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { millis, value } = yield* took(endpoint.runsync({}, 60))
      expect(value).toEqual({ id: expect.stringMatching(/^sync-/), status: "IN_QUEUE" })
      expect(millis).toBeGreaterThanOrEqual(55)
      expect((yield* endpoint.status(value.id)).status).toBe("IN_QUEUE")
    }))

  it.effect("runsync: answers with IN_PROGRESS and the latest progress when the job still runs", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const waiting = yield* Effect.forkChild(endpoint.runsync({}, 1_000))
      const taken = yield* worker.next
      yield* worker.progress(taken.id, { percent: 40 })
      expect(yield* Fiber.join(waiting)).toEqual({
        id: taken.id,
        status: "IN_PROGRESS",
        delayTime: expect.any(Number),
        output: { percent: 40 },
        workerId: worker.id
      })
    }))

  it.effect("runsync: a wait below the least is pulled up, one that is no number is the default", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const wait of ["0", "-5", "1"]) {
        const { millis, value } = yield* took(endpoint.call(endpoint.path(`runsync?wait=${wait}`), { json: { input: 1 } }))
        expect(value.json).toMatchObject({ status: "IN_QUEUE" })
        expect(millis).toBeGreaterThanOrEqual(LIMITS.minWaitMs - 5)
      }
      const waiting = yield* Effect.forkChild(endpoint.call(endpoint.path("runsync?wait=soon"), { json: { input: "last" } }))
      const worker = yield* endpoint.worker()
      yield* worker.serve(() => Effect.succeed({ output: "done" }))
      expect((yield* Fiber.join(waiting)).json).toMatchObject({ status: "COMPLETED", output: "done" })
    }))

  it.effect("runsync: a caller that hangs up leaves a job that is done all the same", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const waiting = yield* Effect.forkChild(endpoint.runsync("gone"))
      const job = yield* worker.next
      yield* Fiber.interrupt(waiting)
      yield* worker.finish(job.id, "for nobody")
      expect((yield* endpoint.status(job.id)).output).toBe("for nobody")
    }))
}

const following = (it: SuiteIt) => {
  it.effect("status: has exactly the keys that apply, at each step of a job's life, by GET and by POST", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker("w")
      const { id } = yield* endpoint.run({})
      const status = Effect.gen(function*() {
        const get = yield* endpoint.call(endpoint.path(`status/${id}`))
        const post = yield* endpoint.call(endpoint.path(`status/${id}`), { method: "POST" })
        const posted = yield* endpoint.call(endpoint.path(`status/${id}`), { json: {} })
        expect(post.text).toBe(get.text)
        expect(posted.text).toBe(get.text)
        return yield* expectJson(200, Job)(get)
      })
      expect(yield* status).toEqual({ id, status: "IN_QUEUE" })
      yield* worker.next
      expect(yield* status).toEqual({ id, status: "IN_PROGRESS", delayTime: expect.any(Number), workerId: "w" })
      yield* worker.progress(id, [1, 2])
      expect(yield* status).toEqual({
        id,
        status: "IN_PROGRESS",
        delayTime: expect.any(Number),
        output: [1, 2],
        workerId: "w"
      })
      yield* worker.finish(id, null)
      const done = yield* status
      expect(done).toEqual({
        id,
        status: "COMPLETED",
        delayTime: expect.any(Number),
        executionTime: expect.any(Number),
        output: null,
        workerId: "w"
      })
      expect(Number.isInteger(done.delayTime) && Number.isInteger(done.executionTime)).toBe(true)
    }))

  it.effect("status: a result without an output has none, not even the last progress", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.progress(id, "half")
      expect((yield* worker.deliver(id, {})).status).toBe(200)
      expect(Object.keys(yield* endpoint.status(id))).toEqual(["id", "status", "delayTime", "executionTime", "workerId"])
    }))

  it.effect("status: an output comes back exactly as the worker sent it", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const output of INPUTS) {
        const { id } = yield* endpoint.run({})
        yield* worker.next
        yield* worker.call(worker.addresses.done(id), { body: `{"output":${output},"x":1}` })
        expect((yield* endpoint.call(endpoint.path(`status/${id}`))).text).toContain(`"output":${output},`)
      }
    }))

  it.effect("status: an error is a string and fails the job, with the rest of the output beside it", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const cases: ReadonlyArray<readonly [error: string | number | boolean | object, seen: string]> = [
        ["went wrong", "went wrong"],
        ["", ""],
        [{ code: 7 }, "{\"code\":7}"],
        [["a"], "[\"a\"]"],
        [0, "0"],
        [false, "false"]
      ]
      for (const [error, seen] of cases) {
        const { id } = yield* endpoint.run({})
        yield* worker.next
        yield* worker.call(worker.addresses.done(id), { json: { output: { partial: true }, error } })
        expect(yield* endpoint.status(id)).toMatchObject({ status: "FAILED", error: seen, output: { partial: true } })
      }
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.deliver(id, { output: 1, error: null })
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: 1 })
    }))

  it.effect("status: errorTraceback \"none\" keeps the traceback of an exception from callers, and nothing else", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const blob = {
        error_type: "ValueError",
        error_message: "no",
        error_traceback: "/secret/path.py, line 3",
        hostname: "h",
        worker_id: "w",
        runpod_version: "1.12.0"
      }
      const { error_traceback: _, ...rest } = blob
      const errorOf = Effect.fnUntraced(function*(errorTraceback: "full" | "none", error: string) {
        const endpoint = yield* server.endpoint({ errorTraceback })
        const worker = yield* endpoint.worker()
        const { id } = yield* endpoint.run({})
        yield* worker.next
        yield* worker.deliver(id, { error })
        const { text } = yield* endpoint.call(endpoint.path(`stream/${id}`))
        const job = yield* endpoint.status(id)
        expect(text).toContain(JSON.stringify(job.error))
        return job.error
      })
      expect(yield* errorOf("full", JSON.stringify(blob))).toBe(JSON.stringify(blob))
      expect(yield* errorOf("none", JSON.stringify(blob))).toBe(JSON.stringify(rest))
      expect(yield* errorOf("none", "a plain sentence")).toBe("a plain sentence")
      // What existing SDKs send for a generator that raised.
      expect(yield* errorOf("none", "handler: no \ntraceback: /secret/path.py, line 3")).toBe("handler: no")
      expect(yield* errorOf("none", "{\"error_traceback\":7}")).toBe("{}")
    }))

  it.effect("status-sync: waits for the end, by GET and by POST; answers with the job as it stands when the wait is over", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      expect((yield* endpoint.statusSync(id, 30)).status).toBe("IN_QUEUE")
      const get = yield* Effect.forkChild(endpoint.statusSync(id))
      const post = yield* Effect.forkChild(endpoint.call(endpoint.path(`status-sync/${id}`), { method: "POST" }))
      const job = yield* worker.next
      yield* worker.finish(job.id, 5)
      const seen = yield* Fiber.join(get)
      expect(seen).toMatchObject({ status: "COMPLETED", output: 5 })
      expect((yield* Fiber.join(post)).json).toEqual(seen)
      expect(yield* endpoint.statusSync(id)).toEqual(seen)
    }))

  it.effect("health: has all gauges, and counts jobs and workers by their state", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint({ maxAttempts: 5 })
      const nothing = { completed: 0, failed: 0, inProgress: 0, inQueue: 0, retried: 0 }
      const nobody = { idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }
      expect(yield* endpoint.health).toEqual({ jobs: nothing, workers: nobody })
      const worker = yield* endpoint.worker()
      yield* worker.ping([])
      expect((yield* endpoint.health).workers).toEqual({ ...nobody, idle: 1, ready: 1 })
      for (let i = 0; i < 4; i++) yield* endpoint.run(i)
      const [a, b] = yield* worker.takeBatch(3)
      expect(yield* endpoint.health).toEqual({
        jobs: { ...nothing, inProgress: 3, inQueue: 1 },
        workers: { ...nobody, running: 1 }
      })
      yield* worker.finish(a?.id ?? "", 1)
      yield* worker.deliver(b?.id ?? "", { error: "no" })
      // The worker says that it holds nothing, so the third job goes back and comes again.
      yield* worker.take(false)
      expect(yield* endpoint.health).toEqual({
        jobs: { completed: 1, failed: 1, inProgress: 1, inQueue: 1, retried: 1 },
        workers: { ...nobody, running: 1 }
      })
      const registry = yield* WorkerRegistry
      yield* registry.starting(endpoint.endpoint.id, "coming")
      yield* registry.failing(endpoint.endpoint.id, "no-room", "throttled", "the host is full")
      expect((yield* endpoint.health).workers).toEqual({ ...nobody, running: 1, initializing: 1, throttled: 1 })
    }))
}

const ending = (it: SuiteIt) => {
  it.effect("cancel: a waiting job is CANCELLED and never taken", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      expect(yield* endpoint.cancel(id)).toEqual({ id, status: "CANCELLED" })
      expect(yield* worker.take()).toBeUndefined()
      expect(yield* endpoint.status(id)).toEqual({ id, status: "CANCELLED" })
    }))

  it.effect("cancel: a running job is CANCELLED at once, whoever waits for it is told, and its worker is told to stop it", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const waiting = yield* Effect.forkChild(endpoint.statusSync(id))
      const stopping = yield* Effect.forkChild(until(worker.stops, (ids) => ids.length > 0))
      expect(yield* endpoint.cancel(id)).toEqual({ id, status: "CANCELLED" })
      expect(yield* Fiber.join(waiting)).toMatchObject({ id, status: "CANCELLED", executionTime: expect.any(Number) })
      expect(yield* Fiber.join(stopping)).toEqual([id])
      // A result that was on its way changes nothing and is no fault of the worker's.
      expect((yield* worker.deliver(id, { output: "late" })).status).toBe(200)
      expect((yield* endpoint.status(id)).status).toBe("CANCELLED")
    }))

  it.effect("cancel: a job that has ended stays as it is", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.finish(id, "kept")
      expect(yield* endpoint.cancel(id)).toEqual({ id, status: "COMPLETED" })
      expect((yield* endpoint.status(id)).output).toBe("kept")
    }))

  it.effect("retry: a FAILED job goes back under its id with its input, and forgets its error, output and chunks", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({ again: true })
      yield* worker.next
      yield* worker.stream(id, ["old"])
      yield* worker.deliver(id, { error: "no", output: "old" })
      expect(yield* endpoint.retry(id)).toEqual({ id, status: "IN_QUEUE" })
      expect(yield* endpoint.status(id)).toMatchObject({ id, status: "IN_QUEUE" })
      expect(Object.keys(yield* endpoint.status(id))).not.toContain("error")
      expect(yield* worker.next).toMatchObject({ id, input: { again: true }, attempt: 2 })
      yield* worker.stream(id, ["new"])
      yield* worker.finish(id, "better")
      expect((yield* endpoint.stream(id)).stream).toEqual([{ output: "new" }])
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: "better" })
    }))

  it.effect("retry: only FAILED and TIMED_OUT jobs can be retried", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      const retry = endpoint.call(endpoint.path(`retry/${id}`), { method: "POST" })
      expect((yield* expectProblem(409)(yield* retry)).error).toContain("IN_QUEUE")
      yield* worker.next
      expect((yield* expectProblem(409)(yield* retry)).error).toContain("IN_PROGRESS")
      yield* worker.finish(id, 1)
      expect((yield* expectProblem(409)(yield* retry)).error).toContain("COMPLETED")
    }))

  it.effect("purge-queue: cancels the waiting jobs of this endpoint and says how many there were", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const other = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const running = yield* endpoint.run(0)
      yield* worker.next
      const waiting = [yield* endpoint.run(1), yield* endpoint.run(2)]
      const elsewhere = yield* other.run(3)
      expect(yield* endpoint.purge).toEqual({ removed: 2, status: "completed" })
      expect(yield* endpoint.purge).toEqual({ removed: 0, status: "completed" })
      for (const { id } of waiting) expect((yield* endpoint.status(id)).status).toBe("CANCELLED")
      expect((yield* endpoint.status(running.id)).status).toBe("IN_PROGRESS")
      expect((yield* other.status(elsewhere.id)).status).toBe("IN_QUEUE")
    }))

  it.effect("a job is known on its own endpoint only", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const other = yield* server.endpoint()
      const { id } = yield* endpoint.run({})
      const calls = [["GET", "status"], ["POST", "status"], ["GET", "status-sync"], ["GET", "stream"], ["POST", "cancel"], [
        "POST",
        "retry"
      ]]
      for (const [method = "", operation] of calls) {
        const problem = yield* Effect.flatMap(other.call(other.path(`${operation}/${id}`), { method }), expectProblem(404))
        expect(problem).toMatchObject({ type: "/problems/job-not-found", error: expect.stringContaining(id) })
      }
      expect((yield* endpoint.status(id)).status).toBe("IN_QUEUE")
    }))

  it.effect("the queue that answers is the one that was given", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run("seen from inside")
      const queue = yield* JobQueue
      expect((yield* queue.get(endpoint.endpoint.id, id)).status).toBe("IN_QUEUE")
    }))
}

/** Registers the rules of the jobs API. */
export const jobs = (it: SuiteIt): void => {
  describe("submit", () => submitting(it))
  describe("follow", () => following(it))
  describe("end", () => ending(it))
}

/**
 * Tests status, status-sync and health (docs/spec/jobs-api.md#job-object, docs/spec/jobs-api.md#health).
 */
import { expect } from "@effect/vitest"
import { Job } from "@stint/contract/Job"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { JSON_SAMPLES } from "../JsonSamples.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { expectJson } from "../WireClient.ts"

/** Registers the tests for job status. */
export const statusCalls = (it: ServerIt): void => {
  it.effect("status: has exactly the keys that apply in each state of a job, by GET and by POST", () =>
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

  it.effect("status: a job whose result has no output shows no output, not even the last progress", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.progress(id, "half")
      expect((yield* worker.deliver(id, {})).status).toBe(200)
      expect(Object.keys(yield* endpoint.status(id))).toEqual(["id", "status", "delayTime", "executionTime", "workerId"])
    }))

  it.effect("status: returns the output exactly as the worker sent it", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const output of JSON_SAMPLES) {
        const { id } = yield* endpoint.run({})
        yield* worker.next
        yield* worker.call(worker.addresses.done(id), { body: `{"output":${output},"x":1}` })
        expect((yield* endpoint.call(endpoint.path(`status/${id}`))).text).toContain(`"output":${output},`)
      }
    }))

  it.effect("status: an error is a string and fails the job, and the rest of the output is preserved", () =>
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

  it.effect("status: errorTraceback \"none\" hides the traceback of an exception from callers, and nothing else", () =>
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
      // Existing SDKs send this for a generator that raised an exception.
      expect(yield* errorOf("none", "handler: no \ntraceback: /secret/path.py, line 3")).toBe("handler: no")
      expect(yield* errorOf("none", "{\"error_traceback\":7}")).toBe("{}")
    }))

  it.effect("status-sync: waits for the end by GET and by POST, and returns the job's current state when the wait elapses", () =>
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

  it.effect("health: returns all gauges and counts jobs and workers by state", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint({ maxAttempts: 5 })
      const nothing = { completed: 0, failed: 0, inProgress: 0, inQueue: 0, retried: 0 }
      const noWorkers = { idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }
      expect(yield* endpoint.health).toEqual({ jobs: nothing, workers: noWorkers })
      const worker = yield* endpoint.worker()
      yield* worker.ping([])
      expect((yield* endpoint.health).workers).toEqual({ ...noWorkers, idle: 1, ready: 1 })
      for (let i = 0; i < 4; i++) yield* endpoint.run(i)
      const [a, b] = yield* worker.takeBatch(3)
      expect(yield* endpoint.health).toEqual({
        jobs: { ...nothing, inProgress: 3, inQueue: 1 },
        workers: { ...noWorkers, running: 1 }
      })
      yield* worker.finish(a?.id ?? "", 1)
      yield* worker.deliver(b?.id ?? "", { error: "no" })
      // The worker reports that no job is in progress, so the third job returns to the queue and is taken again.
      yield* worker.take(false)
      expect(yield* endpoint.health).toEqual({
        jobs: { completed: 1, failed: 1, inProgress: 1, inQueue: 1, retried: 1 },
        workers: { ...noWorkers, running: 1 }
      })
      const registry = yield* WorkerRegistry
      yield* registry.starting(endpoint.endpoint.id, "coming")
      yield* registry.failing(endpoint.endpoint.id, "no-room", "throttled", "the host is full")
      expect((yield* endpoint.health).workers).toEqual({ ...noWorkers, running: 1, initializing: 1, throttled: 1 })
    }))
}

/**
 * Tests job-take, job-stop and worker URLs (docs/spec/worker-protocol.md#taking-a-job, docs/spec/worker-protocol.md#stopping-jobs,
 * docs/spec/worker-protocol.md#appended-queries).
 */
import { expect } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ServerIt } from "../ServerIt.ts"
import { LIMITS, ServerTest } from "../ServerTest.ts"
import { until } from "../TestEndpoint.ts"
import { expectProblem } from "../WireClient.ts"

const timed = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.timed(effect), ([duration, value]) => ({ value, millis: Duration.toMillis(duration) }))

/** Registers the tests for taking jobs. */
export const jobTakes = (it: ServerIt): void => {
  it.effect("job-take: returns a job as JSON with id, input, delayTime and attempt", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({ name: "Ada" })
      const answer = yield* worker.call(`${worker.addresses.take}&job_in_progress=0`)
      expect(answer.headers.get("content-type")).toMatch(/^application\/json/)
      expect(answer.json).toEqual({ id, input: { name: "Ada" }, delayTime: expect.any(Number), attempt: 1 })
      expect(Number(answer.headers.get("content-length"))).toBeGreaterThan(0)
    }))

  it.effect("job-take: returns 204 without a body when no job arrived during the wait", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const address of [worker.addresses.take, `${worker.addresses.takeBatch}&batch_size=5`, worker.addresses.stop]) {
        const { millis, value } = yield* timed(worker.call(address))
        expect(value).toMatchObject({ status: 204, text: "" })
        expect(millis).toBeGreaterThanOrEqual(LIMITS.workerWaitMs - 10)
      }
    }))

  it.effect("job-take: a submit wakes a waiting worker", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const waiting = yield* Effect.forkChild(worker.take())
      yield* until(endpoint.health, ({ workers }) => workers.idle === 1)
      const { millis, value: { id } } = yield* timed(endpoint.run(1))
      const taken = yield* timed(Fiber.join(waiting))
      expect(taken.value).toMatchObject({ id })
      expect(millis + taken.millis).toBeLessThan(LIMITS.workerWaitMs)
    }))

  it.effect("job-take: delivers each of many jobs to exactly one of many workers", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const workers = yield* Effect.forEach(Array.from({ length: 10 }), () => endpoint.worker())
      const taking = yield* Effect.forkChild(
        Effect.forEach(workers, (worker) => Effect.replicateEffect(worker.next, 10), { concurrency: "unbounded" })
      )
      yield* Effect.forEach(Array.from({ length: 100 }, (_, i) => i), (i) => endpoint.run(i), { concurrency: 8 })
      const taken = (yield* Fiber.join(taking)).flat()
      expect(new Set(taken.map((job) => job.id)).size).toBe(100)
      expect(taken.map((job) => job.attempt)).toEqual(Array.from({ length: 100 }, () => 1))
    }))

  it.effect("job-take-batch: returns an array of up to batch_size jobs", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (let i = 0; i < 5; i++) yield* endpoint.run(i)
      expect((yield* worker.takeBatch(3)).map((job) => job.input)).toEqual([0, 1, 2])
      expect((yield* worker.takeBatch(3)).map((job) => job.input)).toEqual([3, 4])
      expect(yield* worker.takeBatch(3)).toEqual([])
      yield* endpoint.run("x")
      // With any other batch_size, at least one job is returned.
      for (const size of ["0", "-1", "many", "", "1.5"]) {
        yield* endpoint.run(size)
        const answer = yield* worker.call(`${worker.addresses.takeBatch}&batch_size=${size}`)
        expect(answer.json).toHaveLength(1)
      }
    }))

  it.effect("job-take: job_in_progress=0 returns the previously delivered job to the queue and costs an attempt", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      expect(yield* worker.take(false)).toMatchObject({ id, attempt: 1 })
      // With job_in_progress=1, the worker keeps the job.
      expect(yield* worker.take(true)).toBeUndefined()
      expect((yield* endpoint.status(id)).status).toBe("IN_PROGRESS")
      expect(yield* worker.take(false)).toMatchObject({ id, attempt: 2 })
      expect(yield* endpoint.status(id)).toMatchObject({ status: "IN_PROGRESS", retries: 1 })
      expect(yield* worker.take(false)).toBeUndefined()
      expect(yield* endpoint.status(id)).toMatchObject({ status: "FAILED", error: expect.stringContaining(worker.id) })
    }))

  it.effect("addresses: a query may follow the path with & alone", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({ maxAttempts: 10 })
      const { call } = yield* endpoint.worker()
      const base = `${new URL((yield* endpoint.worker()).addresses.take).origin}/v2/${endpoint.id}`
      const { id } = yield* endpoint.run({})
      expect((yield* call(`${base}/job-take/tail&job_in_progress=0`)).json).toMatchObject({ id, attempt: 1 })
      expect((yield* endpoint.status(id)).workerId).toBe("tail")
      // The appended query is read: with job_in_progress=1 the worker keeps the job, and with 0 the job returns to the queue.
      expect((yield* call(`${base}/job-take/tail&job_in_progress=1`)).status).toBe(204)
      expect((yield* call(`${base}/job-take-batch/tail&batch_size=4&job_in_progress=0`)).json).toMatchObject([{ id, attempt: 2 }])
      expect((yield* call(`${base}/job-stop/tail&x=1`)).status).toBe(204)
      expect((yield* call(`${base}/ping/tail&job_id=${id}&runpod_version=1`)).status).toBe(200)
      expect((yield* call(`${base}/job-stream/tail/${id}&isStream=false`, { json: { output: 1 } })).status).toBe(200)
      expect((yield* call(`${base}/job-done/tail/${id}&isStream=true`, { json: { output: 2 } })).status).toBe(200)
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: 2, workerId: "tail" })
    }))

  it.effect("addresses: reads both queries, and the real query takes precedence over the appended query", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { call } = yield* endpoint.worker()
      const base = `${new URL((yield* endpoint.worker()).addresses.take).origin}/v2/${endpoint.id}`
      for (let i = 0; i < 8; i++) yield* endpoint.run(i)
      expect((yield* call(`${base}/job-take-batch/w&batch_size=1?batch_size=3&job_in_progress=1`)).json).toHaveLength(3)
      // With job_in_progress=0, the worker would lose its three jobs and get one of them again.
      expect((yield* call(`${base}/job-take-batch/w&job_in_progress=1?batch_size=9`)).json).toHaveLength(5)
    }))

  it.effect("addresses: an unfilled placeholder is a valid id", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { call } = yield* endpoint.worker()
      const base = `${new URL((yield* endpoint.worker()).addresses.take).origin}/v2/${endpoint.id}`
      const { id } = yield* endpoint.run({})
      expect((yield* call(`${base}/job-take/$RUNPOD_POD_ID&job_in_progress=0`)).json).toMatchObject({ id })
      const done = yield* call(`${base}/job-done/$RUNPOD_POD_ID/${id}?gpu=$RUNPOD_GPU_TYPE_ID&isStream=false`, {
        json: { output: "ok" }
      })
      expect(done.status).toBe(200)
      expect(yield* endpoint.status(id)).toMatchObject({ workerId: "$RUNPOD_POD_ID", output: "ok" })
    }))

  it.effect("addresses: ids are percent-encoded once, and only an unencoded & starts an appended query", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const ids = ["a b", "a/b", "a%2Fb", "a&b=c", "ünï-漢", "a;b?c#d", "100%", "a+b", "a:b@c$,"]
      for (const name of ids) {
        const worker = yield* endpoint.worker(name)
        const { id } = yield* endpoint.run(name)
        expect(yield* worker.take(), name).toMatchObject({ id })
        expect((yield* endpoint.status(id)).workerId).toBe(name)
        yield* worker.ping([id])
        yield* worker.stream(id, [1])
        yield* worker.finish(id, name)
        expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: name })
        const second = yield* endpoint.run(name)
        yield* worker.next
        yield* endpoint.cancel(second.id)
        expect(yield* worker.stops, name).toEqual([second.id])
      }
    }))

  it.effect("addresses: accepts long ids and appended queries, and rejects an id that is missing, over 256 characters or not printable", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker("w".repeat(256))
      const { id } = yield* endpoint.run({})
      expect(yield* worker.take()).toMatchObject({ id })
      const done = worker.addresses.done(id).replace("?", `&x=${"y".repeat(2_000)}&`)
      expect((yield* worker.call(done, { json: { output: 1 } })).status).toBe(200)
      const base = `${new URL(worker.addresses.take).origin}/v2/${endpoint.id}`
      for (const operation of ["job-take", "job-take-batch", "job-stop", "ping"]) {
        for (const one of ["w".repeat(257), "&job_in_progress=0", "w%1b%5b2J", "w%0a12:00:00"]) {
          const problem = yield* Effect.flatMap(worker.call(`${base}/${operation}/${one}`), expectProblem(400))
          expect(problem.error).toMatch(/worker/i)
        }
      }
    }))

  it.effect("job-stop: returns 204 while there is nothing to stop, and each cancelled job's id once, as soon as it is cancelled", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const first = yield* endpoint.run(1)
      const second = yield* endpoint.run(2)
      yield* worker.takeBatch(2)
      expect(yield* worker.stops).toEqual([])
      yield* endpoint.cancel(first.id)
      yield* endpoint.cancel(second.id)
      const answer = yield* worker.call(worker.addresses.stop)
      expect(answer.json).toEqual({ jobsToStop: [first.id, second.id] })
      expect(answer.headers.get("content-type")).toMatch(/^application\/json/)
      expect(yield* worker.stops).toEqual([])
    }))

  it.effect("job-stop: delivers a signal only to its worker, and not to a worker with the same name on another endpoint", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const elsewhere = yield* server.endpoint()
      const worker = yield* endpoint.worker("same")
      const { id } = yield* endpoint.run(1)
      yield* worker.next
      yield* endpoint.cancel(id)
      expect(yield* (yield* endpoint.worker("other")).stops).toEqual([])
      expect(yield* (yield* elsewhere.worker("same")).stops).toEqual([])
      expect(yield* worker.stops).toEqual([id])
    }))

  it.effect("the worker API also returns 404 for an unknown endpoint, after a delay that prevents workers from spinning", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      yield* endpoint.call(`/api/v1/endpoints/${endpoint.id}`, { method: "DELETE" })
      for (const address of [worker.addresses.take, worker.addresses.takeBatch, worker.addresses.stop, worker.addresses.ping]) {
        const { millis, value } = yield* timed(Effect.flatMap(worker.call(address), expectProblem(404)))
        expect(value.error).toContain(endpoint.id)
        expect(millis).toBeGreaterThanOrEqual(LIMITS.refusalWaitMs - 5)
      }
    }))
}

/**
 * Tests job-done and ping (docs/spec/worker-protocol.md#delivering-a-result, docs/spec/worker-protocol.md#delivering-progress,
 * docs/spec/worker-protocol.md#heartbeat).
 */
import { expect } from "@effect/vitest"
import { WorkerRegistry } from "@stint/queue/WorkerRegistry"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { until } from "../TestEndpoint.ts"
import { expectProblem } from "../WireClient.ts"
import { SDK_LABELS } from "../WireWorker.ts"

/** Only endpoints with handlers may have such a short lease. The test connects the worker. */
const SHORT_LEASE = { source: { type: "handler", file: "/srv/handler.ts" }, leaseMs: 1_000 } as const

const results = (it: ServerIt) => {
  it.effect("job-done: accepts raw UTF-8 JSON with the content type of a form and a stray charset header", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const answer = yield* worker.deliver(id, { output: { text: "grüße 漢字 😀", form: "a=b&c=d" } })
      expect(answer).toMatchObject({ status: 200, text: "" })
      expect(yield* endpoint.status(id)).toMatchObject({
        status: "COMPLETED",
        output: { text: "grüße 漢字 😀", form: "a=b&c=d" }
      })
    }))

  it.effect("job-done: accepts any content type or none, and unknown keys", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const body = new TextEncoder().encode("{\"output\":7,\"logs\":\"x\",\"event\":\"prestart_failed\",\"batchId\":3}")
      for (
        const headers of [SDK_LABELS, { "content-type": "text/html" }, {}, { "content-type": "application/json; charset=latin1" }]
      ) {
        const { id } = yield* endpoint.run({})
        yield* worker.next
        expect((yield* worker.call(worker.addresses.done(id), { body, headers })).status).toBe(200)
        expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: 7 })
      }
    }))

  it.effect("job-done: returns 200 for a repeated result, and a repeated or different result does not change the job", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.finish(id, "first")
      const before = yield* endpoint.status(id)
      for (const body of [{ output: "first" }, { output: "second" }, { error: "no" }, { status: "IN_PROGRESS", output: 3 }]) {
        expect(yield* worker.deliver(id, body)).toMatchObject({ status: 200, text: "" })
        expect(yield* endpoint.status(id)).toEqual(before)
      }
    }))

  it.effect("job-done: rejects a result from another worker and states the reason", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker("holder")
      const otherWorker = yield* endpoint.worker("stranger")
      const { id } = yield* endpoint.run({})
      yield* Effect.flatMap(otherWorker.deliver(id, { output: 0 }), expectProblem(409))
      yield* worker.next
      const problem = yield* Effect.flatMap(otherWorker.deliver(id, { output: 0 }), expectProblem(409))
      expect(problem).toMatchObject({ type: "/problems/conflict", error: expect.stringContaining("\"holder\"") })
      yield* worker.finish(id, "mine")
      yield* Effect.flatMap(otherWorker.deliver(id, { output: 0 }), expectProblem(409))
      expect(yield* endpoint.status(id)).toMatchObject({ output: "mine", workerId: "holder" })
    }))

  it.effect("job-done: accepts a result that names an attempt only for that attempt", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      expect(yield* worker.take(false)).toMatchObject({ attempt: 1 })
      expect(yield* worker.take(false)).toMatchObject({ attempt: 2 })
      yield* Effect.flatMap(worker.deliver(id, { output: "old" }, "&attempt=1"), expectProblem(409))
      yield* Effect.flatMap(worker.call(`${worker.addresses.stream(id)}&attempt=1`, { json: { output: 0 } }), expectProblem(409))
      // Late progress is not an error, but the job does not show it.
      expect((yield* worker.deliver(id, { status: "IN_PROGRESS", output: "old" }, "&attempt=1")).status).toBe(200)
      expect(yield* endpoint.status(id)).toEqual({
        id,
        status: "IN_PROGRESS",
        delayTime: expect.any(Number),
        retries: 1,
        workerId: worker.id
      })
      expect((yield* worker.deliver(id, { output: "new" }, "&attempt=2")).status).toBe(200)
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: "new" })
    }))

  it.effect("job-done: returns 404 for an unknown job, whatever its id looks like", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const id of ["nobody-knows", "x".repeat(300), "a b", "%", "💥", "../../etc"]) {
        for (const address of [worker.addresses.done(id), worker.addresses.stream(id)]) {
          const problem = yield* Effect.flatMap(worker.call(address, { json: { output: 1 } }), expectProblem(404))
          expect(problem.type).toBe("/problems/job-not-found")
        }
        const known = yield* Effect.flatMap(endpoint.call(endpoint.path(`status/${encodeURIComponent(id)}`)), expectProblem(404))
        expect(known.type).toBe("/problems/job-not-found")
      }
      yield* Effect.flatMap(
        worker.call(worker.addresses.done("").replace("/?", "/&x=1?"), { json: { output: 1 } }),
        expectProblem(404)
      )
    }))

  it.effect("job-done: shows the latest progress while the job is running", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      for (const output of ["one", { two: 2 }, null]) {
        yield* worker.progress(id, output)
        expect(yield* endpoint.status(id)).toMatchObject({ status: "IN_PROGRESS", output })
      }
      yield* worker.finish(id, "done")
      yield* worker.progress(id, "late")
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED", output: "done" })
    }))

  it.effect("job-done: stopPod delivers the result and gives the worker no more jobs", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const other = yield* endpoint.worker()
      const { id } = yield* endpoint.run(1)
      yield* worker.next
      const waiting = yield* Effect.forkChild(worker.take())
      expect((yield* worker.deliver(id, { output: 1, stopPod: true })).status).toBe(200)
      expect(yield* Fiber.join(waiting)).toBeUndefined()
      expect((yield* endpoint.status(id)).status).toBe("COMPLETED")
      const next = yield* endpoint.run(2)
      expect(yield* worker.take()).toBeUndefined()
      expect(yield* other.next).toMatchObject({ id: next.id })
    }))

  it.effect("job-done: rejects a result over the limit and fails its job with that reason", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const large = JSON.stringify({ output: "x".repeat(20 * 1024 * 1024) })
      const chunked = () => new Response(large).body ?? ""
      for (const body of [large, chunked()]) {
        const { id } = yield* endpoint.run({})
        yield* worker.next
        const waiting = yield* Effect.forkChild(endpoint.statusSync(id))
        const answer = yield* worker.call(worker.addresses.done(id), { body, headers: SDK_LABELS })
        const problem = yield* expectProblem(413)(answer)
        expect(problem).toMatchObject({ limit: 20 * 1024 * 1024, error: expect.stringContaining("20 MiB") })
        expect(problem.hint).toMatch(/object store/)
        const job = yield* Fiber.join(waiting)
        expect(job).toMatchObject({ status: "FAILED", error: expect.stringContaining("20 MiB") })
        expect(job.error).toContain("object store")
      }
    }))

  it.effect("job-done: a large result from a worker without the lease fails no job", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const otherWorker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const body = JSON.stringify({ output: "x".repeat(20 * 1024 * 1024) })
      yield* Effect.flatMap(otherWorker.call(otherWorker.addresses.done(id), { body }), expectProblem(413))
      expect((yield* endpoint.status(id)).status).toBe("IN_PROGRESS")
    }))

  it.effect("job-done: rejects a result that is not JSON and fails its job, because a retry would send the same result", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const body of ["{\"output\":NaN}", "{\"output\": {\"loss\": -Infinity}}", "", "oops", "[1]", "\"output\"", "null"]) {
        const { id } = yield* endpoint.run({})
        yield* worker.next
        const problem = yield* Effect.flatMap(
          worker.call(worker.addresses.done(id), { method: "POST", body, headers: SDK_LABELS }),
          expectProblem(400)
        )
        const job = yield* endpoint.status(id)
        expect(job).toMatchObject({ status: "FAILED", error: expect.stringContaining(problem.error) })
      }
    }))

  it.effect("job-done: rejects progress that is not JSON or over its limit, and the job continues", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const send = (body: string) => worker.call(worker.addresses.done(id), { body, headers: SDK_LABELS })
      yield* Effect.flatMap(send("{\"status\": \"IN_PROGRESS\", \"output\": NaN}"), expectProblem(400))
      const large = JSON.stringify({ status: "IN_PROGRESS", output: "x".repeat(1024 * 1024) })
      const problem = yield* Effect.flatMap(send(large), expectProblem(413))
      expect(problem.limit).toBe(1024 * 1024)
      expect(yield* endpoint.status(id)).toEqual({
        id,
        status: "IN_PROGRESS",
        delayTime: expect.any(Number),
        workerId: worker.id
      })
      yield* worker.finish(id, "fine")
    }))
}

const heartbeats = (it: ServerIt) => {
  it.effect("ping: extends only the leases of the jobs that it names; an expired lease returns the job to the queue, then fails it", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint(SHORT_LEASE)
      const worker = yield* endpoint.worker()
      const held = yield* endpoint.run("held")
      const lost = yield* endpoint.run("lost")
      yield* worker.takeBatch(2)
      const beating = yield* Effect.forkChild(Effect.forever(Effect.andThen(worker.ping([held.id]), Effect.sleep(200))))
      const returned = yield* endpoint.until(lost.id, (job) => job.status !== "IN_PROGRESS")
      expect(returned).toEqual({ id: lost.id, status: "IN_QUEUE", retries: 1, workerId: worker.id })
      expect((yield* endpoint.status(held.id)).status).toBe("IN_PROGRESS")
      // The worker may still be running the job, so it receives a stop signal.
      expect(yield* until(worker.stops, (ids) => ids.length > 0)).toEqual([lost.id])
      yield* Effect.flatMap(worker.deliver(lost.id, { output: "too late" }), expectProblem(409))
      const second = yield* endpoint.worker("silent-too")
      expect(yield* second.next).toMatchObject({ id: lost.id, attempt: 2 })
      const failed = yield* endpoint.until(lost.id, (job) => job.status === "FAILED")
      expect(failed.error).toMatch(/silent-too.*silent for 1 s/)
      expect((yield* endpoint.status(held.id)).status).toBe("IN_PROGRESS")
      yield* Fiber.interrupt(beating)
      yield* worker.finish(held.id, "done")
    }))

  it.effect("ping: accepts GET and POST, with ids as a comma-separated string, a list, null or nothing", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const a = yield* endpoint.run("a")
      const b = yield* endpoint.run("b")
      yield* worker.takeBatch(2)
      const ping = worker.addresses.ping
      const forms = [
        worker.call(`${ping}&job_id=${a.id},${b.id}&runpod_version=1.12.0`),
        worker.call(`${ping}&job_id=${a.id}&job_id=${b.id}`),
        worker.call(`${ping}&job_id=${encodeURIComponent(`${a.id}, ${b.id}`)}`),
        worker.call(`${ping}&job_id=`),
        worker.call(ping),
        worker.call(ping, { json: { job_id: [a.id, b.id], runpod_version: "1.12.0" } }),
        worker.call(ping, { json: { job_id: `${a.id},${b.id}` } }),
        worker.call(ping, { json: { job_id: null, runpod_version: null } }),
        worker.call(ping, { json: { job_id: [], unknown: { key: 1 } } }),
        worker.call(ping, { json: {} }),
        worker.call(ping, { body: JSON.stringify({ job_id: [a.id] }), headers: SDK_LABELS }),
        worker.call(ping, { method: "POST" })
      ]
      for (const form of forms) expect(yield* form).toMatchObject({ status: 200, text: "" })
      expect(yield* worker.stops).toEqual([])
    }))

  it.effect("ping: extends leases with every form of the request", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint(SHORT_LEASE)
      const worker = yield* endpoint.worker()
      const ping = worker.addresses.ping
      const ids = yield* Effect.forEach(Array.from({ length: 10 }), () => Effect.map(endpoint.run({}), ({ id }) => id))
      const silent = (yield* endpoint.run("silent")).id
      yield* worker.takeBatch(11)
      const beating = yield* Effect.all([
        worker.call(`${ping}&job_id=${ids.slice(0, 2).join(",")}`),
        worker.call(`${ping}&job_id=${ids[2]}&job_id=${ids[3]}`),
        worker.call(`${ping.replace("?", "&")}&job_id=${ids.slice(4, 6).join(",")}`),
        worker.call(ping, { json: { job_id: ids.slice(6, 8) } }),
        worker.call(ping, { json: { job_id: ids.slice(8, 10).join(",") } })
      ]).pipe(Effect.delay(150), Effect.forever, Effect.forkChild)
      yield* endpoint.until(silent, (job) => job.retries === 1)
      for (const id of ids) expect((yield* endpoint.status(id)).status).toBe("IN_PROGRESS")
      yield* Fiber.interrupt(beating)
    }))

  it.effect("ping: naming a job that the worker no longer holds creates a stop signal", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      yield* worker.ping(["never-was"])
      expect(yield* worker.stops).toEqual(["never-was"])
      const { id } = yield* endpoint.run({})
      yield* worker.next
      yield* worker.finish(id, 1)
      // The heartbeat was in flight when the result arrived.
      yield* worker.ping([id])
      expect(yield* worker.stops).toEqual([])
    }))

  it.effect("ping: rejects an invalid heartbeat and ignores impossible ids", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const body of ["[]", "nope", "3", "{\"job_id\":7}", "{\"job_id\":[7]}", "{\"job_id\":{}}"]) {
        yield* Effect.flatMap(worker.call(worker.addresses.ping, { method: "POST", body }), expectProblem(400))
      }
      yield* worker.ping(["x".repeat(500)])
      expect((yield* worker.call(worker.addresses.ping, { json: { job_id: ["", "💥", "x".repeat(500)] } })).status).toBe(200)
    }))

  it.effect("ping: a failed fitness check marks the worker unhealthy until it recovers", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { addresses, call } = worker
      for (
        const report of [
          call(`${addresses.ping}&status=unhealthy&check=memory&reason=${encodeURIComponent("2 GB of 4 GB")}`),
          call(addresses.ping, { json: { status: "unhealthy", check: "memory", reason: "2 GB of 4 GB" } })
        ]
      ) {
        expect((yield* report).status).toBe(200)
        expect((yield* endpoint.health).workers).toMatchObject({ unhealthy: 1, idle: 0, ready: 0 })
        yield* worker.ping([])
        expect((yield* endpoint.health).workers).toMatchObject({ unhealthy: 0, idle: 1, ready: 1 })
      }
    }))

  it.effect("ping: a worker in setup stays initializing until it asks for a job, and a failed setup is reported with its own reason", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const form of ["query", "body"] as const) {
        const worker = yield* endpoint.worker()
        const { addresses, call } = worker
        const report = (values: Readonly<Record<string, string | number>>) =>
          form === "body"
            ? call(addresses.ping, { json: values })
            : call(
              `${addresses.ping}&${Object.entries(values).map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&")}`
            )
        expect((yield* report({ status: "setup", setup_timeout: 60_000 })).status).toBe(200)
        expect((yield* endpoint.health).workers).toMatchObject({ initializing: 1, idle: 0, ready: 0 })
        expect((yield* report({ status: "unhealthy", check: "setup", reason: "no file /models" })).status).toBe(200)
        const found = (yield* Effect.flatMap(WorkerRegistry, ({ list }) => list(endpoint.endpoint.id))).find(({ id }) =>
          id === worker.id
        )
        expect(found).toMatchObject({ state: "unhealthy", reason: "its setup failed: no file /models" })
        yield* worker.ping([])
        // A notice that arrives late changes nothing.
        expect((yield* report({ status: "setup", setup_timeout: 60_000 })).status).toBe(200)
        expect((yield* endpoint.health).workers).toMatchObject({ initializing: 0, unhealthy: 0 })
        yield* report({ status: "exiting" })
        yield* (yield* WorkerRegistry).removed(endpoint.endpoint.id, worker.id)
      }
    }))

  it.effect("ping: when a worker exits, the jobs that it does not name return to the queue unstarted, and it finishes the jobs that it names", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint({ maxAttempts: 1 })
      const worker = yield* endpoint.worker()
      const other = yield* endpoint.worker()
      const kept = yield* endpoint.run("kept")
      const back = yield* endpoint.run("back")
      yield* worker.takeBatch(2)
      const waiting = yield* Effect.forkChild(worker.take())
      expect((yield* worker.call(worker.addresses.ping, { json: { status: "exiting", job_id: [kept.id] } })).status).toBe(200)
      expect(yield* Fiber.join(waiting)).toBeUndefined()
      expect(yield* endpoint.status(back.id)).toEqual({ id: back.id, status: "IN_QUEUE", workerId: worker.id })
      expect(yield* other.next).toMatchObject({ id: back.id, input: "back" })
      yield* other.finish(back.id, "other")
      yield* worker.finish(kept.id, "worker")
      expect(yield* endpoint.status(back.id)).toMatchObject({ status: "COMPLETED", output: "other" })
      expect(yield* endpoint.status(kept.id)).toMatchObject({ status: "COMPLETED", output: "worker" })
    }))
}

const largeResults = (it: ServerIt) => {
  it.effect("job-done: returns 404 for a large result of an unknown job without checking the body, with and without a length", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const worker = yield* endpoint.worker()
      const other = yield* (yield* server.endpoint()).run({})
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const notJson = new Uint8Array(300_000).fill(91)
      for (const job of ["unknown", other.id, "x".repeat(129)]) {
        for (const body of [notJson, new Blob([notJson]).stream()]) {
          yield* Effect.flatMap(worker.call(worker.addresses.done(job), { body }), expectProblem(404))
        }
      }
      yield* Effect.flatMap(worker.call(worker.addresses.done(id), { body: notJson }), expectProblem(400))
      expect(yield* endpoint.status(id)).toMatchObject({ status: "FAILED" })
    }))

  it.effect("job-done: accepts a repeated large result, and rejects one from a worker that does not hold the job", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const output = "y".repeat(300_000)
      const { id } = yield* endpoint.run({})
      yield* worker.next
      const other = yield* endpoint.worker()
      expect((yield* other.deliver(id, { output })).status).toBe(409)
      for (let i = 0; i < 2; i++) expect((yield* worker.deliver(id, { output })).status).toBe(200)
      expect((yield* endpoint.status(id)).output).toBe(output)
    }))
}

/** Registers the tests for result delivery and heartbeats. */
export const jobDone = (it: ServerIt): void => {
  largeResults(it)
  results(it)
  heartbeats(it)
}

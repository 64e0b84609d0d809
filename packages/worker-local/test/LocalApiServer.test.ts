import { describe, expect, it } from "@effect/vitest"
import { Job, JobReceipt } from "@stint/contract/Job"
import * as Problem from "@stint/contract/Problem"
import { JobSource } from "@stint/worker/JobSource"
import * as JobSourceHttp from "@stint/worker/JobSourceHttp"
import * as WorkerConfig from "@stint/worker/WorkerConfig"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import { createServer } from "node:http"
import { vi } from "vitest"
import * as LocalApiServer from "../src/LocalApiServer.ts"
import { MAX_FINISHED_JOBS } from "../src/LocalJobQueue.ts"
import { LocalApi, MAX_QUEUED_JOBS } from "../src/LocalRoutes.ts"
import { platformOf } from "../src/LocalServer.ts"

const KEY = "worker-key"

/** The server on the test's clock, and a worker's transport that the test uses to take and finish jobs itself. */
const serve = Effect.gen(function*() {
  const options = { host: "127.0.0.1", port: 0, log: () => {} }
  const { baseUrl } = Context.get(yield* Layer.build(Layer.orDie(LocalApiServer.layer(options, KEY))), LocalApi)
  const config = Layer.effect(WorkerConfig.WorkerConfig, Effect.orDie(WorkerConfig.read({ PLATFORM_POD_ID: "w1" }, [])))
  const platform = platformOf({ workerUrl: `${baseUrl}/v2/local`, workerKey: KEY }, "w1")
  const worker = Context.get(yield* Layer.build(Layer.provide(JobSourceHttp.layerOf(platform), config)), JobSource)

  const call = (method: string, path: string, body?: unknown, headers: { readonly [name: string]: string } = {}) =>
    Effect.promise(() =>
      fetch(baseUrl + path, { method, headers, ...(body === undefined ? {} : { body: JSON.stringify(body) }) })
    )
  const read = <S extends Schema.ConstraintDecoder<unknown>>(schema: S) => (response: Response) =>
    Effect.promise(async () => Schema.decodeUnknownSync(schema)(await response.json()))
  return {
    call,
    read,
    worker,
    take: Effect.map(worker.take({ count: 1, hasJobs: true }), ([job]) => job ?? expect.fail("no job was taken")),
    run: (input: unknown, more = {}) => Effect.flatMap(call("POST", "/run", { input, ...more }), read(JobReceipt)),
    status: (id: string) => Effect.flatMap(call("POST", `/status/${id}?wait=0`), read(Job))
  }
})

/** A webhook receiver that responds with 500. `arrived(n)` waits for the n-th request. */
const failingReceiver = Effect.acquireRelease(
  Effect.promise(() =>
    new Promise<{ readonly url: string; readonly arrived: (count: number) => Promise<void>; readonly close: () => void }>(
      (resolve) => {
        let count = 0
        const server = createServer((request, response) => {
          request.resume().on("end", () => {
            count++
            response.writeHead(500).end()
          })
        })
        server.listen(0, "127.0.0.1", () => {
          const address = server.address()
          const port = typeof address === "object" && address !== null ? address.port : 0
          resolve({
            url: `http://127.0.0.1:${port}/hook`,
            arrived: (wanted) => vi.waitFor(() => expect(count).toBe(wanted), { timeout: 10_000 }),
            close: () => server.close()
          })
        })
      }
    )
  ),
  ({ close }) => Effect.sync(close)
)

describe("the server of the local API", () => {
  // docs/spec/local-test-mode.md#webhooks
  it.effect("attempts a failing webhook three times and does not change the job", () =>
    Effect.gen(function*() {
      const hook = yield* failingReceiver
      const { run, status, take, worker } = yield* serve
      const { id } = yield* run(1, { webhook: hook.url })
      yield* worker.deliverResult(yield* take, `{"output":1}`, false)
      yield* Effect.promise(() => hook.arrived(1))
      yield* TestClock.adjust("7 seconds")
      yield* Effect.promise(() => hook.arrived(2))
      yield* TestClock.adjust("20 seconds")
      yield* Effect.promise(() => hook.arrived(3))
      yield* TestClock.adjust("10 minutes")
      yield* Effect.promise(() => hook.arrived(3))
      expect(yield* status(id)).toMatchObject({ status: "COMPLETED", output: 1 })
    }))

  // docs/spec/handler.md#returned-values
  it.effect("a result without output removes the progress from the job's output", () =>
    Effect.gen(function*() {
      const { run, status, take, worker } = yield* serve
      const { id } = yield* run(1)
      const job = yield* take
      yield* worker.progress(job, "half way")
      expect(yield* status(id)).toMatchObject({ status: "IN_PROGRESS", output: "half way" })
      yield* worker.deliverResult(job, "{}", false)
      expect(yield* status(id)).toEqual({ id, status: "COMPLETED", delayTime: 0, executionTime: 0, workerId: "w1" })
    }))

  // docs/spec/jobs-api.md#request-body
  it.effect("ends a job as TIMED_OUT after its executionTimeout, and requests that the worker stop it", () =>
    Effect.gen(function*() {
      const { run, status, take, worker } = yield* serve
      const { id } = yield* run(1, { policy: { executionTimeout: 5_000 } })
      yield* take
      yield* TestClock.adjust("6 seconds")
      expect(yield* status(id)).toMatchObject({ status: "TIMED_OUT", error: expect.stringMatching(/execution timeout \(5 s\)/) })
      expect(yield* worker.stopRequests).toEqual([id])
    }))

  it.effect("does not requeue a job after hours without a heartbeat", () =>
    Effect.gen(function*() {
      const { run, status, take, worker } = yield* serve
      const { id } = yield* run(1)
      const job = yield* take
      yield* TestClock.adjust("2 hours")
      expect(yield* status(id)).toMatchObject({ status: "IN_PROGRESS" })
      yield* worker.deliverResult(job, `{"output":2}`, false)
      expect(yield* status(id)).toMatchObject({ status: "COMPLETED", output: 2 })
    }))

  // docs/spec/local-test-mode.md#local-limits
  it.effect("retains the newest ended jobs and every running job", () =>
    Effect.gen(function*() {
      const { call, run, status, take, worker } = yield* serve
      const running = yield* run("running")
      yield* take
      const cancelled = yield* run("cancelled")
      yield* call("POST", `/cancel/${cancelled.id}`)
      let last = ""
      for (let n = 0; n < MAX_FINISHED_JOBS; n++) {
        if (n === MAX_FINISHED_JOBS - 1) expect(yield* status(cancelled.id)).toMatchObject({ status: "CANCELLED" })
        last = (yield* run(n)).id
        yield* worker.deliverResult(yield* take, `{"output":${n}}`, false)
      }
      expect((yield* call("POST", `/status/${cancelled.id}`)).status).toBe(404)
      expect(yield* status(last)).toMatchObject({ status: "COMPLETED" })
      expect(yield* status(running.id)).toMatchObject({ status: "IN_PROGRESS" })
    }))

  it.effect("rejects a job with 429 while 1,000 jobs are waiting", () =>
    Effect.gen(function*() {
      const { call, read, run, take } = yield* serve
      for (let n = 0; n < MAX_QUEUED_JOBS; n++) yield* run(n)
      for (const path of ["/run", "/runsync", "/v2/any/run"]) {
        const refused = yield* call("POST", path, { input: 1 })
        expect(refused.status).toBe(429)
        expect(yield* Effect.promise(() => refused.json())).toMatchObject({
          error: expect.stringMatching(/1000 jobs are waiting/)
        })
      }
      yield* take
      expect(yield* Effect.flatMap(call("POST", "/run", { input: 1 }), read(JobReceipt))).toMatchObject({ status: "IN_PROGRESS" })
    }))

  // docs/spec/local-test-mode.md#local-api
  it.effect("accepts every key on the jobs API, and only the worker's key on the worker API", () =>
    Effect.gen(function*() {
      const { call, read, run } = yield* serve
      const { id } = yield* run(1)
      for (const headers of [{}, { authorization: "Bearer any" }, { authorization: KEY }]) {
        expect((yield* call("GET", `/v2/any/status/${id}`, undefined, headers)).status).toBe(200)
      }
      const waiting = yield* Effect.forkChild(call("GET", "/v2/local/job-take/w2", undefined, { authorization: "any" }), {
        startImmediately: true
      })
      // The server delays its response to a refused worker.
      while (waiting.pollUnsafe() === undefined) {
        yield* TestClock.adjust("1 second")
        yield* Effect.promise(() => new Promise((resolve) => setTimeout(resolve, 10)))
      }
      const refused = yield* Fiber.join(waiting)
      expect(refused.status).toBe(403)
      yield* read(Problem.Forbidden)(refused)
      for (const path of ["/api/v1/endpoints", "/docs/x", "/openapi.json"]) {
        expect((yield* call("GET", path)).status).toBe(404)
      }
    }))
})

import { describe, expect, it } from "@effect/vitest"
import { LEASE_TOKEN_HEADER } from "@stint/contract/WorkerProtocol"
import * as Effect from "effect/Effect"
import { Handler } from "../src/index.ts"
import * as PlatformStub from "../src/testing/PlatformStub.ts"
import { resultOf, start, until } from "./HttpWorker.ts"

const echo = Handler.fromFunction((job) => job.input)

// docs/spec/worker-protocol.md#overview
describe("the HTTP transport", () => {
  it.live("takes a job, runs it and delivers its result", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      yield* start(stub, echo)
      const id = stub.submit({ n: 1, text: "Grüße 🌍" }, { attempt: 3, extra: "kept" })
      expect(yield* resultOf(stub, id)).toEqual({ output: { n: 1, text: "Grüße 🌍" } })
      const [take] = stub.of("job-take")
      expect(take).toMatchObject({ method: "GET", worker: "stub-worker", query: { gpu: "none", job_in_progress: "0" } })
      expect(take?.headers).toMatchObject({ authorization: "stub-key", accept: "application/json" })
      const [done] = stub.of("job-done")
      expect(done).toMatchObject({ method: "POST", worker: "stub-worker", job: id, query: { isStream: "false", attempt: "3" } })
      expect(done?.headers).toMatchObject({ "content-type": "application/json", authorization: "stub-key" })
    }))

  it.live("labels results as RunPod's own SDK does when the variables start with RUNPOD_", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      yield* start(stub, echo, {}, stub.environment({ prefix: "RUNPOD_" }))
      const id = stub.submit({ n: 1 })
      expect(yield* resultOf(stub, id)).toEqual({ output: { n: 1 } })
      const [done] = stub.of("job-done")
      expect(done?.headers["content-type"]).toBe("application/x-www-form-urlencoded")
      expect(done?.query).toEqual({ gpu: "none", isStream: "false" })
    }))

  it.live.each(["PLATFORM_", "RUNPOD_"] as const)(
    "asks for lease tokens and sends a job's token with every write, under %s",
    (prefix) =>
      Effect.gen(function*() {
        const stub = yield* PlatformStub.make()
        yield* start(
          stub,
          Handler.fromFunction(function*() {
            yield "chunk"
          }),
          {},
          stub.environment({ prefix })
        )
        const leaseToken = "2.Zm9v-_YmFyYmF6cXV4cXV"
        const id = stub.submit(1, { attempt: 2, leaseToken })
        yield* resultOf(stub, id)
        expect(stub.of("job-take")[0]?.headers[LEASE_TOKEN_HEADER]).toBe("1")
        expect(stub.of("job-stream")[0]?.query).toMatchObject({ attempt: "2", chunk: "1", lease_token: leaseToken })
        expect(stub.of("job-done")[0]?.query).toMatchObject({ attempt: "2", lease_token: leaseToken })
        // A platform that gives out no tokens receives none.
        yield* resultOf(stub, stub.submit(1, { attempt: 1 }))
        expect(stub.of("job-done")[1]?.query).not.toHaveProperty("lease_token")
      })
  )

  it.live("keeps all other members of the job and restores an empty input that the platform omitted", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      yield* start(stub, Handler.fromFunction(({ id: _id, ...job }) => job))
      const id = stub.submit(undefined, { s3Config: { bucketName: "b" }, batchId: "b1" })
      expect(yield* resultOf(stub, id)).toEqual({
        output: { input: {}, s3Config: { bucketName: "b" }, batchId: "b1", delayTime: 0 }
      })
    }))

  it.live.each([204, 400] as const)("a response with status %i means that there is no job", (empty) =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make({ hold: 1, empty })
      const { log } = yield* start(stub, echo)
      yield* until(stub, () => stub.of("job-take").filter(({ status }) => status === empty).length >= 3)
      const id = stub.submit(1)
      expect(yield* resultOf(stub, id)).toEqual({ output: 1 })
      expect(log.filter(({ level }) => level === "ERROR" || level === "WARN")).toEqual([])
      // Immediate empty responses do not make the worker spin.
      expect(stub.of("job-take").length).toBeLessThan(20)
    }))

  it.live("takes several jobs as a batch and reports that it has jobs in progress", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const waiting: Array<() => void> = []
      for (const n of [1, 2, 3, 4]) stub.submit(n, { id: `j${n}` })
      yield* start(
        stub,
        Handler.fromFunction(() =>
          new Promise<void>((resolve) => {
            waiting.push(resolve)
            stub.recheck()
          })
        ),
        { concurrencyModifier: () => 3 }
      )
      yield* until(stub, () => waiting.length === 3)
      expect(stub.of("job-take-batch")[0]?.query).toEqual({ gpu: "none", batch_size: "3", job_in_progress: "0" })
      waiting[0]?.()
      yield* until(stub, () => waiting.length === 4)
      expect(stub.of("job-take")[0]?.query).toEqual({ gpu: "none", job_in_progress: "1" })
      for (const resolve of waiting) resolve()
      yield* until(stub, () => ["j1", "j2", "j3", "j4"].every((id) => stub.result(id) !== undefined))
    }))

  it.live("takes jobs one by one when the platform has no batch route, which it tries only once", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make({ batch: false })
      yield* start(stub, echo, { concurrencyModifier: () => 3 })
      for (const n of [1, 2, 3]) yield* resultOf(stub, stub.submit(n))
      expect(stub.of("job-take-batch")).toHaveLength(1)
      expect(stub.of("job-take").length).toBeGreaterThanOrEqual(3)
    }))

  it.live("streams chunks in order, then the result, marked as the result of a stream", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      stub.failNext("job-stream", 1, 500)
      yield* start(
        stub,
        Handler.fromFunction(async function*() {
          for (let n = 0; n < 20; n++) yield { n }
        }, { returnAggregateStream: true })
      )
      const id = stub.submit(null, { attempt: 1 })
      const all = Array.from({ length: 20 }, (_, n) => ({ n }))
      expect(yield* resultOf(stub, id)).toEqual({ output: all })
      expect(stub.chunks(id)).toEqual(all.map((output) => ({ output })))
      expect(stub.of("job-stream")[0]).toMatchObject({ job: id, query: { isStream: "false", chunk: "1", attempt: "1" } })
      expect(stub.of("job-done")[0]?.query["isStream"]).toBe("true")
      const last = stub.requests.filter(({ job }) => job === id).map(({ route }) => route).at(-1)
      expect(last).toBe("job-done")
    }))

  it.live("reports an exception with six fields", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const { log } = yield* start(
        stub,
        Handler.fromFunction(() => {
          throw new RangeError("far")
        })
      )
      const id = stub.submit(null)
      yield* resultOf(stub, id)
      const { error } = JSON.parse(stub.of("job-done")[0]?.text ?? "")
      expect(JSON.parse(error)).toMatchObject({ error_type: "RangeError", worker_id: "stub-worker", hostname: "stub-worker" })
      expect(log.find(({ level }) => level === "ERROR")).toMatchObject({
        requestId: id,
        message: expect.stringMatching(/The job failed/)
      })
    }))
})

describe("a response that is not a job", () => {
  it.live.each<[string, string, string]>([
    ["not JSON", "application/json", "{"],
    ["another content type", "text/html", `{"id":"j0","input":1}`],
    ["an empty body", "application/json", ""],
    ["not an object", "application/json", "7"],
    ["no id", "application/json", `{"input":1}`],
    ["an id that is not a string", "application/json", `{"id":7,"input":1}`]
  ])("%s", ([, contentType, body]) =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      stub.answerNext("job-take", contentType, body)
      const { log } = yield* start(stub, echo)
      const id = stub.submit(1)
      expect(yield* resultOf(stub, id)).toEqual({ output: 1 })
      expect(stub.of("job-done")).toHaveLength(1)
      expect(log.filter(({ level }) => level === "ERROR" || level === "WARN")).toHaveLength(1)
    }))
})

describe("faults", () => {
  it.live("a result is retried after an error and after a lost connection", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      stub.failNext("job-done", 1, 500)
      stub.dropNext("job-done", 2)
      yield* start(stub, echo)
      const id = stub.submit(1)
      expect(yield* resultOf(stub, id)).toEqual({ output: 1 })
      expect(stub.of("job-done", id).length).toBeGreaterThanOrEqual(4)
    }))

  it.live("a platform that restarts while a job runs receives its result and the next takes", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      let finish = () => {}
      const started = Promise.withResolvers<void>()
      const { logged } = yield* start(
        stub,
        Handler.fromFunction((job) => {
          if (job.input !== "wait") return job.input
          started.resolve()
          return new Promise((resolve) => {
            finish = () => resolve("waited")
          })
        })
      )
      const first = stub.submit("wait")
      yield* Effect.promise(() => started.promise)
      yield* Effect.promise(() => stub.down())
      finish()
      yield* logged(/Could not deliver the result/)
      yield* Effect.promise(() => stub.up())
      expect(yield* resultOf(stub, first)).toEqual({ output: "waited" })
      expect(yield* resultOf(stub, stub.submit("again"))).toEqual({ output: "again" })
    }))

  it.live("the worker waits for a platform that is not yet reachable", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      yield* Effect.promise(() => stub.down())
      const { logged } = yield* start(stub, echo)
      yield* logged(/Cannot take jobs: .*does not answer \(ECONNREFUSED\)/)
      yield* Effect.promise(() => stub.up())
      expect(yield* resultOf(stub, stub.submit(1))).toEqual({ output: 1 })
    }))

  it.live("a result is dropped when the worker no longer holds its job, and the worker continues", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      stub.failNext("job-done", 1, 409)
      const { log } = yield* start(stub, echo)
      const lost = stub.submit(1)
      const next = stub.submit(2)
      expect(yield* resultOf(stub, next)).toEqual({ output: 2 })
      expect(stub.of("job-done", lost)).toHaveLength(1)
      expect(log.filter(({ level }) => level === "WARN")).toMatchObject([{
        requestId: lost,
        message: expect.stringMatching(/the platform answered 409: the test set status 409/)
      }])
    }))

  it.live("a stop interrupts only its job, and the worker takes further jobs", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const events: Array<string> = []
      yield* start(
        stub,
        Handler.fromFunction((job, { signal }) =>
          new Promise<string>((resolve) => {
            events.push(`${String(job.input)} started`)
            stub.recheck()
            signal.addEventListener("abort", () => {
              events.push(`${String(job.input)} stopped`)
              stub.recheck()
              resolve("thrown away")
            })
          })
        ),
        { concurrencyModifier: () => 2 }
      )
      for (const n of [1, 2]) stub.submit(n, { id: `j${n}` })
      yield* until(stub, () => events.length === 2)
      stub.stop("j1")
      stub.submit(3, { id: "j3" })
      yield* until(stub, () => events.length === 4)
      expect(events).toEqual(["1 started", "2 started", "1 stopped", "3 started"])
      expect(stub.of("job-done")).toEqual([])
    }))

  it.live("the shutdown cancels the open take, takes nothing more and sends the exit ping", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const { close } = yield* start(stub, echo)
      // A take over a reused connection, whose cancellation could be mistaken for a lost connection.
      yield* resultOf(stub, stub.submit(1))
      yield* until(stub, () => stub.of("job-take").length === 2)
      yield* close
      yield* until(stub, () => stub.of("job-take")[1]?.status === 0)
      expect(stub.of("job-take")).toHaveLength(2)
      // The ping may still name the job whose result was accepted at the same moment.
      const exitPing = stub.of("ping").find(({ text }) => text.includes("exiting"))
      expect(JSON.parse(exitPing?.text ?? "")).toMatchObject({ runpod_version: "0.0.0", status: "exiting" })
    }))
})

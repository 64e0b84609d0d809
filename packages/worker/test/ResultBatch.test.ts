/**
 * Results that are ready at the same time (docs/spec/worker-protocol.md#delivering-several-results), between a worker and a stub platform over HTTP.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { Handler } from "../src/index.ts"
import * as PlatformStub from "../src/testing/PlatformStub.ts"
import { start, until } from "./HttpWorker.ts"

const echo = Handler.fromFunction((job) => job.input)

/** Submits jobs with these inputs. The worker takes them together, because it starts later. */
const submit = (stub: PlatformStub.PlatformStub, inputs: ReadonlyArray<unknown>): ReadonlyArray<string> =>
  inputs.map((input, at) => stub.submit(input, { id: `j${at + 1}`, attempt: at + 1, leaseToken: `${at + 1}.token` }))

const results = (stub: PlatformStub.PlatformStub, ids: ReadonlyArray<string>) =>
  Effect.map(
    until(stub, () => ids.every((id) => stub.result(id) !== undefined)),
    () => ids.map((id) => stub.result(id))
  )

const THREE = [{ output: "a" }, { output: "b" }, { output: "c" }]

describe("results of one turn of the event loop", () => {
  it.live("are delivered in one request, each with its job, attempt and lease token", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const ids = submit(stub, ["a", "b", "c"])
      yield* start(stub, echo, { concurrency: 3 })
      expect(yield* results(stub, ids)).toEqual(THREE)
      expect(stub.of("job-done")).toEqual([])
      const requests = stub.of("job-done-batch")
      expect(requests.map(({ text }) => JSON.parse(text))).toEqual([[
        { output: "a", id: "j1", attempt: 1, leaseToken: "1.token" },
        { output: "b", id: "j2", attempt: 2, leaseToken: "2.token" },
        { output: "c", id: "j3", attempt: 3, leaseToken: "3.token" }
      ]])
      expect(requests[0]).toMatchObject({ method: "POST", worker: "stub-worker" })
      expect(requests[0]?.headers).toMatchObject({ "content-type": "application/json", authorization: "stub-key" })
    }))

  it.live("are delivered together when handlers end asynchronously, and the next take fills all slots", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const ids = submit(stub, ["a", "b", "c"])
      const open = Promise.withResolvers<void>()
      let running = 0
      yield* start(
        stub,
        Handler.fromFunction(async (job) => {
          running++
          stub.recheck()
          await open.promise
          return job.input
        }),
        { concurrency: 3 }
      )
      yield* until(stub, () => running === 3)
      open.resolve()
      expect(yield* results(stub, ids)).toEqual(THREE)
      expect(stub.of("job-done")).toEqual([])
      expect(stub.of("job-done-batch")).toHaveLength(1)
      yield* until(stub, () => stub.of("job-take-batch").length === 2)
      expect(stub.of("job-take-batch").map(({ query }) => query["batch_size"])).toEqual(["3", "3"])
    }))

  it.live("are delivered alone if they are large, and a single one always is", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const large = "x".repeat(65_536)
      const ids = submit(stub, [large, "b", "c"])
      yield* start(stub, echo, { concurrency: 3 })
      expect(yield* results(stub, ids)).toEqual([{ output: large }, ...THREE.slice(1)])
      expect(stub.of("job-done").map(({ job }) => job)).toEqual(["j1"])
      expect(stub.of("job-done-batch")).toHaveLength(1)
      const id = stub.submit("d")
      yield* results(stub, [id])
      expect(stub.of("job-done").map(({ job }) => job)).toEqual(["j1", id])
    }))

  it.live("are split into requests of at most a mebibyte", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const text = "x".repeat(60_000)
      const ids = submit(stub, Array.from({ length: 20 }, () => text))
      yield* start(stub, echo, { concurrency: 20 })
      yield* results(stub, ids)
      const requests = stub.of("job-done-batch")
      expect(requests).toHaveLength(2)
      for (const { text } of requests) expect(text.length).toBeLessThanOrEqual(1024 * 1024)
    }))

  it.live("are delivered one by one to a platform whose variables start with RUNPOD_", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const ids = submit(stub, ["a", "b", "c"])
      yield* start(stub, echo, { concurrency: 3 }, stub.environment({ prefix: "RUNPOD_" }))
      expect(yield* results(stub, ids)).toEqual(THREE)
      expect(stub.of("job-done")).toHaveLength(3)
      expect(stub.of("job-done-batch")).toEqual([])
    }))

  it.live("are delivered one by one to a platform without the route, which the worker tries only once", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      stub.failNext("job-done-batch", 10, 404)
      yield* start(stub, echo, { concurrency: 3 })
      expect(yield* results(stub, submit(stub, ["a", "b", "c"]))).toEqual(THREE)
      yield* results(stub, ["d", "e", "f"].map((input) => stub.submit(input)))
      expect(stub.of("job-done-batch").length).toBeLessThanOrEqual(1)
    }))
})

describe("the platform's response", () => {
  it.live("a refused result is given up, and the others are delivered", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      submit(stub, ["a", "b", "c"])
      stub.answerNext(
        "job-done-batch",
        "application/json",
        JSON.stringify([{ status: 200 }, { status: 409, error: "another worker holds it" }, { status: 200 }])
      )
      const { log, logged } = yield* start(stub, echo, { concurrency: 3 })
      yield* logged(/no longer holds the job/)
      expect(log.filter(({ level }) => level === "WARN" || level === "ERROR")).toMatchObject([{
        requestId: "j2",
        message: expect.stringMatching(/the platform answered 409: another worker holds it/)
      }])
      // No result is sent again.
      expect(stub.of("job-done")).toEqual([])
      const next = stub.submit("d")
      expect(yield* results(stub, [next])).toEqual([{ output: "d" }])
    }))

  it.live.each(["500", "429", "drop"] as const)("results are delivered again after %s", (fault) =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      if (fault === "drop") stub.dropNext("job-done-batch", 1)
      else stub.failNext("job-done-batch", 1, Number(fault))
      const ids = submit(stub, ["a", "b", "c"])
      const { log } = yield* start(stub, echo, { concurrency: 3 })
      expect(yield* results(stub, ids)).toEqual(THREE)
      expect(log.filter(({ level }) => level === "WARN")).toHaveLength(3)
    }))

  it.live.each<[string, string, string]>([
    ["not JSON", "text/plain", "ok"],
    ["no list", "application/json", "{}"],
    ["too few statuses", "application/json", "[{\"status\":200}]"]
  ])("results are delivered one by one after a response that is %s", ([, contentType, body]) =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      stub.answerNext("job-done-batch", contentType, body)
      const ids = submit(stub, ["a", "b", "c"])
      yield* start(stub, echo, { concurrency: 3 })
      expect(yield* results(stub, ids)).toEqual(THREE)
      expect(stub.of("job-done")).toHaveLength(3)
    }))

  it.live.each([400, 413])("results are delivered one by one after %i", (status) =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      stub.failNext("job-done-batch", 1, status)
      const ids = submit(stub, ["a", "b", "c"])
      const { log } = yield* start(stub, echo, { concurrency: 3 })
      expect(yield* results(stub, ids)).toEqual(THREE)
      expect(stub.of("job-done")).toHaveLength(3)
      expect(log.filter(({ level }) => level === "WARN" || level === "ERROR")).toEqual([])
    }))

  it.live("a stop of the first job during the request does not lose the results of the others", () =>
    Effect.gen(function*() {
      const stub = yield* PlatformStub.make()
      const ids = submit(stub, ["a", "b", "c"])
      stub.holdNext("job-done-batch", 1)
      yield* start(stub, echo, { concurrency: 3 })
      yield* until(stub, () => stub.of("job-done-batch").length === 1)
      stub.stop("j1")
      expect(yield* results(stub, ids.slice(1))).toEqual(THREE.slice(1))
      expect(stub.result("j1")).toBeUndefined()
    }))
})

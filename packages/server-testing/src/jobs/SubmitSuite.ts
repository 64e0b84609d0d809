/**
 * Tests run and runsync (docs/spec/jobs-api.md#submitting-a-job, docs/spec/jobs-api.md#request-body).
 */
import { expect } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { JSON_SAMPLES } from "../JsonSamples.ts"
import type { ServerIt } from "../ServerIt.ts"
import { LIMITS, ServerTest } from "../ServerTest.ts"

const UUID = "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"

const took = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.timed(effect), ([duration, value]) => ({ value, millis: Duration.toMillis(duration) }))

/** Registers the tests for submitting jobs. */
export const submits = (it: ServerIt): void => {
  it.effect("run: returns the id and IN_QUEUE at once, and nothing else", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const answer = yield* endpoint.call(endpoint.path("run"), { json: { input: { name: "Ada" } } })
      expect(answer.status).toBe(200)
      expect(answer.headers.get("content-type")).toMatch(/^application\/json/)
      expect(answer.json).toEqual({ id: expect.stringMatching(new RegExp(`^${UUID}$`)), status: "IN_QUEUE" })
    }))

  it.effect("run: accepts any JSON as the input and delivers it to the worker exactly as it was sent", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const input of JSON_SAMPLES) {
        const sent = yield* endpoint.call(endpoint.path("run"), {
          body: `{"before":[{"input":9}], "input" : ${input} ,"after":"}"}`
        })
        expect(sent.status, input).toBe(200)
        const { text } = yield* worker.call(`${worker.addresses.take}&job_in_progress=1`)
        expect(text).toContain(`"input":${input},`)
      }
    }))

  it.effect("run: the last of two `input` keys is used, however it is escaped", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      yield* endpoint.call(endpoint.path("run"), { body: "{\"input\":1,\"\\u0069nput\":{\"two\":2}}" })
      expect((yield* worker.next).input).toEqual({ two: 2 })
    }))

  it.effect("run: ignores the content type and the charset of the body", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const type of ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data; boundary=x", "nonsense"]) {
        const answer = yield* endpoint.call(endpoint.path("run"), { body: "{\"input\":{}}", headers: { "content-type": type } })
        expect(answer.status, type).toBe(200)
      }
    }))

  it.effect("run: ignores unknown keys and passes s3Config to the worker unchanged", () =>
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

  it.effect.each(["run", "runsync"])(
    "%s: passes the caller's trace context to the worker unchanged",
    (route) =>
      Effect.gen(function*() {
        const endpoint = yield* (yield* ServerTest).endpoint()
        const worker = yield* endpoint.worker()
        const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        const tracestate = "vendor=\"quoted\",other=2"
        const submit = (headers: Readonly<Record<string, string>>) =>
          endpoint.call(endpoint.path(route), { json: { input: 1 }, headers })
        const calling = yield* Effect.forkChild(submit({ traceparent, tracestate }))
        const traced = yield* worker.next
        expect(traced).toMatchObject({ traceparent, tracestate })
        yield* worker.finish(traced.id, 1)
        const answer = yield* Fiber.join(calling)
        expect(answer.status).toBe(200)
        expect(answer.text).not.toContain("0af7651916cd43dd8448eb211c80319c")
      })
  )

  it.effect("run: ignores a trace context that violates W3C Trace Context", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const untraced = { id: expect.any(String), input: 1, delayTime: expect.any(Number), attempt: 1 }
      const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
      for (
        const traceparent of [
          "nonsense",
          "",
          `${good}-more`,
          good.toUpperCase(),
          good.replace("0af7651916cd43dd8448eb211c80319c", "0".repeat(32))
        ]
      ) {
        const answer = yield* endpoint.call(endpoint.path("run"), {
          json: { input: 1 },
          headers: { traceparent, tracestate: "a=1" }
        })
        expect(answer.status, traceparent).toBe(200)
        expect(yield* worker.next).toEqual(untraced)
      }
      yield* endpoint.call(endpoint.path("run"), { json: { input: 1 }, headers: { tracestate: "a=1" } })
      expect(yield* worker.next).toEqual(untraced)
      yield* endpoint.call(endpoint.path("run"), {
        json: { input: 1 },
        headers: { traceparent: good, tracestate: "x".repeat(513) }
      })
      expect(yield* worker.next).toEqual({ ...untraced, traceparent: good })
    }))

  it.effect("run: workers take jobs in submission order", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (let i = 0; i < 20; i++) yield* endpoint.run(i)
      const jobs = yield* worker.takeBatch(20)
      expect(jobs.map((job) => job.input)).toEqual(Array.from({ length: 20 }, (_, i) => i))
    }))

  it.effect("runsync: waits for the result and returns the whole job", () =>
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

  it.effect("runsync: returns IN_QUEUE when no worker takes the job in time", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { millis, value } = yield* took(endpoint.runsync({}, 60))
      expect(value).toEqual({ id: expect.stringMatching(/^sync-/), status: "IN_QUEUE" })
      expect(millis).toBeGreaterThanOrEqual(55)
      expect((yield* endpoint.status(value.id)).status).toBe("IN_QUEUE")
    }))

  it.effect("runsync: returns IN_PROGRESS and the latest progress while the job is running", () =>
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

  it.effect("runsync: clamps a wait below the minimum, and uses the default for a non-numeric wait", () =>
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

  it.effect("runsync: a job is still run after its caller disconnects", () =>
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

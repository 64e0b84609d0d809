/**
 * Tests RunPod's published, unmodified JavaScript client with the base URL `/v2` (docs/spec/compatibility.md#required-behaviour).
 */
import { expect, layer, vi } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { ADMIN_KEY, layer as layerServer, ServerTest } from "../src/ServerTest.ts"
import type { Settings } from "../src/TestEndpoint.ts"

// The client uses the `console.log` that exists when the client is loaded.
const print = vi.spyOn(console, "log").mockImplementation(() => {})
const { default: createRunpod } = await import("runpod-sdk")

/** An endpoint, and a client for it. */
const open = (settings: Settings = {}, key = ADMIN_KEY) =>
  Effect.gen(function*() {
    const server = yield* ServerTest
    const endpoint = yield* server.endpoint(settings)
    const client = createRunpod(key, { baseUrl: `${server.baseUrl}/v2` }).endpoint(endpoint.id)!
    const worker = yield* endpoint.worker()
    return { endpoint, client, worker }
  })

const call = <A>(promise: () => Promise<A>) => Effect.promise(promise)

// The client requests waits of 90 s. The server allows less, so the client has to poll.
layer(layerServer({ limits: { maxWaitMs: 300 } }), { excludeTestServices: true })("runpod-sdk 1.1.2 against /v2", (it) => {
  it.effect("run and status return the job", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      const { id, status } = yield* call(() => client.run({ input: { prompt: "hello", seed: 7 } }))
      expect(status).toBe("IN_QUEUE")
      expect(yield* call(() => client.status(id))).toEqual({
        id,
        status: "IN_QUEUE",
        started: true,
        completed: false,
        succeeded: false
      })
      expect(yield* worker.next).toMatchObject({ id, input: { prompt: "hello", seed: 7 } })
      yield* worker.progress(id, "half")
      expect(yield* call(() => client.status(id))).toMatchObject({ status: "IN_PROGRESS", output: "half", completed: false })
      yield* worker.finish(id, { text: "hi" })
      expect(yield* call(() => client.status(id))).toEqual({
        id,
        status: "COMPLETED",
        delayTime: expect.any(Number),
        executionTime: expect.any(Number),
        output: { text: "hi" },
        workerId: worker.id,
        started: true,
        completed: true,
        succeeded: true
      })
    }))

  it.effect("runSync returns the result", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      yield* worker.serve((job) => Effect.succeed({ output: { echo: job.input } }))
      const job = yield* call(() => client.runSync({ input: { a: 1 } }))
      expect(job).toMatchObject({
        id: expect.stringMatching(/^sync-/),
        status: "COMPLETED",
        output: { echo: { a: 1 } },
        completed: true,
        succeeded: true
      })
    }))

  it.effect("runSync: when the job outlasts the first wait, polls status-sync until the job ends", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      const waiting = yield* Effect.forkChild(call(() => client.runSync({ input: {} })))
      const job = yield* worker.next
      yield* call(() => vi.waitFor(() => expect(print).toHaveBeenCalledWith(`${job.id}: IN_PROGRESS`), 10_000))
      yield* worker.finish(job.id, "in the end")
      const done = yield* Fiber.join(waiting)
      expect(done).toMatchObject({ id: job.id, status: "COMPLETED", output: "in the end", completed: true })
    }))

  it.effect("runSync returns the error of a failed job", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      yield* worker.serve(() => Effect.succeed({ error: "no such model" }))
      expect(yield* call(() => client.runSync({ input: {} }))).toMatchObject({
        status: "FAILED",
        error: "no such model",
        completed: true,
        succeeded: false
      })
    }))

  it.effect("stream returns every chunk once, in order, and then the end", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      const { id } = yield* call(() => client.run({ input: { from: 5 } }))
      const reading = yield* Effect.forkChild(call(async () => {
        const chunks: Array<unknown> = []
        for await (const chunk of client.stream(id)) chunks.push(chunk)
        return chunks
      }))
      const numbers = Array.from({ length: 1_100 }, (_, i) => i)
      yield* worker.next
      yield* worker.stream(id, numbers)
      yield* worker.deliver(id, { output: [] }, "&isStream=true")
      expect(yield* Fiber.join(reading)).toEqual(numbers.map((output) => ({ output })))
    }))

  it.effect("stream ends when a waiting job is cancelled", () =>
    Effect.gen(function*() {
      const { client } = yield* open()
      const { id } = yield* call(() => client.run({ input: {} }))
      const reading = yield* Effect.forkChild(call(async () => {
        const chunks: Array<unknown> = []
        for await (const chunk of client.stream(id)) chunks.push(chunk)
        return chunks
      }))
      yield* call(() => client.cancel(id))
      expect(yield* Fiber.join(reading)).toEqual([])
    }))

  it.effect("cancel returns the cancelled job", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      const { id } = yield* call(() => client.run({ input: {} }))
      yield* worker.next
      expect(yield* call(() => client.cancel(id))).toEqual({ id, status: "CANCELLED" })
      expect(yield* worker.stops).toEqual([id])
      expect(yield* call(() => client.status(id))).toMatchObject({ status: "CANCELLED", completed: true, succeeded: false })
    }))

  it.effect("health and purgeQueue return their counters", () =>
    Effect.gen(function*() {
      const { client } = yield* open()
      for (let i = 0; i < 3; i++) yield* call(() => client.run({ input: { i } }))
      expect(yield* call(() => client.health())).toEqual({
        jobs: { completed: 0, failed: 0, inProgress: 0, inQueue: 3, retried: 0 },
        workers: { idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }
      })
      expect(yield* call(() => client.purgeQueue())).toEqual({ removed: 3, status: "completed" })
      expect((yield* call(() => client.health())).jobs.inQueue).toBe(0)
    }))

  it.effect("an error reaches the caller with its message, from every method", () =>
    Effect.gen(function*() {
      const { client } = yield* open({}, "wrong")
      const { client: known } = yield* open()
      const server = yield* ServerTest
      const missing = createRunpod(ADMIN_KEY, { baseUrl: `${server.baseUrl}/v2` }).endpoint("no-such-endpoint")!
      const refusal = (start: () => Promise<unknown>) =>
        Effect.promise(() => start().then(() => undefined, (error: unknown) => error))
      const drained = (of: typeof client) => async () => {
        for await (const _ of of.stream("no-such-job")) continue
      }
      const methods = (of: typeof client): ReadonlyArray<readonly [name: string, call: () => Promise<unknown>]> => [
        ["run", () => of.run({ input: {} })],
        ["runSync", () => of.runSync({ input: {} })],
        ["status", () => of.status("no-such-job")],
        ["stream", drained(of)],
        ["cancel", () => of.cancel("no-such-job")],
        ["health", () => of.health()],
        ["purgeQueue", () => of.purgeQueue()]
      ]
      const withText = (status: number, error: string) => ({
        response: { status, data: { status, error: expect.stringContaining(error), hint: expect.any(String) } }
      })
      for (const [name, method] of methods(client)) expect(yield* refusal(method), name).toMatchObject(withText(401, "key"))
      for (const [name, method] of methods(missing)) {
        expect(yield* refusal(method), name).toMatchObject(withText(404, "no-such-endpoint"))
      }
      for (const [name, method] of methods(known)) {
        if (!["status", "stream", "cancel"].includes(name)) continue
        expect(yield* refusal(method), name).toMatchObject(withText(404, "no-such-job"))
      }
    }))

  it.effect("for a failed job, stream returns every chunk and then the end, and status returns the error", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      const { id } = yield* call(() => client.run({ input: {} }))
      yield* worker.next
      yield* worker.stream(id, ["a", "b"])
      yield* worker.deliver(id, { error: "out of paper" })
      const chunks = yield* call(async () => {
        const all: Array<unknown> = []
        for await (const chunk of client.stream(id)) all.push(chunk)
        return all
      })
      expect(chunks).toEqual([{ output: "a" }, { output: "b" }])
      expect(yield* call(() => client.status(id))).toMatchObject({ status: "FAILED", error: "out of paper", succeeded: false })
    }))
})

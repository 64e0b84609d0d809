/**
 * Tests the OpenAI route (docs/spec/openai-route.md#requests): how a request becomes a job, and how the response is built.
 */
import { expect } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { until } from "../TestEndpoint.ts"
import { ask, chat, dataOf, expectError, open } from "./OpenAiCaller.ts"

/** A server, an endpoint and its worker. */
const start = Effect.fnUntraced(function*(settings?: Parameters<ServerTest["Service"]["endpoint"]>[0]) {
  const server = yield* ServerTest
  const endpoint = yield* server.endpoint(settings)
  return { server, endpoint, worker: yield* endpoint.worker() }
})

const part = (content: string) => ({ object: "chat.completion.chunk", choices: [{ index: 0, delta: { content } }] })

/** Registers the tests for requests and for responses without a stream. */
export const openAi = (it: ServerIt): void => {
  it.effect("a POST becomes a job with its route and its body, and the handler's value is returned with the job's id", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start()
      const answering = yield* Effect.forkChild(ask(endpoint, "chat/completions", chat()))
      const job = yield* worker.next
      expect(job.input).toEqual({ openai_route: "/v1/chat/completions", openai_input: chat().json })
      const completion = { id: "chatcmpl-1", object: "chat.completion", choices: [], error: null }
      yield* worker.finish(job.id, completion)
      const answer = yield* Fiber.join(answering)
      expect([answer.status, answer.json]).toEqual([200, completion])
      expect(answer.headers.get("content-type")).toBe("application/json")
      expect(answer.headers.get("x-job-id")).toBe(job.id)
      expect(answer.headers.get("x-request-id")).toBe(job.id)
      expect(yield* endpoint.status(job.id)).toMatchObject({ status: "COMPLETED", output: completion })
    }))

  it.effect("a GET becomes a job with only its route; a query or another method is passed in separate members", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start()
      const cases: ReadonlyArray<readonly [route: string, method: string, input: unknown]> = [
        ["models", "GET", { openai_route: "/v1/models" }],
        ["models/", "GET", { openai_route: "/v1/models" }],
        ["models/org%2Fname", "GET", { openai_route: "/v1/models/org/name" }],
        ["files?limit=2&a=x&a=y", "GET", { openai_route: "/v1/files", openai_query: { limit: "2", a: ["x", "y"] } }],
        ["models/m", "DELETE", { openai_route: "/v1/models/m", openai_method: "DELETE" }],
        ["responses/r/cancel", "POST", { openai_route: "/v1/responses/r/cancel", openai_method: "POST" }]
      ]
      for (const [route, method, input] of cases) {
        const answering = yield* Effect.forkChild(ask(endpoint, route, { method }))
        const job = yield* worker.next
        expect(job.input).toEqual(input)
        yield* worker.finish(job.id, { object: "list", data: [] })
        expect((yield* Fiber.join(answering)).json).toEqual({ object: "list", data: [] })
      }
    }))

  it.effect("the body and the response pass through the platform unchanged, down to the last digit", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start()
      const body = "{ \"b\": 18446744073709551615,\n \"1\": 1e300 }"
      const answering = yield* Effect.forkChild(
        ask(endpoint, "chat/completions", { body, headers: { "content-type": "text/plain" } })
      )
      const taken = yield* until(worker.call(worker.addresses.take), ({ status }) => status === 200)
      expect(taken.text).toContain(`"openai_input":${body}}`)
      const { id } = taken.json as { readonly id: string }
      yield* worker.call(worker.addresses.done(id), { body: "{\"output\":[{\"n\":18446744073709551615, \"1\":1.0}]}" })
      expect((yield* Fiber.join(answering)).text).toBe("{\"n\":18446744073709551615, \"1\":1.0}")
    }))

  it.effect("a response is a value, the only element of a list, or the JSON in a text", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start()
      const cases: ReadonlyArray<readonly [output: unknown, answer: string]> = [
        [{ a: 1 }, "{\"a\":1}"],
        [[{ a: 1 }], "{\"a\":1}"],
        ["{\"a\": 1}", "{\"a\": 1}"],
        [["{\"a\": 1}"], "{\"a\": 1}"],
        ["plain words", "\"plain words\""],
        [[1, 2], "[1,2]"],
        [undefined, "{}"]
      ]
      for (const [output, expected] of cases) {
        const answering = yield* Effect.forkChild(ask(endpoint, "chat/completions", chat()))
        const { id } = yield* worker.next
        yield* worker.deliver(id, JSON.parse(JSON.stringify({ output })))
        const answer = yield* Fiber.join(answering)
        expect([answer.status, answer.text]).toEqual([200, expected])
      }
    }))

  it.effect("a generator's only chunk is the response, aggregated or not; several chunks are an error", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start()
      for (const output of [[], [{ a: 1 }]]) {
        const answering = yield* Effect.forkChild(ask(endpoint, "chat/completions", chat({ stream: false })))
        const { id } = yield* worker.next
        yield* worker.stream(id, [{ a: 1 }])
        yield* worker.deliver(id, { output }, "&isStream=true")
        expect((yield* Fiber.join(answering)).text).toBe("{\"a\":1}")
      }
      const answering = yield* Effect.forkChild(ask(endpoint, "chat/completions", chat()))
      const { id } = yield* worker.next
      yield* worker.stream(id, [part("a"), part("b")])
      yield* worker.deliver(id, { output: [] }, "&isStream=true")
      const error = yield* Effect.flatMap(Fiber.join(answering), expectError(502))
      expect(error).toMatchObject({ code: "unexpected_stream", message: expect.stringContaining("2 chunks") })
    }))

  it.effect("retries a lost attempt and returns only the accepted result", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start({ maxAttempts: 2 })
      const answering = yield* Effect.forkChild(ask(endpoint, "chat/completions", chat()))
      const { id } = yield* worker.next
      yield* worker.stream(id, [{ lost: true }])
      // The worker takes another job and reports that no job is in progress, so the first job is lost.
      yield* worker.take(false)
      yield* worker.stream(id, [{ kept: true }])
      yield* worker.deliver(id, { output: [] }, "&isStream=true")
      expect((yield* Fiber.join(answering)).json).toEqual({ kept: true })
    }))

  it.effect("Idempotency-Key: repeating the same request returns the same job and response; a different request returns 409", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start()
      const headers = { "idempotency-key": "order-1" }
      const first = yield* Effect.forkChild(ask(endpoint, "chat/completions", { ...chat(), headers }))
      const { id } = yield* worker.next
      const second = yield* Effect.forkChild(ask(endpoint, "chat/completions", { ...chat(), headers }))
      yield* worker.finish(id, { n: 1 })
      for (const answer of [yield* Fiber.join(first), yield* Fiber.join(second)]) {
        expect([answer.headers.get("x-job-id"), answer.text]).toEqual([id, "{\"n\":1}"])
      }
      const later = yield* ask(endpoint, "chat/completions", { ...chat(), headers })
      expect([later.headers.get("x-job-id"), later.text]).toEqual([id, "{\"n\":1}"])
      const other = yield* ask(endpoint, "chat/completions", { ...chat({ seed: 1 }), headers })
      expect(yield* expectError(409)(other)).toMatchObject({ type: "invalid_request_error", code: "conflict" })
    }))

  it.effect("counts against the endpoint's rate limit as a separate operation, with OpenAI's error code and the usual headers", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start({ rateLimit: { limit: 1, perMs: 86_400_000 } })
      yield* worker.serve(() => Effect.succeed({ output: { data: [] } }))
      const first = yield* ask(endpoint, "models")
      expect([first.status, first.headers.get("ratelimit")]).toEqual([200, expect.stringMatching(/^"openai";r=0;t=/)])
      const refused = yield* ask(endpoint, "models")
      const error = yield* expectError(429)(refused)
      expect(error).toMatchObject({ type: "rate_limit_error", code: "rate_limit_exceeded", param: null })
      expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0)
      expect(refused.headers.get("x-should-retry")).toBeNull()
    }))

  it.effect("when a caller disconnects, its waiting or running job is cancelled, so that no output is generated in vain", () =>
    Effect.gen(function*() {
      const { endpoint, worker } = yield* start()
      const only = Effect.map(
        endpoint.call(endpoint.path("requests")),
        ({ json }) => (json as { readonly requests: ReadonlyArray<{ readonly id: string; readonly status: string }> }).requests[0]
      )
      const waiting = yield* Effect.forkChild(ask(endpoint, "chat/completions", chat()))
      yield* until(endpoint.health, ({ jobs }) => jobs.inQueue === 1)
      yield* Fiber.interrupt(waiting)
      yield* until(only, (job) => job?.status === "CANCELLED")

      const running = yield* Effect.forkChild(ask(endpoint, "chat/completions", chat()))
      const { id } = yield* worker.next
      yield* Fiber.interrupt(running)
      yield* endpoint.until(id, ({ status }) => status === "CANCELLED")
      expect(yield* worker.stops).toEqual([id])
    }))

  it.effect("a caller that sent an Idempotency-Key can disconnect and get its response later", () =>
    Effect.gen(function*() {
      const { endpoint, server, worker } = yield* start()
      const headers = { "idempotency-key": "order-2" }
      const running = yield* Effect.forkChild(ask(endpoint, "chat/completions", { ...chat({ stream: true }), headers }))
      const { id } = yield* worker.next
      yield* worker.stream(id, [part("a")])
      yield* Fiber.interrupt(running)
      const reading = yield* open(server, endpoint, chat({ stream: true }).json, headers)
      yield* worker.stream(id, [part("b")])
      yield* worker.finish(id, [])
      expect(dataOf(yield* reading.whole)).toEqual([JSON.stringify(part("a")), JSON.stringify(part("b")), "[DONE]"])
      expect(yield* endpoint.status(id)).toMatchObject({ status: "COMPLETED" })
    }))
}

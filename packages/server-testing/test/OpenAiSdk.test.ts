/**
 * Tests the published, unmodified OpenAI client with the base URL `/v2/{endpoint}/openai/v1`.
 */
import { expect, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import OpenAI, {
  APIError,
  APIUserAbortError,
  AuthenticationError,
  BadRequestError,
  InternalServerError,
  NotFoundError,
  RateLimitError
} from "openai"
import { ADMIN_KEY, layer as layerServer, ServerTest } from "../src/ServerTest.ts"
import type { Settings } from "../src/TestEndpoint.ts"

const decodeInput = Schema.decodeUnknownSync(
  Schema.Struct({ openai_route: Schema.String, openai_method: Schema.optionalKey(Schema.String) })
)

/** An endpoint, and a client for it. */
const open = (settings: Settings = {}, options: { readonly apiKey?: string; readonly maxRetries?: number } = {}) =>
  Effect.gen(function*() {
    const server = yield* ServerTest
    const endpoint = yield* server.endpoint(settings)
    const client = new OpenAI({ baseURL: `${server.baseUrl}${endpoint.path("openai/v1")}`, apiKey: ADMIN_KEY, ...options })
    return { endpoint, client, worker: yield* endpoint.worker() }
  })

const call = <A>(promise: () => PromiseLike<A>) => Effect.promise(() => Promise.resolve(promise()))

/** The error with which a call is rejected. */
const refusal = (promise: () => PromiseLike<unknown>) =>
  Effect.promise(() => Promise.resolve(promise()).then(() => undefined, (error: unknown) => error))

const MESSAGES = [{ role: "user" as const, content: "Hello" }]

const part = (content: string) => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 0,
  model: "echo",
  choices: [{ index: 0, delta: { content }, finish_reason: null }]
})

const completion = {
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 0,
  model: "echo",
  choices: [{ index: 0, message: { role: "assistant", content: "Hello", refusal: null }, finish_reason: "stop", logprobs: null }]
}

layer(layerServer(), { excludeTestServices: true })("openai 7.55.0 against /v2/{endpoint}/openai/v1", (it) => {
  it.effect("chat.completions.create returns the response and the job's id as the request's id", () =>
    Effect.gen(function*() {
      const { client, endpoint, worker } = yield* open()
      yield* worker.serve(() => Effect.succeed({ output: completion }))
      const answer = yield* call(() => client.chat.completions.create({ model: "echo", messages: MESSAGES }).withResponse())
      expect(answer.data.choices[0]?.message.content).toBe("Hello")
      expect((yield* endpoint.status(answer.request_id ?? "")).status).toBe("COMPLETED")
    }))

  it.effect("chat.completions.create with stream returns every chunk in order and the end, for text and objects", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      const texts = ["Hel", "lo ", "you"]
      const raw = `${texts.map((text) => `data: ${JSON.stringify(part(text))}\n\n`).join("")}data: [DONE]\n\n`
      for (const chunks of [texts.map(part), [raw.slice(0, 30), raw.slice(30)]]) {
        yield* worker.serve((job) => Effect.as(worker.stream(job.id, chunks), { output: [] }))
        const seen = yield* call(async () => {
          const seen: Array<string> = []
          for await (const chunk of await client.chat.completions.create({ model: "echo", messages: MESSAGES, stream: true })) {
            seen.push(chunk.choices[0]?.delta.content ?? "")
          }
          return seen
        })
        expect(seen).toEqual(texts)
      }
    }))

  it.effect("models.list, models.retrieve and models.delete work", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      const model = { id: "org/echo", object: "model", created: 0, owned_by: "stint" }
      yield* worker.serve((job) => {
        const { openai_method: method, openai_route: route } = decodeInput(job.input)
        if (route === "/v1/models") return Effect.succeed({ output: { object: "list", data: [model] } })
        return Effect.succeed({ output: method === "DELETE" ? { id: route, object: "model", deleted: true } : model })
      })
      const ids = yield* call(async () => {
        const ids: Array<string> = []
        for await (const { id } of client.models.list()) ids.push(id)
        return ids
      })
      expect(ids).toEqual(["org/echo"])
      expect(yield* call(() => client.models.retrieve("org/echo"))).toMatchObject({ id: "org/echo" })
      expect(yield* call(() => client.models.delete("org/echo"))).toMatchObject({ id: "/v1/models/org/echo", deleted: true })
    }))

  it.effect("embeddings.create requests base64 and returns the handler's output", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      yield* worker.serve((job) => {
        expect(job.input).toMatchObject({
          openai_route: "/v1/embeddings",
          openai_input: { input: "Hello", encoding_format: "base64" }
        })
        const embedding = Buffer.from(new Float32Array([0.5, -1]).buffer).toString("base64")
        return Effect.succeed({ output: { object: "list", data: [{ object: "embedding", index: 0, embedding }], model: "echo" } })
      })
      const { data } = yield* call(() => client.embeddings.create({ model: "echo", input: "Hello" }))
      expect(data[0]?.embedding).toEqual([0.5, -1])
    }))

  it.effect("a wrong key is an AuthenticationError, an unknown endpoint a NotFoundError", () =>
    Effect.gen(function*() {
      const { client } = yield* open({}, { apiKey: "wrong" })
      const wrong = yield* refusal(() => client.models.list())
      expect(wrong).toBeInstanceOf(AuthenticationError)
      expect(wrong).toMatchObject({
        status: 401,
        code: "invalid_api_key",
        type: "invalid_request_error",
        requestID: expect.stringMatching(/^req_/)
      })
      const server = yield* ServerTest
      const lost = new OpenAI({ baseURL: `${server.baseUrl}/v2/nowhere/openai/v1`, apiKey: ADMIN_KEY })
      const missing = yield* refusal(() => lost.models.list())
      expect(missing).toBeInstanceOf(NotFoundError)
      expect(missing).toMatchObject({ status: 404, code: "endpoint_not_found", message: expect.stringContaining("nowhere") })
    }))

  it.effect("a rate limit is a RateLimitError with Retry-After", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open({ rateLimit: { limit: 1, perMs: 86_400_000 } }, { maxRetries: 0 })
      yield* worker.serve(() => Effect.succeed({ output: { object: "list", data: [] } }))
      yield* call(() => client.models.list())
      const refused = yield* refusal(() => client.models.list())
      expect(refused).toBeInstanceOf(RateLimitError)
      expect(refused).toMatchObject({ status: 429, code: "rate_limit_exceeded" })
      expect(refused instanceof RateLimitError && Number(refused.headers?.get("retry-after"))).toBeGreaterThan(0)
    }))

  it.effect("an invalid request error from a handler is a BadRequestError, with and without a stream", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      yield* worker.serve(() =>
        Effect.succeed({
          error: "{'message': \"can't be negative\", 'type': 'BadRequestError', 'param': 'temperature', 'code': 400}"
        })
      )
      for (const stream of [false, true]) {
        const refused = yield* refusal(() => client.chat.completions.create({ model: "echo", messages: MESSAGES, stream }))
        expect(refused).toBeInstanceOf(BadRequestError)
        expect(refused).toMatchObject({ message: "400 can't be negative", param: "temperature", type: "BadRequestError" })
      }
    }))

  it.effect("a failed job is an InternalServerError that the client does not retry", () =>
    Effect.gen(function*() {
      const { client, endpoint, worker } = yield* open()
      yield* worker.serve(() => Effect.succeed({ error: "out of memory" }))
      const failed = yield* refusal(() => client.chat.completions.create({ model: "echo", messages: MESSAGES }))
      expect(failed).toBeInstanceOf(InternalServerError)
      expect(failed).toMatchObject({ message: "500 out of memory", type: "worker_error" })
      expect((yield* endpoint.health).jobs).toMatchObject({ failed: 1, inQueue: 0 })
    }))

  it.effect("an error inside a stream ends the iteration with an APIError", () =>
    Effect.gen(function*() {
      const { client, worker } = yield* open()
      yield* worker.serve((job) => Effect.as(worker.stream(job.id, [part("Hel")]), { error: "out of memory" }))
      const seen: Array<string> = []
      const failed = yield* refusal(async () => {
        for await (const chunk of await client.chat.completions.create({ model: "echo", messages: MESSAGES, stream: true })) {
          seen.push(chunk.choices[0]?.delta.content ?? "")
        }
      })
      expect(seen).toEqual(["Hel"])
      expect(failed).toBeInstanceOf(APIError)
      expect(failed).toMatchObject({ message: "out of memory", type: "worker_error" })
    }))

  it.effect("aborting a request or leaving a stream cancels the job", () =>
    Effect.gen(function*() {
      const { client, endpoint, worker } = yield* open()
      const controller = new AbortController()
      const waiting = yield* Effect.forkChild(
        refusal(() => client.chat.completions.create({ model: "echo", messages: MESSAGES }, { signal: controller.signal }))
      )
      const first = yield* worker.next
      controller.abort()
      expect(yield* Fiber.join(waiting)).toBeInstanceOf(APIUserAbortError)
      yield* endpoint.until(first.id, ({ status }) => status === "CANCELLED")

      const leaving = yield* Effect.forkChild(call(async () => {
        for await (const _ of await client.chat.completions.create({ model: "echo", messages: MESSAGES, stream: true })) break
      }))
      const second = yield* worker.next
      yield* worker.stream(second.id, [part("a")])
      yield* Fiber.join(leaving)
      yield* endpoint.until(second.id, ({ status }) => status === "CANCELLED")
    }))
})

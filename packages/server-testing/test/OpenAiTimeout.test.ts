/**
 * Tests OpenAI requests that take longer than the server delays their response headers, and servers that shut down or fail during such a
 * request.
 */
import { describe, expect, it, layer } from "@effect/vitest"
import { JobStore } from "@stint/store/JobStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import { ask, chat, dataOf, expectError, open } from "../src/openai/OpenAiCaller.ts"
import { layer as layerServer, layerMemory, ServerTest } from "../src/ServerTest.ts"
import { until } from "../src/TestEndpoint.ts"

const LATE = { openAiHeadWaitMs: 50, heartbeatMs: 50 }

const begin = Effect.fnUntraced(function*(body: unknown) {
  const server = yield* ServerTest
  const endpoint = yield* server.endpoint()
  const worker = yield* endpoint.worker()
  const reading = yield* open(server, endpoint, body)
  const { id } = yield* worker.next
  expect(reading.headers.get("x-job-id")).toBe(id)
  return { endpoint, worker, id, reading }
})

layer(layerServer({ limits: LATE }), { excludeTestServices: true })("a long OpenAI request", (it) => {
  it.effect("returns 200 with the job's id before the end, then white space, then valid JSON", () =>
    Effect.gen(function*() {
      const { id, reading, worker } = yield* begin(chat().json)
      expect([reading.status, reading.headers.get("content-type")]).toEqual([200, "application/json"])
      yield* reading.until((text) => text.length >= 3)
      yield* worker.finish(id, { choices: [] })
      const text = yield* reading.whole
      expect(text).toMatch(/^ {3,}\{"choices":\[\]\}$/)
      expect(JSON.parse(text)).toEqual({ choices: [] })
    }))

  it.effect("reports an error in its body, because the status was already sent", () =>
    Effect.gen(function*() {
      const { id, reading, worker } = yield* begin(chat().json)
      yield* worker.deliver(id, { error: JSON.stringify({ message: "too long", code: 400 }) })
      expect(reading.status).toBe(200)
      expect(JSON.parse(yield* reading.whole)).toMatchObject({ error: { message: "too long", code: 400 } })
    }))

  it.effect("is cancelled when its caller disconnects", () =>
    Effect.gen(function*() {
      const { endpoint, id, reading } = yield* begin(chat().json)
      yield* reading.until((text) => text.length >= 2)
      yield* reading.hangUp
      yield* endpoint.until(id, ({ status }) => status === "CANCELLED")
    }))

  it.effect("with a stream, sends comments first and an error before the first chunk as an event", () =>
    Effect.gen(function*() {
      const { id, reading, worker } = yield* begin(chat({ stream: true }).json)
      expect([reading.status, reading.headers.get("content-type")]).toEqual([200, "text/event-stream"])
      const before = yield* reading.until((text) => text.length >= 20)
      expect(before).toMatch(/^(?:: alive\n\n)+/)
      yield* worker.deliver(id, { error: "out of memory" })
      const [only, ...more] = dataOf(yield* reading.whole)
      expect(more).toEqual([])
      expect(JSON.parse(only ?? "")).toEqual({
        error: { message: "out of memory", type: "worker_error", param: null, code: null }
      })
    }))
})

/** A server that the test can close. */
const start = (limits: typeof LATE | undefined) =>
  Effect.gen(function*() {
    const scope = yield* Effect.acquireRelease(Scope.make(), (scope) => Scope.close(scope, Exit.void))
    const context = yield* Layer.buildWithScope(layerServer(limits === undefined ? {} : { limits }), scope)
    return { server: Context.get(context, ServerTest), close: Scope.close(scope, Exit.void) }
  })

describe("a closing server", () => {
  it.live("returns 503 for OpenAI requests, which their clients retry", () =>
    Effect.gen(function*() {
      const { close, server } = yield* start(undefined)
      const endpoint = yield* server.endpoint()
      const waits = yield* Effect.forkChild(Effect.all([
        ask(endpoint, "chat/completions", chat()),
        ask(endpoint, "chat/completions", chat({ stream: true }))
      ], { concurrency: "unbounded" }))
      yield* until(endpoint.health, ({ jobs }) => jobs.inQueue === 2)
      yield* close
      for (const answer of yield* Fiber.join(waits)) {
        expect(yield* expectError(503)(answer)).toMatchObject({ type: "server_error", code: "unavailable" })
        expect(answer.headers.get("x-should-retry")).toBeNull()
        expect(answer.headers.get("x-job-id")).toMatch(/^sync-/)
      }
    }))

  it.live("ends responses in progress with the same error", () =>
    Effect.gen(function*() {
      const { close, server } = yield* start(LATE)
      const endpoint = yield* server.endpoint()
      const whole = yield* open(server, endpoint, chat().json)
      const stream = yield* open(server, endpoint, chat({ stream: true }).json)
      yield* close
      expect(JSON.parse(yield* whole.whole)).toMatchObject({ error: { code: "unavailable" } })
      expect(JSON.parse(dataOf(yield* stream.whole).at(-1) ?? "")).toMatchObject({ error: { code: "unavailable" } })
    }))
})

/** Whether reads of jobs succeed. */
class Looks extends Context.Service<Looks, { broken: boolean }>()("@stint/server/test/Looks") {}

const layerStores = Layer.effect(
  JobStore,
  Effect.map(Effect.all({ store: JobStore, looks: Looks }), ({ looks, store }) => ({
    ...store,
    peek: (...look: Parameters<typeof store.peek>) =>
      Effect.suspend(() =>
        looks.broken
          ? Effect.fail(
            new StoreError({ reason: new StoreUnavailable({ operation: "peek", cause: new Error("the disk is gone") }) })
          )
          : store.peek(...look)
      )
  }))
).pipe(Layer.provideMerge(layerMemory), Layer.provide(Layer.succeed(Looks, { broken: true })))

layer(layerServer({ stores: layerStores }), { excludeTestServices: true })("an OpenAI request over a failing store", (it) => {
  it.effect("returns 503 in OpenAI's shape with the job's id; the job was stored and is then cancelled", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const body of [chat(), chat({ stream: true })]) {
        const answer = yield* ask(endpoint, "chat/completions", body)
        expect(yield* expectError(503)(answer)).toMatchObject({ type: "server_error", code: "unavailable" })
        yield* endpoint.until(answer.headers.get("x-job-id") ?? "", ({ status }) => status === "CANCELLED")
      }
    }))
})

/**
 * Tests the timeouts of the Effect client with a test clock.
 */
import { describe, expect, it } from "@effect/vitest"
import * as Client from "@stint/client-effect/Client"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { HttpClient, HttpClientError, HttpClientResponse } from "effect/http"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

const refused = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" })

/** A platform that refuses connections until `upAt`, in clock milliseconds, and then serves long polls until the job ends at `endsAt`. */
const platform = (options: { readonly upAt: number; readonly endsAt: number }) => {
  const calls: Array<string> = []
  const layer = Layer.succeed(
    HttpClient.HttpClient,
    HttpClient.make((request, url) =>
      Effect.gen(function*() {
        calls.push(`${request.method} ${url.pathname}`)
        const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
        if (now < options.upAt) {
          return yield* new HttpClientError.HttpClientError({
            reason: new HttpClientError.TransportError({ request, cause: refused })
          })
        }
        yield* Effect.sleep(Math.min(Number(url.searchParams.get("wait")), Math.max(0, options.endsAt - now)))
        const later = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
        const body = later >= options.endsAt
          ? { id: "j1", status: "COMPLETED", output: "done" }
          : { id: "j1", status: "IN_PROGRESS" }
        return HttpClientResponse.fromWeb(request, Response.json(body))
      })
    )
  )
  return { calls, layer }
}

const waiting = (layer: Layer.Layer<HttpClient.HttpClient>, over: Partial<Client.Options> = {}) =>
  Effect.flatMap(Client.endpoint("ep"), (ep) => ep.result("j1")).pipe(
    Effect.provide(Layer.provide(Client.layerNoDeps({ baseUrl: "http://platform.test", ...over }), layer))
  )

describe("waiting for a result", () => {
  it.effect("waits for a day, with one request per long poll", () =>
    Effect.gen(function*() {
      const { calls, layer } = platform({ upAt: 0, endsAt: 86_400_000 })
      const fiber = yield* Effect.forkChild(waiting(layer))
      yield* TestClock.adjust("1 day")
      expect(yield* Fiber.join(fiber)).toBe("done")
      expect(calls.length).toBe(86_400 / 25)
    }))

  it.effect("retries an unreachable platform for less than reconnectFor, with pauses", () =>
    Effect.gen(function*() {
      const { calls, layer } = platform({ upAt: 240_000, endsAt: 250_000 })
      const fiber = yield* Effect.forkChild(waiting(layer))
      yield* TestClock.adjust("300 seconds")
      expect(yield* Fiber.join(fiber)).toBe("done")
      expect(calls.length).toBeGreaterThan(40)
      expect(calls.length).toBeLessThan(120)
    }))

  it.effect("fails after reconnectFor, with the job's id and a hint", () =>
    Effect.gen(function*() {
      const { layer } = platform({ upAt: Number.POSITIVE_INFINITY, endsAt: 0 })
      const fiber = yield* Effect.forkChild(Effect.flip(waiting(layer, { reconnectFor: "1 minute" })))
      yield* TestClock.adjust("2 minutes")
      expect(yield* Fiber.join(fiber)).toMatchObject({
        _tag: "ClientError",
        job: "j1",
        reason: { _tag: "Unreachable", sent: false },
        message: expect.stringContaining("The connection could not be established (connect ECONNREFUSED)")
      })
    }))

  it.effect("fails if a long poll exceeds `wait` and `timeout`", () =>
    Effect.gen(function*() {
      const layer = Layer.succeed(HttpClient.HttpClient, HttpClient.make(() => Effect.never))
      const fiber = yield* Effect.forkChild(
        Effect.flip(waiting(layer, { wait: "10 seconds", timeout: "5 seconds", reconnectFor: 0 }))
      )
      yield* TestClock.adjust("14 seconds")
      expect(fiber.pollUnsafe()).toBeUndefined()
      yield* TestClock.adjust("1 second")
      expect(yield* Fiber.join(fiber)).toMatchObject({ detail: "No response within 15 s." })
    }))
})

/**
 * Tests calls from web pages, with the requests that browsers send.
 */
import { expect, layer } from "@effect/vitest"
import * as Cors from "@stint/server/Cors"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { layer as layerServer, ServerTest } from "../src/ServerTest.ts"

const APP = "https://app.example.com"
const OTHER = "https://other.example.com"

const serverFor = (origins: Cors.AllowedOrigins) => layerServer().pipe(Layer.provide(Layer.succeed(Cors.Origins, origins)))

/** The preflight request that a browser sends before a page's call. */
const preflight = (origin: string, method: string, headers: string) => ({
  method: "OPTIONS",
  authorization: null,
  headers: { origin, "access-control-request-method": method, "access-control-request-headers": headers }
})

/** Paths of caller operations. Their resources need not exist. */
const CALLERS = [
  ["POST", "run"],
  ["POST", "runsync?wait=1000"],
  ["GET", "status/x"],
  ["GET", "status-sync/x"],
  ["GET", "stream/x"],
  ["GET", "events/x"],
  ["GET", "requests"],
  ["POST", "cancel/x"],
  ["POST", "retry/x"],
  ["POST", "purge-queue"],
  ["GET", "health"],
  ["POST", "batch"],
  ["PUT", "batch/x"],
  ["POST", "openai/v1/chat/completions"],
  ["DELETE", "openai/v1/models/m"]
] as const

const OPERATORS = ["/api/v1/endpoints", "/api/v1/keys", "/v2/x/job-take/w", "/v2/x/job-done/w/y", "/v2/x/ping/w"]

const corsHeaders = (headers: Headers) => [...headers.keys()].filter((name) => name.startsWith("access-control-"))

layer(serverFor([APP, "http://localhost:5173"]), { excludeTestServices: true })("CORS for two origins", (it) => {
  it.effect("responds to a preflight without a key for every caller operation, and allows the requested headers", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const wanted = "authorization,content-type,idempotency-key,last-event-id,x-stainless-lang"
      for (const [method, path] of CALLERS) {
        const answer = yield* call(`/v2/x/${path}`, preflight(APP, method, wanted))
        expect([answer.status, answer.text], path).toEqual([204, ""])
        expect(answer.headers.get("access-control-allow-origin"), path).toBe(APP)
        expect(answer.headers.get("access-control-allow-methods"), path).toBe("DELETE, GET, POST, PUT")
        expect(answer.headers.get("access-control-allow-headers"), path).toBe(wanted)
        expect(answer.headers.get("access-control-max-age"), path).toBe("3600")
        expect(answer.headers.get("vary"), path).toContain("Origin")
        expect(answer.headers.has("access-control-allow-credentials"), path).toBe(false)
      }
    }))

  it.effect("lets the page read a response, its id, its rate limits and its Retry-After", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint({ rateLimit: { limit: 1, perMs: 86_400_000 } })
      for (const status of [200, 429]) {
        const answer = yield* server.call(endpoint.path("run"), {
          json: { input: 1 },
          headers: { origin: "http://localhost:5173" }
        })
        expect(answer.status).toBe(status)
        expect(answer.headers.get("access-control-allow-origin")).toBe("http://localhost:5173")
        const exposed = answer.headers.get("access-control-expose-headers")?.toLowerCase().split(",") ?? []
        expect(exposed).toEqual(["x-job-id", "x-request-id", "x-should-retry", "ratelimit", "ratelimit-policy", "retry-after"])
        for (const name of status === 200 ? ["x-job-id", "ratelimit"] : ["retry-after", "ratelimit-policy"]) {
          expect(answer.headers.has(name), name).toBe(true)
        }
      }
    }))

  it.effect("lets the page read errors too: for a wrong key, for an unknown endpoint, and inside a stream", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const { id } = yield* endpoint.run(1)
      yield* endpoint.cancel(id)
      const headers = { origin: APP }
      for (
        const [path, status, authorization] of [
          [endpoint.path("run"), 401, "Bearer wrong"],
          [endpoint.path("openai/v1/models"), 401, "Bearer wrong"],
          ["/v2/nowhere/health", 404, undefined],
          [endpoint.path(`events/${id}`), 200, undefined]
        ] as const
      ) {
        const method = path.endsWith("/run") ? "POST" : "GET"
        const answer = yield* server.call(path, { method, headers, ...(authorization === undefined ? {} : { authorization }) })
        expect([answer.status, answer.headers.get("access-control-allow-origin")], path).toEqual([status, APP])
      }
    }))

  it.effect("sends no CORS headers for another origin, so the browser hides the response from its page", () =>
    Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint()
      const asked = yield* server.call(endpoint.path("run"), preflight(OTHER, "POST", "authorization"))
      expect([asked.status, asked.headers.has("access-control-allow-origin")]).toEqual([204, false])
      const answer = yield* server.call(endpoint.path("health"), { headers: { origin: OTHER } })
      expect([answer.status, answer.headers.has("access-control-allow-origin")]).toEqual([200, false])
      // A cache must not serve one origin's response to the other origin.
      expect(answer.headers.get("vary")).toContain("Origin")
    }))

  it.effect("the control API and the worker API send no CORS headers", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      for (const path of OPERATORS) {
        const asked = yield* call(path, preflight(APP, "GET", "authorization"))
        expect(asked.status, path).toBe(405)
        expect(corsHeaders(asked.headers), path).toEqual([])
        const answer = yield* call(path, { headers: { origin: APP }, authorization: null })
        expect(corsHeaders(answer.headers), path).toEqual([])
      }
    }))
})

layer(serverFor("*"), { excludeTestServices: true })("CORS for any origin", (it) => {
  it.effect("allows every origin with *, without credentials", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const answer = yield* call("/v2/x/run", preflight(OTHER, "POST", "authorization"))
      expect([answer.status, answer.headers.get("access-control-allow-origin")]).toEqual([204, "*"])
      expect(answer.headers.has("access-control-allow-credentials")).toBe(false)
      expect(corsHeaders((yield* call("/api/v1/keys", { headers: { origin: OTHER } })).headers)).toEqual([])
    }))
})

layer(layerServer(), { excludeTestServices: true })("CORS without origins", (it) => {
  it.effect("is off by default: a preflight gets a 405, like any wrong method", () =>
    Effect.gen(function*() {
      const { call } = yield* ServerTest
      const asked = yield* call("/v2/x/run", preflight(APP, "POST", "authorization"))
      expect([asked.status, corsHeaders(asked.headers)]).toEqual([405, []])
      const answer = yield* call("/v2/x/health", { headers: { origin: APP } })
      expect([answer.status, corsHeaders(answer.headers)]).toEqual([404, []])
    }))
})

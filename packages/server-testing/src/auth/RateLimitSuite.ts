/**
 * Tests of rate limits: which calls they count, what clients receive, and which calls are never limited.
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { until } from "../TestEndpoint.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

/** A window long enough that nothing is released while a test runs. */
const DAY = 86_400_000

const create = Effect.fnUntraced(function*(settings: Readonly<Record<string, unknown>>) {
  const { call } = yield* ServerTest
  return yield* Effect.flatMap(
    call("/api/v1/keys", { json: { name: "test", endpoints: "all", ...settings } }),
    expectJson(201, NewKey)
  )
})

/** Registers the tests for rate limits. */
export const rateLimits = (it: ServerIt): void => {
  it.effect("no limit is set by default, and responses then have no rate limit headers", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint()
      const answer = yield* one.call(one.path("run"), { json: { input: 1 } })
      expect(answer.headers.has("ratelimit")).toBe(false)
      expect(answer.headers.has("ratelimit-policy")).toBe(false)
    }))

  it.effect("an endpoint's limit: every response reports the remaining calls; over the limit the call gets 429 with Retry-After and stores nothing", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint({ rateLimit: { limit: 2, perMs: DAY } })
      const run = one.call(one.path("run"), { json: { input: 1 } })
      const first = yield* run
      expect(first.headers.get("ratelimit-policy")).toBe("\"run\";q=2;w=86400")
      expect(first.headers.get("ratelimit")).toMatch(/^"run";r=1;t=43200$/)
      // Invalid requests count too, and their responses report the remaining calls.
      const wrong = yield* one.call(one.path("run"), { json: {} })
      expect([wrong.status, wrong.headers.get("ratelimit")]).toEqual([400, expect.stringMatching(/^"run";r=0;t=/)])
      const refused = yield* run
      const problem = yield* expectProblem(429)(refused)
      expect(problem.error).toMatch(/may call run on the endpoint ".*" at most 2 times in 1 d; this call exceeds the limit/)
      expect(problem.retryAfter).toBeGreaterThan(43_000)
      expect(refused.headers.get("retry-after")).toBe(String(problem.retryAfter))
      expect(refused.headers.get("ratelimit")).toMatch(/^"run";r=0;t=/)
      expect((yield* one.health).jobs.inQueue).toBe(1)
    }))

  it.effect("reports Retry-After accurately: a call after that time is admitted", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint({ rateLimit: { limit: 1, perMs: 1_000 } })
      const purge = one.call(one.path("purge-queue"), { method: "POST" })
      expect((yield* purge).status).toBe(200)
      const refused = yield* purge
      expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, "1"])
      expect((yield* until(purge, ({ status }) => status === 200)).status).toBe(200)
    }))

  it.effect("counts operations, endpoints and keys separately, and GET and POST of one operation together", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const rateLimit = { limit: 1, perMs: DAY }
      const [one, two] = [yield* endpoint({ rateLimit }), yield* endpoint({ rateLimit })]
      const { secret } = yield* create({})
      const { id } = yield* one.run(1)
      const calls = [
        one.call(one.path(`status/${id}`)),
        one.call(one.path(`stream/${id}`)),
        one.call(one.path(`cancel/${id}`), { method: "POST" }),
        one.call(one.path(`status-sync/${id}`)),
        two.call(two.path(`status/${id}`)),
        call(one.path(`status/${id}`), { authorization: secret })
      ]
      const statuses = yield* Effect.forEach(calls, (one) => Effect.map(one, ({ status }) => status))
      expect(statuses).toEqual([200, 200, 200, 200, 404, 200])
      expect((yield* one.call(one.path(`status/${id}`), { method: "POST" })).status).toBe(429)
      expect((yield* call(one.path(`status/${id}`), { authorization: secret })).status).toBe(429)
    }))

  it.effect("applies a key's own limit as well as the endpoint's: the tighter limit wins, and the error names it", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint({ rateLimit: { limit: 2, perMs: DAY } })
      const tight = yield* create({ rateLimit: { limit: 1, perMs: DAY } })
      const loose = yield* create({ rateLimit: { limit: 3, perMs: DAY } })
      const count = (authorization: string) =>
        Effect.map(
          Effect.forEach([1, 2, 3, 4], () => call(one.path("run"), { authorization, json: { input: 1 } })),
          (answers) => answers.filter(({ status }) => status === 200).length
        )
      expect([yield* count(tight.secret), yield* count(loose.secret)]).toEqual([1, 2])
      const refused = yield* Effect.flatMap(
        call(one.path("run"), { authorization: tight.secret, json: { input: 1 } }),
        expectProblem(429)
      )
      expect(refused.hint).toContain("rateLimit of the key")
      const other = yield* call(one.path("run"), { authorization: loose.secret, json: { input: 1 } })
      expect((yield* expectProblem(429)(other)).hint).toContain("rateLimit of the endpoint")
      expect(other.headers.get("ratelimit-policy")).toBe("\"run\";q=2;w=86400, \"run-key\";q=3;w=86400")
      expect(other.headers.get("ratelimit")).toMatch(/^"run";r=0;t=\d+, "run-key";r=1;t=\d+$/)
    }))

  it.effect("waiting calls count as open until the response is sent or the caller disconnects", () =>
    Effect.gen(function*() {
      const { endpoint } = yield* ServerTest
      const one = yield* endpoint({ rateLimit: { limit: 1_000, perMs: 1_000, concurrent: 1 } })
      const worker = yield* one.worker()
      const runsync = one.call(one.path("runsync"), { json: { input: 1 } })
      const waiting = yield* Effect.forkChild(runsync)
      const job = yield* worker.next
      const refused = yield* runsync
      expect((yield* expectProblem(429)(refused)).error).toContain("at most 1 open runsync call on")
      expect(refused.headers.get("retry-after")).toBe("1")
      expect(refused.headers.get("ratelimit")).toContain("\"runsync-open\";r=0")
      yield* worker.finish(job.id, "done")
      expect((yield* Fiber.join(waiting)).json).toMatchObject({ status: "COMPLETED" })
      // A disconnect also releases the call.
      const given = yield* Effect.forkChild(runsync)
      yield* worker.next
      yield* Fiber.interrupt(given)
      const next = yield* Effect.forkChild(until(runsync, ({ status }) => status !== 429))
      yield* worker.finish((yield* worker.next).id, "again")
      expect((yield* Fiber.join(next)).json).toMatchObject({ status: "COMPLETED" })
    }))

  it.effect("health, workers and operators are never limited", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint({ rateLimit: { limit: 1, perMs: DAY, concurrent: 1 } })
      const worker = yield* one.worker()
      for (let i = 0; i < 5; i++) {
        expect((yield* one.call(one.path("health"))).status).toBe(200)
        expect((yield* worker.call(worker.addresses.ping)).status).toBe(200)
        expect((yield* call(`/api/v1/endpoints/${one.id}`)).status).toBe(200)
      }
    }))

  it.effect("a rejected key does not count against any limit", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* ServerTest
      const one = yield* endpoint({ rateLimit: { limit: 1, perMs: DAY } })
      for (let i = 0; i < 3; i++) {
        const refused = yield* call(one.path("run"), { authorization: "wrong", json: { input: 1 } })
        expect([refused.status, refused.headers.has("ratelimit")]).toEqual([401, false])
      }
      expect((yield* one.call(one.path("run"), { json: { input: 1 } })).status).toBe(200)
    }))
}

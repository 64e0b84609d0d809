import { Api } from "@stint/contract/Api"
import { HttpApi } from "effect/http-api"
import * as fc from "fast-check"
import { inspect } from "node:util"
import { describe, expect, it } from "vitest"
import { randomIdempotencyKey } from "../src/ClientSettings.ts"
import type { Program } from "../src/protocol/DriverProtocol.ts"
import * as JobsApiCalls from "../src/protocol/JobsApiCalls.ts"
import { cut, type Entry, job, KEY, perform, problem, refused, response, silent, target } from "./ScriptedDriver.ts"

const receipt = response(200, { id: "j1", status: "IN_QUEUE" })
const ended = response(200, job("COMPLETED", { output: 1 }))
const running = (took: number) => response(200, job("IN_PROGRESS"), { took })

/** All operations. `twice`: whether the platform may safely process the call twice. */
const operations: ReadonlyArray<{
  readonly name: string
  readonly start: () => Program<unknown>
  readonly ok: Entry
  readonly twice: boolean
}> = [
  { name: "run", start: () => JobsApiCalls.run(target(), 1, {}), ok: receipt, twice: false },
  { name: "run with a key", start: () => JobsApiCalls.run(target(), 1, { idempotencyKey: "k" }), ok: receipt, twice: true },
  { name: "runSync", start: () => JobsApiCalls.runSync(target(), 1, {}), ok: ended, twice: false },
  { name: "runSync with a key", start: () => JobsApiCalls.runSync(target(), 1, { idempotencyKey: "k" }), ok: ended, twice: true },
  { name: "result", start: () => JobsApiCalls.result(target(), "j1"), ok: ended, twice: true },
  { name: "status", start: () => JobsApiCalls.status(target(), "j1"), ok: ended, twice: true },
  { name: "cancel", start: () => JobsApiCalls.cancel(target(), "j1"), ok: receipt, twice: true },
  { name: "retry", start: () => JobsApiCalls.retry(target(), "j1"), ok: receipt, twice: false },
  {
    name: "purgeQueue",
    start: () => JobsApiCalls.purgeQueue(target()),
    ok: response(200, { removed: 2, status: "completed" }),
    twice: false
  },
  {
    name: "sendEvent",
    start: () => JobsApiCalls.sendEvent(target(), { name: "approved" }),
    ok: response(200, { delivered: null }),
    twice: false
  },
  {
    name: "sendEvent with an id",
    start: () => JobsApiCalls.sendEvent(target(), { name: "approved", id: "approval-17" }),
    ok: response(200, { delivered: "j1" }),
    twice: true
  },
  {
    name: "health",
    start: () => JobsApiCalls.health(target()),
    ok: response(200, {
      jobs: { completed: 0, failed: 0, inProgress: 0, inQueue: 0, retried: 0 },
      workers: { idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }
    }),
    twice: true
  }
]

describe("calls", () => {
  const routes: Array<{ readonly method: string; readonly path: RegExp }> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      routes.push({ method: endpoint.method, path: new RegExp(`^${endpoint.path.replaceAll(/:\w+/g, "[^/]+")}$`) })
    }
  })

  it.each(operations)("$name calls a route of the contract, with a bearer key", ({ ok, start }) => {
    const { calls } = perform(start(), [ok])
    expect(calls).toHaveLength(1)
    const [{ headers, method, url }] = [calls[0]!]
    const path = new URL(url).pathname
    expect(routes.filter((route) => route.method === method && route.path.test(path))).toHaveLength(1)
    expect(headers["authorization"]).toBe(`Bearer ${KEY}`)
  })

  it("escapes endpoints and ids as one path segment", () => {
    const [call] = perform(JobsApiCalls.status(target({ endpoint: "a/b?c" }), "../x y"), [ended]).calls
    expect(new URL(call!.url).pathname).toBe("/v2/a%2Fb%3Fc/status/..%2Fx%20y")
  })

  it("sends the options next to the input, and the idempotency key as a header", () => {
    const [call] =
      perform(JobsApiCalls.run(target(), { n: 1 }, { policy: { ttl: 20_000 }, idempotencyKey: "k-1" }), [receipt]).calls
    expect(JSON.parse(call!.body!)).toEqual({ input: { n: 1 }, policy: { ttl: 20_000 } })
    expect(call!.headers).toMatchObject({ "idempotency-key": "k-1", "content-type": "application/json" })
  })

  it("sends an event unchanged, and adds an id only when the client has idempotency keys", () => {
    const event = { name: "approved", key: "7", data: { by: "Ada" } }
    const [plain] = perform(JobsApiCalls.sendEvent(target(), event), [response(200, { delivered: null })]).calls
    expect(JSON.parse(plain!.body!)).toEqual(event)
    const safe = target({ newIdempotencyKey: () => "k-1" })
    const [repeatable] = perform(JobsApiCalls.sendEvent(safe, event), [response(200, { delivered: null })]).calls
    expect(JSON.parse(repeatable!.body!)).toEqual({ ...event, id: "k-1" })
  })

  it("sends null for an undefined input", () => {
    const [call] = perform(JobsApiCalls.run(target(), undefined, {}), [receipt]).calls
    expect(JSON.parse(call!.body!)).toEqual({ input: null })
  })
})

describe("retries", () => {
  it.each(operations)("$name is retried after a refused connection, 429 and 503", ({ ok, start }) => {
    for (const first of [refused, problem(429, "rate-limited"), problem(503, "unavailable")]) {
      const { calls, error, pauses } = perform(start(), [first, ok])
      expect(error).toBeUndefined()
      expect(calls).toHaveLength(2)
      expect(pauses).toHaveLength(1)
    }
  })

  it.each(operations)(
    "$name is retried after a lost connection or a 5xx only if it is repeatable ($twice)",
    ({ ok, start, twice }) => {
      for (
        const first of [cut(), response(502, "<html><h1>502 Bad Gateway</h1></html>"), response(504, ""), response(500, "{}")]
      ) {
        const { calls, error } = perform(start(), [first, ok])
        expect(calls).toHaveLength(twice ? 2 : 1)
        expect(error === undefined).toBe(twice)
      }
    }
  )

  it.each(operations)("$name is not retried after errors that would repeat", ({ start }) => {
    for (const status of [400, 401, 403, 404, 409, 413, 422, 302, 418]) {
      expect(perform(start(), [response(status, "no")]).calls).toHaveLength(1)
    }
    expect(perform(start(), [response(200, "<html>Please log in</html>")]).error?.reason).toMatchObject({
      _tag: "Unexpected",
      status: 200
    })
  })

  it("states in the message that a job may have been created, and suggests an idempotency key", () => {
    const { error } = perform(JobsApiCalls.runSync(target(), 1, {}), [cut()])
    expect(error?.reason).toEqual({ _tag: "Unreachable", sent: true })
    expect(error?.message).toContain("The platform may have created a job")
    expect(error?.message).toContain("idempotencyKey")
    expect(perform(JobsApiCalls.run(target({ retryFor: 0 }), 1, {}), [refused]).error?.message).not.toContain("may have created")
  })

  it("waits for Retry-After, in seconds or as a date, and not much longer", () => {
    for (const retryAfter of ["3", new Date(Date.now() + 3_900).toUTCString()]) {
      const { pauses } = perform(JobsApiCalls.status(target(), "j1"), [response(429, "", { retryAfter }), ended])
      expect(pauses).toHaveLength(1)
      expect(pauses[0]!.atLeast).toBeGreaterThan(1_000)
      expect(pauses[0]!.atLeast).toBeLessThanOrEqual(4_000)
      expect(pauses[0]!.spread).toBeLessThanOrEqual(1_000)
    }
  })

  it("fails at once if Retry-After exceeds retryFor, and shows it in the message", () => {
    const { error, pauses } = perform(JobsApiCalls.run(target(), 1, {}), [response(429, "", { retryAfter: "3600" })])
    expect(pauses).toEqual([])
    expect(error?.reason).toEqual({ _tag: "RateLimited", retryAfter: 3_600_000 })
    expect(error?.message).toContain("3600 s")
  })

  it("fails within retryFor, after growing pauses with jitter", () => {
    fc.assert(fc.property(fc.integer({ min: 0, max: 120_000 }), (retryFor) => {
      const { error, pauses, took } = perform(JobsApiCalls.status(target({ retryFor }), "j1"), [refused])
      expect(error?.reason._tag).toBe("Unreachable")
      expect(took).toBeLessThanOrEqual(retryFor + 2 * refused.took)
      for (const [index, pause] of pauses.entries()) {
        expect(pause.spread).toBeGreaterThanOrEqual(pause.atLeast)
        if (index > 0) expect(pause.atLeast).toBeGreaterThanOrEqual(pauses[index - 1]!.atLeast)
      }
    }))
  })
})

describe("result", () => {
  it("waits without a time limit, with one request per long poll", () => {
    const waits = Array.from({ length: 200 }, () => running(25_000))
    const { calls, error, pauses, value } = perform(JobsApiCalls.result(target(), "j1"), [...waits, ended])
    expect(error).toBeUndefined()
    expect(value).toMatchObject({ status: "COMPLETED" })
    expect(calls).toHaveLength(201)
    expect(pauses).toEqual([])
    expect(calls.every(({ timeout, url }) => url.endsWith("?wait=25000") && timeout === 85_000)).toBe(true)
  })

  it("pauses between polls if the platform responds at once for a running job", () => {
    const responses = Array.from({ length: 60 }, () => running(2))
    const { calls, took } = perform(JobsApiCalls.result(target(), "j1"), [...responses, ended])
    expect(calls).toHaveLength(61)
    expect(took / calls.length).toBeGreaterThan(800)
  })

  it("survives lost connections, 5xx, 429 and refused connections for less than reconnectFor", () => {
    const trouble = fc.constantFrom<Entry>(
      cut(),
      cut(20_000),
      refused,
      response(502, "<html>"),
      response(524, ""),
      problem(503, "unavailable"),
      response(500, ""),
      response(429, "", { retryAfter: "1" }),
      running(25_000)
    )
    fc.assert(fc.property(fc.array(trouble, { maxLength: 12 }), (script) => {
      const { error, value } = perform(JobsApiCalls.result(target({ reconnectFor: 600_000 }), "j1"), [...script, ended])
      expect(error).toBeUndefined()
      expect(value).toMatchObject({ status: "COMPLETED" })
    }))
  })

  it("fails if the platform is unreachable for reconnectFor, with the job's id", () => {
    const { error, took } = perform(JobsApiCalls.result(target(), "j1"), [refused])
    expect(error).toMatchObject({ job: "j1", operation: "result", reason: { _tag: "Unreachable", sent: false } })
    expect(took).toBeGreaterThan(280_000)
    expect(took).toBeLessThanOrEqual(301_000)
  })

  it("restarts reconnectFor with every response", () => {
    const outage = Array.from({ length: 40 }, () => refused)
    const script = [...outage, running(25_000), ...outage, running(25_000), ...outage, ended]
    expect(perform(JobsApiCalls.result(target(), "j1"), script).value).toMatchObject({ status: "COMPLETED" })
  })

  it("shortens the wait after a proxy closes connections early, and lengthens it again", () => {
    const waitsOf = (script: ReadonlyArray<Entry>) =>
      perform(JobsApiCalls.result(target(), "j1"), [...script, ended]).calls.map(({ url }) =>
        Number(new URL(url).searchParams.get("wait"))
      )
    const waits = waitsOf([
      cut(10_000),
      running(8_000),
      running(10_000),
      running(12_500),
      running(15_000),
      running(19_000),
      running(24_000)
    ])
    expect(waits[0]).toBe(25_000)
    expect(waits[1]).toBe(8_000)
    expect(Math.max(...waits.slice(1))).toBe(25_000)
    expect(Math.min(...waitsOf(Array.from({ length: 10 }, () => cut(1_500))))).toBeGreaterThanOrEqual(1_000)
  })

  it("fails with NotFound for an unknown job", () => {
    const { calls, error } = perform(JobsApiCalls.result(target(), "j1"), [problem(404, "job-not-found")])
    expect(calls).toHaveLength(1)
    expect(error?.reason).toEqual({ _tag: "NotFound", what: "job" })
    expect(error?.message).toBe("result of \"ep\" at http://platform.test (job j1): What. Do this.")
  })
})

describe("runSync", () => {
  it("sends one request for a short job", () => {
    const { calls, value } = perform(JobsApiCalls.runSync(target(), 1, {}), [ended])
    expect(calls.map(({ method, url }) => `${method} ${url}`)).toEqual(["POST http://platform.test/v2/ep/runsync?wait=25000"])
    expect(value).toMatchObject({ output: 1 })
  })

  it("continues with the job's id after the wait, and never submits again", () => {
    for (const status of ["IN_QUEUE", "IN_PROGRESS"]) {
      const script = [response(200, job(status), { took: 25_000 }), cut(), refused, response(502, "bad"), running(25_000), ended]
      const { calls, value } = perform(JobsApiCalls.runSync(target(), 1, {}), script)
      expect(value).toMatchObject({ status: "COMPLETED" })
      expect(calls.filter(({ method }) => method === "POST")).toHaveLength(1)
      expect(calls.slice(1).every(({ url }) => url.includes("/status-sync/j1?wait="))).toBe(true)
    }
  })

  it("continues with the id in the headers if the body is lost, and never submits again", () => {
    for (
      const lost of [
        cut(26_000, "j1"),
        { ...silent, jobId: "j1" },
        response(200, "{\"id\":", { jobId: "j1" }),
        response(504, "", { jobId: "j1" })
      ]
    ) {
      const { calls, value } = perform(JobsApiCalls.runSync(target(), 1, {}), [lost, running(25_000), ended])
      expect(value).toMatchObject({ status: "COMPLETED" })
      expect(calls.filter(({ method }) => method === "POST")).toHaveLength(1)
      expect(calls.slice(1).every(({ url }) => url.includes("/status-sync/j1?wait="))).toBe(true)
      const submitted = perform(JobsApiCalls.run(target(), 1, {}), [lost])
      expect([submitted.value, submitted.calls.length]).toEqual([{ id: "j1", status: "IN_QUEUE" }, 1])
    }
    // A 409 is an error even if it contains a job's id.
    expect(perform(JobsApiCalls.run(target(), 1, {}), [problem(409, "conflict", {}), ended]).error?.reason).toEqual({
      _tag: "Conflict"
    })
  })

  it("generates one idempotency key per submission, if enabled, and repeats it in retries", () => {
    let made = 0
    const keyed = target({ newIdempotencyKey: () => `made-${made += 1}` })
    const keysOf = (script: ReadonlyArray<Entry>, options = {}) =>
      perform(JobsApiCalls.runSync(keyed, 1, options), script).calls.map(({ headers }) => headers["idempotency-key"])
    expect(keysOf([cut(), cut(), ended])).toEqual(["made-1", "made-1", "made-1"])
    expect(keysOf([ended])).toEqual(["made-2"])
    expect(keysOf([cut(), ended], { idempotencyKey: "mine" })).toEqual(["mine", "mine"])
    expect(new Set(Array.from({ length: 50 }, randomIdempotencyKey)).size).toBe(50)
    expect(randomIdempotencyKey()).toMatch(/^[0-9a-f]{32}$/)
  })

  it("fails with Unreachable after its timeout", () => {
    expect(perform(JobsApiCalls.runSync(target(), 1, {}), [silent]).error).toMatchObject({
      detail: "No response within 60 s.",
      reason: { _tag: "Unreachable", sent: true }
    })
  })
})

describe("messages", () => {
  it("contain the host, the endpoint and a hint, and never the key", () => {
    const bodies = [
      problem(401, "unauthorized"),
      problem(403, "forbidden"),
      problem(404, "endpoint-not-found"),
      problem(413, "payload-too-large", { limit: 10 }),
      response(401, ""),
      response(404, "<html><title>404 Not Found</title>nginx</html>"),
      response(413, "<html>413 Request Entity Too Large</html>"),
      response(302, "", { location: "https://platform.test/login" }),
      response(200, "OK"),
      cut(),
      silent
    ]
    for (const one of bodies) {
      const { error } = perform(JobsApiCalls.run(target(), 1, {}), [one])
      expect(error?.message).toMatch(/^run of "ep" at http:\/\/platform\.test: \S.+\. \S.+\.$/)
      expect(inspect(error, { depth: 20 })).not.toContain(KEY)
    }
  })

  it("contain the platform's details: the paths of invalid values, the limit", () => {
    const errors = [{ path: ["policy", "ttl"], message: "Expected a whole number" }]
    expect(perform(JobsApiCalls.run(target(), 1, {}), [problem(400, "invalid-request", { errors })]).error?.reason).toEqual({
      _tag: "Invalid",
      problems: errors
    })
    expect(perform(JobsApiCalls.run(target(), 1, {}), [problem(413, "payload-too-large", { limit: 10 })]).error?.reason).toEqual({
      _tag: "TooLarge",
      limit: 10
    })
    const spent = perform(JobsApiCalls.run(target(), 1, {}), [problem(402, "budget-reached", { renewsAt: 1_790_812_800_000 })])
    expect(spent.error?.reason).toEqual({ _tag: "BudgetReached", renewsAt: 1_790_812_800_000 })
    // A proxy's response.
    expect(perform(JobsApiCalls.run(target(), 1, {}), [response(402, "pay")]).error?.reason).toEqual({ _tag: "BudgetReached" })
    expect(
      perform(JobsApiCalls.run(target(), 1, {}), [response(500, "<html><style>x{}</style><h1>Oops</h1>\n\n<p>broken</p></html>")])
        .error
        ?.detail
    )
      .toBe("The response was 500 with \"Oops broken\".")
  })

  it("exist for any response", () => {
    const anything = fc.record({
      status: fc.integer({ min: 0, max: 999 }),
      body: fc.oneof(fc.string(), fc.json()),
      retryAfter: fc.option(fc.string(), { nil: undefined })
    })
    fc.assert(fc.property(anything, ({ body, retryAfter, status }) => {
      const { error, value } = perform(JobsApiCalls.run(target(), 1, {}), [response(status, body, { retryAfter })])
      expect(error === undefined ? value : error.message).toBeTruthy()
    }))
  })
})

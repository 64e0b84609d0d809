import { Api } from "@stint/contract/Api"
import { HttpApi } from "effect/http-api"
import * as fc from "fast-check"
import { inspect } from "node:util"
import { describe, expect, it } from "vitest"
import { randomIdempotencyKey } from "../src/ClientSettings.ts"
import type { Program } from "../src/protocol/DriverProtocol.ts"
import * as JobsApiCalls from "../src/protocol/JobsApiCalls.ts"
import { answer, cut, type Entry, job, KEY, perform, problem, refused, silent, target } from "./ScriptedDriver.ts"

const receipt = answer(200, { id: "j1", status: "IN_QUEUE" })
const ended = answer(200, job("COMPLETED", { output: 1 }))
const running = (took: number) => answer(200, job("IN_PROGRESS"), { took })

/** Every operation, and whether it may be done twice. */
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
    ok: answer(200, { removed: 2, status: "completed" }),
    twice: false
  },
  {
    name: "health",
    start: () => JobsApiCalls.health(target()),
    ok: answer(200, {
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

  it.each(operations)("$name is a route of the contract, with the key as a bearer", ({ ok, start }) => {
    const { calls } = perform(start(), [ok])
    expect(calls).toHaveLength(1)
    const [{ headers, method, url }] = [calls[0]!]
    const path = new URL(url).pathname
    expect(routes.filter((route) => route.method === method && route.path.test(path))).toHaveLength(1)
    expect(headers["authorization"]).toBe(`Bearer ${KEY}`)
  })

  it("writes names and ids so that they stay one segment of the path", () => {
    const [call] = perform(JobsApiCalls.status(target({ endpoint: "a/b?c" }), "../x y"), [ended]).calls
    expect(new URL(call!.url).pathname).toBe("/v2/a%2Fb%3Fc/status/..%2Fx%20y")
  })

  it("sends the options of the contract beside the input, and the idempotency key as a header", () => {
    const [call] =
      perform(JobsApiCalls.run(target(), { n: 1 }, { policy: { ttl: 20_000 }, idempotencyKey: "k-1" }), [receipt]).calls
    expect(JSON.parse(call!.body!)).toEqual({ input: { n: 1 }, policy: { ttl: 20_000 } })
    expect(call!.headers).toMatchObject({ "idempotency-key": "k-1", "content-type": "application/json" })
  })

  it("sends null for an input that is not there", () => {
    const [call] = perform(JobsApiCalls.run(target(), undefined, {}), [receipt]).calls
    expect(JSON.parse(call!.body!)).toEqual({ input: null })
  })
})

describe("sending again", () => {
  it.each(operations)("$name is sent again where nobody was reached, after 429 and after 503", ({ ok, start }) => {
    for (const first of [refused, problem(429, "rate-limited"), problem(503, "unavailable")]) {
      const { calls, error, pauses } = perform(start(), [first, ok])
      expect(error).toBeUndefined()
      expect(calls).toHaveLength(2)
      expect(pauses).toHaveLength(1)
    }
  })

  it.each(operations)(
    "$name is sent again after a lost connection or a 5xx exactly if it may be done twice ($twice)",
    ({ ok, start, twice }) => {
      for (const first of [cut(), answer(502, "<html><h1>502 Bad Gateway</h1></html>"), answer(504, ""), answer(500, "{}")]) {
        const { calls, error } = perform(start(), [first, ok])
        expect(calls).toHaveLength(twice ? 2 : 1)
        expect(error === undefined).toBe(twice)
      }
    }
  )

  it.each(operations)("$name is not sent again where the answer would be the same", ({ start }) => {
    for (const status of [400, 401, 403, 404, 409, 413, 422, 302, 418]) {
      expect(perform(start(), [answer(status, "no")]).calls).toHaveLength(1)
    }
    expect(perform(start(), [answer(200, "<html>Please log in</html>")]).error?.reason).toMatchObject({
      _tag: "Unexpected",
      status: 200
    })
  })

  it("tells a caller that a job may have been made, and how to find out", () => {
    const { error } = perform(JobsApiCalls.runSync(target(), 1, {}), [cut()])
    expect(error?.reason).toEqual({ _tag: "Unreachable", sent: true })
    expect(error?.message).toContain("The platform may have created a job")
    expect(error?.message).toContain("idempotencyKey")
    expect(perform(JobsApiCalls.run(target({ retryFor: 0 }), 1, {}), [refused]).error?.message).not.toContain("may have created")
  })

  it("waits as long as Retry-After says, in seconds or as a date, and not much longer", () => {
    for (const retryAfter of ["3", new Date(Date.now() + 3_900).toUTCString()]) {
      const { pauses } = perform(JobsApiCalls.status(target(), "j1"), [answer(429, "", { retryAfter }), ended])
      expect(pauses).toHaveLength(1)
      expect(pauses[0]!.atLeast).toBeGreaterThan(1_000)
      expect(pauses[0]!.atLeast).toBeLessThanOrEqual(4_000)
      expect(pauses[0]!.spread).toBeLessThanOrEqual(1_000)
    }
  })

  it("fails at once where Retry-After is longer than the caller's patience, and says it", () => {
    const { error, pauses } = perform(JobsApiCalls.run(target(), 1, {}), [answer(429, "", { retryAfter: "3600" })])
    expect(pauses).toEqual([])
    expect(error?.reason).toEqual({ _tag: "RateLimited", retryAfter: 3_600_000 })
    expect(error?.message).toContain("3600 s")
  })

  it("gives up when its patience is over, never after more, with pauses that grow and differ by chance", () => {
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
  it("waits as long as it takes, and asks no more often than the platform lets go", () => {
    const waits = Array.from({ length: 200 }, () => running(25_000))
    const { calls, error, pauses, value } = perform(JobsApiCalls.result(target(), "j1"), [...waits, ended])
    expect(error).toBeUndefined()
    expect(value).toMatchObject({ status: "COMPLETED" })
    expect(calls).toHaveLength(201)
    expect(pauses).toEqual([])
    expect(calls.every(({ timeout, url }) => url.endsWith("?wait=25000") && timeout === 85_000)).toBe(true)
  })

  it("does not poll a platform that answers at once although the job goes on", () => {
    const answers = Array.from({ length: 60 }, () => running(2))
    const { calls, took } = perform(JobsApiCalls.result(target(), "j1"), [...answers, ended])
    expect(calls).toHaveLength(61)
    expect(took / calls.length).toBeGreaterThan(800)
  })

  it("survives any mix of lost connections, 5xx, 429 and refused connections that is shorter than reconnectFor", () => {
    const trouble = fc.constantFrom<Entry>(
      cut(),
      cut(20_000),
      refused,
      answer(502, "<html>"),
      answer(524, ""),
      problem(503, "unavailable"),
      answer(500, ""),
      answer(429, "", { retryAfter: "1" }),
      running(25_000)
    )
    fc.assert(fc.property(fc.array(trouble, { maxLength: 12 }), (script) => {
      const { error, value } = perform(JobsApiCalls.result(target({ reconnectFor: 600_000 }), "j1"), [...script, ended])
      expect(error).toBeUndefined()
      expect(value).toMatchObject({ status: "COMPLETED" })
    }))
  })

  it("gives up on a platform that stays away for reconnectFor, and names the job to ask for", () => {
    const { error, took } = perform(JobsApiCalls.result(target(), "j1"), [refused])
    expect(error).toMatchObject({ job: "j1", operation: "result", reason: { _tag: "Unreachable", sent: false } })
    expect(took).toBeGreaterThan(280_000)
    expect(took).toBeLessThanOrEqual(301_000)
  })

  it("starts its patience anew with every answer", () => {
    const outage = Array.from({ length: 40 }, () => refused)
    const script = [...outage, running(25_000), ...outage, running(25_000), ...outage, ended]
    expect(perform(JobsApiCalls.result(target(), "j1"), script).value).toMatchObject({ status: "COMPLETED" })
  })

  it("asks for shorter waits than something in between allows, and for longer ones again when that is gone", () => {
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

  it("says that a job is unknown", () => {
    const { calls, error } = perform(JobsApiCalls.result(target(), "j1"), [problem(404, "job-not-found")])
    expect(calls).toHaveLength(1)
    expect(error?.reason).toEqual({ _tag: "NotFound", what: "job" })
    expect(error?.message).toBe("result of \"ep\" at http://platform.test (job j1): What. Do this.")
  })
})

describe("runSync", () => {
  it("is one request where the job is quick", () => {
    const { calls, value } = perform(JobsApiCalls.runSync(target(), 1, {}), [ended])
    expect(calls.map(({ method, url }) => `${method} ${url}`)).toEqual(["POST http://platform.test/v2/ep/runsync?wait=25000"])
    expect(value).toMatchObject({ output: 1 })
  })

  it("goes on waiting with the job's id when the wait ends first, and never submits again", () => {
    for (const status of ["IN_QUEUE", "IN_PROGRESS"]) {
      const script = [answer(200, job(status), { took: 25_000 }), cut(), refused, answer(502, "bad"), running(25_000), ended]
      const { calls, value } = perform(JobsApiCalls.runSync(target(), 1, {}), script)
      expect(value).toMatchObject({ status: "COMPLETED" })
      expect(calls.filter(({ method }) => method === "POST")).toHaveLength(1)
      expect(calls.slice(1).every(({ url }) => url.includes("/status-sync/j1?wait="))).toBe(true)
    }
  })

  it("goes on with the id of the head where the rest of the answer is lost, and never submits again", () => {
    for (
      const lost of [
        cut(26_000, "j1"),
        { ...silent, jobId: "j1" },
        answer(200, "{\"id\":", { jobId: "j1" }),
        answer(504, "", { jobId: "j1" })
      ]
    ) {
      const { calls, value } = perform(JobsApiCalls.runSync(target(), 1, {}), [lost, running(25_000), ended])
      expect(value).toMatchObject({ status: "COMPLETED" })
      expect(calls.filter(({ method }) => method === "POST")).toHaveLength(1)
      expect(calls.slice(1).every(({ url }) => url.includes("/status-sync/j1?wait="))).toBe(true)
      const submitted = perform(JobsApiCalls.run(target(), 1, {}), [lost])
      expect([submitted.value, submitted.calls.length]).toEqual([{ id: "j1", status: "IN_QUEUE" }, 1])
    }
    // A refusal is one, whoever's id it has.
    expect(perform(JobsApiCalls.run(target(), 1, {}), [problem(409, "conflict", {}), ended]).error?.reason).toEqual({
      _tag: "Conflict"
    })
  })

  it("has a key of its own for each submission where that is asked for, and the same one each time that it is sent", () => {
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

  it("takes a time-out of its own for no answer", () => {
    expect(perform(JobsApiCalls.runSync(target(), 1, {}), [silent]).error).toMatchObject({
      detail: "No response within 60 s.",
      reason: { _tag: "Unreachable", sent: true }
    })
  })
})

describe("messages", () => {
  it("name the host, the endpoint and the way out, and never the key", () => {
    const bodies = [
      problem(401, "unauthorized"),
      problem(403, "forbidden"),
      problem(404, "endpoint-not-found"),
      problem(413, "payload-too-large", { limit: 10 }),
      answer(401, ""),
      answer(404, "<html><title>404 Not Found</title>nginx</html>"),
      answer(413, "<html>413 Request Entity Too Large</html>"),
      answer(302, "", { location: "https://platform.test/login" }),
      answer(200, "OK"),
      cut(),
      silent
    ]
    for (const one of bodies) {
      const { error } = perform(JobsApiCalls.run(target(), 1, {}), [one])
      expect(error?.message).toMatch(/^run of "ep" at http:\/\/platform\.test: \S.+\. \S.+\.$/)
      expect(inspect(error, { depth: 20 })).not.toContain(KEY)
    }
  })

  it("keep what the platform says: paths of offending values, the limit", () => {
    const errors = [{ path: ["policy", "ttl"], message: "Expected a whole number" }]
    expect(perform(JobsApiCalls.run(target(), 1, {}), [problem(400, "invalid-request", { errors })]).error?.reason).toEqual({
      _tag: "Invalid",
      problems: errors
    })
    expect(perform(JobsApiCalls.run(target(), 1, {}), [problem(413, "payload-too-large", { limit: 10 })]).error?.reason).toEqual({
      _tag: "TooLarge",
      limit: 10
    })
    expect(
      perform(JobsApiCalls.run(target(), 1, {}), [answer(500, "<html><style>x{}</style><h1>Oops</h1>\n\n<p>broken</p></html>")])
        .error
        ?.detail
    )
      .toBe("The response was 500 with \"Oops broken\".")
  })

  it("survive any answer at all", () => {
    const anything = fc.record({
      status: fc.integer({ min: 0, max: 999 }),
      body: fc.oneof(fc.string(), fc.json()),
      retryAfter: fc.option(fc.string(), { nil: undefined })
    })
    fc.assert(fc.property(anything, ({ body, retryAfter, status }) => {
      const { error, value } = perform(JobsApiCalls.run(target(), 1, {}), [answer(status, body, { retryAfter })])
      expect(error === undefined ? value : error.message).toBeTruthy()
    }))
  })
})

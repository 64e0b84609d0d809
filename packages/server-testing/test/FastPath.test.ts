import { describe, expect, it } from "@effect/vitest"
import { Api } from "@stint/contract/Api"
import { matchFastPath } from "@stint/server/FastPath"
import * as Effect from "effect/Effect"
import { FindMyWay } from "effect/http"
import { HttpApi } from "effect/http-api"
import * as Layer from "effect/Layer"
import * as Tracer from "effect/Tracer"
import * as fc from "fast-check"
import * as ServerTest from "../src/ServerTest.ts"
import type { Answer, Call } from "../src/WireClient.ts"

const router = (() => {
  const router = FindMyWay.make<string>({ maxParamLength: 16_384, caseSensitive: true })
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      if (endpoint.path.startsWith("/")) router.on(endpoint.method, `/${endpoint.path.slice(1)}`, endpoint.identifier)
    }
  })
  return router
})()

const identifiers = {
  run: "run",
  runsync: "runsync",
  "job-take": "jobTake",
  "job-take-batch": "jobTakeBatch",
  "job-done": "jobDone",
  "job-done-batch": "jobDoneBatch",
  "job-stop": "jobStop",
  ping: "ping",
  pingByPost: "pingByPost"
} as const

describe("the fast path", () => {
  it("handles the operations that every job and every idle worker use", () => {
    expect(matchFastPath("POST", "/v2/hello/run")).toEqual({ operation: "run", endpoint: "hello" })
    expect(matchFastPath("POST", "/v2/hello/runsync?wait=5000")).toEqual({
      operation: "runsync",
      endpoint: "hello",
      wait: "5000"
    })
    for (const tail of ["", "?gpu=none&job_in_progress=0", "&job_in_progress=0", "&a=b?c=d/e%20f"]) {
      expect(matchFastPath("GET", `/v2/hello/job-take/w-1${tail}`)).toEqual({
        operation: "job-take",
        endpoint: "hello",
        worker: "w-1"
      })
      expect(matchFastPath("GET", `/v2/hello/ping/w-1${tail}`)).toEqual({ operation: "ping", endpoint: "hello", worker: "w-1" })
      expect(matchFastPath("GET", `/v2/hello/job-stop/w-1${tail}`)).toEqual({
        operation: "job-stop",
        endpoint: "hello",
        worker: "w-1"
      })
      expect(matchFastPath("POST", `/v2/hello/job-done-batch/w-1${tail}`)).toEqual({
        operation: "job-done-batch",
        endpoint: "hello",
        worker: "w-1"
      })
      expect(matchFastPath("POST", `/v2/hello/job-done/w-1/sync-1${tail}`)).toEqual({
        operation: "job-done",
        endpoint: "hello",
        worker: "w-1",
        id: "sync-1"
      })
    }
  })

  it("leaves other methods, encoded segments, doubled slashes and queries that need decoding to the router", () => {
    for (
      const [method, url] of [
        ["GET", "/v2/hello/run"],
        ["HEAD", "/v2/hello/ping/w-1"],
        ["OPTIONS", "/v2/hello/run"],
        ["POST", "/v2/hello/job-take/w-1"],
        ["POST", "/v2/hello/job-stop/w-1"],
        ["POST", "/v2/hello/run/"],
        ["POST", "//v2/hello/run"],
        ["POST", "/v2//run"],
        ["POST", "/v2/hel%6Co/run"],
        ["POST", "/v2/hello/run?input=1"],
        ["POST", "/v2/hello/runsync?wait=1&wait=2"],
        ["POST", "/v2/hello/runsync?wait=soon"],
        ["POST", "/v2/hello/runsync;wait=1"],
        ["GET", "/v2/hello/job-take/w%2F1"],
        ["GET", "/v2/hello/job-take/"],
        ["GET", "/v2/hello/job-take/w-1/more"],
        ["GET", "/V2/hello/job-take/w-1"],
        ["POST", "/v2/hello/job-done/w-1"],
        ["GET", "/v2/hello/job-done-batch/w-1"],
        ["POST", "/v2/hello/job-done-batch/w-1/sync-1"],
        ["GET", "/v2/hello/health"]
      ] as const
    ) {
      expect([method, url, matchFastPath(method, url)]).toEqual([method, url, undefined])
    }
  })

  it("handles no request that the router would route elsewhere", () => {
    const part = fc.oneof(
      fc.constantFrom(
        "v2",
        "hello",
        "run",
        "runsync",
        "job-take",
        "job-take-batch",
        "job-done",
        "job-done-batch",
        "job-stop",
        "ping",
        "w-1",
        "sync-1",
        "..",
        "&a=b",
        ""
      ),
      fc.string({ unit: fc.constantFrom("a", "-", "_", ".", "%", "2", "&", "=", "?", ";", "#", "é", " ", "~"), maxLength: 5 })
    )
    const mostly = (plain: string) => fc.oneof({ weight: 3, arbitrary: fc.constant(plain) }, { weight: 1, arbitrary: part })
    const tail = fc.constantFrom("", "?wait=1000", "?a=b&a=c", "&job_in_progress=0", "#a", ";a", "/", "?%zz")
    const url = fc.oneof(
      fc.tuple(fc.array(part, { minLength: 1, maxLength: 6 }), tail).map(([parts, tail]) => `/${parts.join("/")}${tail}`),
      fc.tuple(
        fc.constantFrom(
          "run",
          "runsync",
          "job-take/",
          "job-take-batch/",
          "job-done/w-1/",
          "job-done-batch/",
          "job-stop/",
          "ping/"
        ),
        mostly("hello"),
        mostly("w-1"),
        tail
      ).map(([operation, endpoint, last, tail]) => `/v2/${endpoint}/${operation}${operation.endsWith("/") ? last : ""}${tail}`)
    )
    let taken = 0
    fc.assert(
      fc.property(fc.constantFrom("GET", "POST", "HEAD", "PUT"), url, (method, url) => {
        const call = matchFastPath(method, url)
        if (call === undefined) return
        taken += 1
        const found = router.find(method, url)
        expect(found?.handler).toBe(identifiers[call.operation])
        expect(found?.params["endpoint"]).toBe(call.endpoint)
        if ("worker" in call) expect(found?.params["worker"]?.split("&")[0]).toBe(call.worker)
      }),
      { numRuns: 8_000, seed: 20_261 }
    )
    expect(taken).toBeGreaterThan(200)
  })
})

const ENDPOINT = "both"
const LIMITED = "limited"

/** The text without the parts that differ from job to job or over time. */
const timeless = (text: string): string =>
  text.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "ID")
    .replaceAll(/"(delayTime|executionTime)":\d+/g, "$1")
    // The time left in the limit's one-day window.
    .replaceAll(/\b86[34]\d\d\b/g, "A DAY")

/** The parts of a response that are compared. */
const comparable = ({ headers, status, text }: Answer, baseUrl: string) => ({
  status,
  headers: [...headers].filter(([name]) => name !== "date").map(([name, value]) =>
    // The number of digits in a duration also varies.
    name === "content-length" && value === String(Buffer.byteLength(text))
      ? "content-length: true"
      : `${name}: ${timeless(value)}`
  ),
  text: timeless(text.replaceAll(baseUrl, "BASE"))
})

const calls = (): ReadonlyArray<readonly [string, string, Call]> => [
  ["a job", `/v2/${ENDPOINT}/run`, { json: { input: { a: 1 } } }],
  ["a take", `/v2/${ENDPOINT}/job-take/w-1?job_in_progress=0`, { authorization: "worker" }],
  ["a job that no worker takes in time", `/v2/${ENDPOINT}/runsync?wait=25`, { json: { input: 1 } }],
  ["its take", `/v2/${ENDPOINT}/job-take/w-1&job_in_progress=1`, { authorization: "worker" }],
  ["a runsync whose response begins before its body", `/v2/${ENDPOINT}/runsync?wait=100`, { json: { input: 2 } }],
  ["a batch", `/v2/${ENDPOINT}/job-take-batch/w-2?batch_size=3`, { authorization: "worker" }],
  ["a take that finds nothing", `/v2/${ENDPOINT}/job-take/w-3`, { authorization: "worker" }],
  ["a stop poll that finds nothing", `/v2/${ENDPOINT}/job-stop/w-3`, { authorization: "worker" }],
  ["a stop poll with a wrong key", `/v2/${ENDPOINT}/job-stop/w-3`, { authorization: "wrong" }],
  ["a heartbeat", `/v2/${ENDPOINT}/ping/w-1?runpod_version=1`, { authorization: "worker" }],
  ["a heartbeat by POST", `/v2/${ENDPOINT}/ping/w-1`, { authorization: "worker", json: { job_id: [] } }],
  ["a heartbeat that is none", `/v2/${ENDPOINT}/ping/w-1`, { authorization: "worker", json: { job_id: 5 } }],
  ["a result for no job", `/v2/${ENDPOINT}/job-done/w-1/nothing`, { authorization: "worker", json: { output: 1 } }],
  ["results for no job", `/v2/${ENDPOINT}/job-done-batch/w-1`, { authorization: "worker", json: [{ id: "nothing", output: 1 }] }],
  ["results that are no list", `/v2/${ENDPOINT}/job-done-batch/w-1`, { authorization: "worker", json: { output: 1 } }],
  ["results with a wrong key", `/v2/${ENDPOINT}/job-done-batch/w-1`, { authorization: "wrong", json: [] }],
  ["a result with a wrong key", `/v2/${ENDPOINT}/job-done/w-1/nothing`, { authorization: "wrong", json: { output: 1 } }],
  ["no key", `/v2/${ENDPOINT}/run`, { authorization: null, json: { input: 1 } }],
  ["an unknown key", `/v2/${ENDPOINT}/run`, { authorization: "Bearer nobody", json: { input: 1 } }],
  ["a worker's key", `/v2/${ENDPOINT}/run`, { authorization: "worker", json: { input: 1 } }],
  ["no such endpoint", "/v2/nowhere/run", { json: { input: 1 } }],
  ["no input", `/v2/${ENDPOINT}/run`, { json: { output: 1 } }],
  ["an array", `/v2/${ENDPOINT}/run`, { json: [{ input: 1 }] }],
  ["no JSON", `/v2/${ENDPOINT}/run`, { body: "{\"input\":" }],
  ["nothing", `/v2/${ENDPOINT}/run`, { method: "POST" }],
  ["wrong options", `/v2/${ENDPOINT}/run`, { json: { input: 1, priority: 1_000, policy: { ttl: "long" } } }],
  ["a wrong idempotency key", `/v2/${ENDPOINT}/run`, { json: { input: 1 }, headers: { "idempotency-key": "ä" } }],
  ["too much", `/v2/${ENDPOINT}/run`, { json: { input: "x".repeat(3_000) } }],
  ["too much, in pieces", `/v2/${ENDPOINT}/run`, { body: new Blob(["{\"input\":\"", "x".repeat(3_000), "\"}"]).stream() }],
  ["the first of one", `/v2/${LIMITED}/run`, { json: { input: 1 } }],
  ["the second of one", `/v2/${LIMITED}/run`, { json: { input: 1 } }]
]

/** A server's responses to all of these requests, in sequence. */
const answersOf = (options: ServerTest.Options) =>
  Effect.gen(function*() {
    const { baseUrl, call, endpoint } = yield* ServerTest.ServerTest
    yield* endpoint({ id: LIMITED, rateLimit: { limit: 1, perMs: 86_400_000 } })
    const both = yield* endpoint({ id: ENDPOINT })
    const workerKey = Object.values(yield* both.env).find((value) => value.startsWith("stint_worker_")) ?? ""
    const answers: Array<readonly [string, ReturnType<typeof comparable>]> = []
    for (const [name, path, { authorization, ...rest }] of calls()) {
      const key = authorization === "worker" ? { authorization: workerKey } : authorization === undefined ? {} : { authorization }
      answers.push([name, comparable(yield* call(path, { ...rest, ...key }), baseUrl)])
    }
    return answers
  }).pipe(Effect.provide(ServerTest.layer({ ...options, limits: { runBytes: 2_000 } })))

/** The spans of requests to fast path routes: their names and route attributes. */
const spansOf = (options: ServerTest.Options) =>
  Effect.gen(function*() {
    const spans: Array<Tracer.Span> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    yield* Effect.gen(function*() {
      const { endpoint } = yield* ServerTest.ServerTest
      const one = yield* endpoint({ id: ENDPOINT })
      const { id } = yield* one.run("traced")
      const worker = yield* one.worker("w-1")
      const job = yield* worker.next
      expect(job.id).toBe(id)
      yield* worker.finish(job.id, "done")
    }).pipe(Effect.provide(ServerTest.layer(options).pipe(Layer.provide(Layer.succeed(Tracer.Tracer, tracer)))))
    return spans.filter(({ attributes }) => attributes.has("http.route")).map(({ attributes, name, status }) => ({
      name,
      route: attributes.get("http.route"),
      code: attributes.get("http.response.status_code"),
      status: status._tag
    }))
  })

describe("both paths", () => {
  it.live("return the same status, headers and body for valid and invalid requests", () =>
    Effect.gen(function*() {
      const short = yield* answersOf({ fastPath: true })
      const long = yield* answersOf({ fastPath: false })
      expect(short).toEqual(long)
      // Check that the responses are not equal merely because all of them failed.
      const statuses = short.map(([, { status }]) => status)
      expect([...new Set(statuses)].sort((a, b) => a - b)).toEqual([200, 204, 400, 401, 403, 404, 413, 429])
    }))

  it.live("have the same spans, with the route's name", () =>
    Effect.gen(function*() {
      const short = yield* spansOf({ fastPath: true })
      expect(short).toEqual(yield* spansOf({ fastPath: false }))
      expect(short.map(({ route }) => route)).toContain("/v2/:endpoint/run")
      expect(short.map(({ route }) => route)).toContain("/v2/:endpoint/job-done/:worker/:id")
    }))
})

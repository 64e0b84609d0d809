/**
 * For any input, the server returns a JSON response that reports the client's error, and never a defect in the platform.
 */
import { describe, expect, it, layer } from "@effect/vitest"
import { parseWorkerUrl } from "@stint/server/WorkerUrl"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import { layer as layerServer, ServerTest } from "../src/ServerTest.ts"
import type { TestEndpoint } from "../src/TestEndpoint.ts"
import { expectProblem, type WireClient } from "../src/WireClient.ts"
import type { WireWorker } from "../src/WireWorker.ts"

/** Nearly valid bodies, and arbitrary bodies. */
const body = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.uint8Array().map((bytes) => Buffer.from(bytes).toString("latin1")),
  fc.json({ maxDepth: 5 }),
  fc.record({
    input: fc.jsonValue(),
    policy: fc.oneof(fc.jsonValue(), fc.dictionary(fc.constantFrom("ttl", "executionTimeout", "lowPriority"), fc.jsonValue())),
    s3Config: fc.jsonValue(),
    output: fc.jsonValue(),
    error: fc.jsonValue(),
    status: fc.oneof(fc.constant("IN_PROGRESS"), fc.jsonValue()),
    stopPod: fc.jsonValue(),
    job_id: fc.jsonValue(),
    id: fc.jsonValue(),
    source: fc.oneof(fc.constant({ type: "external" }), fc.jsonValue())
  }, { requiredKeys: [] }).map((value) => JSON.stringify(value))
)

const segment = fc.oneof(
  fc.string({ unit: "binary", minLength: 1 }).map(encodeURIComponent),
  fc.stringMatching(/^[!-~]{1,20}$/),
  fc.constantFrom("%", "%zz", "&", "&a=b", "..", "__proto__", "w&job_in_progress=0")
)

const call = (client: WireClient, path: string, method: string, text: string) =>
  Effect.gen(function*() {
    const answer = yield* client(path, method === "GET" ? {} : { method, body: text })
    expect(answer.status, `${method} ${path} ${text}: ${answer.text}`).toBeLessThan(500)
    if (answer.status >= 400) yield* expectProblem(answer.status)(answer)
    return answer
  })

describe("arbitrary input", () => {
  layer(layerServer({ limits: { minWaitMs: 1, maxWaitMs: 5, workerWaitMs: 5, refusalWaitMs: 0 } }), {
    excludeTestServices: true
  })((it) => {
    const ready = Effect.gen(function*() {
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint({ maxAttempts: 100 })
      return { server, endpoint, worker: yield* endpoint.worker() }
    })

    const check = <A>(values: fc.Arbitrary<A>, property: (value: A) => Effect.Effect<unknown, unknown>) =>
      Effect.promise(() =>
        fc.assert(fc.asyncProperty(values, (value) => Effect.runPromise(Effect.asVoid(property(value)))), { numRuns: 150 })
      )

    const operations = (endpoint: TestEndpoint, worker: WireWorker, id: string): ReadonlyArray<readonly [WireClient, string]> => [
      [endpoint.call, endpoint.path("run")],
      [endpoint.call, endpoint.path("runsync?wait=1")],
      [worker.call, worker.addresses.done(id)],
      [worker.call, worker.addresses.stream(id)],
      [worker.call, worker.addresses.ping],
      [endpoint.call, "/api/v1/endpoints"]
    ]

    it.effect("as a body gets a valid response", () =>
      Effect.gen(function*() {
        const { endpoint, server, worker } = yield* ready
        yield* check(fc.tuple(body, fc.nat({ max: 5 })), ([text, which]) =>
          Effect.gen(function*() {
            const { id } = yield* endpoint.run({})
            yield* worker.takeBatch(1_000)
            const [client, path] = operations(endpoint, worker, id)[which]!
            yield* call(client, path, "POST", text)
          }))
        expect((yield* server.logs).filter((line) => line.includes("defect in the platform"))).toEqual([])
        expect(yield* server.works).toBe(true)
      }))

    it.effect("as a URL gets a valid response", () =>
      Effect.gen(function*() {
        const { endpoint, server, worker } = yield* ready
        const methods = fc.constantFrom("GET", "POST", "PUT", "DELETE", "PATCH")
        const starts = fc.constantFrom(
          "/v2",
          `/v2/${endpoint.id}`,
          `/v2/${endpoint.id}/status`,
          `/v2/${endpoint.id}/stream`,
          `/v2/${endpoint.id}/job-take`,
          `/v2/${endpoint.id}/job-stop`,
          `/v2/${endpoint.id}/ping`,
          `/v2/${endpoint.id}/job-done/w`,
          "/api/v1/endpoints"
        )
        const queries = fc.oneof(
          fc.constant(""),
          segment.map((text) => `?${text}`),
          segment.map((text) => `?wait=${text}&wait=${text}`)
        )
        yield* check(
          fc.tuple(methods, starts, fc.array(segment, { maxLength: 3 }), queries, fc.boolean()),
          ([method, start, rest, query, asWorker]) =>
            // Skip texts that fetch itself rejects as a URL.
            URL.canParse(server.baseUrl + [start, ...rest].join("/") + query)
              ? call(
                asWorker ? (path, options) => server.call(path, { ...options, authorization: worker.key }) : server.call,
                [start, ...rest].join("/") + query,
                method,
                "{}"
              )
              : Effect.void
        )
        expect((yield* server.logs).filter((line) => line.includes("defect in the platform"))).toEqual([])
        expect(yield* server.works).toBe(true)
      }))
  })
})

describe("parseWorkerUrl", () => {
  it("returns the encoded id, whatever query is appended", () => {
    const key = fc.stringMatching(/^[a-z_]{1,8}$/)
    const text = fc.string({ unit: "grapheme" }).filter((value) => value.isWellFormed())
    const worker = text.filter((id) => id !== "")
    fc.assert(fc.property(worker, fc.array(fc.tuple(key, text)), fc.boolean(), (id, pairs, hasQuery) => {
      const tail = pairs.map(([name, value]) => `&${name}=${encodeURIComponent(value)}`).join("")
      const address = parseWorkerUrl(`/v2/e/job-take/${encodeURIComponent(id)}${hasQuery ? "?gpu_=none" : ""}${tail}`)
      expect(address.last).toBe(id)
      for (const [name] of pairs) {
        const values = pairs.filter(([one]) => one === name).map(([, value]) => value)
        expect(address.all(name)).toEqual(hasQuery && name === "gpu_" ? ["none", ...values] : values)
        expect(address.get(name)).toBe(values.at(-1))
      }
    }))
  })
})

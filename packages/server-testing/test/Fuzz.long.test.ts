/**
 * Sends hostile requests to every route: generated bodies and parameters, and recorded requests with damaged bytes.
 *
 * - No response has an undeclared 5xx status, and the server logs no defect.
 * - The server ends every connection within a second after the client has sent everything and closed its side.
 * - Afterwards the memory is back to where it was, and the server works.
 *
 * Runs for about 20 s; `STINT_CHAOS_MINUTES=10` prolongs it. A failure prints the seed and the request; `STINT_PROPERTY_SEED` repeats a run.
 */
import { describe, expect, it } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { Endpoint } from "@stint/contract/Endpoint"
import { ErrorGroupList } from "@stint/contract/ErrorGroup"
import { ModelCache } from "@stint/contract/Model"
import { Schedule } from "@stint/contract/Schedule"
import { Secret } from "@stint/contract/Secret"
import { reportChaos, SeededRandom } from "@stint/store-testing"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { gzipSync } from "node:zlib"
import { open } from "../src/RawSocket.ts"
import { ADMIN_KEY, layer, ServerTest } from "../src/ServerTest.ts"
import { type TestEndpoint, until } from "../src/TestEndpoint.ts"
import { expectJson, make as makeClient } from "../src/WireClient.ts"
import { BODY_OPERATIONS, BOMBS } from "./HostileBodies.ts"
import { OPERATIONS } from "./OpenApiResponses.ts"
import { mutate, recorder } from "./RecordedRequests.ts"
import { isWorkerPath } from "./WorkerPaths.ts"

/** How long each of the two generators runs. */
const MILLIS = (SeededRandom.chaosMinutes() ?? 1 / 3) * 30_000

/** A request that takes longer is repeated. If it takes that long each time, it counts as hanging. */
const HANG_MILLIS = 1_000
const HANG_REPEATS = 3

/** Growth of the heap that is not a leak: compiled code, caches, and keys and drafts that the requests created. */
const GROWTH_BYTES = 12_000_000
const GROWTH_BYTES_PER_REQUEST = 100

const BOMB_SIZE = 20_000

const SHORT = { minWaitMs: 1, maxWaitMs: 5, syncWaitMs: 5, streamWaitMs: 5, workerWaitMs: 5, headWaitMs: 1 } as const

const collectGarbage = (() => {
  setFlagsFromString("--expose-gc")
  const collect: unknown = runInNewContext("gc")
  return () => {
    if (typeof collect === "function") Reflect.apply(collect, undefined, [])
  }
})()

const heapBytes = Effect.gen(function*() {
  for (let i = 0; i < 3; i++) {
    yield* Effect.sleep(50)
    collectGarbage()
  }
  return process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers
})

/** All statuses in the bytes that a connection received. */
const statusesIn = (received: string): ReadonlyArray<number> =>
  Array.from(received.matchAll(/HTTP\/1\.1 (\d{3}) /g), ([, status]) => Number(status))

/** 5xx statuses that the document declares, except for 500 with the type of a defect. */
const DECLARED = new Set(OPERATIONS.flatMap(({ operation }) => Object.keys(operation.responses).map(Number)))

/** Sends bytes, closes the sending side, and returns everything received when the server has closed its side, with the time it took. */
const exchange = (baseUrl: string, bytes: Uint8Array) =>
  Effect.gen(function*() {
    const socket = yield* open(baseUrl)
    const start = performance.now()
    yield* socket.write(bytes)
    yield* socket.halfClose
    const received = yield* Effect.timeoutOption(socket.closed, 10 * HANG_MILLIS)
    return { millis: performance.now() - start, received: received._tag === "Some" ? received.value : undefined }
  }).pipe(Effect.scoped)

/** Checks the responses to these bytes. */
const check = Effect.fnUntraced(function*(baseUrl: string, bytes: Uint8Array) {
  const what = () => JSON.stringify(Buffer.from(bytes).toString("latin1").slice(0, 3_000))
  let first = yield* exchange(baseUrl, bytes)
  for (let repeat = 1; repeat < HANG_REPEATS && first.millis > HANG_MILLIS; repeat++) first = yield* exchange(baseUrl, bytes)
  expect(first.millis, `the server took ${Math.round(first.millis)} ms for ${what()}`).toBeLessThan(HANG_MILLIS)
  const received = first.received ?? ""
  for (const status of statusesIn(received)) {
    if (status < 500) continue
    expect(DECLARED.has(status) && !received.includes("/problems/internal"), `${status} for ${what()}: ${received}`).toBe(true)
  }
  return received
})

/** Values of path parameters and queries. */
const word = fc.oneof(
  fc.constantFrom(
    "none",
    "w-1",
    "",
    "%zz",
    "..",
    "__proto__",
    "a%2Fb",
    "é",
    "&a=b",
    "x".repeat(300),
    "batch_1",
    "0123456789abcdef"
  ),
  fc.string({ unit: "binary", maxLength: 10 }).map(encodeURIComponent)
)

const query = fc.oneof(
  { weight: 3, arbitrary: fc.constant("") },
  {
    weight: 1,
    arbitrary: fc.array(
      fc.tuple(
        fc.constantFrom(
          "wait",
          "explain",
          "limit",
          "offset",
          "cursor",
          "status",
          "tag",
          "createdAfter",
          "events",
          "lastEventId",
          "after",
          "level",
          "batch_size",
          "job_id",
          "chunk",
          "attempt",
          "job_in_progress",
          "prefix",
          "state",
          "job",
          "from",
          "reason",
          "since",
          "release",
          "sinceRelease"
        ),
        fc.oneof(
          word,
          fc.integer().map(String),
          fc.constantFrom("1e9", "NaN", "-1", "true", "v1.1.a", "exiting", "unhealthy", "debug")
        )
      ).map(([name, value]) => `${name}=${value}`),
      { maxLength: 4 }
    ).map((pairs) => `?${pairs.join("&")}`)
  }
)

const headers = fc.subarray([
  "content-type: application/x-www-form-urlencoded",
  "content-type: multipart/form-data; boundary=x",
  "idempotency-key: fuzz",
  "idempotency-key: \u00e9",
  "expect: 100-continue",
  "last-event-id: 5",
  "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  "origin: https://example.com",
  "accept-encoding: gzip",
  "x-forwarded-for: 1.2.3.4"
], { maxLength: 3 })

/** One request: an operation with a body in which one value is replaced, or with any body. */
const generated = (() => {
  const withBody = fc.constantFrom(...BODY_OPERATIONS).chain((operation) =>
    fc.tuple(
      fc.constantFrom(...operation.paths),
      fc.oneof(
        { weight: 3, arbitrary: fc.json({ maxDepth: 3 }) },
        { weight: 1, arbitrary: fc.constantFrom(...Object.values(BOMBS)).map((bomb) => bomb(BOMB_SIZE)) },
        {
          weight: 1,
          arbitrary: fc.constantFrom("1e400", "null", "\"\"", "-0", "[]", "{}", "\"\\ud800\"", "1.5", "9007199254740993", "NaN")
        }
      )
    ).map(([path, value]) => ({ operation, body: operation.body(path, value) }))
  )
  const anyBody = fc.tuple(fc.constantFrom(...OPERATIONS), fc.oneof(fc.constant(""), fc.string({ unit: "binary" }), fc.json()))
    .map(([operation, body]) => ({ operation, body }))
  return fc.record({
    request: fc.oneof({ weight: 2, arbitrary: withBody }, { weight: 1, arbitrary: anyBody }),
    words: fc.array(word, { minLength: 4, maxLength: 4 }),
    isReal: fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
    query,
    headers,
    encoding: fc.constantFrom("", "", "", "", "gzip", "chunked", "br"),
    key: fc.constantFrom("right", "right", "right", "right", "wrong", "none")
  })
})()

type Generated = typeof generated extends fc.Arbitrary<infer A> ? A : never

/** Requests that change or delete an endpoint use a separate endpoint, because all other requests need the first endpoint. */
const idsFor = ({ method, template }: { readonly method: string; readonly template: string }, real: Ids): Ids =>
  template.startsWith("/api/v1/endpoints/{endpoint}") && method !== "GET" ? { ...real, endpoint: "changed" } : real

/** The cache has no models, because no hub has this model. */
const MODEL = { owner: "openai", name: "whisper-large-v3" }

/** The ids of things that exist, by the name of their parameter. */
type Ids = Readonly<Record<string, string>>

/** The key that an operation accepts. */
const rightKey = (template: string, { agent, worker }: { readonly worker: string; readonly agent: string }): string =>
  isWorkerPath(template)
    ? worker
    : /\/agents\/\{agent\}\/(?:report|changes|code)/.test(template)
    ? agent
    : `Bearer ${ADMIN_KEY}`

/** The bytes of a generated request. `real` maps parameters to ids that exist. */
const bytesOf = (one: Generated, real: Ids, keys: { readonly worker: string; readonly agent: string }): Buffer => {
  const { operation } = one.request
  let at = 0
  const path = operation.template.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const place = at++ % 4
    return (one.isReal[place] ? idsFor(operation, real)[name] : one.words[place]) ?? "none"
  })
  const right = rightKey(operation.template, keys)
  const plain = Buffer.from(one.request.body)
  const body = one.encoding === "gzip"
    ? gzipSync(plain)
    : one.encoding === "chunked"
    ? Buffer.concat([Buffer.from(`${plain.length.toString(16)}\r\n`), plain, Buffer.from("\r\n0\r\n\r\n")])
    : plain
  return Buffer.concat([
    Buffer.from(
      [
        `${operation.method} ${path}${one.query} HTTP/1.1`,
        "host: fuzz",
        ...(one.key === "none" ? [] : [`authorization: ${one.key === "wrong" ? "wrong" : right}`]),
        ...one.headers,
        ...(one.encoding === "gzip" || one.encoding === "br" ? [`content-encoding: ${one.encoding}`] : []),
        one.encoding === "chunked" && plain.length > 0 ? "transfer-encoding: chunked" : `content-length: ${body.length}`,
        "",
        ""
      ].join("\r\n"),
      "latin1"
    ),
    one.encoding === "chunked" && plain.length === 0 ? Buffer.alloc(0) : body
  ])
}

const EndpointList = Schema.Struct({ endpoints: Schema.Array(Endpoint) })
const ScheduleList = Schema.Struct({ schedules: Schema.Array(Schedule) })
const SecretList = Schema.Struct({ secrets: Schema.Array(Secret) })

describe("chaos: hostile requests", () => {
  it.live("get declared responses in time, and leave no memory behind", (context) =>
    Effect.gen(function*() {
      const seed = SeededRandom.runSeed()
      const random = SeededRandom.seededRandom(seed)
      const server = yield* ServerTest
      const endpoint = yield* server.endpoint({ leaseMs: 3_000, retentionMs: 1_000, ttlMs: 10_000, maxAttempts: 2 })
      const worker = yield* endpoint.worker("w-1")
      const { id } = yield* endpoint.run({})
      const hash = "a".repeat(64)
      const graph = { name: "letters", nodes: [{ address: "write", kind: "step" }] }
      yield* worker.call(new URL(endpoint.path("run-journal/w-1"), worker.addresses.stop).href, {
        json: { definitions: [{ hash, graph }], runs: [] }
      })
      yield* worker.next
      yield* worker.deliver(id, { error: "bad" })
      const { groups: [group] } = yield* Effect.flatMap(
        server.call(`/api/v1/errors?endpoint=${endpoint.id}`),
        expectJson(200, ErrorGroupList)
      )
      yield* endpoint.retry(id)
      const real: Ids = {
        endpoint: endpoint.id,
        id,
        job: id,
        worker: "w-1",
        route: "chat/completions",
        hash,
        agent: "rack-1",
        fingerprint: group?.fingerprint ?? "none",
        ...MODEL
      }
      const { secret } = yield* Effect.flatMap(
        server.call("/api/v1/keys", { json: { name: "rack", scopes: ["agent"], endpoints: "all" } }),
        expectJson(201, NewKey)
      )
      const keys = { worker: worker.key, agent: secret }
      let requests = 0

      /** Records one connection for each request that a client sends to each operation. */
      const record = Effect.gen(function*() {
        const proxy = yield* recorder(server.baseUrl)
        const admin = makeClient(proxy.baseUrl, `Bearer ${ADMIN_KEY}`)
        const examples = new Map(BODY_OPERATIONS.map(({ example, name }) => [name, example]))
        for (const { method, name, template } of OPERATIONS) {
          const path = template.replaceAll(/\{(\w+)\}/g, (_, parameter: string) =>
            idsFor({ method, template }, real)[parameter] ?? "none")
          const json = examples.get(name)
          yield* admin(path, {
            method,
            headers: { connection: "close" },
            ...(json === undefined ? {} : { json }),
            authorization: rightKey(template, keys)
          })
        }
        return proxy.requests()
      }).pipe(Effect.scoped)

      const generate = (millis: number) =>
        Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(fc.array(generated, { minLength: 1, maxLength: 8 }), (all) => {
              requests += all.length
              return Effect.runPromise(
                Effect.forEach(all, (one) =>
                  check(server.baseUrl, bytesOf(one, real, keys)), {
                  concurrency: "unbounded",
                  discard: true
                })
              )
            }),
            { seed, numRuns: 1_000_000_000, endOnFailure: true, plugins: [fc.interruptAfterTimeLimit(millis)] }
          )
        )

      const damage = Effect.fnUntraced(function*(recorded: ReadonlyArray<Buffer>, millis: number) {
        const end = performance.now() + millis
        yield* Effect.forEach(
          Array.from({ length: 4 }),
          () =>
            Effect.gen(function*() {
              while (performance.now() < end) {
                requests++
                const request = recorded[Math.floor(random() * recorded.length)]
                if (request !== undefined) yield* check(server.baseUrl, mutate(request, recorded, random))
              }
            }),
          { concurrency: "unbounded", discard: true }
        )
      })

      /** Deletes what the requests created, and waits until all jobs have been removed. */
      const cleanUp = Effect.gen(function*() {
        const { endpoints } = yield* Effect.flatMap(server.call("/api/v1/endpoints"), expectJson(200, EndpointList))
        for (const other of endpoints) {
          yield* server.call(`/v2/${other.id}/purge-queue`, { method: "POST" })
          if (other.id !== endpoint.id) yield* server.call(`/api/v1/endpoints/${other.id}`, { method: "DELETE" })
        }
        const { schedules } = yield* Effect.flatMap(server.call("/api/v1/schedules"), expectJson(200, ScheduleList))
        for (const { endpoint, name } of schedules) {
          yield* server.call(`/api/v1/endpoints/${endpoint}/schedules/${name}`, { method: "DELETE" })
        }
        const { secrets } = yield* Effect.flatMap(server.call("/api/v1/secrets"), expectJson(200, SecretList))
        for (const { name } of secrets) yield* server.call(`/api/v1/secrets/${name}`, { method: "DELETE" })
        const { models } = yield* Effect.flatMap(server.call("/api/v1/models"), expectJson(200, ModelCache))
        for (const { model } of models) yield* server.call(`/api/v1/models/${model}`, { method: "DELETE" })
        const isEmpty = Effect.map(
          endpoint.health,
          ({ jobs }: Effect.Success<TestEndpoint["health"]>) =>
            jobs.inQueue + jobs.inProgress + jobs.completed + jobs.failed === 0
        )
        yield* Effect.retry(until(Effect.andThen(endpoint.purge, isEmpty), (empty) => empty), { times: 2 })
      })

      const recorded = yield* record
      expect(recorded.length).toBeGreaterThanOrEqual(OPERATIONS.length)
      // Compiles the code and fills the caches.
      yield* generate(2_000)
      yield* damage(recorded, 2_000)
      yield* cleanUp
      const before = yield* heapBytes
      requests = 0

      yield* generate(MILLIS)
      yield* damage(recorded, MILLIS)
      yield* cleanUp
      const growth = (yield* heapBytes) - before
      yield* Effect.sync(() => {
        process.stdout.write(`${requests} requests with seed ${seed}; the heap grew by ${Math.round(growth / 1e5) / 10} MB\n`)
      })
      reportChaos(context, { requests, "heap growth in kB": Math.round(growth / 1e3) })
      expect(requests).toBeGreaterThan(500)
      expect((yield* server.logs).filter((line) => line.includes("defect in the platform"))).toEqual([])
      expect(growth, `after ${requests} requests with seed ${seed}`).toBeLessThan(
        GROWTH_BYTES + GROWTH_BYTES_PER_REQUEST * requests
      )
      expect(yield* server.works).toBe(true)
    }).pipe(Effect.provide(layer({
      limits: { ...SHORT, refusalWaitMs: 0, openAiHeadWaitMs: 5, heartbeatMs: 20 },
      listen: { gracefulShutdownTimeout: "1 second" }
    }))), 2 * MILLIS + 90_000)
})

/**
 * Tests batches on the wire (docs/spec/batches.md#batch-object).
 */
import { expect } from "@effect/vitest"
import { Batch, BatchReceipt, BatchResults } from "@stint/contract/Batch"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { type Settings, until } from "../TestEndpoint.ts"
import { type Call, expectJson, expectProblem } from "../WireClient.ts"

const answers = {
  receipt: expectJson(200, BatchReceipt),
  batch: expectJson(200, Batch),
  batches: expectJson(200, Schema.Array(Batch)),
  results: expectJson(200, BatchResults)
}

const s3 = { accessId: "a", accessSecret: "b", bucketName: "c", endpointUrl: "http://127.0.0.1:9" }

const inputs = (count: number) => Array.from({ length: count }, (_, number) => ({ input: { number } }))

const make = Effect.fnUntraced(function*(settings?: Settings) {
  const server = yield* ServerTest
  const endpoint = yield* server.endpoint(settings)
  const call = (rest: string, options?: Call) => endpoint.call(endpoint.path(`batch${rest}`), options)
  return {
    server,
    endpoint,
    call,
    create: (json: unknown) => Effect.flatMap(call("", { json }), answers.receipt),
    get: (id: string) => Effect.flatMap(call(`/${id}`), answers.batch),
    add: (id: string, json: unknown) => Effect.flatMap(call(`/${id}/requests`, { json }), answers.batch),
    finalize: (id: string) => Effect.flatMap(call(`/${id}/finalize`, { method: "POST" }), answers.batch),
    cancel: (id: string) => Effect.flatMap(call(`/${id}/cancel`, { method: "POST" }), answers.batch),
    results: (id: string, query = "") => Effect.flatMap(call(`/${id}/requests${query}`), answers.results)
  }
})

/** Registers the tests for batches. */
export const batches = (it: ServerIt): void => {
  it.effect("batch: an array creates a draft, which accepts requests, is finalized, runs, and becomes COMPLETED with every result", () =>
    Effect.gen(function*() {
      const { add, create, endpoint, finalize, get, results } = yield* make()
      const { id, status } = yield* create(inputs(2))
      expect(id).toMatch(/^batch_/)
      expect(status).toBe("DRAFT")
      expect(yield* add(id, { requests: [{ input: { number: 2 } }] })).toMatchObject({ status: "DRAFT", requestTotal: 3 })
      const worker = yield* endpoint.worker()
      expect(yield* worker.take()).toBe(undefined)
      const started = yield* finalize(id)
      const { createdAt, finalizedAt, ...rest } = started
      expect(rest).toEqual({
        id,
        endpointId: endpoint.id,
        status: "FINALIZED",
        requestTotal: 3,
        requestInProgress: 0,
        requestCompleted: 0,
        requestFailed: 0,
        requestCancelled: 0
      })
      expect(Math.abs(createdAt - Date.now())).toBeLessThan(60_000)
      expect(finalizedAt).toBeGreaterThanOrEqual(createdAt)
      const taken = yield* worker.takeBatch(3)
      expect(taken.map(({ batchId, input }) => [batchId, input])).toEqual([0, 1, 2].map((number) => [id, { number }]))
      expect(yield* get(id)).toMatchObject({ status: "FINALIZED", requestInProgress: 3 })
      const [first, second, third] = taken.map((job) => job.id)
      yield* worker.finish(first ?? "", { square: 0 })
      yield* worker.deliver(second ?? "", { error: "no such number" })
      yield* worker.finish(third ?? "", [null, 2])
      const ended = yield* get(id)
      expect(ended).toMatchObject({ status: "COMPLETED", requestInProgress: 0, requestCompleted: 2, requestFailed: 1 })
      expect(ended.completedAt).toBeGreaterThanOrEqual(finalizedAt ?? 0)
      const page = yield* results(id)
      expect(page).toMatchObject({ total: 3, offset: 0, limit: 50, hasMore: false })
      expect(page.requests.map((one) => [one.id, one.status, one.output, one.error])).toEqual([
        [first, "COMPLETED", { square: 0 }, undefined],
        [second, "FAILED", undefined, "no such number"],
        [third, "COMPLETED", [null, 2], undefined]
      ])
      for (const one of page.requests) expect(one.completedAt).toBeGreaterThanOrEqual(one.startedAt ?? Infinity)
      expect(yield* endpoint.status(first ?? "")).toMatchObject({ status: "COMPLETED", output: { square: 0 } })
      const listed = (yield* endpoint.call(endpoint.path("requests"))).json as { readonly requests: ReadonlyArray<unknown> }
      expect(listed.requests).toMatchObject([{ batchId: id }, { batchId: id }, { batchId: id }])
    }))

  it.effect("batch: a draft may start empty, from an array or an object, with a name, a webhook and a policy", () =>
    Effect.gen(function*() {
      const { add, create, get, endpoint, finalize } = yield* make()
      const empty = yield* create([])
      expect(yield* get(empty.id)).toMatchObject({ status: "DRAFT", requestTotal: 0 })
      expect(yield* finalize(empty.id)).toMatchObject({ status: "COMPLETED", requestTotal: 0 })
      const { id } = yield* create({ name: "nightly", webhook: "https://example.com/done", policy: { executionTimeout: 20_000 } })
      expect(yield* get(id)).toMatchObject({ name: "nightly", webhook: "https://example.com/done" })
      yield* add(id, [{ input: {} }, { input: 1, priority: 50, tags: ["first"], s3Config: s3, unknown: true }])
      yield* finalize(id)
      const worker = yield* endpoint.worker()
      expect(yield* worker.takeBatch(2)).toMatchObject([{ input: 1, s3Config: s3 }, { input: {} }])
    }))

  it.effect("batch: finalizing twice changes nothing, and its counters reach the total when it ends", () =>
    Effect.gen(function*() {
      const { create, endpoint, finalize, get } = yield* make()
      const { id } = yield* create(inputs(20))
      yield* Effect.all([finalize(id), finalize(id), finalize(id)], { concurrency: "unbounded" })
      expect((yield* endpoint.health).jobs.inQueue).toBe(20)
      const worker = yield* endpoint.worker()
      yield* worker.serve(({ input }) => Effect.succeed({ output: input }))
      const ended = yield* until(get(id), (batch) => batch.requestCompleted + batch.requestFailed === batch.requestTotal)
      expect(ended).toMatchObject({ status: "COMPLETED", requestCompleted: 20, requestFailed: 0 })
      expect(yield* finalize(id)).toEqual(ended)
      expect((yield* endpoint.health).jobs).toMatchObject({ completed: 20, inQueue: 0 })
    }))

  it.effect("batch: requests are paged by offset and limit, with a default of 50 and a maximum of 200", () =>
    Effect.gen(function*() {
      const { call, create, results } = yield* make()
      const { id } = yield* create(inputs(120))
      const seen: Array<string> = []
      let more = true
      while (more) {
        const page = yield* results(id, `?offset=${seen.length}`)
        expect(page).toMatchObject({ total: 120, offset: seen.length, limit: 50 })
        seen.push(...page.requests.map((one) => one.id))
        more = page.hasMore
      }
      expect(new Set(seen).size).toBe(120)
      const page = yield* results(id, "?offset=118&limit=7")
      expect(page).toMatchObject({ offset: 118, limit: 7, hasMore: false })
      expect(page.requests).toEqual(seen.slice(118).map((one) => ({ id: one, status: "IN_QUEUE" })))
      expect((yield* results(id, "?offset=500")).requests).toEqual([])
      for (const query of ["limit=0", "limit=201", "limit=x", "offset=-1"]) {
        expect((yield* Effect.flatMap(call(`/${id}/requests?${query}`), expectProblem(400))).errors?.[0]?.path).toEqual([
          query.split("=")[0]
        ])
      }
    }))

  it.effect("batch: one invalid request rejects the whole call and lists the path of every invalid value", () =>
    Effect.gen(function*() {
      const { call, create, get } = yield* make()
      const refused = (rest: string, json: unknown) => Effect.flatMap(call(rest, { json }), expectProblem(400))
      const wrong = [{ input: 1 }, { input: 2 }, {}, { input: 3, policy: { ttl: "soon" } }]
      for (const json of [wrong, { requests: wrong }]) {
        const problem = yield* refused("", json)
        expect(problem.errors?.map(({ path }) => path)).toEqual([["requests", 2, "input"], ["requests", 3, "policy", "ttl"]])
        expect(problem.error).toContain("requests[3].policy.ttl")
      }
      const { id } = yield* create([])
      yield* refused(`/${id}/requests`, { requests: wrong })
      yield* refused(`/${id}/requests`, { inputs: [] })
      yield* refused(`/${id}/requests`, { requests: [{ input: 1, webhook: "ftp://example.com" }] })
      const keyed = yield* refused(`/${id}/requests`, { requests: [{ input: 1 }, { input: 1, idempotencyKey: "a" }] })
      expect(keyed.errors?.[0]?.path).toEqual(["requests", 1, "idempotencyKey"])
      expect(yield* get(id)).toMatchObject({ requestTotal: 0 })
      for (
        const json of [
          null,
          "x",
          3,
          { webhook: 3 },
          { webhook: "http://example.com/\u0000" },
          { requests: {} },
          { policy: { ttl: 1 } },
          { name: 3 },
          {
            name: "\u001b[2J"
          }
        ]
      ) {
        yield* refused("", json)
      }
      expect((yield* Effect.flatMap(call("", { body: "[{\"input\":" }), expectProblem(400))).error).toContain("not JSON")
      expect((yield* Effect.flatMap(call(`/${id}`, { method: "PUT", json: { name: 3 } }), expectProblem(400))).errors?.[0]?.path)
        .toEqual(["name"])
    }))

  it.effect("batch: payloads cross the server unchanged", () =>
    Effect.gen(function*() {
      const { call, create, endpoint, finalize } = yield* make()
      const odd = "{ \"b\": 18446744073709551615, \"1\": [1e300, \"]},{\\\"\"], \"b\": -0.0 }"
      const { id } = yield* create([])
      yield* call(`/${id}/requests`, { body: `{"requests": [ {"input" : ${odd}} , {"x":1,"input":[]}, {"input":"\\u005b"} ] }` })
      const array = yield* Effect.flatMap(call("", { body: ` [ {"input":${odd}} ,{"input": 1.0 }]` }), answers.receipt)
      yield* finalize(id)
      yield* finalize(array.id)
      const worker = yield* endpoint.worker()
      const answer = yield* worker.call(`${worker.addresses.takeBatch}&batch_size=5&job_in_progress=1`)
      const found = [...answer.text.matchAll(/"input":(.*?),"delayTime"/g)].map((match) => match[1])
      expect(found).toEqual([odd, "[]", "\"\\u005b\"", odd, "1.0"])
    }))

  it.effect("batch: a request can be removed from a draft only", () =>
    Effect.gen(function*() {
      const { call, create, finalize, results } = yield* make()
      const { id } = yield* create(inputs(2))
      const drop = (request: string) => call(`/${id}/requests/${request}`, { method: "DELETE" })
      const [first, second] = (yield* results(id)).requests.map((one) => one.id)
      expect(yield* Effect.flatMap(drop(first ?? ""), answers.batch)).toMatchObject({ requestTotal: 1 })
      expect((yield* Effect.flatMap(drop(first ?? ""), expectProblem(404))).type).toBe("/problems/batch-not-found")
      yield* finalize(id)
      expect((yield* Effect.flatMap(drop(second ?? ""), expectProblem(409))).error).toContain("FINALIZED")
      yield* Effect.flatMap(call(`/${id}/requests`, { json: { requests: inputs(1) } }), expectProblem(409))
      expect((yield* results(id)).requests.map((one) => one.id)).toEqual([second])
    }))

  it.effect("batch: PUT sets the name or the webhook, and null removes them", () =>
    Effect.gen(function*() {
      const { call, create } = yield* make()
      const { id } = yield* create({ name: "one", webhook: "https://example.com/a" })
      const put = (json: unknown) => Effect.flatMap(call(`/${id}`, { method: "PUT", json }), answers.batch)
      expect(yield* put({ name: "two" })).toMatchObject({ name: "two", webhook: "https://example.com/a" })
      expect(yield* put({ webhook: "https://example.com/b" })).toMatchObject({ name: "two", webhook: "https://example.com/b" })
      const bare = yield* put({ name: null, webhook: null })
      expect(bare).not.toHaveProperty("name")
      expect(bare).not.toHaveProperty("webhook")
    }))

  it.effect("batch: cancel cancels waiting requests, lets running ones finish, and reports CANCELLED at once", () =>
    Effect.gen(function*() {
      const { cancel, create, endpoint, finalize, get, results, call } = yield* make()
      const { id } = yield* create(inputs(4))
      yield* finalize(id)
      const worker = yield* endpoint.worker()
      const job = yield* worker.next
      const cancelled = yield* cancel(id)
      expect(cancelled).toMatchObject({ status: "CANCELLED", requestInProgress: 1, requestFailed: 3, requestCancelled: 3 })
      expect(cancelled).not.toHaveProperty("completedAt")
      expect(yield* worker.stops).toEqual([])
      yield* worker.finish(job.id, "done")
      const ended = yield* get(id)
      expect(ended).toMatchObject({ status: "CANCELLED", requestCompleted: 1, requestFailed: 3 })
      expect(ended.completedAt).toBeGreaterThan(0)
      expect((yield* results(id)).requests.map((one) => one.status)).toEqual(["COMPLETED", "CANCELLED", "CANCELLED", "CANCELLED"])
      expect(yield* cancel(id)).toEqual(ended)
      yield* Effect.flatMap(call(`/${id}/finalize`, { method: "POST" }), expectProblem(409))
      const late = { method: "PUT", json: { webhook: "https://example.com/too-late" } }
      yield* Effect.flatMap(call(`/${id}`, late), expectProblem(409))
      const draft = yield* create(inputs(2))
      yield* cancel(draft.id)
      expect((yield* results(draft.id)).requests.map((one) => one.status)).toEqual(["CANCELLED", "CANCELLED"])
    }))

  it.effect("batch: its counters include single cancels, retries and purge-queue", () =>
    Effect.gen(function*() {
      const { create, endpoint, finalize, get, results } = yield* make()
      const { id } = yield* create(inputs(4))
      yield* finalize(id)
      const [first] = (yield* results(id)).requests
      yield* endpoint.cancel(first?.id ?? "")
      expect(yield* get(id)).toMatchObject({ requestFailed: 1, requestCancelled: 1 })
      const worker = yield* endpoint.worker()
      const job = yield* worker.next
      yield* worker.deliver(job.id, { error: "no" })
      expect((yield* endpoint.purge).removed).toBe(2)
      expect(yield* get(id)).toMatchObject({ status: "FAILED", requestFailed: 4, requestCancelled: 3 })
      yield* endpoint.retry(job.id)
      expect(yield* get(id)).toMatchObject({ status: "FINALIZED", requestFailed: 3 })
      yield* worker.next
      yield* worker.finish(job.id, "yes")
      expect(yield* get(id)).toMatchObject({ status: "COMPLETED", requestCompleted: 1, requestFailed: 3 })
    }))

  it.effect("batch: lists batches newest first, without the batches of other endpoints", () =>
    Effect.gen(function*() {
      const { call, create, get } = yield* make()
      const ids: Array<string> = []
      for (let at = 0; at < 3; at++) ids.unshift((yield* create([])).id)
      const list = (query: string) => Effect.map(Effect.flatMap(call(query), answers.batches), (all) => all.map((one) => one.id))
      expect(yield* list("")).toEqual(ids)
      expect(yield* list("?offset=1&limit=1")).toEqual(ids.slice(1, 2))
      expect(yield* get(ids[0] ?? "")).toMatchObject({ status: "DRAFT" })
      const other = yield* make()
      expect(yield* Effect.flatMap(other.call(""), answers.batches)).toEqual([])
      for (const [method, rest] of [["GET", ""], ["POST", "/finalize"], ["POST", "/cancel"], ["GET", "/requests"]] as const) {
        const problem = yield* Effect.flatMap(other.call(`/${ids[0]}${rest}`, { method }), expectProblem(404))
        expect(problem.type).toBe("/problems/batch-not-found")
      }
      yield* Effect.flatMap(call(`/${ids[0]}`, { method: "PATCH" }), expectProblem(405))
    }))

  it.effect("batch: rejects calls, batches and endpoints that exceed the size, request and batch limits, with a hint", () =>
    Effect.gen(function*() {
      const { add, call, create, get, server } = yield* make()
      const { id } = yield* create([])
      const large = yield* Effect.flatMap(
        call(`/${id}/requests`, { json: { requests: [{ input: "x".repeat(10 * 1024 * 1024) }] } }),
        expectProblem(413)
      )
      expect(large).toMatchObject({ limit: 10 * 1024 * 1024 })
      expect((yield* Effect.flatMap(call("", { json: inputs(5_001) }), expectProblem(409))).error).toContain("5000")
      yield* add(id, { requests: inputs(5_000) })
      expect((yield* Effect.flatMap(call(`/${id}/requests`, { json: inputs(1) }), expectProblem(409))).error).toContain("5000")
      expect(yield* get(id)).toMatchObject({ requestTotal: 5_000 })
      for (let at = 0; at < 9; at++) yield* create([])
      const many = yield* Effect.flatMap(call("", { json: [] }), expectProblem(409))
      expect(many.error).toContain("10 batches")
      yield* call(`/${id}/cancel`, { method: "POST" })
      yield* create([])
      expect(yield* server.works).toBe(true)
    }))

  it.effect("batch: an endpoint with a running batch cannot be deleted, but an endpoint with drafts can", () =>
    Effect.gen(function*() {
      const { cancel, create, endpoint, finalize } = yield* make()
      yield* create(inputs(1))
      const { id } = yield* create(inputs(1))
      yield* finalize(id)
      const remove = endpoint.call(`/api/v1/endpoints/${endpoint.id}`, { method: "DELETE" })
      yield* Effect.flatMap(remove, expectProblem(409))
      yield* cancel(id)
      expect((yield* remove).status).toBe(204)
    }))

  it.effect("batch: its end appears in the endpoint's delivery log", () =>
    Effect.gen(function*() {
      const { create, endpoint, finalize } = yield* make()
      const { id } = yield* create({ webhook: "https://example.com/done" })
      yield* finalize(id)
      const log = yield* endpoint.call(`/api/v1/endpoints/${endpoint.id}/webhooks/deliveries?job=${id}`)
      expect(log.json).toMatchObject({ deliveries: [{ job: id, event: "batch.completed", url: "https://example.com/done" }] })
      const [delivery] = (log.json as { readonly deliveries: ReadonlyArray<{ readonly id: string }> }).deliveries
      const details = yield* endpoint.call(`/api/v1/endpoints/${endpoint.id}/webhooks/deliveries/${delivery?.id}`)
      expect(details.json).toMatchObject({ body: { id, status: "COMPLETED", requestTotal: 0 } })
    }))
}

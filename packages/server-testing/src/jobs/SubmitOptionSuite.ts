/**
 * Tests submit options: priority, tags, retries, idempotency keys, webhooks.
 */
import { expect } from "@effect/vitest"
import { JobReceipt } from "@stint/contract/Job"
import { JobQueue } from "@stint/queue/JobQueue"
import * as Effect from "effect/Effect"
import { dataOf } from "../EventReader.ts"
import type { ServerIt } from "../ServerIt.ts"
import { ADMIN_KEY, LIMITS, ServerTest } from "../ServerTest.ts"
import { expectJson, expectProblem } from "../WireClient.ts"

/** Registers the tests for submit options. */
export const submitOptions = (it: ServerIt): void => {
  it.effect("run: higher priorities are taken first, equal ones in submission order", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      for (const priority of [0, 5, -3, 5, 100]) yield* endpoint.run(priority, { priority })
      expect((yield* worker.takeBatch(5)).map(({ input }) => input)).toEqual([100, 5, 5, 0, -3])
    }))

  it.effect("run: policy.retry retries an error after its backoff, up to the maximum number of attempts", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const { id } = yield* endpoint.run({}, {
        policy: { retry: { maxAttempts: 2, onError: true, backoff: { initialMs: 20, factor: 1, maxMs: 20 } } }
      })
      yield* worker.next
      yield* worker.deliver(id, { error: "first" })
      expect(yield* endpoint.status(id)).toMatchObject({ status: "IN_QUEUE", retries: 1 })
      expect(yield* worker.next).toMatchObject({ id, attempt: 2 })
      yield* worker.deliver(id, { error: "second" })
      expect(yield* endpoint.status(id)).toMatchObject({ status: "FAILED", error: "second", retries: 1 })
    }))

  it.effect("run and batch: a job waits in the queue until its start time, and its explanation gives that time", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const startAt = new Date(Date.now() + 3_600_000).toISOString()
      for (const time of [startAt, Date.parse(startAt)]) {
        const sent = yield* endpoint.call(endpoint.path("run"), { json: { input: {}, startAt: time } })
        const { id, status } = yield* expectJson(200, JobReceipt)(sent)
        expect(status).toBe("IN_QUEUE")
        const { json } = yield* endpoint.call(endpoint.path(`status/${id}?explain`))
        expect(json).toMatchObject({ explain: { reason: "scheduled", startAt: Date.parse(startAt) } })
        expect(json).toMatchObject({ explain: { words: expect.stringContaining(`start at ${startAt}, in 60 min`) } })
      }
      const listed = yield* endpoint.call(endpoint.path("requests"))
      expect(listed.json).toMatchObject({ requests: [{ startAt: Date.parse(startAt) }, { startAt: Date.parse(startAt) }] })
      expect((yield* endpoint.health).jobs.inQueue).toBe(2)
      expect(yield* worker.take()).toBe(undefined)
      const soon = yield* endpoint.run("soon", { startAfterMs: 20 })
      expect(yield* worker.next).toMatchObject({ id: soon.id, input: "soon" })
      const created = yield* endpoint.call(endpoint.path("batch"), {
        json: [{ input: "batch", startAfterMs: 20 }, { input: 2, startAt }]
      })
      const { id } = created.json as { readonly id: string }
      yield* endpoint.call(endpoint.path(`batch/${id}/finalize`), { method: "POST" })
      expect(yield* worker.next).toMatchObject({ input: "batch", batchId: id })
      expect((yield* endpoint.health).jobs.inQueue).toBe(3)
    }))

  it.effect("run: stores a webhook with its events; a bare URL receives the completed event only", () =>
    Effect.gen(function*() {
      const queue = yield* JobQueue
      const one = yield* (yield* ServerTest).endpoint()
      const short = yield* one.run({}, { webhook: "https://example.com/a" })
      const long = yield* one.run({}, { webhook: { url: "https://example.com/b", events: ["start", "completed"] } })
      const webhookOf = (id: string) => Effect.map(queue.get(one.endpoint.id, id), ({ webhook }) => webhook)
      expect(yield* webhookOf(short.id)).toMatchObject({ url: "https://example.com/a", events: ["completed"] })
      expect(yield* webhookOf(long.id)).toMatchObject({ url: "https://example.com/b", events: ["start", "completed"] })
    }))

  it.effect("run: the same idempotency key and body return the same job in any state", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const send = endpoint.call(endpoint.path("run"), { json: { input: 1 }, headers: { "idempotency-key": "order 1" } })
      const first = yield* send
      expect((yield* send).json).toEqual(first.json)
      const { id } = first.json as { readonly id: string }
      expect((yield* worker.next).id).toBe(id)
      yield* worker.finish(id, "done")
      const again = yield* send
      expect([again.status, again.json, again.headers.get("x-job-id")]).toEqual([200, { id, status: "COMPLETED" }, id])
      expect((yield* endpoint.health).jobs).toMatchObject({ completed: 1, inQueue: 0 })
      // On another endpoint, the same text is a different key.
      const other = yield* (yield* ServerTest).endpoint()
      const elsewhere = yield* other.call(other.path("run"), { json: { input: 1 }, headers: { "idempotency-key": "order 1" } })
      expect(elsewhere.headers.get("x-job-id")).not.toBe(id)
    }))

  it.effect("run: concurrent requests with one key create one job", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const answers = yield* Effect.forEach(
        Array.from({ length: 12 }),
        () => endpoint.call(endpoint.path("run"), { json: { input: 1, idempotencyKey: "k" } }),
        { concurrency: "unbounded" }
      )
      expect(new Set(answers.map(({ headers }) => headers.get("x-job-id"))).size).toBe(1)
      expect((yield* endpoint.health).jobs.inQueue).toBe(1)
    }))

  it.effect("runsync: the same key waits for the same job and returns its result after it has ended", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const call = { json: { input: "once" }, headers: { "idempotency-key": "s" } }
      const send = (wait: number) => endpoint.call(endpoint.path(`runsync?wait=${wait}`), call)
      const first = yield* send(25)
      const id = first.headers.get("x-job-id")
      expect(first.json).toEqual({ id, status: "IN_QUEUE" })
      yield* worker.serve(() => Effect.succeed({ output: "result" }))
      expect((yield* send(10_000)).json).toMatchObject({ id, status: "COMPLETED", output: "result" })
      expect((yield* send(10_000)).json).toMatchObject({ id, status: "COMPLETED", output: "result" })
      expect((yield* endpoint.health).jobs).toMatchObject({ completed: 1, inQueue: 0 })
    }))

  it.effect("run: the same key with a different body returns 409 with the id of the key's job, and stores nothing", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const { id } = yield* endpoint.run(1, { idempotencyKey: "k" })
      for (
        const [operation, body] of [["run", { input: 2 }], ["run", { input: 1, priority: 1 }], ["runsync", { input: 2 }]] as const
      ) {
        const answer = yield* endpoint.call(endpoint.path(operation), { json: body, headers: { "idempotency-key": "k" } })
        const problem = yield* expectProblem(409)(answer)
        expect(problem.error).toContain(id)
        expect(problem.hint).toContain("another key")
      }
      expect((yield* endpoint.health).jobs.inQueue).toBe(1)
    }))

  it.effect("run: the key in the header takes precedence over the key in the body", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const send = (header: string, body: string) =>
        endpoint.call(endpoint.path("run"), { json: { input: 1, idempotencyKey: body }, headers: { "idempotency-key": header } })
      const first = yield* send("h", "b1")
      expect((yield* send("h", "b2")).headers.get("x-job-id")).toBe(first.headers.get("x-job-id"))
      expect((yield* send("h2", "b1")).headers.get("x-job-id")).not.toBe(first.headers.get("x-job-id"))
    }))

  it.effect("run: an option of a wrong type returns 400 with the path of the field, and stores nothing", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const cases: ReadonlyArray<readonly [path: ReadonlyArray<string | number>, rest: object]> = [
        [["priority"], { priority: "high" }],
        [["priority"], { priority: 101 }],
        [["priority"], { priority: 0.5 }],
        [["tags"], { tags: "one" }],
        [["tags", 1], { tags: ["one", ""] }],
        [["tags", 0], { tags: ["\u001b]0;title\u0007"] }],
        [["tags", 0], { tags: ["two\nlines"] }],
        [["tags", 0], { tags: ["\u202eesrever"] }],
        [["tags"], { tags: Array.from({ length: 17 }, (_, n) => `t${n}`) }],
        [["policy"], { policy: 1 }],
        [["policy", "ttl"], { policy: { ttl: 1 } }],
        [["policy", "retry", "maxAttempts"], { policy: { retry: { maxAttempts: 0 } } }],
        [["policy", "retry", "onError"], { policy: { retry: { onError: "yes" } } }],
        [["policy", "retry", "backoff", "initialMs"], { policy: { retry: { backoff: {} } } }],
        [["policy", "executionTimeout"], { policy: { executionTimeout: 4_999 } }],
        [["policy", "executionTimeout"], { policy: { executionTimeout: 604_800_001 } }],
        [["idempotencyKey"], { idempotencyKey: "ä" }],
        [["webhook", "events"], { webhook: { url: "http://a.b", events: Array.from({ length: 17 }, () => "start") } }],
        [["s3Config", "endpointUrl"], { s3Config: { accessId: "a", accessSecret: "b", bucketName: "c" } }],
        [["webhook"], { webhook: "ftp://example.com" }],
        [["webhook"], { webhook: "http://example.com/\u0000" }],
        [["webhook"], { webhook: "http://example.com/\n" }],
        [["webhook"], { webhook: "http://example.com/\ud800" }],
        [["webhook", "url"], { webhook: { url: "http://example.com/\u0000", events: ["start"] } }],
        [["webhook"], { webhook: 5 }],
        [["startAt"], { startAt: "tomorrow" }],
        [["startAt"], { startAt: "2026-11-21T08:00:00" }],
        [["startAt"], { startAt: Date.now() + 31 * 86_400_000 }],
        [["startAfterMs"], { startAfterMs: -1 }],
        [["startAfterMs"], { startAfterMs: 2_592_000_001 }],
        [["startAfterMs"], { startAfterMs: 1, startAt: 1 }]
      ]
      for (const [path, rest] of cases) {
        const answer = yield* endpoint.call(endpoint.path("run"), { json: { input: 1, ...rest } })
        const problem = yield* expectProblem(400)(answer)
        expect(problem.errors?.map((one) => one.path), JSON.stringify(rest)).toContainEqual(path)
      }
      const long = yield* endpoint.call(endpoint.path("run"), {
        json: { input: 1 },
        headers: { "idempotency-key": "k".repeat(256) }
      })
      expect((yield* expectProblem(400)(long)).errors?.[0]?.path).toEqual(["Idempotency-Key"])
      expect((yield* endpoint.health).jobs.inQueue).toBe(0)
    }))

  it.effect("run and batch: an option that is null or \"\" counts as absent", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const names = ["policy", "s3Config", "webhook", "priority", "tags", "idempotencyKey", "startAt", "startAfterMs"]
      const nested = { ttl: null, executionTimeout: "", retry: { maxAttempts: null, onError: "", backoff: null } }
      for (const absent of [null, ""]) {
        const options = Object.fromEntries(names.map((name) => [name, absent]))
        for (const rest of [options, { policy: nested }, { policy: { ...nested, retry: absent } }]) {
          const sent = yield* endpoint.call(endpoint.path("run"), { json: { input: absent, ...rest } })
          const { id } = yield* expectJson(200, JobReceipt)(sent)
          expect(yield* worker.next).toEqual({ id, input: absent, delayTime: expect.any(Number), attempt: 1 })
          expect((yield* endpoint.call(endpoint.path("batch"), { json: [{ input: absent, ...rest }] })).status).toBe(200)
        }
        const draft = yield* endpoint.call(endpoint.path("batch"), {
          json: { requests: absent, name: absent, webhook: absent, policy: absent }
        })
        expect(draft.status, draft.text).toBe(200)
      }
    }))

  it.effect("run: accepts an executionTimeout of 5 s to 7 days", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const executionTimeout of [5_000, 604_800_000]) yield* endpoint.run(1, { policy: { executionTimeout } })
    }))

  it.effect("run: the worker receives an s3Config exactly as it was sent, even without a bucket or with unknown keys", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const worker = yield* endpoint.worker()
      const configs = [
        "{\"accessId\": \"a\", \"accessSecret\": \"b\", \"endpointUrl\": \"https://s3\"}",
        "{\"accessId\":\"a\",\"accessSecret\":\"b\",\"endpointUrl\":\"https://s3\",\"bucketName\":null,\"region\":\"x\"}"
      ]
      for (const config of configs) {
        const sent = yield* endpoint.call(endpoint.path("run"), { body: `{"input":1,"s3Config":${config}}` })
        expect(sent.status, sent.text).toBe(200)
        expect((yield* worker.call(worker.addresses.take)).text).toContain(`"s3Config":${config}`)
      }
    }))

  it.effect("run: unknown options are ignored at any depth", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      const answer = yield* endpoint.call(endpoint.path("run"), {
        json: { input: 1, colour: "red", policy: { colour: 1, retry: { colour: 2 } }, webhook: { url: "http://a.b", colour: 3 } }
      })
      expect(answer.status).toBe(200)
    }))

  it.effect("run and runsync return the job's id in a header", () =>
    Effect.gen(function*() {
      const endpoint = yield* (yield* ServerTest).endpoint()
      for (const operation of ["run", "runsync?wait=25"]) {
        const answer = yield* endpoint.call(endpoint.path(operation), { json: { input: 1 } })
        expect(answer.headers.get("x-job-id"), operation).toBe((answer.json as { readonly id: string }).id)
      }
    }))

  it.effect("runsync: during a long wait the headers arrive first, with the job's id, and the body is the usual job", () =>
    Effect.gen(function*() {
      const { baseUrl, endpoint: make } = yield* ServerTest
      const endpoint = yield* make()
      const worker = yield* endpoint.worker()
      const response = yield* Effect.promise(() =>
        fetch(baseUrl + endpoint.path("runsync"), {
          method: "POST",
          body: "{\"input\":1}",
          headers: { authorization: `Bearer ${ADMIN_KEY}` }
        })
      )
      // The headers have arrived, and no worker has taken the job.
      expect(response.status).toBe(200)
      const id = response.headers.get("x-job-id") ?? ""
      expect(response.headers.get("content-type")).toMatch(/^application\/json/)
      expect((yield* endpoint.status(id)).status).toBe("IN_QUEUE")
      expect((yield* worker.next).id).toBe(id)
      yield* worker.finish(id, "late")
      const text = yield* Effect.promise(() => response.text())
      expect(yield* dataOf({ id: "", event: "", data: text })).toEqual(yield* endpoint.status(id))
      expect(text.startsWith("{\"id\":")).toBe(true)
    }))

  it.effect("runsync: a caller whose connection breaks continues with status-sync and the id from the header", () =>
    Effect.gen(function*() {
      const { baseUrl, endpoint: make } = yield* ServerTest
      const endpoint = yield* make()
      const worker = yield* endpoint.worker()
      const controller = new AbortController()
      const response = yield* Effect.promise(() =>
        fetch(baseUrl + endpoint.path("runsync"), {
          method: "POST",
          body: "{\"input\":1}",
          headers: { authorization: `Bearer ${ADMIN_KEY}` },
          signal: controller.signal
        })
      )
      controller.abort()
      const id = response.headers.get("x-job-id") ?? ""
      yield* worker.serve(() => Effect.succeed({ output: "kept" }))
      expect(yield* endpoint.statusSync(id, LIMITS.maxWaitMs)).toMatchObject({ id, status: "COMPLETED", output: "kept" })
    }))
}

/**
 * Tests what belongs to a key: idempotency keys and batches (docs/spec/authentication.md#what-belongs-to-a-key).
 */
import { expect } from "@effect/vitest"
import { NewKey } from "@stint/contract/AccessKey"
import { Batch, BatchReceipt } from "@stint/contract/Batch"
import { Job, JobReceipt } from "@stint/contract/Job"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { ServerIt } from "../ServerIt.ts"
import { ServerTest } from "../ServerTest.ts"
import { type Call, expectJson, expectProblem } from "../WireClient.ts"

const answers = {
  key: expectJson(201, NewKey),
  receipt: expectJson(200, JobReceipt),
  job: expectJson(200, Job),
  draft: expectJson(200, BatchReceipt),
  batch: expectJson(200, Batch),
  batches: expectJson(200, Schema.Array(Batch))
}

/** An endpoint and the secrets of two keys that are valid for it. */
const make = Effect.gen(function*() {
  const { call, endpoint } = yield* ServerTest
  const one = yield* endpoint()
  const secret = (name: string) =>
    Effect.map(
      Effect.flatMap(call("/api/v1/keys", { json: { name, endpoints: [one.id] } }), answers.key),
      (made) => made.secret
    )
  const as = (authorization: string) => (rest: string, options: Call = {}) => call(one.path(rest), { authorization, ...options })
  return { call, endpoint: one, ann: as(yield* secret("ann")), bob: as(yield* secret("bob")), secret }
})

/** Registers the tests. */
export const keyOwnership = (it: ServerIt): void => {
  it.effect("an idempotency key belongs to the access key: the same idempotency key sent with another access key creates another job", () =>
    Effect.gen(function*() {
      const { ann, bob, endpoint } = yield* make
      const run = { headers: { "idempotency-key": "order 17" }, json: { input: { card: "4111" } } }
      const first = yield* Effect.flatMap(ann("run", run), answers.receipt)
      const second = yield* Effect.flatMap(bob("run", run), answers.receipt)
      expect(second.id).not.toBe(first.id)
      expect((yield* Effect.flatMap(ann("run", run), answers.receipt)).id).toBe(first.id)
      // The response to another request with Ann's key does not reveal Ann's job.
      const other = yield* bob("run", { ...run, headers: { "idempotency-key": "order 18" } })
      yield* Effect.flatMap(
        ann("run", { ...run, headers: { "idempotency-key": "order 18" }, json: { input: 1 } }),
        answers.receipt
      )
      expect(other.status).toBe(200)
      const worker = yield* endpoint.worker()
      const ended = new Map<string, unknown>()
      for (let at = 0; at < 4; at += 1) {
        const { id, input } = yield* worker.next
        ended.set(id, input)
        yield* worker.finish(id, id)
      }
      expect(ended.size).toBe(4)
      const sync = (caller: typeof ann) => Effect.flatMap(caller("runsync", run), answers.job)
      expect(yield* sync(ann)).toMatchObject({ id: first.id, output: first.id })
      expect(yield* sync(bob)).toMatchObject({ id: second.id, output: second.id })
    }))

  it.effect("an idempotency key on the OpenAI route belongs to the access key", () =>
    Effect.gen(function*() {
      const { ann, bob, endpoint } = yield* make
      const worker = yield* endpoint.worker()
      const chat = (caller: typeof ann) =>
        caller("openai/v1/chat/completions", { headers: { "idempotency-key": "chat" }, json: { model: "m" } })
      const [one, , other] = yield* Effect.all([
        chat(ann),
        Effect.gen(function*() {
          for (let at = 0; at < 2; at += 1) {
            const { id } = yield* worker.next
            yield* worker.finish(id, { answer: id })
          }
        }),
        chat(bob)
      ], { concurrency: "unbounded" })
      expect(one.text).not.toBe(other.text)
      expect((yield* chat(ann)).text).toBe(one.text)
    }))

  it.effect("an idempotency key survives the rotation of its access key", () =>
    Effect.gen(function*() {
      const { call, endpoint } = yield* make
      const made = yield* Effect.flatMap(call("/api/v1/keys", { json: { name: "cy", endpoints: [endpoint.id] } }), answers.key)
      const run = (authorization: string) =>
        Effect.flatMap(
          call(endpoint.path("run"), { authorization, headers: { "idempotency-key": "k" }, json: { input: 1 } }),
          answers.receipt
        )
      const first = yield* run(made.secret)
      const rotated = yield* Effect.flatMap(
        call(`/api/v1/keys/${made.key.id}/rotate`, { method: "POST" }),
        expectJson(200, NewKey)
      )
      expect((yield* run(rotated.secret)).id).toBe(first.id)
    }))

  it.effect("a batch belongs to the access key that created it: other keys get 404 in every operation, and admin keys see it", () =>
    Effect.gen(function*() {
      const { ann, bob, call, endpoint } = yield* make
      const { id } = yield* Effect.flatMap(ann("batch", { json: [{ input: 1 }] }), answers.draft)
      const post = { method: "POST" }
      const attempts: ReadonlyArray<readonly [rest: string, options: Call]> = [
        [`batch/${id}`, {}],
        [`batch/${id}/requests`, {}],
        [`batch/${id}`, { method: "PUT", json: { name: "mine" } }],
        [`batch/${id}/requests`, { json: { requests: [{ input: 2 }] } }],
        [`batch/${id}/requests/x`, { method: "DELETE" }],
        [`batch/${id}/finalize`, post],
        [`batch/${id}/cancel`, post]
      ]
      for (const [rest, options] of attempts) {
        const problem = yield* Effect.flatMap(bob(rest, options), expectProblem(404))
        expect(problem.error, rest).toContain(id)
      }
      expect(yield* Effect.flatMap(bob("batch"), answers.batches)).toEqual([])
      const [seen] = yield* Effect.flatMap(ann("batch"), answers.batches)
      expect(seen).toMatchObject({ id, status: "DRAFT", requestTotal: 1 })
      expect(JSON.stringify(seen)).not.toContain("owner")
      expect((yield* Effect.flatMap(call(endpoint.path("batch")), answers.batches)).map((one) => one.id)).toEqual([id])
      expect(yield* Effect.flatMap(call(endpoint.path(`batch/${id}/cancel`), post), answers.batch)).toMatchObject({
        status: "CANCELLED"
      })
    }))

  it.effect("one key's open batches do not count against another key's limit", () =>
    Effect.gen(function*() {
      const { ann, bob } = yield* make
      const create = (caller: typeof ann) => caller("batch", { json: [] })
      for (let at = 0; at < 10; at += 1) expect((yield* create(ann)).status).toBe(200)
      expect((yield* create(ann)).status).toBe(409)
      expect((yield* create(bob)).status).toBe(200)
    }))
}

/**
 * Tests which payloads move, and that callers cannot see the difference.
 */
import { assert, describe, it } from "@effect/vitest"
import { JsonText, toJsonText } from "@stint/contract/Json"
import { MemoryPayloadStore } from "@stint/payloads"
import * as PayloadReference from "@stint/payloads/PayloadReference"
import type { Options } from "@stint/payloads/Payloads"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { outboxSuite, Scenario } from "@stint/store-testing"
import { JobStore } from "@stint/store/JobStore"
import { WebhookBodies } from "@stint/store/WebhookBodies"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as fc from "fast-check"
import * as PayloadFaults from "./PayloadFaults.ts"
import { OFFLOAD_ALL, type RowStores, withPayloads, withPayloadStore } from "./TestPayloads.ts"

const keys = Effect.flatMap(PayloadStore, (store) => Stream.runCollect(store.list(PayloadKey.make("test")))).pipe(
  Effect.map((all) => [...all])
)

const kindsOf = (all: ReadonlyArray<string>) =>
  all.map((key) => key.split("/")[3]?.split(".")[0] ?? key).toSorted((a, b) => a < b ? -1 : 1)

/** Replaces the stored webhook bodies with the bodies as they are sent. */
const wholeWebhooks = Layer.effect(
  WebhookStore,
  Effect.gen(function*() {
    const store = yield* WebhookStore
    const bodies = yield* WebhookBodies
    return WebhookStore.of({
      ...store,
      claimDue: (now, limit, leaseMs) =>
        Effect.flatMap(
          store.claimDue(now, limit, leaseMs),
          (all) => Effect.forEach(all, (one) => Effect.map(bodies.resolve(one.body), (body) => ({ ...one, body })))
        ),
      get: (endpoint, id) =>
        Effect.flatMap(
          store.get(endpoint, id),
          (one) => one === undefined ? Effect.succeed(one) : Effect.map(bodies.resolve(one.body), (body) => ({ ...one, body }))
        )
    })
  })
)

/** Registers the rules. */
export const offloadRules = (name: string, stores: RowStores, runs: number): void => {
  const faulty = PayloadFaults.layer(MemoryPayloadStore.layer)
  const world = (options: Options = OFFLOAD_ALL) =>
    JobQueue.layer.pipe(
      Layer.provideMerge(Layer.merge(withPayloadStore(stores, options, faulty), WorkerRegistry.layer))
    )

  outboxSuite(`${name} with payloads`, wholeWebhooks.pipe(Layer.provideMerge(withPayloads(stores))))

  describe(`payloads over ${name}`, () => {
    it.effect("moves payloads above the threshold and returns them to every reader; other payloads never use the payload store", () =>
      Effect.gen(function*() {
        const { calls } = yield* PayloadFaults.PayloadFaults
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
        const small = "x".repeat(80)
        const first = yield* submit({ input: toJsonText({ small }), s3Config: toJsonText({ small }) })
        assert.deepInclude(yield* takeOne("ann"), { input: toJsonText({ small }), s3Config: toJsonText({ small }) })
        yield* queue.progress(Scenario.holderOf(yield* queue.get(endpoint.id, first.id)), toJsonText("y".repeat(500)))
        yield* finish(yield* queue.get(endpoint.id, first.id), small)
        assert.deepInclude(yield* queue.get(endpoint.id, first.id), { status: "COMPLETED", output: toJsonText(small) })
        assert.deepStrictEqual(calls().filter(({ operation }) => operation !== "list"), [])

        const large = "x".repeat(101)
        const second = yield* submit({ input: toJsonText(large), s3Config: toJsonText({ large }) })
        assert.strictEqual(second.input, toJsonText(large))
        assert.deepStrictEqual(kindsOf(yield* keys), ["input", "s3config"])
        const taken = yield* takeOne("ann")
        assert.deepInclude(taken, { id: second.id, input: toJsonText(large), s3Config: toJsonText({ large }) })
        yield* finish(taken, { large })
        assert.deepStrictEqual(kindsOf(yield* keys), ["input", "output", "s3config"])
        assert.deepInclude(yield* queue.get(endpoint.id, second.id), { status: "COMPLETED", output: toJsonText({ large }) })
        assert.deepInclude((yield* queue.drain(endpoint.id, second.id, 0)).job, { output: toJsonText({ large }) })
        const told = yield* Stream.runCollect(queue.follow(endpoint.id, second.id))
        const end = [...told].at(-1)
        assert.strictEqual(end?._tag === "End" ? end.job.output : undefined, toJsonText({ large }))
      }).pipe(Effect.provide(world({ owner: "test", threshold: 100, cache: 0 }))))

    it.effect("counts the size of moved payloads toward the stored bytes of the endpoint, until the job is removed", () =>
      Effect.gen(function*() {
        const { finish, queue, submit, takeOne } = yield* Scenario.make({ limits: { storedBytes: 10_000 } })
        const used = Effect.map(
          Effect.flip(submit({ input: toJsonText("x".repeat(20_000)) })),
          (error) => error._tag === "QuotaExceeded" ? [error.used, error.size] : []
        )
        yield* submit({ input: toJsonText("é".repeat(999)), s3Config: toJsonText("x".repeat(998)) })
        assert.deepStrictEqual(yield* used, [3_000, 20_002])
        yield* finish(yield* takeOne("ann"), "y".repeat(4_998))
        assert.deepStrictEqual(yield* used, [8_000, 20_002])
        // The payloads of refused submissions are not kept.
        assert.deepStrictEqual(kindsOf(yield* keys), ["input", "output", "s3config"])
        yield* Scenario.pass(600_000)
        while (yield* queue.tick);
        assert.deepStrictEqual(yield* used, [0, 20_002])
      }).pipe(Effect.provide(world({ owner: "test", threshold: 100, cache: 0 }))))

    it.effect("never calls the payload store for lists, queue positions, counts, timers, cancels and heartbeats", () =>
      Effect.gen(function*() {
        const { calls, failNext } = yield* PayloadFaults.PayloadFaults
        const { endpoint, queue, submit, takeOne } = yield* Scenario.make()
        const [first, second] = [yield* submit(), yield* submit()]
        yield* takeOne("ann")
        const before = calls().length
        yield* failNext("get", Infinity)
        assert.strictEqual((yield* queue.list(endpoint.id)).jobs.length, 2)
        yield* queue.depth(endpoint.id)
        yield* queue.heartbeat(endpoint.id, "ann", [first.id])
        assert.strictEqual((yield* queue.position(endpoint.id, second.id)).ahead?.jobs, 0)
        yield* queue.cancel(endpoint.id, second.id)
        yield* queue.workerGone(endpoint.id, "ann", "It was killed.")
        yield* queue.tick
        assert.strictEqual(calls().length, before)
      }).pipe(Effect.provide(world())))

    it.effect("does not fetch a payload again that was just written or read, unless it is too large for the cache", () =>
      Effect.gen(function*() {
        const { calls } = yield* PayloadFaults.PayloadFaults
        const gets = () => calls().filter(({ operation }) => operation === "get").length
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make()
        const { id } = yield* submit({ input: toJsonText("in") })
        yield* finish(yield* takeOne("ann"), "out")
        assert.deepInclude(yield* queue.get(endpoint.id, id), { output: toJsonText("out") })
        assert.strictEqual(gets(), 0)
        const large = yield* submit({ input: toJsonText("x".repeat(300)) })
        assert.strictEqual((yield* takeOne("ann")).id, large.id)
        assert.strictEqual(gets(), 1)
      }).pipe(Effect.provide(world({ owner: "test", threshold: 0, cache: 1_000 }))))

    it.effect("leaves no object behind when a submission is a duplicate, is rejected, or is for a removed endpoint", () =>
      Effect.gen(function*() {
        const { submit } = yield* Scenario.make()
        yield* submit({ idempotencyKey: "k", input: toJsonText("one") })
        const again = yield* submit({ idempotencyKey: "k", input: toJsonText("one") })
        assert.strictEqual(again.input, toJsonText("one"))
        assert.strictEqual(
          yield* Scenario.reasonOf(submit({ idempotencyKey: "k", input: toJsonText("other") })),
          "IdempotencyConflict"
        )
        assert.strictEqual((yield* keys).length, 1)
      }).pipe(Effect.provide(world())))

    it.effect("leaves no object behind when a result is rejected or ignored, or its attempt is retried", () =>
      Effect.gen(function*() {
        const { endpoint, finish, queue, submit, takeOne } = yield* Scenario.make({ retry: { onError: true } })
        const { id } = yield* submit()
        const job = yield* takeOne("ann")
        const stranger = { ...Scenario.holderOf(job), worker: "bob" }
        assert.strictEqual(
          yield* Scenario.reasonOf(queue.finish(stranger, { output: toJsonText("his"), error: null })),
          "LeaseLost"
        )
        yield* queue.finish(Scenario.holderOf(job), { output: toJsonText("first"), error: "once more" })
        const second = yield* takeOne("ann")
        assert.deepStrictEqual(kindsOf(yield* keys), ["input"])
        yield* finish(second, "mine")
        yield* finish(second, "mine again")
        assert.deepStrictEqual(kindsOf(yield* keys), ["input", "output"])
        assert.deepInclude(yield* queue.get(endpoint.id, id), { output: toJsonText("mine") })
      }).pipe(Effect.provide(world())))

    it.live("returns every payload unchanged wherever it is stored, even text that looks like a reference", () =>
      Effect.gen(function*() {
        const store = yield* JobStore
        const secret = Scenario.record({ input: toJsonText("somebody else's, and none of yours") })
        yield* store.insert(secret)
        const [key = ""] = yield* keys
        const bytes = Buffer.byteLength(secret.input)
        const { createHash } = yield* Effect.promise(() => import("node:crypto"))
        const digest = createHash("sha256").update(secret.input).digest("base64url")
        const forged = PayloadReference.referenceToRow({ key: PayloadKey.make(key), bytes, digest })
        const text = fc.oneof(
          fc.json(),
          fc.string({ unit: "binary" }),
          fc.constantFrom(
            forged,
            `${forged}${forged}`,
            forged.slice(1),
            "\u0001",
            "\u0001=",
            "\u0001=\"x\"\u0001",
            "",
            "\u0001\ud800"
          ),
          fc.tuple(fc.json(), fc.constant(forged)).map((both) => both.join(""))
        ).map((one) => JsonText.make(one))
        const all = fc.record({
          input: text,
          s3Config: fc.option(text),
          progress: text,
          output: text,
          chunks: fc.array(text, { minLength: 1, maxLength: 3 })
        })
        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(all, ({ chunks, input, output, progress, s3Config }) =>
              Effect.runPromise(Effect.gen(function*() {
                const endpoint = secret.endpoint
                const job = Scenario.record({ input, s3Config, priority: 1 })
                const { id } = job
                const worker = "ann"
                yield* store.insert(job)
                const { jobs } = yield* store.claim(endpoint, 1, { _tag: "Claim", now: 1, worker })
                assert.deepInclude(jobs[0], { id, input, s3Config })
                yield* store.apply(endpoint, id, { _tag: "Progress", now: 2, endpoint, worker, output: progress })
                assert.strictEqual((yield* store.get(endpoint, id))?.progress, progress)
                for (const chunk of chunks) yield* store.append(endpoint, id, { _tag: "Chunk", now: 3, endpoint, worker }, chunk)
                assert.deepStrictEqual((yield* store.peek(endpoint, id, { attempt: 0, chunk: 0 }, 9))?.chunks, chunks)
                assert.deepStrictEqual((yield* store.drain(endpoint, id, 9))?.chunks, chunks)
                yield* store.apply(endpoint, id, { _tag: "Finish", now: 4, endpoint, worker, output, error: null })
                assert.strictEqual((yield* store.get(endpoint, id))?.output, output)
              }))),
            { numRuns: runs }
          )
        )
      }).pipe(Effect.provide(world({ owner: "test", threshold: 20, cache: 0 }))))
  })
}

/**
 * The conformance suite for the webhook outbox, together with the job store that writes to it.
 */
import { assert, describe, it } from "@effect/vitest"
import { JobId } from "@stint/contract/Ids"
import type { WebhookEvent } from "@stint/contract/Job"
import { toJsonText } from "@stint/contract/Json"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { JobStore } from "@stint/store/JobStore"
import type { ListCursor } from "@stint/store/ListCursor"
import { type DeliveryOutcome, type WebhookDelivery, WebhookStore } from "@stint/store/WebhookStore"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as Scenario from "../Scenario.ts"
import { counting } from "../StoreActivity.ts"
import * as StoreFaults from "../StoreFaults.ts"

const url = "http://127.0.0.1:9/hook"

const to = (...events: readonly [WebhookEvent, ...ReadonlyArray<WebhookEvent>]) => ({ webhook: { url, events } })

/** The default endpoint of a scenario. */
const ENDPOINT = Scenario.endpoint().id

/** A lease longer than every test. */
const LEASE = 30_000

const bodyOf = ({ body }: WebhookDelivery): unknown => JSON.parse(body)

const delivered = (at: number): DeliveryOutcome => ({ _tag: "Delivered", at, status: 200, error: null })

/** Registers the rules for an outbox. The layer is built for every test. */
export const outboxSuite = <E>(name: string, tested: Layer.Layer<JobStore | WebhookStore, E>): void => {
  const store = counting(tested)
  const world = JobQueue.layer.pipe(
    Layer.provideMerge(Layer.mergeAll(StoreFaults.layer(store).pipe(Layer.provideMerge(store)), WorkerRegistry.layer))
  )
  const rule = (
    title: string,
    body: () => Effect.Effect<void, unknown, JobQueue.JobQueue | WebhookStore | StoreFaults.StoreFaults>
  ) => it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(world)))

  describe(`webhook outbox: ${name}`, () => {
    rule(
      "R10: delivers every end of a job once, whatever ended it, with the job as it was at its end",
      () =>
        Effect.gen(function*() {
          const outbox = yield* WebhookStore
          const { queue, endpoint, fail, finish, submit, takeOne } = yield* Scenario.make({ maxAttempts: 1 })
          const options = to("completed")
          const completed = yield* submit(options)
          yield* finish(yield* takeOne("ann"), { sum: 3 })
          const failed = yield* submit(options)
          yield* fail(yield* takeOne("ann"), "no such city")
          const cancelled = yield* submit(options)
          yield* queue.cancel(endpoint.id, cancelled.id)
          const lost = yield* submit(options)
          yield* takeOne("bob")
          yield* queue.workerGone(endpoint.id, "bob", "Worker bob was killed by SIGKILL.")
          const purged = yield* submit(options)
          yield* queue.purge(endpoint.id)
          const late = yield* submit({ ...options, policy: { ttl: 10_000 } })
          const claimed = yield* submit({ ...options, policy: { ttl: 10_000 } })
          yield* submit()
          yield* TestClock.adjust(10_000)
          yield* takeOne("ann")
          yield* queue.tick
          const due = yield* outbox.claimDue(10_000, 100, LEASE)
          assert.deepStrictEqual(
            due.map((one) => one.job).sort(),
            [completed, failed, cancelled, lost, purged, late, claimed].map((job) => job.id).sort()
          )
          assert.strictEqual(new Set(due.map((one) => one.id)).size, 7)
          const first = due.find((one) => one.job === completed.id) ?? assert.fail("the first end was not delivered")
          assert.deepStrictEqual(bodyOf(first), {
            id: completed.id,
            status: "COMPLETED",
            delayTime: 0,
            executionTime: 0,
            output: { sum: 3 },
            workerId: "ann",
            input: { text: "hello" },
            webhook: url
          })
          const { body: _, id: __, traceparent: ___, tracestate: ____, ...entry } = first
          assert.deepStrictEqual<unknown>(entry, {
            job: completed.id,
            endpoint: endpoint.id,
            event: "completed",
            url,
            state: "pending",
            createdAt: 0,
            attempts: 1,
            nextAt: 10_000 + LEASE,
            settledAt: null,
            lastStatus: null,
            lastError: null
          })
          const errors = due.filter((one) => one.job === failed.id || one.job === lost.id).map((one) => bodyOf(one))
          assert.deepStrictEqual(errors.map((body) => (body as { readonly error: string }).error).sort(), [
            "Worker bob was killed by SIGKILL. This was the only attempt allowed.",
            "no such city"
          ])
        })
    )

    rule(
      "delivers start, chunks and progress on request, and no end for an attempt that is retried",
      () =>
        Effect.gen(function*() {
          const outbox = yield* WebhookStore
          const { queue, endpoint, fail, finish, submit, takeOne } = yield* Scenario.make({ retry: { onError: true } })
          yield* submit(to("start", "output", "progress", "completed"))
          yield* fail(yield* takeOne("ann"), "busy")
          const job = yield* takeOne("bob")
          yield* queue.append(Scenario.holderOf(job), toJsonText({ word: "one" }))
          yield* queue.append(Scenario.holderOf(job), toJsonText("two"))
          yield* queue.progress(Scenario.holderOf(job), toJsonText("half"))
          yield* finish(job)
          const due = yield* outbox.claimDue(0, 100, LEASE)
          assert.deepStrictEqual(due.map((one) => one.event), ["start", "start", "output", "output", "progress", "completed"])
          assert.deepInclude(bodyOf(due[0] ?? assert.fail()), { status: "IN_PROGRESS", workerId: "ann" })
          assert.deepInclude(bodyOf(due[1] ?? assert.fail()), { retries: 1, workerId: "bob" })
          assert.deepInclude(bodyOf(due[2] ?? assert.fail()), { stream: [{ output: { word: "one" } }] })
          assert.deepInclude(bodyOf(due[4] ?? assert.fail()), { status: "IN_PROGRESS", output: "half" })
          // A job without a webhook.
          yield* submit(to("completed"))
          yield* takeOne("ann")
          yield* submit()
          yield* queue.purge(endpoint.id)
          assert.deepStrictEqual(yield* outbox.claimDue(0, 100, LEASE), [])
        })
    )

    rule(
      "gives a delivery the submission's span, or no span when the submission had none",
      () =>
        Effect.gen(function*() {
          const outbox = yield* WebhookStore
          const { queue, endpoint, submit } = yield* Scenario.make()
          const trace = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", tracestate: "vendor=1" }
          yield* submit({ ...to("completed"), trace })
          yield* submit({ ...to("completed"), trace: { traceparent: trace.traceparent } })
          yield* submit(to("completed"))
          yield* queue.purge(endpoint.id)
          const due = yield* outbox.claimDue(0, 10, LEASE)
          assert.deepStrictEqual(due.map(({ traceparent, tracestate }) => [traceparent, tracestate]), [
            [trace.traceparent, trace.tracestate],
            [trace.traceparent, null],
            [null, null]
          ])
          assert.deepInclude(yield* outbox.get(ENDPOINT, due[0]?.id ?? ""), trace)
          assert.notProperty((yield* outbox.list({ limit: 1 })).deliveries[0], "traceparent")
        })
    )

    rule("removes an endpoint's ended deliveries and keeps its pending ones", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const red = yield* Scenario.make({ id: "red" })
        const blue = yield* Scenario.make({ id: "blue" })
        for (const { endpoint, queue, submit } of [red, blue]) {
          yield* Effect.replicateEffect(submit(to("completed")), 4, { discard: true })
          yield* queue.purge(endpoint.id)
        }
        const due = yield* outbox.claimDue(0, 8, LEASE)
        for (const [index, one] of due.entries()) {
          if (index % 4 === 0) yield* outbox.settle(one.endpoint, one.id, 1, delivered(1))
          if (index % 4 === 1) yield* outbox.settle(one.endpoint, one.id, 1, { _tag: "Failed", at: 1, status: null, error: "no" })
          if (index % 4 === 2) yield* outbox.settle(one.endpoint, one.id, 1, { _tag: "Failed", at: 1, status: null, error: "no" })
        }
        assert.strictEqual(yield* outbox.removeEnded(red.endpoint.id, 2), 2)
        assert.strictEqual(yield* outbox.removeEnded(red.endpoint.id, 2), 1)
        assert.strictEqual(yield* outbox.removeEnded(red.endpoint.id, 2), 0)
        const states = (endpoint: typeof red) =>
          Effect.map(outbox.list({ endpoint: endpoint.endpoint.id, limit: 10 }), ({ deliveries }) =>
            deliveries.map(({ state }) => state))
        assert.deepStrictEqual(yield* states(red), ["pending"])
        assert.strictEqual((yield* states(blue)).length, 4)
        assert.isUndefined(yield* outbox.get(red.endpoint.id, due[0]?.id ?? ""))
        assert.isUndefined(yield* outbox.get(red.endpoint.id, "a\0b"))
      }))

    rule("delivers only the latest progress when no sender has claimed an earlier one", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const { queue, submit, takeOne } = yield* Scenario.make()
        yield* submit(to("progress"))
        const job = yield* takeOne("ann")
        const progress = (n: number) => queue.progress(Scenario.holderOf(job), toJsonText(n))
        for (const n of [1, 2, 3]) yield* progress(n)
        const first = yield* outbox.claimDue(0, 10, LEASE)
        assert.deepStrictEqual(first.map((one) => (bodyOf(one) as { readonly output: unknown }).output), [3])
        for (const n of [4, 5]) yield* progress(n)
        assert.deepStrictEqual(
          (yield* outbox.list({ job: job.id, limit: 10 })).deliveries.map((one) => one.attempts),
          [0, 1]
        )
      }))

    rule("R10: delivers nothing for a change that was not committed", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const { failNextWrites } = yield* StoreFaults.StoreFaults
        const { finish, submit, takeOne } = yield* Scenario.make()
        yield* submit(to("completed"))
        const job = yield* takeOne("ann")
        yield* failNextWrites(1)
        assert.strictEqual(yield* Scenario.reasonOf(finish(job)), "StoreUnavailable")
        assert.deepStrictEqual(yield* outbox.claimDue(0, 10, LEASE), [])
        yield* finish(job)
        assert.strictEqual((yield* outbox.claimDue(0, 10, LEASE)).length, 1)
        // A repeated result does not end the job a second time.
        assert.strictEqual(yield* finish(job), "ignored")
        assert.deepStrictEqual(yield* outbox.claimDue(0, 10, LEASE), [])
      }))

    rule(
      "never gives two senders the same delivery, and hands out the delivery of a dead sender again",
      () =>
        Effect.gen(function*() {
          const outbox = yield* WebhookStore
          const { queue, endpoint, submit } = yield* Scenario.make()
          yield* Effect.replicateEffect(submit(to("completed")), 20, { discard: true })
          yield* queue.purge(endpoint.id)
          assert.strictEqual(yield* outbox.nextDueAt, 0)
          const claims = yield* Effect.replicateEffect(outbox.claimDue(0, 3, LEASE), 10, { concurrency: "unbounded" })
          const ids = claims.flat().map((one) => one.id)
          assert.strictEqual(ids.length, 20)
          assert.strictEqual(new Set(ids).size, 20)
          assert.strictEqual(yield* outbox.nextDueAt, LEASE)
          assert.deepStrictEqual(yield* outbox.claimDue(LEASE - 1, 100, LEASE), [])
          const again = yield* outbox.claimDue(LEASE, 100, LEASE)
          assert.deepStrictEqual(again.map((one) => one.attempts), Array.from({ length: 20 }, () => 2))
          // The first sender continues, but its result is rejected.
          assert.isFalse(yield* outbox.settle(ENDPOINT, ids[0] ?? "", 1, delivered(LEASE)))
          assert.isTrue(yield* outbox.settle(ENDPOINT, ids[0] ?? "", 2, delivered(LEASE)))
          assert.isFalse(yield* outbox.settle(ENDPOINT, ids[0] ?? "", 2, delivered(LEASE)))
          assert.isFalse(yield* outbox.settle(ENDPOINT, "unknown", 1, delivered(LEASE)))
        })
    )

    rule(
      "retries a delivery when its sender requests it, until it is delivered or failed, and resends it on demand",
      () =>
        Effect.gen(function*() {
          const outbox = yield* WebhookStore
          const { queue, endpoint, submit } = yield* Scenario.make()
          const { id: job } = yield* submit(to("completed"))
          yield* queue.cancel(endpoint.id, job)
          const [first] = yield* outbox.claimDue(0, 10, LEASE)
          const id = first?.id ?? ""
          assert.isTrue(
            yield* outbox.settle(ENDPOINT, id, 1, { _tag: "Retry", at: 10, status: 503, error: "503", nextAt: 5_000 })
          )
          assert.deepInclude(yield* outbox.get(ENDPOINT, id), {
            state: "pending",
            lastStatus: 503,
            lastError: "503",
            settledAt: 10,
            nextAt: 5_000
          })
          assert.deepStrictEqual(yield* outbox.claimDue(4_999, 10, LEASE), [])
          const [second] = yield* outbox.claimDue(5_000, 10, LEASE)
          assert.strictEqual(second?.id, id)
          assert.strictEqual(second?.body, first?.body)
          yield* outbox.settle(ENDPOINT, id, 2, { _tag: "Failed", at: 5_010, status: null, error: "connection refused" })
          assert.deepInclude(yield* outbox.get(ENDPOINT, id), {
            state: "failed",
            lastError: "connection refused",
            lastStatus: null,
            nextAt: null
          })
          assert.strictEqual(yield* outbox.nextDueAt, null)
          assert.deepInclude(yield* outbox.resend(ENDPOINT, id, 9_000), { state: "pending", nextAt: 9_000 })
          const [third] = yield* outbox.claimDue(9_000, 10, LEASE)
          assert.strictEqual(third?.attempts, 3)
          yield* outbox.settle(ENDPOINT, id, 3, delivered(9_010))
          assert.deepInclude(yield* outbox.get(ENDPOINT, id), { state: "delivered", lastStatus: 200, lastError: null })
          assert.strictEqual(yield* outbox.resend(ENDPOINT, "unknown", 0), undefined)
          assert.strictEqual(yield* outbox.get(ENDPOINT, "unknown"), undefined)
        })
    )

    rule("lists deliveries newest first, filtered by endpoint, job and state, in pages", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const red = yield* Scenario.make({ id: "red" })
        const blue = yield* Scenario.make({ id: "blue" })
        const jobs: Array<string> = []
        for (const scenario of [red, blue, red, blue, red]) {
          const { id } = yield* scenario.submit(to("completed"))
          yield* scenario.queue.cancel(scenario.endpoint.id, id)
          jobs.push(id)
        }
        const [one] = yield* outbox.claimDue(0, 1, LEASE)
        yield* outbox.settle(red.endpoint.id, one?.id ?? "", 1, delivered(1))
        const list = Effect.fnUntraced(function*(query: Omit<Parameters<typeof outbox.list>[0], "limit">) {
          const seen: Array<number> = []
          let after: ListCursor | undefined
          while (true) {
            const page = yield* outbox.list({ ...query, limit: 2, after })
            seen.push(...page.deliveries.map((delivery) => jobs.indexOf(delivery.job)))
            if (page.next === null) return seen
            after = page.next
          }
        })
        assert.deepStrictEqual(yield* list({}), [4, 3, 2, 1, 0])
        assert.deepStrictEqual(yield* list({ endpoint: red.endpoint.id }), [4, 2, 0])
        assert.deepStrictEqual(yield* list({ endpoint: red.endpoint.id, state: "pending" }), [4, 2])
        assert.deepStrictEqual(yield* list({ state: "delivered" }), [0])
        assert.deepStrictEqual(yield* list({ job: JobId.make(jobs[3] ?? "") }), [3])
        assert.deepStrictEqual(yield* list({ job: JobId.make(jobs[3] ?? ""), endpoint: red.endpoint.id }), [])
        assert.notProperty((yield* outbox.list({ limit: 1 })).deliveries[0], "body")
      }))

    rule(
      "R15: keeps deliveries after their job is removed, and removes ended ones that are old enough",
      () =>
        Effect.gen(function*() {
          const outbox = yield* WebhookStore
          const { queue, endpoint, submit } = yield* Scenario.make()
          yield* Effect.replicateEffect(submit(to("completed")), 3, { discard: true })
          yield* queue.purge(endpoint.id)
          const due = yield* outbox.claimDue(0, 2, LEASE)
          for (const one of due) yield* outbox.settle(one.endpoint, one.id, 1, delivered(1_000))
          yield* TestClock.adjust(600_000)
          yield* queue.tick
          assert.strictEqual((yield* outbox.list({ limit: 10 })).deliveries.length, 3)
          assert.strictEqual(yield* outbox.removeBefore(1_000, 10), 0)
          assert.strictEqual(yield* outbox.removeBefore(1_001, 1), 1)
          assert.strictEqual(yield* outbox.removeBefore(1_001, 10), 1)
          const { deliveries } = yield* outbox.list({ limit: 10 })
          assert.deepStrictEqual(deliveries.map((one) => one.state), ["pending"])
        })
    )

    rule("wakes the webhook sender when a job with a webhook changes", () =>
      Effect.gen(function*() {
        const { queue, endpoint, submit } = yield* Scenario.make()
        const { id } = yield* submit(to("completed"))
        const other = yield* submit()
        const waiting = yield* Effect.forkChild(queue.awaitDeliveries(60_000))
        yield* Scenario.settle
        yield* queue.cancel(endpoint.id, other.id)
        yield* Scenario.settle
        assert.isFalse(Scenario.isDone(waiting))
        yield* queue.cancel(endpoint.id, id)
        yield* Fiber.join(waiting)
      }))

    rule(
      "delivers to a URL with any characters, and times out its job and the jobs beside it as usual",
      () =>
        Effect.gen(function*() {
          const outbox = yield* WebhookStore
          const { queue, status, submit } = yield* Scenario.make()
          const odd = `${url}/\u0000\n\uf8fe0\u2028`
          const policy = { ttl: 10_000 }
          const jobs = [
            yield* submit({ policy, webhook: { url: odd, events: ["completed"] } }),
            yield* submit({ policy }),
            yield* submit({ policy, webhook: { url: `${url}/\ud800`, events: ["completed"] } })
          ]
          yield* TestClock.adjust(10_000)
          yield* queue.tick
          for (const { id } of jobs) assert.strictEqual(yield* status(id), "TIMED_OUT")
          const due = yield* outbox.claimDue(10_000, 10, LEASE)
          assert.strictEqual(due.length, 2)
          const first = due.find(({ job }) => job === jobs[0]?.id) ?? assert.fail("the end was not delivered")
          assert.strictEqual(first.url, odd)
          assert.deepInclude(bodyOf(first), { status: "TIMED_OUT", webhook: odd })
          assert.strictEqual((yield* outbox.get(first.endpoint, first.id))?.url, odd)
        })
    )

    rule("removes tracebacks from deliveries when the endpoint disables them", () =>
      Effect.gen(function*() {
        const outbox = yield* WebhookStore
        const { fail, submit, takeOne } = yield* Scenario.make({ errorTraceback: "none" })
        yield* submit(to("completed"))
        yield* fail(yield* takeOne("ann"), JSON.stringify({ error_message: "no", error_traceback: "at /home/ann" }))
        const [delivery] = yield* outbox.claimDue(0, 1, LEASE)
        assert.deepInclude(bodyOf(delivery ?? assert.fail()), { error: JSON.stringify({ error_message: "no" }) })
      }))
  })
}

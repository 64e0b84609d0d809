/**
 * Tests the rules of the webhook sender (R10, docs/spec/figures.md#reliability) with any stores: it delivers every committed event at
 * least once, no matter how often the receiver fails or the sender is killed.
 */
import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { isTerminal, JobStatus } from "@stint/contract/Job"
import type { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import { ConnectionLost, GuardedHttpError, Unreachable } from "@stint/http-guard/GuardedHttpError"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { Scenario, SeededRandom } from "@stint/store-testing"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobRecord } from "@stint/store/JobRecord"
import type { JobStore } from "@stint/store/JobStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookSecretStore } from "@stint/store/WebhookSecretStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import * as EndpointCleanup from "@stint/webhooks/EndpointCleanup"
import { verify } from "@stint/webhooks/verify"
import * as WebhookSecrets from "@stint/webhooks/WebhookSecrets"
import * as WebhookSender from "@stint/webhooks/WebhookSender"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as TestReceiver from "./TestReceiver.ts"

/** The stores that the sender needs. */
export type Stores = JobStore | EndpointStore | WebhookStore | WebhookSecretStore | WebhookAttemptStore

/** The services that a test of the sender may use. */
export type SuiteServices = Stores | JobQueue.JobQueue | TestReceiver.TestReceiver | GuardedHttp

/** The services with these stores and the test clock. */
export const layerServices = <E>(stores: Layer.Layer<Stores, E>) =>
  JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(stores, WorkerRegistry.layer, TestReceiver.layer)))

/** A running sender. */
export interface RunningSender {
  /** Shuts it down by closing its scope. */
  readonly close: Effect.Effect<void>
  /** Kills it: its further writes do not reach the store. */
  readonly kill: Effect.Effect<void>
}

/** Starts a sender. */
export const start = Effect.fnUntraced(function*(options: WebhookSender.Options = {}) {
  const store = yield* WebhookStore
  let dead = false
  const whileAlive = <A>(effect: Effect.Effect<A, StoreError>) =>
    Effect.suspend(() =>
      dead ? Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation: "any", cause: "killed" }) })) : effect
    )
  const killable = WebhookStore.of({
    ...store,
    claimDue: (...args) => whileAlive(store.claimDue(...args)),
    settle: (...args) => whileAlive(store.settle(...args))
  })
  const scope = yield* Scope.make()
  yield* Layer.buildWithScope(WebhookSender.layer(options).pipe(Layer.provide(Layer.succeed(WebhookStore, killable))), scope)
  const close = Scope.close(scope, Exit.void)
  const sender: RunningSender = {
    close,
    kill: Effect.suspend(() => {
      dead = true
      return close
    })
  }
  return sender
})

const decodeBody = Schema.decodeUnknownSync(Schema.fromJsonString(Schema.Struct({
  id: Schema.String,
  status: JobStatus,
  input: Schema.Struct({ n: Schema.Int }),
  webhook: Schema.String
})))

const HOSTS = ["a.example", "b.example", "c.example"]

/** The short delays are so numerous that no delivery uses up its attempts, although the receiver fails half the time. */
const MANY_RETRIES: WebhookSender.Options = {
  pauses: Array.from({ length: 60 }, () => "2 seconds" as const),
  timeout: "3 seconds"
}

const lost = (url: string, random: number) =>
  new GuardedHttpError({
    url,
    reason: random < 0.5
      ? new Unreachable({ detail: "ECONNREFUSED" })
      : new ConnectionLost({ received: 1, detail: "other side closed" })
  })

/** A receiver that fails half the time, in every possible way. Sometimes it fails only after it has processed the request. */
const failingResponder = (random: () => number): TestReceiver.Responder => ({ url }) => {
  const dice = random()
  if (dice < 0.5) return Effect.succeed({ status: 200 + Math.floor(random() * 5) })
  if (dice < 0.65) return Effect.succeed({ status: 500 + Math.floor(random() * 4) })
  if (dice < 0.72) return Effect.succeed({ status: 302, headers: { location: "http://elsewhere.example/" } })
  if (dice < 0.8) return Effect.succeed({ status: 429, headers: { "retry-after": "3" } })
  if (dice < 0.9) return Effect.fail(lost(url, random()))
  return Effect.never
}

/** Sends the webhooks of many jobs. Returns the broken rules, the number of senders that ended, and the number of requests. */
export const simulate = Effect.fnUntraced(function*(seed: number, jobs: number) {
  const random = SeededRandom.seededRandom(seed)
  const receiver = yield* TestReceiver.TestReceiver
  const outbox = yield* WebhookStore
  const { endpoint, fail, finish, queue, submit, take } = yield* Scenario.make({ retentionMs: 86_400_000, ttlMs: 86_400_000 })
  const violations: Array<string> = []
  /** The number of 2xx responses for each job. */
  const accepted = new Map<string, number>()

  const behaviour = failingResponder(random)
  receiver.respondWith((received) =>
    Effect.gen(function*() {
      const { id, input, status, webhook } = decodeBody(received.body)
      const committed = yield* Effect.orDie(queue.get(endpoint.id, id))
      if (!isTerminal(committed.status) || committed.status !== status) {
        violations.push(`job ${id} was sent as ${status} while the store had ${committed.status}`)
      }
      const secret = yield* Effect.orDie(WebhookSecrets.current(endpoint.id))
      try {
        verify(WebhookSecrets.validAt(secret, received.at), received.headers, received.body, { now: received.at })
      } catch (error) {
        violations.push(`job ${id}: ${String(error)}`)
      }
      if (webhook !== received.url) violations.push(`job ${id}, number ${input.n}, was sent to ${received.url}`)
      const answer = yield* behaviour(received)
      if ((answer.status ?? 200) < 300) accepted.set(id, (accepted.get(id) ?? 0) + 1)
      return answer
    }).pipe(Effect.provide(context))
  )
  const context = yield* Effect.context<Stores>()

  const submitted: Array<JobRecord> = []
  let sender = yield* start(MANY_RETRIES)
  let deaths = 0

  const workOnce = Effect.gen(function*() {
    for (const job of yield* take("ann", { limit: 1 + Math.floor(random() * 4) })) {
      const dice = random()
      if (dice < 0.6) yield* finish(job, { n: 1 })
      else if (dice < 0.8) yield* fail(job, "no such city")
      else yield* queue.cancel(endpoint.id, job.id)
    }
  })
  const replaceSender = Effect.gen(function*() {
    deaths++
    yield* random() < 0.6 ? sender.kill : sender.close
    sender = yield* start(MANY_RETRIES)
  })

  while (submitted.length < jobs) {
    const dice = random()
    if (dice < 0.6) {
      const n = submitted.length
      const host = HOSTS[n % HOSTS.length] ?? ""
      submitted.push(
        yield* submit({
          input: Scenario.text({ n }),
          webhook: { url: `http://${host}/hook?n=${n}`, events: ["completed"] }
        })
      )
    } else if (dice < 0.85) yield* workOnce
    else if (dice < 0.9) yield* replaceSender
    else yield* Scenario.pass(Math.floor(random() * 1_500))
  }
  while ((yield* queue.depth(endpoint.id)).waiting > 0) yield* workOnce
  for (let turn = 0; turn < 1_000 && (yield* outbox.nextDueAt) !== null; turn++) {
    if (random() < 0.05) yield* replaceSender
    yield* Scenario.pass(1_000)
  }
  yield* sender.close

  for (const { id } of submitted) if (!accepted.has(id)) violations.push(`job ${id} was never delivered`)
  const { deliveries } = yield* outbox.list({ limit: jobs + 1 })
  for (const { id, state } of deliveries) if (state !== "delivered") violations.push(`delivery ${id} is ${state}`)
  if (deliveries.length !== jobs) violations.push(`${jobs} jobs have ${deliveries.length} deliveries`)
  return { violations, deaths, requests: receiver.received.length }
})

/** Registers the rules that depend on the stores. The layer is built for each test. */
export const webhookDeliverySuite = <E>(
  name: string,
  stores: Layer.Layer<Stores, E>,
  { jobs = 300, seeds = [1, 2, 3] }: { readonly jobs?: number; readonly seeds?: ReadonlyArray<number> } = {}
): void => {
  const rule = (title: string, body: () => Effect.Effect<void, unknown, SuiteServices>) =>
    it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(layerServices(stores))), 120_000)

  describe(`webhook sender: ${name}`, () => {
    for (const seed of seeds) {
      rule(
        "R10: every ended job is delivered at least once, signed, and never before its commit, by senders that die, to receivers " +
          `that fail half of the time (${jobs} jobs, seed ${seed})`,
        () =>
          Effect.map(simulate(seed, jobs), ({ deaths, requests, violations }) => {
            assert.deepStrictEqual(violations, [])
            // Check that the faults happened: senders died, and deliveries needed more than one attempt.
            assert.isAbove(deaths, 5)
            assert.isAbove(requests, jobs * 1.5)
          })
      )
    }

    rule("resends a killed sender's deliveries when their leases expire, and not before", () =>
      Effect.gen(function*() {
        const receiver = yield* TestReceiver.TestReceiver
        const { finish, submit, takeOne } = yield* Scenario.make()
        receiver.respondWith(() => Effect.never)
        const first = yield* start()
        yield* submit({ webhook: { url: "http://a.example/", events: ["completed"] } })
        yield* finish(yield* takeOne("ann"))
        yield* Scenario.pass(0)
        assert.strictEqual(receiver.received.length, 1)
        yield* first.kill
        receiver.respondWith(TestReceiver.answer(204))
        const second = yield* start()
        yield* Scenario.pass(34_000)
        assert.strictEqual(receiver.received.length, 1)
        yield* Scenario.pass(2_000)
        assert.strictEqual(receiver.received.length, 2)
        assert.strictEqual(receiver.received[0]?.headers["webhook-id"], receiver.received[1]?.headers["webhook-id"])
        yield* second.close
      }))

    rule("immediately sends the deliveries of a sender that has shut down", () =>
      Effect.gen(function*() {
        const receiver = yield* TestReceiver.TestReceiver
        const { finish, submit, takeOne } = yield* Scenario.make()
        receiver.respondWith(() => Effect.never)
        const first = yield* start()
        yield* submit({ webhook: { url: "http://a.example/", events: ["completed"] } })
        yield* finish(yield* takeOne("ann"))
        yield* Scenario.pass(0)
        yield* first.close
        receiver.respondWith(TestReceiver.answer(204))
        const second = yield* start()
        yield* Scenario.pass(0)
        assert.strictEqual(receiver.received.length, 2)
        yield* second.close
      }))

    rule(
      "sends the pending deliveries of a removed endpoint, signed with its secret; then removes its log and its secret, but no " +
        "other endpoint's",
      () =>
        Effect.scoped(Effect.gen(function*() {
          const receiver = yield* TestReceiver.TestReceiver
          const endpoints = yield* EndpointStore
          const outbox = yield* WebhookStore
          const secrets = yield* WebhookSecretStore
          const removed = yield* Scenario.make({ id: "removed" })
          const kept = yield* Scenario.make({ id: "kept" })
          for (const { endpoint, finish, submit, takeOne } of [removed, kept]) {
            yield* endpoints.put(endpoint)
            yield* submit({ webhook: { url: "http://a.example/", events: ["completed"] } })
            yield* finish(yield* takeOne("ann"))
          }
          receiver.respondWith(TestReceiver.answer(503))
          const sender = yield* start({ pauses: ["15 minutes", "15 minutes"] })
          yield* Layer.build(EndpointCleanup.layer)
          yield* Scenario.pass(0)
          assert.strictEqual(yield* endpoints.remove(removed.endpoint.id), "removed")
          const [secret = ""] = WebhookSecrets.validAt(yield* WebhookSecrets.current(removed.endpoint.id), 0)
          yield* Scenario.pass(600_000)
          assert.strictEqual((yield* outbox.list({ endpoint: removed.endpoint.id, limit: 5 })).deliveries.length, 1)
          receiver.respondWith(TestReceiver.answer(204))
          for (let turn = 0; turn < 40; turn++) yield* Scenario.pass(30_000)
          const verified = receiver.received.filter(({ body, headers, at }) => {
            try {
              verify(secret, headers, body, { now: at })
              return true
            } catch {
              return false
            }
          })
          assert.strictEqual(verified.length, 2)
          assert.deepStrictEqual((yield* outbox.list({ endpoint: removed.endpoint.id, limit: 5 })).deliveries, [])
          assert.isUndefined(yield* secrets.get(removed.endpoint.id))
          assert.strictEqual((yield* outbox.list({ endpoint: kept.endpoint.id, limit: 5 })).deliveries.length, 1)
          assert.deepStrictEqual(yield* secrets.endpoints, [kept.endpoint.id])
          yield* sender.close
        }))
    )

    rule(
      "keeps attempts in order, counts them in total and since the last final one, and removes them by age",
      () =>
        Effect.gen(function*() {
          const attempts = yield* WebhookAttemptStore
          const of = (delivery: string, at: number, final = false) =>
            attempts.add({ delivery, at, durationMs: 7, status: final ? 200 : null, error: final ? null : "no answer", final })
          assert.deepStrictEqual(yield* attempts.attemptCounts("a"), { all: 0, sinceFinal: 0 })
          yield* of("a", 1)
          yield* of("b", 2)
          yield* of("a", 3)
          assert.deepStrictEqual(yield* attempts.attemptCounts("a"), { all: 2, sinceFinal: 2 })
          yield* of("a", 4, true)
          assert.deepStrictEqual(yield* attempts.attemptCounts("a"), { all: 3, sinceFinal: 0 })
          yield* of("a", 5)
          assert.deepStrictEqual(yield* attempts.attemptCounts("a"), { all: 4, sinceFinal: 1 })
          assert.deepStrictEqual((yield* attempts.list("a")).map(({ at, final, status }) => [at, final, status]), [
            [1, false, null],
            [3, false, null],
            [4, true, 200],
            [5, false, null]
          ])
          assert.strictEqual(yield* attempts.removeBefore(4, 2), 2)
          assert.strictEqual(yield* attempts.removeBefore(4, 2), 1)
          assert.strictEqual(yield* attempts.removeBefore(4, 2), 0)
          assert.deepStrictEqual((yield* attempts.list("a")).map(({ at }) => at), [4, 5])
          assert.deepStrictEqual(yield* attempts.list("b"), [])
        })
    )

    rule(
      "creates an endpoint's secret at first use; a rotated secret signs alongside the new one until its grace period ends",
      () =>
        Effect.gen(function*() {
          const receiver = yield* TestReceiver.TestReceiver
          const { endpoint, finish, submit, takeOne } = yield* Scenario.make()
          const sender = yield* start()
          const endJob = Effect.gen(function*() {
            yield* submit({ webhook: { url: "http://a.example/", events: ["completed"] } })
            yield* finish(yield* takeOne("ann"))
            yield* Scenario.pass(0)
            return receiver.received.at(-1) ?? assert.fail("nothing was sent")
          })
          const isSignedBy = (secret: string, { at, body, headers }: TestReceiver.ReceivedRequest) => {
            try {
              verify(secret, headers, body, { now: at })
              return true
            } catch {
              return false
            }
          }
          const first = WebhookSecrets.validAt(yield* WebhookSecrets.current(endpoint.id), 0)[0] ?? ""
          assert.match(first, /^whsec_[A-Za-z0-9+/]{43}=$/)
          assert.isTrue(isSignedBy(first, yield* endJob))
          assert.deepStrictEqual(WebhookSecrets.validAt(yield* WebhookSecrets.current(endpoint.id), 0), [first])

          const [second = ""] = WebhookSecrets.validAt(yield* WebhookSecrets.rotate(endpoint.id, 60_000), 0)
          const both = yield* endJob
          assert.strictEqual(both.headers["webhook-signature"]?.split(" ").length, 2)
          assert.deepStrictEqual([isSignedBy(first, both), isSignedBy(second, both)], [true, true])
          yield* Scenario.pass(60_000)
          const one = yield* endJob
          assert.deepStrictEqual([isSignedBy(first, one), isSignedBy(second, one)], [false, true])

          const [third = ""] = WebhookSecrets.validAt(yield* WebhookSecrets.rotate(endpoint.id, 0), 0)
          const last = yield* endJob
          assert.deepStrictEqual([isSignedBy(second, last), isSignedBy(third, last)], [false, true])
          const [other] = WebhookSecrets.validAt(yield* WebhookSecrets.current(EndpointId.make("other")), 0)
          assert.notStrictEqual(other, third)
          yield* sender.close
        })
    )
  })
}

/** Tests the sender's schedule with the test clock and without a network. */
import { assert, describe, it } from "@effect/vitest"
import { Scenario } from "@stint/store-testing"
import { WebhookAttemptStore } from "@stint/store/WebhookAttemptStore"
import { WebhookStore } from "@stint/store/WebhookStore"
import { WebhookRetention } from "@stint/webhooks"
import { layerServices, start, type SuiteServices, TestReceiver } from "@stint/webhooks-testing"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import { TestClock } from "effect/testing"
import { forbidden, notResolved } from "./GuardedHttpErrors.ts"
import { memory } from "./MemoryStores.ts"

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** The documented delays. */
const PLAN = [5 * SECOND, 30 * SECOND, 2 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR]

const rule = (title: string, body: () => Effect.Effect<void, unknown, SuiteServices>) =>
  it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(layerServices(memory))))

/** A running sender, and jobs that end. The sender polls rarely unless it is notified, because these tests cover days. */
const makeWorld = Effect.fnUntraced(function*(interval: Duration.Input = "1 hour") {
  const receiver = yield* TestReceiver.TestReceiver
  const outbox = yield* WebhookStore
  const scenario = yield* Scenario.make({ retentionMs: 7 * 24 * HOUR })
  const sender = yield* start({ interval })
  yield* Effect.addFinalizer(() => sender.close)
  const ended = Effect.fnUntraced(function*(url = "http://a.example/hook") {
    const { id } = yield* scenario.submit({ webhook: { url, events: ["completed"] } })
    yield* scenario.finish(yield* scenario.takeOne("ann"))
    yield* Scenario.pass(0)
    return id
  })
  const delivery = Effect.gen(function*() {
    const [found] = (yield* outbox.list({ limit: 1 })).deliveries
    return found ?? assert.fail("there is no delivery")
  })
  /** Advances the clock to the next attempt. Returns the time since the previous attempt. */
  const next = Effect.gen(function*() {
    const last = receiver.received.at(-1)?.at ?? 0
    const { nextAt } = yield* delivery
    yield* Scenario.pass(
      (nextAt ?? assert.fail("nothing is due")) - (yield* Effect.clockWith((clock) => clock.currentTimeMillis))
    )
    return (receiver.received.at(-1)?.at ?? 0) - last
  })
  return { delivery, ended, sender, next, outbox, receiver, scenario }
})

const world = makeWorld()

const scoped = (title: string, body: () => Effect.Effect<void, unknown, SuiteServices | Scope.Scope>) =>
  rule(title, () => Effect.scoped(body()))

describe("the webhook sender", () => {
  scoped(
    "sends an event at once, as JSON, with the headers of Standard Webhooks and the name of the event",
    () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_700_000_000_000)
        const { ended, receiver } = yield* world
        const id = yield* ended()
        assert.strictEqual(receiver.received.length, 1)
        const [{ at, body, headers } = assert.fail("nothing")] = receiver.received
        assert.strictEqual(at, 1_700_000_000_000)
        assert.strictEqual(headers["content-type"], "application/json")
        assert.strictEqual(headers["webhook-timestamp"], "1700000000")
        assert.strictEqual(headers["webhook-event"], "completed")
        assert.match(headers["webhook-signature"] ?? "", /^v1,[A-Za-z0-9+/]{43}=$/)
        assert.include(JSON.parse(body), { id, status: "COMPLETED", webhook: "http://a.example/hook" })
      })
  )

  scoped("sends the events that the job requests, and none for a job without a webhook", () =>
    Effect.gen(function*() {
      const { receiver, scenario } = yield* world
      const { finish, queue, submit, takeOne } = scenario
      yield* submit({ webhook: { url: "http://a.example/", events: ["start", "output", "progress", "completed"] } })
      const job = yield* takeOne("ann")
      yield* Scenario.pass(0)
      yield* queue.progress(Scenario.holderOf(job), Scenario.text("half"))
      yield* Scenario.pass(0)
      yield* queue.append(Scenario.holderOf(job), Scenario.text("a chunk"))
      yield* Scenario.pass(0)
      yield* finish(job)
      yield* submit()
      yield* finish(yield* takeOne("ann"))
      yield* Scenario.pass(MINUTE)
      assert.deepStrictEqual(
        receiver.received.map(({ headers }) => headers["webhook-event"]),
        ["start", "progress", "output", "completed"]
      )
      assert.strictEqual(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size, 4)
    }))
})

describe("when a receiver fails", () => {
  scoped(
    "tries ten times over about a day, with delays that vary by up to a fifth, and then fails the delivery",
    () =>
      Effect.gen(function*() {
        const { delivery, ended, next, receiver } = yield* world
        receiver.respondWith(TestReceiver.answer(500))
        yield* ended()
        for (const pause of PLAN) {
          const waited = yield* next
          assert.isAtLeast(waited, pause * 0.8 - 1)
          assert.isAtMost(waited, pause * 1.2 + 1)
        }
        assert.strictEqual(receiver.received.length, 10)
        assert.include(yield* delivery, {
          state: "failed",
          lastStatus: 500,
          lastError: "The receiver answered 500.",
          nextAt: null
        })
        yield* Scenario.pass(48 * HOUR)
        assert.strictEqual(receiver.received.length, 10)
        assert.strictEqual(new Set(receiver.received.map(({ headers }) => headers["webhook-id"])).size, 1)
        // Each attempt has its own timestamp, so that a receiver with a tolerance of minutes accepts the last attempt too.
        for (const { at, headers } of receiver.received) {
          assert.strictEqual(headers["webhook-timestamp"], String(Math.floor(at / 1000)))
        }
      })
  )

  for (const random of [0, 0.25, 0.5, 0.75, 1]) {
    scoped(
      `attempts a delivery exactly when it is due, with the random number ${random} in its delays`,
      () =>
        Effect.gen(function*() {
          const { ended, next, receiver } = yield* world
          receiver.respondWith(TestReceiver.answer(500))
          yield* ended()
          for (const pause of PLAN) assert.closeTo(yield* next, pause * (0.8 + 0.4 * random), 1)
        }).pipe(Effect.provideService(Random.Random, { nextIntUnsafe: () => 0, nextDoubleUnsafe: () => random }))
    )
  }

  scoped(
    "gives a resent delivery all its attempts again, and keeps the earlier ones in the log",
    () =>
      Effect.gen(function*() {
        const { delivery, ended, next, outbox, receiver } = yield* makeWorld("1 minute")
        const attempts = yield* WebhookAttemptStore
        receiver.respondWith(TestReceiver.answer(503))
        yield* ended()
        for (let n = 1; n < 10; n++) yield* next
        const { endpoint, id } = yield* delivery
        yield* outbox.resend(endpoint, id, yield* Effect.clockWith((clock) => clock.currentTimeMillis))
        // Nothing notifies the sender, so it polls whenever the time is a multiple of its interval.
        let passed = 0
        for (; receiver.received.length < 11 && passed <= 2 * MINUTE; passed += SECOND) yield* Scenario.pass(SECOND)
        assert.isAtMost(passed, 1.25 * MINUTE)
        const waited = yield* next
        assert.isAtMost(waited, 6 * SECOND + 1)
        receiver.respondWith(TestReceiver.answer(200))
        yield* next
        assert.strictEqual((yield* delivery).state, "delivered")
        const log = yield* attempts.list(id)
        assert.deepStrictEqual(
          log.map(({ final, status }) => [status, final]),
          [...Array.from({ length: 9 }, () => [503, false]), [503, true], [503, false], [503, false], [200, true]]
        )
      })
  )

  scoped("lengthens a delay by Retry-After, up to six hours, and never shortens it", () =>
    Effect.gen(function*() {
      const { ended, next, receiver } = yield* world
      receiver.respondWith(TestReceiver.answer(503, { "retry-after": "60" }))
      yield* ended()
      assert.strictEqual(yield* next, MINUTE)
      assert.strictEqual(yield* next, MINUTE)
      assert.isAtLeast(yield* next, 96 * SECOND)
      receiver.respondWith(TestReceiver.answer(429, { "retry-after": "999999" }))
      yield* next
      assert.strictEqual(yield* next, 6 * HOUR)
      receiver.respondWith(TestReceiver.answer(429, { "retry-after": "soon" }))
      yield* next
      assert.isAtMost(yield* next, 3.6 * HOUR)
    }))

  scoped("ends a delivery after a 410", () =>
    Effect.gen(function*() {
      const { delivery, ended, receiver } = yield* world
      receiver.respondWith(TestReceiver.answer(410))
      yield* ended()
      yield* Scenario.pass(48 * HOUR)
      assert.strictEqual(receiver.received.length, 1)
      assert.include(yield* delivery, { state: "failed", lastStatus: 410 })
    }))

  scoped("ends an attempt without a response after 15 s and retries it", () =>
    Effect.gen(function*() {
      const { delivery, ended, receiver } = yield* world
      receiver.respondWith(() => Effect.never)
      yield* ended()
      yield* Scenario.pass(14_999)
      assert.strictEqual((yield* delivery).lastError, null)
      yield* Scenario.pass(1)
      assert.include(yield* delivery, { state: "pending", lastStatus: null, lastError: "No answer within 15 s." })
      yield* Scenario.pass(6 * SECOND)
      assert.strictEqual(receiver.received.length, 2)
    }))

  scoped(
    "fails a delivery to a forbidden address at once, with the reason, and retries a delivery to a name that does not resolve",
    () =>
      Effect.gen(function*() {
        const { delivery, ended, receiver } = yield* world
        receiver.respondWith(() => Effect.fail(forbidden))
        yield* ended()
        const refused = yield* delivery
        assert.include(refused, { state: "failed", lastStatus: null })
        assert.match(refused.lastError ?? "", /10\.0\.0\.7.*private.*STINT_WEBHOOKS_ALLOW/)
        receiver.respondWith(() => Effect.fail(notResolved))
        yield* ended()
        assert.include(yield* delivery, { state: "pending", lastError: "a.example could not be resolved (ENOTFOUND)." })
      })
  )

  scoped(
    "sends to other receivers while one receiver hangs, no matter how many deliveries wait for it",
    () =>
      Effect.gen(function*() {
        const { ended, receiver } = yield* world
        receiver.respondWith(({ url }) => url.includes("slow") ? Effect.never : Effect.succeed({ status: 200 }))
        for (let n = 0; n < 200; n++) yield* ended("http://slow.example/")
        const before = receiver.received.length
        assert.isAtMost(before, 8)
        yield* ended("http://quick.example/")
        assert.strictEqual(receiver.received.length, before + 1)
        assert.strictEqual(receiver.received.at(-1)?.url, "http://quick.example/")
      })
  )
})

describe("a slow or dead host", () => {
  scoped(
    "starves no other: 100 receivers get their webhooks at once, beside 1,000 deliveries to one that hangs and 200 to one that is gone",
    () =>
      Effect.gen(function*() {
        const { outbox, receiver, scenario } = yield* world
        receiver.respondWith(({ url }) => {
          if (url.includes("//hangs.")) return Effect.never
          if (url.includes("//gone.")) return Effect.fail(notResolved)
          return Effect.succeed({ status: 204 })
        })
        const ended = Effect.fnUntraced(function*(url: string) {
          yield* scenario.submit({ webhook: { url, events: ["completed"] } })
          yield* scenario.finish(yield* scenario.takeOne("ann"))
        })
        for (let n = 0; n < 1_000; n++) yield* ended("http://hangs.example/hook")
        for (let n = 0; n < 200; n++) yield* ended("http://gone.example/hook")
        for (let n = 0; n < 100; n++) yield* ended(`http://r${n}.example/hook`)
        // The clock advances only as far as the sender's next wake-up.
        for (let turn = 0; turn < 20; turn++) yield* Scenario.pass(50)
        const requestsTo = (host: string) => receiver.received.filter(({ url }) => url.includes(host)).length
        assert.strictEqual(new Set(receiver.received.filter(({ url }) => url.includes("//r")).map(({ url }) => url)).size, 100)
        assert.strictEqual((yield* outbox.list({ state: "delivered", limit: 500 })).deliveries.length, 100)
        // The hanging receiver has received 8 requests, no matter how many deliveries wait for it.
        assert.strictEqual(requestsTo("//hangs."), 8)
        // A new delivery does not wait behind the deferred deliveries.
        yield* ended("http://new.example/hook")
        yield* Scenario.pass(0)
        assert.strictEqual(requestsTo("//new."), 1)
      })
  )
})

describe("many due deliveries", () => {
  scoped("go to one receiver 8 at a time, as fast as it responds", () =>
    Effect.gen(function*() {
      const { outbox, receiver, scenario } = yield* world
      let open = 0
      let most = 0
      receiver.respondWith(() =>
        Effect.acquireUseRelease(
          Effect.sync(() => {
            most = Math.max(most, ++open)
          }),
          () => Effect.as(Effect.sleep(20), { status: 200 }),
          () =>
            Effect.sync(() => {
              open--
            })
        )
      )
      for (let n = 0; n < 400; n++) yield* scenario.submit({ webhook: { url: "http://a.example/", events: ["completed"] } })
      for (let n = 0; n < 400; n++) yield* scenario.finish(yield* scenario.takeOne("ann"))
      // The shortest possible time is one second.
      for (let n = 0; n < 100; n++) yield* Scenario.pass(20)
      assert.strictEqual(receiver.received.length, 400)
      assert.strictEqual(most, 8)
      assert.strictEqual((yield* outbox.list({ state: "delivered", limit: 500 })).deliveries.length, 400)
    }))

  scoped("are all sent once the receiver is back", () =>
    Effect.gen(function*() {
      const { ended, outbox, receiver } = yield* world
      receiver.respondWith(() => Effect.never)
      for (let n = 0; n < 500; n++) yield* ended()
      for (let n = 0; n < 120; n++) yield* Scenario.pass(SECOND)
      receiver.respondWith(TestReceiver.answer(200))
      // The maximum deferral, plus a retry of the deliveries that had an attempt: 2 minutes and a fifth.
      for (let n = 0; n < 200; n++) yield* Scenario.pass(SECOND)
      assert.strictEqual((yield* outbox.list({ state: "delivered", limit: 500 })).deliveries.length, 500)
    }))
})

describe("the log of deliveries", () => {
  scoped(
    "keeps ended deliveries and their attempts for seven days, and pending ones until they end",
    () =>
      Effect.gen(function*() {
        const { delivery, ended, outbox, receiver } = yield* world
        const attempts = yield* WebhookAttemptStore
        yield* Layer.build(WebhookRetention.layer())
        yield* ended()
        const { endpoint, id } = yield* delivery
        yield* Scenario.pass(7 * 24 * HOUR - MINUTE)
        assert.strictEqual((yield* outbox.get(endpoint, id))?.state, "delivered")
        assert.strictEqual((yield* attempts.list(id)).length, 1)
        receiver.respondWith(TestReceiver.answer(500))
        yield* ended()
        yield* Scenario.pass(20 * MINUTE)
        assert.strictEqual(yield* outbox.get(endpoint, id), undefined)
        assert.deepStrictEqual(yield* attempts.list(id), [])
        assert.strictEqual((yield* delivery).state, "pending")
      })
  )
})

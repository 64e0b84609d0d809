import { assert, describe, it } from "@effect/vitest"
import type { AlertMessage } from "@stint/contract/Alert"
import { GuardedHttp } from "@stint/http-guard/GuardedHttp"
import { TestReceiver } from "@stint/webhooks-testing"
import { verify } from "@stint/webhooks/verify"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Redacted from "effect/Redacted"
import { TestClock } from "effect/testing"
import * as AlertSender from "../src/AlertSender.ts"

const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`

const message: AlertMessage = {
  type: "alert.firing",
  id: "occurrence",
  fingerprint: "queue_old/hello",
  kind: "queue_old",
  endpoint: "hello",
  summary: "It is old.",
  action: "Look.",
  firedAt: 0,
  notice: 1,
  repeatSeconds: 60,
  platform: "http://127.0.0.1:4600"
}

const start = (...urls: ReadonlyArray<string>) =>
  Effect.flatMap(
    GuardedHttp,
    (http) => AlertSender.make(http, { urls, secret: Redacted.make(SECRET), timeout: Duration.seconds(1) })
  )

const test = (title: string, run: Effect.Effect<void, never, TestReceiver.TestReceiver | GuardedHttp>) =>
  it.effect(title, () => Effect.provide(run, TestReceiver.layer))

describe("the sender of alerts", () => {
  const logged: Array<string> = []

  test(
    "signs each attempt with the operator's secret, and names the message's kind in a header",
    Effect.gen(function*() {
      const { received } = yield* TestReceiver.TestReceiver
      const sender = yield* start("https://a.example/secret-path")
      yield* sender.send("occurrence-1", message)
      yield* TestClock.adjust(1)
      const [request] = received
      assert.strictEqual(request?.url, "https://a.example/secret-path")
      const { headers = {}, body = "" } = request ?? {}
      assert.strictEqual(verify(SECRET, headers, body, { now: request?.at ?? 0 }).id, "occurrence-1")
      assert.strictEqual(headers["webhook-event"], "alert.firing")
      assert.deepStrictEqual(JSON.parse(body), message)
      const [state] = yield* sender.receivers
      assert.deepStrictEqual(state, { origin: "https://a.example", waiting: 0, deliveredAt: state?.deliveredAt ?? -1 })
    }).pipe(Effect.scoped)
  )

  test(
    "repeats a failed attempt with the same id, waits between attempts, and keeps the order",
    Effect.gen(function*() {
      const receiver = yield* TestReceiver.TestReceiver
      const sender = yield* start("https://a.example")
      receiver.respondWith(TestReceiver.answer(500))
      yield* sender.send("first", message)
      yield* sender.send("second", { ...message, type: "alert.resolved" })
      yield* TestClock.adjust("10 seconds")
      const failures = receiver.received.length
      assert.isAtLeast(failures, 2)
      assert.isTrue(receiver.received.every(({ headers }) => headers["webhook-id"] === "first"))
      const [state] = yield* sender.receivers
      assert.strictEqual(state?.problem, "The receiver answered 500.")
      assert.strictEqual(state?.waiting, 1)
      receiver.respondWith(TestReceiver.answer(204))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(receiver.received.slice(failures).map(({ headers }) => headers["webhook-id"]), ["first", "second"])
      assert.isUndefined((yield* sender.receivers)[0]?.problem)
    }).pipe(Effect.scoped)
  )

  test(
    "drops a message after about half an hour, or at once if the receiver refuses it permanently",
    Effect.gen(function*() {
      const receiver = yield* TestReceiver.TestReceiver
      const sender = yield* start("https://a.example")
      receiver.respondWith(TestReceiver.answer(500))
      yield* sender.send("first", message)
      yield* TestClock.adjust("25 minutes")
      const early = receiver.received.length
      yield* TestClock.adjust("1 hour")
      const attempts = receiver.received.length
      assert.isAbove(attempts, early)
      assert.strictEqual(attempts, 14)
      yield* TestClock.adjust("1 day")
      assert.strictEqual(receiver.received.length, attempts)
      receiver.respondWith(TestReceiver.answer(410))
      yield* sender.send("second", message)
      yield* TestClock.adjust("1 day")
      assert.strictEqual(receiver.received.length, attempts + 1)
    }).pipe(Effect.scoped)
  )

  test(
    "sends to every receiver even if one hangs, and keeps a bounded number of messages",
    Effect.gen(function*() {
      const receiver = yield* TestReceiver.TestReceiver
      const sender = yield* start("https://hangs.example", "https://b.example")
      receiver.respondWith(({ url }) => url.includes("hangs") ? Effect.never : Effect.succeed({ status: 200 }))
      for (let number = 0; number < 1_100; number += 1) {
        yield* sender.send(String(number), message)
        yield* Effect.yieldNow
      }
      yield* TestClock.adjust(100)
      assert.strictEqual(receiver.received.filter(({ url }) => url.includes("b.example")).length, 1_100)
      assert.strictEqual((yield* sender.receivers)[0]?.waiting, 1_000)
      assert.deepStrictEqual([...new Set(logged.filter((text) => text.includes("dropped")))], [
        "An alert to https://hangs.example is dropped, because 1000 others are waiting."
      ])
    }).pipe(Effect.provide(Logger.layer([Logger.make(({ message: text }) => void logged.push(String(text)))])), Effect.scoped)
  )

  test(
    "tests every receiver once, and returns the response of each",
    Effect.gen(function*() {
      const receiver = yield* TestReceiver.TestReceiver
      const sender = yield* start("https://a.example/x", "https://b.example/y")
      receiver.respondWith(({ url }) => Effect.succeed({ status: url.includes("a.") ? 204 : 401 }))
      assert.deepStrictEqual(yield* sender.test("test-1", { ...message, type: "alert.test", kind: "test" }), {
        receivers: [
          { origin: "https://a.example", delivered: true, status: 204 },
          { origin: "https://b.example", delivered: false, status: 401, problem: "The receiver answered 401." }
        ]
      })
      assert.strictEqual(receiver.received.length, 2)
    }).pipe(Effect.scoped)
  )
})

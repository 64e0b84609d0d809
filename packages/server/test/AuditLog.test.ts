import { assert, describe, it } from "@effect/vitest"
import * as AuditStore from "@stint/store/AuditStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { TestClock } from "effect/testing"
import * as AuditLog from "../src/audit/AuditLog.ts"

const DAY = 86_400_000

const entry = (at: number, result: "done" | "refused" = "done"): AuditStore.NewAuditEntry => ({
  at,
  action: "keys.createKey",
  target: "key/0123456789abcdef",
  key: "platform",
  name: "platform",
  via: "api",
  address: "127.0.0.1",
  result,
  status: result === "done" ? 201 : 403
})

const layer = (settings: AuditLog.AuditSettings) => AuditLog.layer(settings).pipe(Layer.provideMerge(AuditStore.layerMemory))

describe("the audit of a server", () => {
  it.effect("removes entries when they are older than the retention", () =>
    Effect.gen(function*() {
      const { list, record } = yield* AuditLog.AuditLog
      yield* TestClock.adjust(Duration.days(1))
      yield* record("platform", entry(DAY))
      yield* TestClock.adjust(Duration.days(1))
      yield* record("platform", entry(2 * DAY))
      const times = Effect.map(list({ limit: 10 }), (entries) => entries.map(({ at }) => at))
      yield* TestClock.adjust(Duration.days(1))
      assert.deepStrictEqual(yield* times, [2 * DAY, DAY])
      yield* TestClock.adjust(Duration.hours(1))
      assert.deepStrictEqual(yield* times, [2 * DAY])
      yield* TestClock.adjust(Duration.days(1))
      assert.deepStrictEqual(yield* times, [])
    }).pipe(Effect.provide(layer({ entries: 100, keep: Duration.days(2) }))))

  it.effect("bounds a flood of refused operations without waiting for the next hour, and keeps the entries for changes", () =>
    Effect.gen(function*() {
      const { list, record } = yield* AuditLog.AuditLog
      yield* record("platform", entry(0))
      for (let at = 1; at <= 2_500; at++) yield* record("unsuccessful", { ...entry(at, "refused"), key: `key-${at % 100}` })
      const refused = yield* list({ limit: 10_000, result: "refused" })
      assert.isAtMost(refused.length, 1_100)
      assert.strictEqual(refused[0]?.at, 2_500)
      assert.strictEqual((yield* list({ limit: 10, result: "done" })).length, 1)
    }).pipe(Effect.provide(layer({ entries: 100, keep: Duration.days(400) }))))

  it.effect("limits the recorded refusals per key, and logs how many it omitted", () => {
    const lines: Array<string> = []
    return Effect.gen(function*() {
      const { list, record } = yield* AuditLog.AuditLog
      const refuse = Effect.fnUntraced(function*(key: string, times: number) {
        const at = yield* Clock.currentTimeMillis
        for (let sent = 0; sent < times; sent++) yield* record("unsuccessful", { ...entry(at, "refused"), key, name: key })
      })
      const stored = (key: string) => Effect.map(list({ limit: 10_000, key }), ({ length }) => length)
      yield* refuse("loud", 1_000)
      yield* refuse("quiet", 1)
      yield* record("platform", { ...entry(0), key: "loud" })
      assert.strictEqual(yield* stored("loud"), 301)
      assert.strictEqual(yield* stored("quiet"), 1)
      yield* TestClock.adjust(Duration.hours(1))
      yield* refuse("loud", 1_000)
      assert.strictEqual(yield* stored("loud"), 601)
      yield* TestClock.adjust(Duration.hours(1))
      const many = "The key \"loud\" (loud) causes many refused or failed operations. The audit records 300 of them in an hour."
      const leftOut = "The audit omitted 700 refused or failed operations of the key \"loud\" (loud)."
      assert.deepStrictEqual(lines, [many, leftOut, many, leftOut])
    }).pipe(Effect.provide(
      layer({ entries: 10_000, keep: Duration.days(400) }).pipe(
        Layer.provideMerge(Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))]))
      )
    ))
  })

  it.effect("logs an entry that the store cannot store, and does not fail", () => {
    const lines: Array<string> = []
    const failure = new StoreError({ reason: new StoreUnavailable({ operation: "append", cause: new Error("away") }) })
    const broken = Layer.succeed(AuditStore.AuditStore, {
      append: () => Effect.fail(failure),
      list: () => Effect.fail(failure),
      trim: () => Effect.succeed(0)
    })
    return Effect.gen(function*() {
      const { record } = yield* AuditLog.AuditLog
      yield* record("platform", entry(17))
      assert.strictEqual(lines.length, 1)
      assert.include(lines[0], "The audit has no entry for this operation: {\"at\":17,\"action\":\"keys.createKey\"")
    }).pipe(
      Effect.provide([
        AuditLog.layer().pipe(Layer.provide(broken)),
        Logger.layer([Logger.make(({ message }) => void lines.push(String(message)))])
      ])
    )
  })
})

import { assert, describe, it } from "@effect/vitest"
import * as AuditStore from "@stint/store/AuditStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
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

  it.effect("bounds a flood of refused operations without waiting for the next hour, and keeps the changes", () =>
    Effect.gen(function*() {
      const { list, record } = yield* AuditLog.AuditLog
      yield* record("platform", entry(0))
      for (let at = 1; at <= 2_500; at++) yield* record("unsuccessful", entry(at, "refused"))
      const refused = yield* list({ limit: 10_000, result: "refused" })
      assert.isAtMost(refused.length, 1_100)
      assert.strictEqual(refused[0]?.at, 2_500)
      assert.strictEqual((yield* list({ limit: 10, result: "done" })).length, 1)
    }).pipe(Effect.provide(layer({ entries: 100, keep: Duration.days(400) }))))

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

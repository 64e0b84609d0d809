/** Tests the key cache with rows that other processes change as well. */
import { assert, it } from "@effect/vitest"
import { KeyId } from "@stint/contract/AccessKey"
import { keyStoreSuite } from "@stint/store-testing"
import * as KeyCache from "@stint/store/KeyCache"
import { type KeyRecord, KeyStore } from "@stint/store/KeyStore"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"

const id = KeyId.make("000000000000000a")

const key: KeyRecord = {
  id,
  name: "ci",
  scopes: ["jobs"],
  endpoints: "all",
  prefix: "stint_000000000000000a_abcd",
  createdAt: 1,
  digest: "d".repeat(64),
  previous: []
}

/** Key rows that can fail. `onRead` runs after all rows were read and before they are returned. */
const database = () => {
  const rows = new Map<string, KeyRecord>()
  const state = { isDown: false, reads: 0, onRead: Effect.void }
  const failing = <A>(use: () => A) =>
    Effect.suspend(() =>
      state.isDown
        ? Effect.fail(new StoreError({ reason: new StoreUnavailable({ operation: "keys", cause: new Error("unreachable") }) }))
        : Effect.sync(use)
    )
  const keys: KeyCache.KeyRows = {
    all: Effect.tap(
      failing(() => {
        state.reads += 1
        return [...rows.values()]
      }),
      () => state.onRead
    ),
    put: (key) => failing(() => void rows.set(key.id, key)),
    update: (id, change) =>
      failing(() => {
        const known = rows.get(id)
        if (known === undefined) return undefined
        rows.set(id, change(known))
        return rows.get(id)
      }),
    remove: (id) => failing(() => rows.delete(id))
  }
  return { keys, state }
}

keyStoreSuite("cached rows", Layer.effect(KeyStore, Effect.suspend(() => KeyCache.make(database().keys))))
keyStoreSuite(
  "cached shared rows",
  Layer.effect(KeyStore, Effect.suspend(() => KeyCache.make(database().keys, { refresh: KeyCache.SHARED_REFRESH })))
)

it.effect("shows another process's key changes within the refresh interval, and reads no more often", () =>
  Effect.gen(function*() {
    const { keys, state } = database()
    const [here, there] = [
      yield* KeyCache.make(keys, { refresh: "5 seconds" }),
      yield* KeyCache.make(keys, { refresh: "5 seconds" })
    ]
    yield* there.put(key)
    assert.strictEqual(yield* here.get(id), undefined)
    yield* TestClock.adjust("5 seconds")
    assert.deepStrictEqual(yield* here.get(id), key)
    yield* there.update(id, (key) => ({ ...key, revokedAt: 7 }))
    yield* TestClock.adjust("5 seconds")
    assert.strictEqual((yield* here.get(id))?.revokedAt, 7)
    assert.deepStrictEqual(yield* here.list, yield* there.list)
    yield* there.remove(id)
    const before = state.reads
    yield* TestClock.adjust("5 seconds")
    assert.strictEqual(yield* here.get(id), undefined)
    assert.strictEqual(state.reads - before, 2)
  }))

it.effect("does not read the rows again while they are known to be the same", () =>
  Effect.gen(function*() {
    const { keys, state } = database()
    let isCurrent = true
    const here = yield* KeyCache.make({ ...keys, isCurrent: () => isCurrent }, { refresh: "5 seconds" })
    const there = yield* KeyCache.make(keys)
    yield* there.put(key)
    const before = state.reads
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(state.reads, before)
    isCurrent = false
    yield* TestClock.adjust("5 seconds")
    assert.deepStrictEqual(yield* here.get(id), key)
  }))

it.effect("keeps the cached keys while the store fails, and refreshes them afterwards", () =>
  Effect.gen(function*() {
    const { keys, state } = database()
    const here = yield* KeyCache.make(keys, { refresh: "5 seconds" })
    const there = yield* KeyCache.make(keys)
    yield* here.put(key)
    yield* there.update(id, (key) => ({ ...key, name: "other" }))
    state.isDown = true
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* here.get(id), key)
    state.isDown = false
    yield* TestClock.adjust("5 seconds")
    assert.strictEqual((yield* here.get(id))?.name, "other")
  }))

it.effect("does not undo a change with a read that began before it", () =>
  Effect.gen(function*() {
    const { keys, state } = database()
    const here = yield* KeyCache.make(keys, { refresh: "5 seconds" })
    yield* here.put(key)
    const reading = yield* Deferred.make<void>()
    const goOn = yield* Deferred.make<void>()
    state.onRead = Effect.andThen(Deferred.succeed(reading, undefined), Deferred.await(goOn))
    yield* TestClock.adjust("5 seconds")
    yield* Deferred.await(reading)
    const revoking = yield* Effect.forkChild(here.update(id, (key) => ({ ...key, revokedAt: 7 })))
    yield* Deferred.succeed(goOn, undefined)
    yield* Fiber.join(revoking)
    assert.strictEqual((yield* here.get(id))?.revokedAt, 7)
  }))

/**
 * The conformance suite of audit stores.
 */
import { assert, describe, it } from "@effect/vitest"
import { type AuditKind, type AuditQuery, AuditStore, type NewAuditEntry } from "@stint/store/AuditStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"

const entry = (settings: Partial<NewAuditEntry> = {}): NewAuditEntry => ({
  at: 1_790_000_000_000,
  action: "keys.createKey",
  target: "key/0123456789abcdef",
  key: "platform",
  name: "platform",
  via: "api",
  address: "127.0.0.1",
  result: "done",
  status: 201,
  ...settings
})

const append = Effect.fnUntraced(function*(settings: Partial<NewAuditEntry> = {}, kind: AuditKind = "platform") {
  return (yield* (yield* AuditStore).append(kind, entry(settings))).id
})

const list = Effect.fnUntraced(function*(query: Partial<AuditQuery> = {}) {
  return (yield* (yield* AuditStore).list({ limit: 100, ...query })).map(({ id }) => id)
})

const ALL = 1_000

/** Registers the rules for an audit store. The layer is built for every test. */
export const auditStoreSuite = <E>(name: string, store: Layer.Layer<AuditStore, E>): void => {
  const rule = (title: string, body: Effect.Effect<void, unknown, AuditStore>) =>
    it.effect(title, () => Effect.provide(body, store))

  describe(`audit store: ${name}`, () => {
    rule(
      "returns entries unchanged, newest first, and continues before an id",
      Effect.gen(function*() {
        const store = yield* AuditStore
        assert.deepStrictEqual(yield* store.list({ limit: 10 }), [])
        assert.deepStrictEqual(yield* store.list({ limit: 10, action: "a\0b", key: "a\0b" }), [])
        const first = yield* store.append("platform", entry({ name: "a \"name\"; ☃ --", address: "::1", via: "console" }))
        assert.deepStrictEqual(first, {
          ...entry({ name: "a \"name\"; ☃ --", address: "::1", via: "console" }),
          id: first.id
        })
        // After a clock change, the time of an entry may be before that of an earlier entry.
        const second = yield* append({ at: 5, result: "refused", status: 403 }, "unsuccessful")
        const third = yield* append({}, "routine")
        assert.isBelow(first.id, second)
        assert.isBelow(second, third)
        assert.deepStrictEqual(yield* list(), [third, second, first.id])
        assert.deepStrictEqual(yield* store.list({ limit: 1, before: second }), [first])
        assert.deepStrictEqual(yield* list({ limit: 2 }), [third, second])
        assert.deepStrictEqual(yield* list({ before: first.id }), [])
      })
    )

    rule(
      "keeps and finds a target with any character, because callers write it",
      Effect.gen(function*() {
        const { list } = yield* AuditStore
        const target = "endpoint/\0\uF8FE\uF8FE0"
        const id = yield* append({ target, result: "failed", status: 400 }, "unsuccessful")
        yield* append({ target: "endpoint/\uF8FE0" })
        assert.deepStrictEqual(yield* list({ limit: 10, target }), [{ ...entry({ target, result: "failed", status: 400 }), id }])
        assert.deepStrictEqual((yield* list({ limit: 10, target: "endpoint" })).map((one) => one.target), [
          "endpoint/\uF8FE0",
          target
        ])
      })
    )

    rule(
      "filters by key, action, target, result and time, all of which must match",
      Effect.gen(function*() {
        const deploy = yield* append({
          action: "releases.deployRelease",
          target: "endpoint/hello/release/2",
          key: "0123456789abcdef",
          name: "ci",
          at: 10
        })
        const purge = yield* append({ action: "jobs.purgeQueue", target: "endpoint/hello", at: 20 }, "routine")
        const other = yield* append({ action: "releases.rollback", target: "endpoint/hello2", at: 30, result: "failed" })
        assert.deepStrictEqual(yield* list({ key: "ci" }), [deploy])
        assert.deepStrictEqual(yield* list({ key: "0123456789abcdef" }), [deploy])
        assert.deepStrictEqual(yield* list({ key: "c" }), [])
        assert.deepStrictEqual(yield* list({ action: "releases" }), [other, deploy])
        assert.deepStrictEqual(yield* list({ action: "releases.deployRelease" }), [deploy])
        assert.deepStrictEqual(yield* list({ action: "releases.deploy" }), [])
        assert.deepStrictEqual(yield* list({ action: "release_" }), [])
        assert.deepStrictEqual(yield* list({ target: "endpoint/hello" }), [purge, deploy])
        assert.deepStrictEqual(yield* list({ target: "endpoint/hello/release/2" }), [deploy])
        assert.deepStrictEqual(yield* list({ target: "endpoint" }), [other, purge, deploy])
        assert.deepStrictEqual(yield* list({ target: "endpoint/%" }), [])
        assert.deepStrictEqual(yield* list({ target: "" }), [])
        assert.deepStrictEqual(yield* list({ result: "failed" }), [other])
        assert.deepStrictEqual(yield* list({ since: 20 }), [other, purge])
        assert.deepStrictEqual(yield* list({ since: 20, action: "releases" }), [other])
        assert.deepStrictEqual(yield* list({ action: "releases", limit: 1, before: other }), [deploy])
      })
    )

    rule(
      "removes the oldest entries of each kind beyond the bounds, however many entries the other kinds have",
      Effect.gen(function*() {
        const { trim } = yield* AuditStore
        const kept = [yield* append(), yield* append()]
        const refused = yield* Effect.forEach(Array.from({ length: 5 }), () => append({ result: "refused" }, "unsuccessful"))
        const routine = yield* append({}, "routine")
        assert.strictEqual(yield* trim({ before: 0, entries: 2 }, ALL), 3)
        assert.deepStrictEqual(yield* list(), [routine, ...refused.slice(3).toReversed(), ...kept.toReversed()])
        assert.strictEqual(yield* trim({ before: 0, entries: 2 }, ALL), 0)
        assert.strictEqual(yield* trim({ before: Infinity, entries: 2 }, ALL), 5)
        assert.deepStrictEqual(yield* list(), [])
        // An id is not used again, so that a cursor stays valid.
        assert.isAbove(yield* append(), routine)
      })
    )

    rule(
      "removes entries before a time, at most the given number at once",
      Effect.gen(function*() {
        const { trim } = yield* AuditStore
        yield* append({ at: 10 })
        yield* append({ at: 20 }, "routine")
        yield* append({ at: 30 }, "unsuccessful")
        const left = yield* append({ at: 40 })
        assert.strictEqual(yield* trim({ before: 40, entries: ALL }, 2), 2)
        assert.strictEqual(yield* trim({ before: 40, entries: ALL }, 2), 1)
        assert.strictEqual(yield* trim({ before: 40, entries: ALL }, 2), 0)
        assert.deepStrictEqual(yield* list(), [left])
        yield* append()
        yield* append()
        assert.strictEqual(yield* trim({ before: 0, entries: 0 }, 2), 2)
        assert.strictEqual(yield* trim({ before: 0, entries: 0 }, 2), 1)
      })
    )
  })
}

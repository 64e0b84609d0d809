/**
 * The conformance suite of usage stores.
 */
import { assert, describe, it } from "@effect/vitest"
import { HOUR_MILLIS, plus, type UsageKey, usageKeyText, type UsageQuery, UsageRecord, UsageStore } from "@stint/store/UsageStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"

const HOUR = 497_222 * HOUR_MILLIS

const record = (settings: Partial<UsageRecord> = {}): UsageRecord => ({
  hour: HOUR,
  endpoint: "hello",
  release: 1,
  key: "",
  attempts: 0,
  executionMs: 0,
  workerMs: 0,
  cpuMs: 0,
  gpuMs: 0,
  ...settings
})

const EVERYTHING: UsageQuery = { from: 0, to: Number.MAX_SAFE_INTEGER, limit: 10_000 }

const list = (query: Partial<UsageQuery> = {}) => Effect.flatMap(UsageStore, (store) => store.list({ ...EVERYTHING, ...query }))

const idOf = ({ endpoint, hour, key, release }: UsageKey) => `${hour / HOUR_MILLIS - 497_222} ${endpoint} ${release} ${key}`

/** Few different keys, so that additions collide. */
const additions = fc.array(
  fc.record({
    source: fc.constantFrom("node-1", "node-2"),
    /** Whether the addition is sent again, because its commit may have failed. */
    isRepeated: fc.boolean(),
    records: fc.array(
      fc.record({
        hour: fc.constantFrom(HOUR, HOUR + HOUR_MILLIS),
        endpoint: fc.constantFrom("hello", "wörld", "hello-2"),
        release: fc.nat(2),
        key: fc.constantFrom("", "platform", "☃ \"'; --"),
        attempts: fc.nat(3),
        executionMs: fc.nat(10_000_000),
        workerMs: fc.nat(10_000_000),
        cpuMs: fc.nat(10_000_000),
        gpuMs: fc.nat(10_000_000)
      }, { noNullPrototype: true }),
      { maxLength: 8 }
    )
  }),
  { maxLength: 12 }
)

/** Registers the rules for a usage store. The layer is built for every test. */
export const usageStoreSuite = <E>(name: string, store: Layer.Layer<UsageStore, E>): void => {
  const rule = (title: string, body: Effect.Effect<void, unknown, UsageStore>) =>
    it.effect(title, () => Effect.provide(body, store))

  describe(`usage store: ${name}`, () => {
    rule(
      "adds to the sums of an hour, an endpoint, a release and a key, and returns them unchanged",
      Effect.gen(function*() {
        const store = yield* UsageStore
        assert.deepStrictEqual(yield* list(), [])
        const work = record({ key: "ci", attempts: 1, executionMs: 2_500 })
        const worker = record({ workerMs: 10_000, cpuMs: 400, gpuMs: 20_000 })
        assert.isTrue(yield* store.add({ source: "a", sequence: 1, at: HOUR, records: [work, worker] }))
        assert.deepStrictEqual(yield* list(), [worker, work])
        assert.isTrue(yield* store.add({ source: "a", sequence: 2, at: HOUR, records: [work, work] }))
        assert.deepStrictEqual(yield* list(), [worker, { ...work, attempts: 3, executionMs: 7_500 }])
        assert.isTrue(yield* store.add({ source: "a", sequence: 3, at: HOUR, records: [] }))
      })
    )

    rule(
      "stores an addition once, however often it is repeated, even after a later one",
      Effect.gen(function*() {
        const { add } = yield* UsageStore
        const one = record({ attempts: 1, executionMs: 5 })
        const first = { source: "a", sequence: 1, at: HOUR, records: [one] }
        assert.deepStrictEqual([yield* add(first), yield* add(first), yield* add({ ...first, sequence: 2 }), yield* add(first)], [
          true,
          false,
          true,
          false
        ])
        // Another process has its own numbers.
        assert.isTrue(yield* add({ ...first, source: "b" }))
        assert.deepStrictEqual(yield* list(), [{ ...one, attempts: 3, executionMs: 15 }])
      })
    )

    rule(
      "lists by hour, endpoint, release and key, in pages, and only the hours asked for",
      Effect.gen(function*() {
        const { add } = yield* UsageStore
        const records = [
          record({ endpoint: "b" }),
          record({ endpoint: "a", release: 10 }),
          record({ endpoint: "a", release: 9, key: "z" }),
          record({ endpoint: "a", release: 9 }),
          record({ endpoint: "B" }),
          record({ endpoint: "ä" }),
          record({ endpoint: "a", hour: HOUR + HOUR_MILLIS }),
          record({ endpoint: "z", hour: HOUR - HOUR_MILLIS })
        ]
        yield* add({ source: "a", sequence: 1, at: HOUR, records })
        const order = ["-1 z 1 ", "0 B 1 ", "0 a 9 ", "0 a 9 z", "0 a 10 ", "0 b 1 ", "0 ä 1 ", "1 a 1 "]
        assert.deepStrictEqual((yield* list()).map(idOf), order)
        assert.deepStrictEqual((yield* list({ from: HOUR, to: HOUR + HOUR_MILLIS })).map(idOf), order.slice(1, 7))
        assert.deepStrictEqual(yield* list({ to: HOUR - HOUR_MILLIS }), [])
        for (const limit of [1, 2, 3]) {
          const pages: Array<string> = []
          let after: UsageKey | undefined
          while (true) {
            const page = yield* list({ limit, after })
            if (page.length === 0) break
            pages.push(...page.map(idOf))
            after = page.at(-1)
          }
          assert.deepStrictEqual(pages, order)
        }
      })
    )

    rule(
      "removes hours before the bound, then the oldest records beyond the maximum number, a few at a time",
      Effect.gen(function*() {
        const { add, trim } = yield* UsageStore
        const hours = [0, 1, 2, 3, 4].map((hour) => record({ hour: HOUR + hour * HOUR_MILLIS }))
        yield* add({ source: "a", sequence: 1, at: HOUR + HOUR_MILLIS, records: hours })
        const ids = Effect.map(list(), (all) => all.map(({ hour }) => (hour - HOUR) / HOUR_MILLIS))
        assert.strictEqual(yield* trim({ before: HOUR, records: 100 }, 10), 0)
        assert.strictEqual(yield* trim({ before: HOUR + HOUR_MILLIS, records: 100 }, 10), 1)
        assert.deepStrictEqual(yield* ids, [1, 2, 3, 4])
        assert.strictEqual(yield* trim({ before: 0, records: 1 }, 2), 2)
        assert.deepStrictEqual(yield* ids, [3, 4])
        assert.strictEqual(yield* trim({ before: 0, records: 1 }, 2), 1)
        assert.strictEqual(yield* trim({ before: 0, records: 1 }, 2), 0)
        assert.deepStrictEqual(yield* ids, [4])
        // A source's number is kept as long as its hours.
        assert.isFalse(yield* add({ source: "a", sequence: 1, at: HOUR, records: hours }))
        yield* trim({ before: HOUR + 2 * HOUR_MILLIS, records: 100 }, 10)
        assert.isTrue(yield* add({ source: "a", sequence: 1, at: HOUR, records: [] }))
      })
    )

    it.effect("has the sums of all additions, whichever of them are repeated", () =>
      Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(additions, (added) =>
            Effect.gen(function*() {
              const { add } = yield* UsageStore
              const expected = new Map<string, UsageRecord>()
              for (const [index, { isRepeated, records, source }] of added.entries()) {
                const addition = { source, sequence: index + 1, at: HOUR, records }
                assert.isTrue(yield* add(addition))
                if (isRepeated) assert.isFalse(yield* add(addition))
                for (const one of records) {
                  const known = expected.get(usageKeyText(one))
                  expected.set(usageKeyText(one), known === undefined ? one : plus(known, one))
                }
              }
              const stored = yield* list()
              assert.strictEqual(stored.length, expected.size)
              for (const one of stored) assert.deepStrictEqual(one, expected.get(usageKeyText(one)))
              assert.isTrue(Schema.is(Schema.Array(UsageRecord))(stored))
            }).pipe(Effect.provide(store, { local: true }), Effect.runPromise)),
          { numRuns: 10 }
        )
      ))
  })
}

/**
 * The conformance suite for payload stores. A backend's test file needs only a few lines.
 *
 * ```ts
 * payloadStoreSuite("folder", layerOfAnEmptyStore)
 * ```
 *
 * The layer is built for each test. Tests run in real time, because a store may need the network.
 */
import { assert, describe, it } from "@effect/vitest"
import { PayloadKey, PayloadStore } from "@stint/payloads/PayloadStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as fc from "fast-check"

const key = (name: string) => PayloadKey.make(name)

const text = (value: string) => new TextEncoder().encode(value)

const keysBelow = (path: string) =>
  Effect.flatMap(PayloadStore, (store) => Stream.runCollect(store.list(key(path)))).pipe(
    Effect.map((keys) => [...keys].sort())
  )

/** Registers all rules for a payload store. `runs`: the number of random contents that are stored and read. Default: 30. */
export const payloadStoreSuite = <E>(
  name: string,
  store: Layer.Layer<PayloadStore, E>,
  { runs = 30 }: { readonly runs?: number } = {}
): void => {
  const rule = (title: string, body: () => Effect.Effect<void, unknown, PayloadStore>) =>
    it.live(title, () => Effect.suspend(body).pipe(Effect.provide(store)))

  describe(`payload store: ${name}`, () => {
    rule("returns the stored bytes unchanged, any number of times, whatever they are", () =>
      Effect.gen(function*() {
        const payloads = yield* PayloadStore
        yield* Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(fc.uuid(), fc.uint8Array({ maxLength: 2_000 }), (id, bytes) =>
              Effect.runPromise(Effect.gen(function*() {
                yield* payloads.put(key(`a/${id}/input`), bytes)
                assert.deepStrictEqual([...yield* payloads.get(key(`a/${id}/input`), bytes.byteLength)], [...bytes])
                assert.deepStrictEqual([...yield* payloads.get(key(`a/${id}/input`), bytes.byteLength)], [...bytes])
              }))),
            { numRuns: runs }
          )
        )
        const large = new Uint8Array(3 * 1024 * 1024 + 1).map((_, index) => index % 251)
        yield* payloads.put(key("a/large/input"), large)
        assert.isTrue(Buffer.from(yield* payloads.get(key("a/large/input"), large.byteLength)).equals(large))
      }))

    rule(
      "reports an object that was not stored as missing, even after one was stored next to or below it",
      () =>
        Effect.gen(function*() {
          const payloads = yield* PayloadStore
          const reasonOf = (name: string) => Effect.map(Effect.flip(payloads.get(key(name), 1)), ({ reason }) => reason._tag)
          assert.strictEqual(yield* reasonOf("a/job/input"), "Missing")
          yield* payloads.put(key("a/job/output"), text("1"))
          assert.strictEqual(yield* reasonOf("a/job/input"), "Missing")
          assert.strictEqual(yield* reasonOf("a/job"), "Missing")
          assert.strictEqual(yield* reasonOf("a/job/output/more"), "Missing")
        })
    )

    rule("reports an object as damaged when its size differs", () =>
      Effect.gen(function*() {
        const payloads = yield* PayloadStore
        yield* payloads.put(key("a/job/input"), text("four"))
        for (const size of [0, 3, 5, 4_000_000]) {
          const { reason } = yield* Effect.flip(payloads.get(key("a/job/input"), size))
          assert.strictEqual(reason._tag, "Damaged")
        }
      }))

    rule("treats a repeated put of the same bytes as one object, even a concurrent one", () =>
      Effect.gen(function*() {
        const payloads = yield* PayloadStore
        yield* Effect.replicateEffect(payloads.put(key("a/job/input"), text("same")), 8, { concurrency: "unbounded" })
        yield* payloads.put(key("a/job/input"), text("same"))
        assert.strictEqual(new TextDecoder().decode(yield* payloads.get(key("a/job/input"), 4)), "same")
        assert.deepStrictEqual(yield* keysBelow("a"), ["a/job/input"])
      }))

    rule("removes exactly the given object, and succeeds when it is removed again", () =>
      Effect.gen(function*() {
        const payloads = yield* PayloadStore
        yield* payloads.put(key("a/job/input"), text("in"))
        yield* payloads.put(key("a/job/output"), text("out"))
        yield* payloads.remove(key("a/job/input"))
        assert.strictEqual((yield* Effect.flip(payloads.get(key("a/job/input"), 2))).reason._tag, "Missing")
        assert.strictEqual((yield* payloads.get(key("a/job/output"), 3)).byteLength, 3)
        yield* payloads.remove(key("a/job/input"))
        yield* payloads.remove(key("a/never/was"))
        yield* payloads.remove(key("a/job/output"))
        assert.deepStrictEqual(yield* keysBelow("a"), [])
        // That was the last object under its path. Check that the path can be used again.
        yield* payloads.put(key("a/job/input"), text("in"))
        assert.deepStrictEqual(yield* keysBelow("a"), ["a/job/input"])
      }))

    rule("lists every object below a path, and no other", () =>
      Effect.gen(function*() {
        const payloads = yield* PayloadStore
        const names = Array.from({ length: 40 }, (_, n) => `one/job-${n % 9}/part.${n}`)
        yield* Effect.forEach(
          [...names, "one-more/job-1/part", "two/job-1/part"],
          (name) => payloads.put(key(name), text(name)),
          { concurrency: 8, discard: true }
        )
        assert.deepStrictEqual(yield* keysBelow("one"), names.toSorted())
        assert.deepStrictEqual(yield* keysBelow("one/job-3"), names.filter((one) => one.startsWith("one/job-3/")).sort())
        assert.deepStrictEqual(yield* keysBelow("none"), [])
      }))

    rule("puts, removes and lists concurrently without interference", () =>
      Effect.gen(function*() {
        const payloads = yield* PayloadStore
        const rounds = Array.from({ length: 60 }, (_, n) => n)
        yield* Effect.forEach(rounds, (n) =>
          Effect.gen(function*() {
            const mine = key(`a/job-${n % 3}/part.${n}`)
            yield* payloads.put(mine, text(`${n}`))
            yield* Stream.runDrain(payloads.list(key("a")))
            assert.strictEqual(new TextDecoder().decode(yield* payloads.get(mine, `${n}`.length)), `${n}`)
            if (n % 5 !== 0) yield* payloads.remove(mine)
          }), { concurrency: 12, discard: true })
        const left = rounds.filter((n) => n % 5 === 0).map((n) => `a/job-${n % 3}/part.${n}`)
        assert.deepStrictEqual(yield* keysBelow("a"), left.sort())
      }))
  })
}

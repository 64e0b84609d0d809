/**
 * The conformance suite of build stores.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Build, BuildSettings } from "@stint/contract/Build"
import { EndpointId } from "@stint/contract/Ids"
import { BuildStore, KEPT_BUILDS, type NewBuild } from "@stint/store/BuildStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"

const words = EndpointId.make("words")
const other = EndpointId.make("other")
const settings: BuildSettings = {
  repository: "https://git.example.com/words.git",
  ref: "main",
  context: "lab1",
  args: { A: "1" }
}
const request = {
  endpoint: words,
  createdAt: 1_700_000_000_000,
  createdBy: "the key \"ci\"",
  trigger: "manual"
} as const satisfies NewBuild

/** Registers the rules for a build store. The layer is built for every test. */
export const buildStoreSuite = <E>(name: string, store: Layer.Layer<BuildStore, E>): void => {
  const rule = (title: string, body: Effect.Effect<void, unknown, BuildStore>) =>
    it.effect(title, () => Effect.provide(body, store))

  /** Creates a build of an endpoint that has settings. */
  const create = Effect.fnUntraced(function*(overrides: Partial<NewBuild> = {}) {
    const build = yield* (yield* BuildStore).create({ ...request, ...overrides })
    if (build === undefined) throw new Error("the endpoint has no build settings")
    return build
  })

  const end = (build: Build, state: Build["state"]) =>
    Effect.flatMap(BuildStore, ({ update }) => update({ ...build, state, endedAt: 1_700_000_100_000 }))

  describe(`build store: ${name}`, () => {
    rule(
      "returns the settings that were saved last, and none for an endpoint without settings",
      Effect.gen(function*() {
        const store = yield* BuildStore
        assert.isUndefined(yield* store.settings(words))
        yield* store.saveSettings(words, settings)
        yield* store.saveSettings(words, { repository: "/srv/git/words.git", secrets: {}, onPush: true, timeoutMs: 60_000 })
        assert.deepStrictEqual(yield* store.settings(words), {
          repository: "/srv/git/words.git",
          secrets: {},
          onPush: true,
          timeoutMs: 60_000
        })
        assert.isUndefined(yield* store.settings(other))
      })
    )

    rule(
      "creates no build without settings",
      Effect.gen(function*() {
        const store = yield* BuildStore
        assert.isUndefined(yield* store.create(request))
        assert.deepStrictEqual(yield* store.list(words, { limit: 10 }), [])
      })
    )

    rule(
      "numbers the builds of each endpoint from 1, and copies the settings of that moment into the build",
      Effect.gen(function*() {
        const store = yield* BuildStore
        yield* store.saveSettings(words, settings)
        yield* store.saveSettings(other, settings)
        const first = yield* create()
        assert.deepStrictEqual(first, { ...request, number: 1, state: "queued", settings, warnings: [] })
        yield* store.saveSettings(words, { ...settings, context: "lab2" })
        const second = yield* create({ ref: "v2", message: "why", trigger: "release" })
        assert.deepStrictEqual(second, {
          ...request,
          trigger: "release",
          number: 2,
          state: "queued",
          message: "why",
          settings: { ...settings, context: "lab2", ref: "v2" },
          warnings: []
        })
        assert.deepStrictEqual(yield* store.get(words, 1), first)
        assert.strictEqual((yield* create({ endpoint: other })).number, 1)
        assert.deepStrictEqual((yield* store.settings(words))?.ref, "main")
      })
    )

    rule(
      "replaces a build until it has ended, and never afterwards",
      Effect.gen(function*() {
        const store = yield* BuildStore
        yield* store.saveSettings(words, settings)
        const build = yield* create()
        const running: Build = { ...build, state: "running", startedAt: 1, commit: "c0ffee" }
        assert.isTrue(yield* store.update(running))
        const failed: Build = { ...running, state: "failed", endedAt: 2, reason: "no such file" }
        assert.isTrue(yield* store.update(failed))
        for (const late of [running, { ...running, state: "succeeded" as const }, { ...running, state: "cancelled" as const }]) {
          assert.isFalse(yield* store.update(late))
        }
        assert.deepStrictEqual(yield* store.get(words, 1), failed)
        assert.isFalse(yield* store.update({ ...build, number: 9 }))
      })
    )

    rule(
      "lists the newest builds first, in pages",
      Effect.gen(function*() {
        const store = yield* BuildStore
        yield* store.saveSettings(words, settings)
        for (let at = 0; at < 5; at++) yield* create()
        const numbers = (query: { readonly limit: number; readonly before?: number }) =>
          Effect.map(store.list(words, query), (builds) => builds.map(({ number }) => number))
        assert.deepStrictEqual(yield* numbers({ limit: 2 }), [5, 4])
        assert.deepStrictEqual(yield* numbers({ limit: 9, before: 4 }), [3, 2, 1])
        assert.deepStrictEqual(yield* store.list(other, { limit: 9 }), [])
      })
    )

    rule(
      "finds builds of all endpoints that have not ended, and whether an endpoint has a successful build",
      Effect.gen(function*() {
        const store = yield* BuildStore
        yield* store.saveSettings(words, settings)
        yield* store.saveSettings(other, settings)
        const first = yield* create()
        const second = yield* create()
        yield* create({ endpoint: other })
        yield* end(first, "failed")
        assert.isFalse(yield* store.hasSucceeded(words))
        yield* end(second, "succeeded")
        assert.isTrue(yield* store.hasSucceeded(words))
        assert.isFalse(yield* store.hasSucceeded(other))
        assert.deepStrictEqual((yield* store.unended).map(({ endpoint, number }) => [endpoint, number]), [[other, 1]])
      })
    )

    rule(
      `keeps the last ${KEPT_BUILDS} builds, and older ones that have not ended`,
      Effect.gen(function*() {
        const store = yield* BuildStore
        yield* store.saveSettings(words, settings)
        const first = yield* create()
        for (let at = 0; at < KEPT_BUILDS + 1; at++) yield* end(yield* create(), "succeeded")
        yield* store.appendLog(words, 2, [{ time: 1, text: "of an old build" }])
        yield* create()
        assert.deepStrictEqual(yield* store.get(words, 1), first)
        assert.isUndefined(yield* store.get(words, 2))
        assert.isUndefined(yield* store.get(words, 3))
        assert.isUndefined(yield* store.get(words, Number.MAX_SAFE_INTEGER))
        assert.deepStrictEqual(yield* store.readLog(words, Number.MAX_SAFE_INTEGER, 0, 10), [])
        assert.deepStrictEqual(yield* store.readLog(words, 1, Number.MAX_SAFE_INTEGER, 10), [])
        assert.strictEqual((yield* store.get(words, 4))?.state, "succeeded")
        assert.deepStrictEqual(yield* store.readLog(words, 2, 0, 10), [])
      })
    )

    rule(
      "numbers the lines of a log from 1, and returns them from any position",
      Effect.gen(function*() {
        const store = yield* BuildStore
        yield* store.saveSettings(words, settings)
        yield* create()
        yield* create()
        const line = (at: number) => ({ time: 1_000 + at, text: `line ${at} \u{1f600}` })
        yield* store.appendLog(words, 1, [line(1), line(2), line(3)])
        yield* store.appendLog(words, 1, [])
        yield* store.appendLog(words, 1, [line(4)])
        yield* store.appendLog(words, 1, [line(5), line(6)])
        yield* store.appendLog(words, 2, [line(1)])
        const read = (after: number, limit: number) =>
          Effect.map(store.readLog(words, 1, after, limit), (lines) => lines.map(({ number }) => number))
        assert.deepStrictEqual(yield* store.readLog(words, 1, 3, 1), [{ number: 4, ...line(4) }])
        assert.deepStrictEqual(yield* read(0, 100), [1, 2, 3, 4, 5, 6])
        assert.deepStrictEqual(yield* read(1, 3), [2, 3, 4])
        assert.deepStrictEqual(yield* read(4, 1), [5])
        assert.deepStrictEqual(yield* read(6, 10), [])
        assert.deepStrictEqual(yield* store.readLog(words, 2, 0, 10), [{ number: 1, ...line(1) }])
      })
    )

    rule(
      "removes the builds of one endpoint, and drops lines and updates that arrive later",
      Effect.gen(function*() {
        const store = yield* BuildStore
        yield* store.saveSettings(words, settings)
        yield* store.saveSettings(other, settings)
        const build = yield* create()
        yield* create({ endpoint: other })
        yield* store.appendLog(words, 1, [{ time: 1, text: "a" }])
        yield* store.removeAll(words)
        yield* store.appendLog(words, 1, [{ time: 1, text: "late" }])
        assert.isFalse(yield* store.update({ ...build, state: "running" }))
        assert.isUndefined(yield* store.settings(words))
        assert.isUndefined(yield* store.get(words, 1))
        assert.deepStrictEqual(yield* store.readLog(words, 1, 0, 10), [])
        assert.isDefined(yield* store.get(other, 1))
      })
    )
  })
}

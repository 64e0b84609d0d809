/**
 * The conformance suite of release stores.
 */
import { assert, describe, it } from "@effect/vitest"
import type { Release } from "@stint/contract/Release"
import { EndpointStore } from "@stint/store/EndpointStore"
import { settingsOf } from "@stint/store/ReleaseMachine"
import { baseOf, ReleaseStore } from "@stint/store/ReleaseStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Scenario from "../Scenario.ts"

/** A hash for tests. */
const hash = (digit: string) => digit.repeat(64)

const source = { type: "handler", file: "/srv/handler.ts" } as const

const CANARY = { percent: 10, minJobs: 50, maxPoints: 5 }

const stateOf = ({ number, state }: Release): string => `${number} ${state}`

/** Registers the rules for a release store and its endpoint store. The layer is built for every test. */
export const releaseStoreSuite = <E>(name: string, store: Layer.Layer<ReleaseStore | EndpointStore, E>): void => {
  const rule = (title: string, body: Effect.Effect<void, unknown, ReleaseStore | EndpointStore>) =>
    it.effect(title, () => Effect.provide(body, store))

  const world = Effect.gen(function*() {
    const releases = yield* ReleaseStore
    const endpoints = yield* EndpointStore
    const { id } = Scenario.endpoint()
    const current = endpoints.get(id)
    /** Deploys code with this digit as its hash. */
    const deployOn = (base: number | null, digit: string, settings: Parameters<typeof Scenario.endpoint>[0] = {}, at = 0) =>
      releases.deploy(base, {
        settings: settingsOf(Scenario.endpoint({ source, workers: { min: 0, max: 2 }, ...settings })),
        createdAt: at,
        createdBy: "ann",
        code: { hash: hash(digit), files: [{ path: "handler.ts", hash: hash("f") }] }
      })
    const deploy = (...[digit, settings, at]: [digit: string, settings?: Parameters<typeof Scenario.endpoint>[0], at?: number]) =>
      Effect.flatMap(endpoints.get(settings?.id ?? id), (before) => deployOn(baseOf(before), digit, settings, at))
    /** Deploys a canary with this code. */
    const deployCanary = (digit: string, settings: Parameters<typeof Scenario.endpoint>[0] = {}) =>
      Effect.flatMap(endpoints.get(id), (before) =>
        releases.deploy(baseOf(before), {
          settings: settingsOf(Scenario.endpoint({ source, workers: { min: 0, max: 2 }, ...settings })),
          createdAt: 0,
          createdBy: "ann",
          code: { hash: hash(digit), files: [] },
          canary: CANARY
        }))
    const states = Effect.map(releases.list(id, { limit: 100 }), (all) => all.map(stateOf))
    return { releases, endpoints, id, current, deploy, deployCanary, deployOn, states }
  })

  describe(`release store: ${name}`, () => {
    rule(
      "stores a release with every member, and the endpoint that it becomes",
      Effect.gen(function*() {
        const { current, id, releases } = yield* world
        const settings = settingsOf(Scenario.endpoint({ source, env: { CITY: "Zürich \u{1F680}" } }))
        const deployment = {
          settings,
          createdAt: 7,
          createdBy: "the key \"ci\"",
          message: "why",
          code: { hash: hash("a"), files: [{ path: "handler.ts", hash: hash("b") }] },
          rollbackOf: 3
        }
        const made = yield* releases.deploy(null, deployment)
        const release = { ...deployment, endpoint: id, number: 1, state: "active" as const, activatedAt: 7 }
        assert.deepStrictEqual(made, { _tag: "Deployed", release, endpoint: { ...settings, createdAt: 7, release: 1 } })
        assert.deepStrictEqual(yield* releases.get(id, 1), release)
        assert.deepStrictEqual(yield* releases.list(id, { limit: 10 }), [release])
        assert.deepStrictEqual(yield* current, { ...settings, createdAt: 7, release: 1 })
        for (const number of [2, 2 ** 31, Number.MAX_SAFE_INTEGER]) {
          assert.strictEqual(yield* releases.get(id, number), undefined)
          assert.deepStrictEqual(yield* releases.list(id, { limit: 10, before: number }), [release])
        }
        assert.deepStrictEqual([...(yield* releases.codes)], [hash("a")])
      })
    )

    rule(
      "rolls out changed code: the earlier release stays active until the new one is ready",
      Effect.gen(function*() {
        const { current, deploy, id, releases, states } = yield* world
        yield* deploy("1", {}, 5)
        yield* deploy("2", {}, 9)
        assert.deepStrictEqual(yield* states, ["2 rolling", "1 active"])
        assert.deepInclude(yield* current, { release: 2, previousRelease: 1, createdAt: 5 })
        assert.strictEqual(yield* releases.settle(id, 1, { _tag: "Ready", at: 20 }), undefined)
        const settled = yield* releases.settle(id, 2, { _tag: "Ready", at: 20 })
        assert.deepStrictEqual(settled, yield* current)
        assert.notProperty(settled, "previousRelease")
        assert.deepInclude(yield* releases.get(id, 2), { state: "active", activatedAt: 20 })
        assert.deepStrictEqual(yield* states, ["2 active", "1 superseded"])
        assert.strictEqual(yield* releases.settle(id, 2, { _tag: "Failed", reason: "late" }), undefined)
        assert.deepStrictEqual(yield* states, ["2 active", "1 superseded"])
      })
    )

    rule(
      "returns the endpoint to the earlier release, as it was, when a rollout fails",
      Effect.gen(function*() {
        const { current, deploy, id, releases, states } = yield* world
        yield* deploy("1", { maxAttempts: 4 })
        const before = yield* current
        yield* deploy("2", { maxAttempts: 9 })
        assert.deepInclude(yield* current, { maxAttempts: 9 })
        yield* releases.settle(id, 2, { _tag: "Failed", reason: "no such module" })
        assert.deepStrictEqual(yield* current, before)
        assert.deepStrictEqual(yield* states, ["2 failed", "1 active"])
        assert.deepInclude(yield* releases.get(id, 2), { reason: "no such module" })
        yield* deploy("2", { maxAttempts: 9 })
        assert.deepStrictEqual(yield* states, ["3 rolling", "2 failed", "1 active"])
      })
    )

    rule(
      "replaces a rolling release with a later deployment, and ends the rollout when the serving release is deployed again",
      Effect.gen(function*() {
        const { current, deploy, states } = yield* world
        yield* deploy("1")
        yield* deploy("2")
        yield* deploy("3")
        assert.deepStrictEqual(yield* states, ["3 rolling", "2 superseded", "1 active"])
        assert.deepInclude(yield* current, { release: 3, previousRelease: 1 })
        yield* deploy("1")
        assert.deepStrictEqual(yield* states, ["4 active", "3 superseded", "2 superseded", "1 superseded"])
        assert.notProperty(yield* current, "previousRelease")
      })
    )

    rule(
      "keeps the active release while a canary is tried, and makes the canary the release when it is promoted",
      Effect.gen(function*() {
        const { current, deploy, deployCanary, id, releases, states } = yield* world
        yield* deploy("1", { maxAttempts: 4 })
        const before = yield* current
        const made = yield* deployCanary("2", { maxAttempts: 9 })
        assert.deepStrictEqual(yield* states, ["2 canary", "1 active"])
        assert.deepStrictEqual(yield* current, before && { ...before, canary: { release: 2, percent: 10 } })
        assert.deepStrictEqual(made._tag === "Deployed" ? made.endpoint : undefined, yield* current)
        assert.deepInclude(yield* releases.get(id, 2), { canary: CANARY })
        assert.strictEqual(yield* releases.settle(id, 2, { _tag: "Ready", at: 5 }), undefined)
        assert.strictEqual(yield* releases.settle(id, 1, { _tag: "Promoted" }), undefined)
        assert.deepStrictEqual(yield* releases.settle(id, 2, { _tag: "Promoted" }), yield* current)
        assert.deepStrictEqual(yield* states, ["2 rolling", "1 active"])
        assert.deepInclude(yield* current, { release: 2, previousRelease: 1, maxAttempts: 9 })
        assert.notProperty(yield* current, "canary")
        yield* releases.settle(id, 2, { _tag: "Ready", at: 6 })
        assert.deepStrictEqual(yield* states, ["2 active", "1 superseded"])
      })
    )

    rule(
      "ends a canary when it fails and at every deployment, and keeps it as long as it is tried",
      Effect.gen(function*() {
        const { current, deploy, deployCanary, id, releases, states } = yield* world
        yield* deploy("1")
        const before = yield* current
        yield* deployCanary("2")
        yield* releases.settle(id, 2, { _tag: "Failed", reason: "wrong results" })
        assert.deepStrictEqual(yield* current, before)
        assert.deepInclude(yield* releases.get(id, 2), { state: "failed", reason: "wrong results" })
        yield* deployCanary("3")
        yield* deployCanary("4")
        assert.deepInclude(yield* current, { release: 1, canary: { release: 4, percent: 10 } })
        yield* deploy("1", { maxAttempts: 5 })
        assert.notProperty(yield* current, "canary")
        assert.deepStrictEqual(yield* states, ["5 active", "4 superseded", "3 superseded", "2 failed", "1 superseded"])
        yield* deploy("6")
        yield* deployCanary("7")
        assert.deepStrictEqual((yield* states).slice(0, 3), ["7 canary", "6 superseded", "5 active"])
        assert.notProperty(yield* current, "previousRelease")
        assert.deepInclude(yield* current, { release: 5, maxAttempts: 5 })
        // Settings that do not concern workers, and a first release, cannot be tried on a part of the jobs.
        yield* deployCanary("1", { maxAttempts: 6 })
        assert.deepInclude(yield* current, { release: 8, maxAttempts: 6 })
        assert.deepInclude(yield* releases.get(id, 8), { state: "active" })
        assert.notProperty(yield* releases.get(id, 8), "canary")
      })
    )

    rule(
      "ends a canary even when the settings are those of a whole endpoint, with its state",
      Effect.gen(function*() {
        const { current, deploy, deployCanary, id, releases, states } = yield* world
        yield* deploy("1")
        yield* deployCanary("2")
        const whole = yield* current
        if (whole === undefined) return assert.fail()
        yield* releases.deploy(1, { settings: whole, createdAt: 5, createdBy: "ann", code: { hash: hash("3"), files: [] } })
        assert.deepStrictEqual(yield* current, { ...settingsOf(whole), createdAt: 0, release: 3, previousRelease: 1 })
        assert.deepStrictEqual((yield* releases.get(id, 3))?.settings, settingsOf(whole))
        assert.deepStrictEqual(yield* states, ["3 rolling", "2 superseded", "1 active"])
      })
    )

    rule(
      "activates at once what replaces no worker: other settings, a paused endpoint, external workers",
      Effect.gen(function*() {
        const { deploy, states } = yield* world
        yield* deploy("1")
        yield* deploy("1", { maxAttempts: 9 })
        yield* deploy("2", { workers: { min: 0, max: 0 } })
        yield* deploy("3", { source: { type: "external" } })
        assert.deepStrictEqual(yield* states, ["4 active", "3 superseded", "2 superseded", "1 superseded"])
      })
    )

    rule(
      "stores nothing when another deployment came first, so concurrent deployments get different numbers",
      Effect.gen(function*() {
        const { current, deployOn, endpoints, id, releases, states } = yield* world
        const made = yield* Effect.forEach(["1", "2", "3", "4"], (digit) => deployOn(null, digit), { concurrency: "unbounded" })
        assert.strictEqual(made.filter(({ _tag }) => _tag === "Deployed").length, 1)
        assert.deepStrictEqual(yield* states, ["1 active"])
        const settings = settingsOf(Scenario.endpoint())
        const again = (base: number | null) => releases.deploy(base, { settings, createdAt: 0, createdBy: "bob" })
        assert.deepStrictEqual(yield* again(null), { _tag: "Moved", base: 1 })
        assert.deepStrictEqual(yield* again(7), { _tag: "Moved", base: 1 })
        assert.deepInclude(yield* current, { release: 1 })
        yield* endpoints.remove(id)
        assert.deepStrictEqual(yield* again(1), { _tag: "Moved", base: null })
      })
    )

    rule(
      "keeps the last 20 releases, the active release, and their code",
      Effect.gen(function*() {
        const { deploy, id, releases } = yield* world
        yield* deploy("1")
        // Each deployment replaces the rolling release, so the first one stays active.
        for (let number = 2; number <= 25; number++) yield* deploy(number % 2 === 0 ? "2" : "3")
        const kept = (yield* releases.list(id, { limit: 100 })).map(({ number }) => number)
        assert.deepStrictEqual(kept, [...Array.from({ length: 20 }, (_, index) => 25 - index), 1])
        assert.deepStrictEqual([...(yield* releases.codes)].sort(), [hash("1"), hash("2"), hash("3")])
        assert.deepStrictEqual((yield* releases.list(id, { limit: 2, before: 7 })).map(({ number }) => number), [6, 1])
      })
    )

    rule(
      "removes an endpoint's releases with the endpoint, and no others",
      Effect.gen(function*() {
        const { deploy, endpoints, id, releases, states } = yield* world
        yield* deploy("1")
        yield* deploy("2", { id: "other" })
        yield* endpoints.remove(id)
        assert.deepStrictEqual(yield* states, [])
        assert.deepStrictEqual([...(yield* releases.codes)], [hash("2")])
        yield* deploy("3")
        assert.deepStrictEqual(yield* states, ["1 active"])
      })
    )
  })
}

import { assert, describe, it } from "@effect/vitest"
import * as Autoscaler from "@stint/autoscaler/Autoscaler"
import type { Endpoint } from "@stint/contract/Endpoint"
import { endpointOf } from "@stint/pool/testing"
import { WorkerRegistry } from "@stint/queue"
import * as EndpointStore from "@stint/store/EndpointStore"
import { baseOf, ReleaseStore } from "@stint/store/ReleaseStore"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import type { withoutAutoscaler } from "./TestPlatform.ts"
import { after, deploy, jobOf, onlyWorker, onPlatform, running, started, states, submit } from "./TestPlatform.ts"

const test = (title: string, body: () => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler>>) =>
  it.effect(title, () => onPlatform(body()))

/** Deploys a release of the endpoint, and waits until the autoscaler has read it. */
const release = Effect.fnUntraced(function*(spec: Parameters<typeof endpointOf>[0]) {
  const store = yield* ReleaseStore
  const endpoints = yield* EndpointStore.EndpointStore
  const { createdAt: _, ...settings } = yield* endpointOf(spec)
  const base = baseOf(yield* endpoints.get(settings.id))
  const result = yield* store.deploy(base, { settings, createdAt: 0, createdBy: "test" })
  if (result._tag === "Moved") return yield* Effect.die(new Error("another deployment came first"))
  yield* after(300)
  return result.endpoint
})

const releaseStates = ({ id }: Endpoint) =>
  Effect.flatMap(
    ReleaseStore,
    (store) => Effect.map(store.list(id, { limit: 10 }), (all) => all.map(({ number, state }) => `${number} ${state}`))
  )

const settingsOf = ({ id }: Endpoint) => Effect.flatMap(EndpointStore.EndpointStore, (store) => store.get(id))

describe("Autoscaler: releases", () => {
  test("starts a worker of the new release before it drains the old one, even without jobs and with max 1", () =>
    Effect.gen(function*() {
      const endpoint = yield* release({ workers: { min: 1, max: 1 }, env: { BOOT_MS: "1000" } })
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["1 active"])
      yield* after("3 seconds")
      const [first] = yield* running
      yield* release({ workers: { min: 1, max: 1 }, env: { BOOT_MS: "2000" } })
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 rolling", "1 active"])
      yield* after("1 second")
      assert.deepStrictEqual(yield* states(endpoint), ["idle", "initializing"])
      assert.include(yield* running, first)
      yield* after("3 seconds")
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 active", "1 superseded"])
      yield* after("10 seconds")
      assert.deepStrictEqual(yield* states(endpoint), ["idle"])
      assert.notInclude(yield* running, first)
    }))

  test("keeps the old release when the new one does not start: its jobs run, and only one start is attempted", () =>
    Effect.gen(function*() {
      const store = yield* ReleaseStore
      const endpoint = yield* release({ workers: { min: 1, max: 2 } })
      yield* after("3 seconds")
      const before = yield* started
      yield* release({ workers: { min: 1, max: 2 }, env: { BOOT_EXIT: "3", BOOT_MS: "500" } })
      const during = yield* submit(endpoint)
      yield* after("5 seconds")
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 failed", "1 active"])
      assert.match((yield* store.get(endpoint.id, 2))?.reason ?? "", /exited with code 3[^]*cannot find module/)
      assert.deepInclude(yield* settingsOf(endpoint), { release: 1, env: {} })
      assert.notProperty(yield* settingsOf(endpoint), "previousRelease")
      yield* after("2 minutes")
      assert.strictEqual(yield* started, before + 1)
      assert.deepInclude(yield* jobOf(endpoint, during), { status: "COMPLETED", attempt: 1 })
      assert.deepInclude(yield* jobOf(endpoint, yield* Effect.tap(submit(endpoint), () => after("1 second"))), {
        status: "COMPLETED"
      })
    }))

  test("replaces busy workers one by one, each after a new worker is ready, and loses no attempt", () =>
    Effect.gen(function*() {
      const scaler = { type: "REQUEST_COUNT", value: 1 } as const
      const workers = { min: 0, max: 3 }
      const endpoint = yield* release({ workers, scaler })
      const jobs = yield* Effect.forEach([1, 2, 3], () => submit(endpoint, { ms: 20_000 }))
      yield* after("2 seconds")
      assert.strictEqual((yield* running).length, 3)
      yield* release({ workers, scaler, env: { BOOT_MS: "1000" } })
      for (let second = 0; second < 60; second++) {
        assert.isAtMost((yield* running).length, 4)
        yield* after("1 second")
      }
      for (const job of jobs) assert.deepInclude(yield* jobOf(endpoint, job), { status: "COMPLETED", attempt: 1 })
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 active", "1 superseded"])
    }))

  test("a deployment during a rollout replaces the rolling release, and the old release serves until the latest is ready", () =>
    Effect.gen(function*() {
      const workers = { min: 1, max: 1 }
      const endpoint = yield* release({ workers })
      yield* after("3 seconds")
      const [first] = yield* running
      yield* release({ workers, env: { BOOT_MS: "600000" } })
      yield* release({ workers, env: { BOOT_MS: "1000" } })
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["3 rolling", "2 superseded", "1 active"])
      assert.include(yield* running, first)
      yield* after("30 seconds")
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["3 active", "2 superseded", "1 superseded"])
    }))

  test("applies settings that do not concern the workers at once", () =>
    Effect.gen(function*() {
      const endpoint = yield* release({ workers: { min: 1, max: 1 } })
      yield* after("3 seconds")
      const before = yield* running
      yield* release({ workers: { min: 1, max: 2 }, retentionMs: 5_000 })
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 active", "1 superseded"])
      yield* after("10 seconds")
      assert.deepStrictEqual(yield* running, before)
    }))

  test("records with each job the release that ran it, even for workers that a first release or other settings did not replace", () =>
    Effect.gen(function*() {
      const spec = { workers: { min: 1, max: 1 } }
      const endpoint = yield* deploy(spec)
      yield* after("3 seconds")
      const worker = yield* onlyWorker
      const ran = Effect.gen(function*() {
        const id = yield* submit(endpoint)
        yield* after("1 second")
        const { release, status, worker } = yield* jobOf(endpoint, id)
        return { release, status, worker }
      })
      assert.deepStrictEqual(yield* ran, { release: null, status: "COMPLETED", worker })
      yield* release(spec)
      assert.deepStrictEqual(yield* ran, { release: 1, status: "COMPLETED", worker })
      yield* release({ ...spec, retentionMs: 5_000 })
      assert.deepStrictEqual(yield* ran, { release: 2, status: "COMPLETED", worker })
      yield* release({ ...spec, env: { BOOT_MS: "1000" } })
      assert.deepStrictEqual(yield* ran, { release: 2, status: "COMPLETED", worker })
      yield* after("1 minute")
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["3 active", "2 superseded", "1 superseded"])
      const next = yield* onlyWorker
      assert.notStrictEqual(next, worker)
      assert.deepStrictEqual(yield* ran, { release: 3, status: "COMPLETED", worker: next })
    }))

  it.effect("continues an unfinished rollout in a new autoscaler", () =>
    onPlatform(
      Effect.gen(function*() {
        const endpoint = yield* release({ workers: { min: 1, max: 1 } })
        yield* release({ workers: { min: 1, max: 1 }, env: { BOOT_MS: "1000" } })
        assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 rolling", "1 active"])
        const registry = yield* WorkerRegistry.WorkerRegistry
        const scope = yield* Scope.make()
        yield* Layer.buildWithScope(Autoscaler.layer(), scope)
        yield* after("20 seconds")
        assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 active", "1 superseded"])
        assert.isNotEmpty(yield* registry.list(endpoint.id))
        const closing = yield* Effect.forkChild(Scope.close(scope, Exit.void))
        yield* after("2 minutes")
        yield* Effect.asVoid(Effect.exit(Effect.suspend(() => Effect.succeed(closing))))
      }),
      // The first autoscaler never looks at the endpoint.
      { reconcile: "1 hour" }
    ))
})

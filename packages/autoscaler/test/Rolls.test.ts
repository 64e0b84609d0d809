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

describe("Autoscaler: releases on a machine with too few GPUs for two of them", () => {
  const source = { type: "command", command: ["worker"], gpus: 1 } as const
  const scaler = { type: "REQUEST_COUNT", value: 1 } as const

  const on = (
    gpuIds: ReadonlyArray<string>,
    title: string,
    body: () => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler>>
  ) => it.effect(title, () => onPlatform(body(), {}, { cpus: 1, memoryBytes: 0, gpuIds }))

  on(
    ["0"],
    "the idle worker of the old release makes room, although it is always kept, and the new one takes over",
    () =>
      Effect.gen(function*() {
        const workers = { min: 1, max: 1 }
        const endpoint = yield* release({ source, workers })
        yield* after("3 seconds")
        const first = yield* onlyWorker
        yield* release({ source, workers, env: { BOOT_MS: "1000" } })
        yield* after("20 seconds")
        assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 active", "1 superseded"])
        assert.notStrictEqual(yield* onlyWorker, first)
        assert.deepInclude(yield* jobOf(endpoint, yield* Effect.tap(submit(endpoint), () => after("1 second"))), {
          status: "COMPLETED"
        })
      })
  )

  on(["0", "1"], "busy workers finish their jobs first, all are replaced, and no attempt is lost", () =>
    Effect.gen(function*() {
      const workers = { min: 0, max: 2 }
      const endpoint = yield* release({ source, scaler, workers })
      const jobs = yield* Effect.forEach([1, 2, 3, 4, 5, 6], () => submit(endpoint, { ms: 10_000 }))
      yield* after("2 seconds")
      const before = yield* running
      assert.strictEqual(before.length, 2)
      yield* release({ source, scaler, workers, env: { BOOT_MS: "1000" } })
      for (let second = 0; second < 90; second++) {
        assert.isAtMost((yield* running).length, 2)
        yield* after("1 second")
      }
      for (const job of jobs) assert.deepInclude(yield* jobOf(endpoint, job), { status: "COMPLETED", attempt: 1 })
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 active", "1 superseded"])
    }))

  on(
    ["0", "1"],
    "no worker of the old release takes the place that another one has left for the new release",
    () =>
      Effect.gen(function*() {
        const workers = { min: 2, max: 2 }
        const endpoint = yield* release({ source, workers })
        yield* after("3 seconds")
        const before = yield* started
        assert.strictEqual(before, 2)
        yield* release({ source, workers, env: { BOOT_MS: "1000" } })
        yield* after("30 seconds")
        assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 active", "1 superseded"])
        assert.strictEqual(yield* started, before + 2)
        assert.strictEqual((yield* running).length, 2)
      })
  )

  on(["0"], "the old release starts again when the new one fails", () =>
    Effect.gen(function*() {
      const workers = { min: 1, max: 1 }
      const endpoint = yield* release({ source, workers })
      yield* after("3 seconds")
      yield* release({ source, workers, env: { BOOT_EXIT: "3", BOOT_MS: "500" } })
      yield* after("30 seconds")
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 failed", "1 active"])
      assert.deepStrictEqual(yield* states(endpoint), ["idle"])
      assert.deepInclude(yield* jobOf(endpoint, yield* Effect.tap(submit(endpoint), () => after("1 second"))), {
        status: "COMPLETED"
      })
    }))

  on(["0"], "the old release keeps serving when the new one would not fit even without it", () =>
    Effect.gen(function*() {
      const workers = { min: 1, max: 1 }
      const endpoint = yield* release({ source, workers })
      yield* after("3 seconds")
      const first = yield* onlyWorker
      yield* release({ source: { ...source, gpus: 2 }, workers })
      yield* after("2 minutes")
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 rolling", "1 active"])
      assert.strictEqual(yield* onlyWorker, first)
      const registry = yield* WorkerRegistry.WorkerRegistry
      const reasons = (yield* registry.list(endpoint.id)).map(({ reason }) => reason ?? "")
      assert.isTrue(
        reasons.some((reason) => reason.includes("has 1 GPUs, and a worker of this endpoint needs 2")),
        JSON.stringify(yield* registry.list(endpoint.id))
      )
    }))
})

describe("Autoscaler: endpoints that share a GPU", () => {
  it.effect("get it in turn, each when a worker of the other one has gone, also if both always have jobs", () =>
    onPlatform(
      Effect.gen(function*() {
        const settings = { workers: { min: 0, max: 1, idleTimeoutMs: 1_000 }, env: { ONCE: "1" } } as const
        const source = { type: "command", command: ["worker"], gpus: 1 } as const
        const endpoints = yield* Effect.forEach(["a", "b", "c"], (id) => deploy({ id, source, ...settings }))
        const jobs = yield* Effect.forEach([1, 2, 3], () =>
          Effect.forEach(endpoints, (endpoint) => Effect.map(submit(endpoint, { ms: 5_000 }), (id) => ({ endpoint, id }))))
        for (let second = 0; second < 120; second++) {
          assert.isAtMost((yield* running).length, 1)
          yield* after("1 second")
        }
        const ends = yield* Effect.forEach(jobs.flat(), ({ endpoint, id }) =>
          jobOf(endpoint, id))
        for (const end of ends) assert.deepInclude(end, { status: "COMPLETED", attempt: 1 })
        const order = ends.toSorted((one, other) => (one.finishedAt ?? 0) - (other.finishedAt ?? 0)).map(({ endpoint }) =>
          endpoint
        )
        assert.deepStrictEqual(order.slice(0, 3).toSorted(), ["a", "b", "c"])
        assert.deepStrictEqual(order.slice(3, 6).toSorted(), ["a", "b", "c"])
      }),
      {},
      { cpus: 1, memoryBytes: 0, gpuIds: ["0"] }
    ))
})

import { assert, describe, it } from "@effect/vitest"
import type { Endpoint } from "@stint/contract/Endpoint"
import { JobId } from "@stint/contract/Ids"
import { endpointOf } from "@stint/pool/testing"
import { JobQueue, WorkerRegistry } from "@stint/queue"
import * as EndpointStore from "@stint/store/EndpointStore"
import { baseOf, ReleaseStore } from "@stint/store/ReleaseStore"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type { withoutAutoscaler } from "./TestPlatform.ts"
import { after, jobOf, onPlatform, running, states, submit } from "./TestPlatform.ts"

const test = (title: string, body: () => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler>>) =>
  it.effect(title, () => onPlatform(body()))

const workers = { min: 1, max: 3 }

const CANARY = { percent: 10, minJobs: 50, maxPoints: 5 }

/** Deploys a release, or a canary, and waits until the autoscaler has read it. */
const release = Effect.fnUntraced(function*(env: Record<string, string>, canary?: typeof CANARY) {
  const store = yield* ReleaseStore
  const endpoints = yield* EndpointStore.EndpointStore
  const { createdAt: _, ...settings } = yield* endpointOf({ workers, env })
  const base = baseOf(yield* endpoints.get(settings.id))
  const result = yield* store.deploy(base, {
    settings,
    createdAt: 0,
    createdBy: "test",
    ...(canary === undefined ? {} : { canary })
  })
  if (result._tag === "Moved") return yield* Effect.die(new Error("another deployment came first"))
  yield* after(300)
  return result.endpoint
})

const releaseStates = ({ id }: Endpoint) =>
  Effect.flatMap(
    ReleaseStore,
    (store) => Effect.map(store.list(id, { limit: 10 }), (all) => all.map(({ number, state }) => `${number} ${state}`))
  )

/** Submits jobs, a few at a time, and returns which release ran how many of them, and how many failed. */
const runJobs = Effect.fnUntraced(function*(endpoint: Endpoint, jobs: number) {
  const ids: Array<JobId> = []
  while (ids.length < jobs) {
    for (let at = 0; at < 10; at++) ids.push(yield* submit(endpoint, { ms: 10 }))
    yield* after("1 second")
  }
  yield* after("30 seconds")
  const ran = { 1: 0, 2: 0, failed: 0 }
  for (const id of ids) {
    const { release, status } = yield* jobOf(endpoint, id)
    assert.include(["COMPLETED", "FAILED"], status)
    if (status === "FAILED") ran.failed += 1
    if (release === 1 || release === 2) ran[release] += 1
  }
  return ran
})

describe("Autoscaler: canaries", () => {
  test("gives a canary its share of the jobs, and all of them when it is promoted", () =>
    Effect.gen(function*() {
      const store = yield* ReleaseStore
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* release({})
      yield* after("3 seconds")
      yield* release({ VERSION: "2" }, CANARY)
      yield* after("5 seconds")
      assert.strictEqual((yield* running).length, 2)
      const ran = yield* runJobs(endpoint, 400)
      assert.deepInclude(ran, { failed: 0 })
      assert.isAtLeast(ran[2], 35)
      assert.isAtMost(ran[2], 40)
      assert.deepStrictEqual(registry.canaries.resultsOf(endpoint.id), {
        canary: { jobs: ran[2], failed: 0 },
        active: { jobs: ran[1], failed: 0 }
      })
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 canary", "1 active"])

      yield* store.settle(endpoint.id, 2, { _tag: "Promoted" })
      yield* after("1 minute")
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 active", "1 superseded"])
      assert.isUndefined(registry.canaries.shareOf(endpoint.id))
      assert.deepStrictEqual(yield* runJobs(endpoint, 20), { 1: 0, 2: 20, failed: 0 })
    }))

  test("rolls a canary back when its jobs fail, records the numbers, and ends its workers", () =>
    Effect.gen(function*() {
      const store = yield* ReleaseStore
      const endpoint = yield* release({})
      yield* after("3 seconds")
      yield* release({ FAILS: "1" }, CANARY)
      yield* after("5 seconds")
      const ran = yield* runJobs(endpoint, 1_000)
      assert.isAtLeast(ran.failed, 50)
      assert.isAtMost(ran.failed, 60)
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 failed", "1 active"])
      assert.match(
        (yield* store.get(endpoint.id, 2))?.reason ?? "",
        /failed \d+ of \d+ attempts \(100 %\).*release 1 failed 0 of/
      )
      assert.deepStrictEqual(yield* runJobs(endpoint, 20), { 1: 20, 2: 0, failed: 0 })
      yield* after("2 minutes")
      assert.deepStrictEqual(yield* states(endpoint), ["idle"])
    }))

  test("does not roll a canary back when both releases fail equally often", () =>
    Effect.gen(function*() {
      const endpoint = yield* release({ FAILS: "1" })
      yield* after("3 seconds")
      yield* release({ FAILS: "2" }, { ...CANARY, percent: 50 })
      yield* after("5 seconds")
      const ran = yield* runJobs(endpoint, 300)
      assert.isAtLeast(ran[2], 100)
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 canary", "1 active"])
    }))

  test("rolls a canary back when its first worker does not start, even without jobs", () =>
    Effect.gen(function*() {
      const endpoint = yield* release({})
      yield* after("3 seconds")
      const before = yield* running
      yield* release({ BOOT_EXIT: "3", BOOT_MS: "500" }, CANARY)
      yield* after("10 seconds")
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 failed", "1 active"])
      assert.deepStrictEqual(yield* running, before)
      assert.deepStrictEqual(yield* runJobs(endpoint, 20), { 1: 20, 2: 0, failed: 0 })
    }))

  test("does not count the jobs of a worker that an operator stops", () =>
    Effect.gen(function*() {
      const queue = yield* JobQueue.JobQueue
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* release({})
      yield* after("3 seconds")
      yield* release({ VERSION: "2" }, { percent: 50, minJobs: 1, maxPoints: 5 })
      yield* after("5 seconds")
      yield* runJobs(endpoint, 10)
      for (let n = 0; n < 6; n++) yield* submit(endpoint, { ms: 20_000 })
      yield* after("2 seconds")
      const before = registry.canaries.resultsOf(endpoint.id)
      const stopped = (yield* registry.list(endpoint.id)).find(({ jobs, release }) => release === 2 && jobs.length > 0)
      assert.isDefined(stopped)
      yield* queue.removeWorker(endpoint.id, stopped?.id ?? "", "stop")
      yield* after("2 seconds")
      assert.notInclude(yield* running, stopped?.id)
      const { retries } = yield* queue.get(endpoint.id, JobId.make(stopped?.jobs[0] ?? ""))
      assert.strictEqual(retries, 1)
      assert.deepStrictEqual(registry.canaries.resultsOf(endpoint.id), before)
      assert.deepStrictEqual(yield* releaseStates(endpoint), ["2 canary", "1 active"])
    }))
})

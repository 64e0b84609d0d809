import { assert, describe, it } from "@effect/vitest"
import * as Autoscaler from "@stint/autoscaler/Autoscaler"
import type { Endpoint } from "@stint/contract/Endpoint"
import { PoolError } from "@stint/pool"
import * as MemoryWorkerPool from "@stint/pool/MemoryWorkerPool"
import { JobQueue, WorkerRegistry } from "@stint/queue"
import { type SetWallClock, StoreFaults, withDivergentClock } from "@stint/store-testing"
import * as EndpointStore from "@stint/store/EndpointStore"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import {
  after,
  deploy,
  jobOf,
  now,
  onlyWorker,
  onPlatform,
  QueueFaults,
  running,
  started,
  states,
  submit,
  withoutAutoscaler
} from "./TestPlatform.ts"

const test = (title: string, body: () => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler>>) =>
  it.effect(title, () => onPlatform(body()))

const testWithClock = (
  title: string,
  body: (setWallClock: SetWallClock) => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler>>
) => it.effect(title, () => withDivergentClock((setWallClock) => onPlatform(body(setWallClock))))

const HOUR = 3_600_000

describe("Autoscaler: a wall clock that is set", () => {
  testWithClock(
    "stops idle workers in time when the clock is set back an hour, and no busy worker when it is set forward",
    (set) =>
      Effect.gen(function*() {
        const endpoint = yield* deploy({ workers: { idleTimeoutMs: 5_000 } })
        const job = yield* submit(endpoint, { ms: 20_000 })
        yield* after("10 seconds")
        yield* set(HOUR)
        yield* after("5 seconds")
        assert.strictEqual((yield* running).length, 1)
        yield* after("6 seconds")
        assert.deepInclude(yield* jobOf(endpoint, job), { status: "COMPLETED", attempt: 1 })
        yield* set(-HOUR)
        yield* after("10 seconds")
        assert.strictEqual((yield* running).length, 0)
      })
  )

  testWithClock("starts workers again after their backoff when the clock is set back an hour", (set) =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ env: { BOOT_EXIT: "1" } })
      yield* submit(endpoint)
      yield* after("1 minute")
      const before = yield* started
      yield* set(-HOUR)
      yield* after("40 seconds")
      assert.isAbove(yield* started, before)
      const [shown] = yield* registry.list(endpoint.id)
      const time = yield* Clock.currentTimeMillis
      assert.isAtMost(shown?.retryAt ?? 0, time + 30_000)
      assert.isAtLeast(shown?.retryAt ?? 0, time - 30_000)
    }))
})

describe("Autoscaler: warm times", () => {
  const OFFICE = { start: "5 * * * *", end: "15 * * * *", min: 2 }

  test("keeps more workers from the start to the end of a warm time", () =>
    Effect.gen(function*() {
      yield* deploy({ workers: { min: 1, warm: [OFFICE], idleTimeoutMs: 5_000 } })
      yield* after("290 seconds")
      assert.strictEqual((yield* running).length, 1)
      yield* after("11 seconds")
      assert.strictEqual((yield* running).length, 2)
      yield* after("595 seconds")
      assert.strictEqual((yield* running).length, 2)
      yield* after("10 seconds")
      assert.strictEqual((yield* running).length, 1)
    }))

  test("starts the workers of an open warm time at once, uses the largest of several, and stops them when the setting is removed", () =>
    Effect.gen(function*() {
      yield* after("10 minutes")
      const noon = { start: "9 * * * *", end: "11 * * * *", min: 3 }
      const endpoint = yield* deploy({ workers: { max: 5, warm: [OFFICE, noon], idleTimeoutMs: 5_000 } })
      yield* after("2 seconds")
      assert.strictEqual((yield* running).length, 3)
      yield* deploy({ ...endpoint, workers: { max: 5, idleTimeoutMs: 5_000 } })
      yield* after("10 seconds")
      assert.strictEqual((yield* running).length, 0)
    }))
})

describe("Autoscaler: scaling", () => {
  test("starts no worker before the first job, and immediately starts one worker for it", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy()
      yield* after("1 hour")
      assert.strictEqual(yield* started, 0)
      const job = yield* submit(endpoint)
      yield* now
      assert.strictEqual(yield* started, 1)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("QUEUE_DELAY: starts a further worker only after a job has waited for the configured delay", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ scaler: { type: "QUEUE_DELAY", value: 4 } })
      for (let count = 0; count < 4; count++) yield* submit(endpoint, { ms: 60_000 })
      yield* after(3_900)
      assert.strictEqual((yield* running).length, 1)
      yield* after(200)
      assert.strictEqual((yield* running).length, 2)
      yield* after(3_700)
      assert.strictEqual((yield* running).length, 2)
      yield* after(400)
      assert.strictEqual((yield* running).length, 3)
      yield* after("20 seconds")
      assert.strictEqual((yield* running).length, 3, "at most max workers")
    }))

  test("QUEUE_DELAY: starts only one worker for one job with a slow cold start", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ env: { BOOT_MS: "60000" } })
      const job = yield* submit(endpoint)
      yield* after("61 seconds")
      assert.strictEqual(yield* started, 1)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("records when a worker was requested, was created, and first called", () =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ env: { BOOT_MS: "700" } })
      const job = yield* jobOf(endpoint, yield* submit(endpoint))
      yield* after("1 second")
      const { queuedAt, startedAt, worker } = yield* jobOf(endpoint, job.id)
      const start = registry.startOf(endpoint.id, worker ?? "")
      assert.isDefined(start)
      const { calledAt, createdAt, readyAt, requestedAt } = start
      assert.deepStrictEqual([createdAt, calledAt, readyAt], [requestedAt, requestedAt + 700, requestedAt + 700])
      assert.isAtLeast(requestedAt, queuedAt)
      assert.strictEqual(startedAt, readyAt)
    }))

  test("REQUEST_COUNT: runs ceil((waiting + running) / value) workers, up to max", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ scaler: { type: "REQUEST_COUNT", value: 2 }, workers: { max: 4 } })
      for (let count = 0; count < 5; count++) yield* submit(endpoint, { ms: 60_000 })
      yield* after(100)
      assert.strictEqual((yield* running).length, 3)
      for (let count = 0; count < 20; count++) yield* submit(endpoint, { ms: 60_000 })
      yield* after(100)
      assert.strictEqual((yield* running).length, 4)
    }))

  test("starts no worker for low-priority jobs, which run on an existing worker", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy()
      const low = yield* submit(endpoint, {}, { lowPriority: true })
      yield* after("1 minute")
      assert.strictEqual(yield* started, 0)
      yield* submit(endpoint)
      yield* after(200)
      assert.strictEqual((yield* jobOf(endpoint, low)).status, "COMPLETED")
      assert.strictEqual(yield* started, 1)
    }))

  test("keeps an idle worker for the idle timeout, then stops it", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ workers: { idleTimeoutMs: 5_000 } })
      yield* submit(endpoint)
      yield* after(4_900)
      assert.strictEqual((yield* running).length, 1)
      yield* submit(endpoint)
      yield* after(4_900)
      assert.deepStrictEqual([yield* started, (yield* running).length], [1, 1], "a job within the timeout restarts the timeout")
      yield* after(300)
      assert.strictEqual((yield* running).length, 0)
      assert.deepStrictEqual(yield* states(endpoint), [])
      yield* after("1 minute")
      assert.strictEqual(yield* started, 1)
    }))

  test("runs min workers without jobs, keeps them, and replaces them after a crash", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      const endpoint = yield* deploy({ workers: { min: 2 } })
      yield* after("10 minutes")
      assert.deepStrictEqual([yield* started, (yield* running).length], [2, 2])
      assert.deepStrictEqual(yield* states(endpoint), ["idle", "idle"])
      const [first] = yield* running
      yield* faults.crash(first ?? "", { signal: "SIGSEGV" })
      yield* now
      assert.deepStrictEqual([yield* started, (yield* running).length], [3, 2])
    }))

  test("never stops a worker with a running job to scale down", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ workers: { idleTimeoutMs: 0 } })
      const job = yield* submit(endpoint, { ms: 300_000 })
      yield* after("4 minutes")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "IN_PROGRESS")
      yield* deploy({ workers: { min: 0, max: 0 } })
      yield* after("30 seconds")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "IN_PROGRESS")
      yield* after("31 seconds")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
      assert.strictEqual((yield* running).length, 0)
      const waiting = yield* submit(endpoint)
      yield* after("1 minute")
      assert.strictEqual((yield* jobOf(endpoint, waiting)).status, "IN_QUEUE", "max 0 pauses the endpoint")
    }))

  test("replaces the workers after a settings change: idle ones at once, busy ones after their job", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      const endpoint = yield* deploy({ workers: { min: 2 } })
      yield* after(100)
      const old = yield* running
      const job = yield* submit(endpoint, { ms: 20_000 })
      yield* now
      yield* deploy({ workers: { min: 2 }, env: { VERSION: "2" } })
      yield* after(500)
      const versions = Effect.map(
        faults.running,
        (workers) => workers.map((worker) => worker.endpoint.env["VERSION"] ?? "1").sort()
      )
      assert.deepStrictEqual(yield* versions, ["1", "2", "2"])
      yield* after("21 seconds")
      assert.deepStrictEqual(yield* versions, ["2", "2"])
      assert.deepStrictEqual(
        (yield* running).filter((worker) => old.includes(worker)),
        []
      )
      const done = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([done.status, done.retries], ["COMPLETED", 0])
    }))

  test("starts no worker for an external endpoint", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ source: { type: "external" }, workers: { min: 1 } })
      yield* submit(endpoint)
      yield* after("1 minute")
      assert.strictEqual(yield* started, 0)
    }))

  test("leaves the first job to an external worker that was active recently", () =>
    Effect.gen(function*() {
      const queue = yield* JobQueue.JobQueue
      const endpoint = yield* deploy()
      const request = { endpoint: endpoint.id, worker: "external", limit: 1, waitMs: 60_000, holding: false }
      const taken = yield* Effect.forkChild(queue.take(request))
      yield* now
      const job = yield* submit(endpoint)
      yield* now
      assert.deepStrictEqual((yield* Fiber.join(taken)).map(({ id }) => id), [job])
      yield* queue.finish({ endpoint: endpoint.id, worker: "external", job }, { output: null, error: null })
      yield* after("10 seconds")
      assert.strictEqual(yield* started, 0)
      const next = yield* submit(endpoint)
      yield* after(900)
      assert.strictEqual(yield* started, 0, "the external worker has one second to take the job")
      yield* after(200)
      assert.strictEqual((yield* jobOf(endpoint, next)).status, "COMPLETED")
      yield* after("40 seconds")
      assert.deepStrictEqual([yield* started, (yield* running).length], [1, 0])
      yield* submit(endpoint)
      yield* now
      assert.strictEqual(yield* started, 2, "an external worker that was silent for long is not waited for")
    }))

  test("lets the workers of a deleted endpoint finish their jobs, then stops them", () =>
    Effect.gen(function*() {
      const endpoints = yield* EndpointStore.EndpointStore
      const endpoint = yield* deploy({ workers: { min: 2 } })
      yield* after(100)
      const job = yield* submit(endpoint, { ms: 10_000 })
      yield* now
      yield* endpoints.remove(endpoint.id)
      yield* after("1 second")
      assert.strictEqual((yield* running).length, 1)
      yield* after("10 seconds")
      assert.strictEqual((yield* running).length, 0)
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
      yield* deploy({ workers: { min: 1 } })
      yield* after(100)
      assert.strictEqual((yield* running).length, 1, "the endpoint can be created again")
    }))

  test("replaces a worker that recycles itself only if jobs are waiting", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ env: { ONCE: "1" } })
      const jobs = [yield* submit(endpoint), yield* submit(endpoint)]
      yield* after("10 seconds")
      for (const job of jobs) assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
      assert.deepStrictEqual([yield* started, (yield* running).length], [2, 0])
    }))
})

describe("Autoscaler: workers that an operator removes", () => {
  const remove = (endpoint: Endpoint, worker: string, how: "drain" | "stop") =>
    Effect.flatMap(JobQueue.JobQueue, (queue) => queue.removeWorker(endpoint.id, worker, how))

  test("a drained worker finishes its job and exits, and another one runs the next job meanwhile", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ workers: { max: 2 } })
      const job = yield* submit(endpoint, { ms: 20_000 })
      yield* now
      const worker = yield* onlyWorker
      assert.deepInclude(yield* remove(endpoint, worker, "drain"), { state: "draining", jobs: [job] })
      const next = yield* submit(endpoint, { ms: 1_000 })
      yield* after("5 seconds")
      const first = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([first.status, first.worker], ["IN_PROGRESS", worker])
      assert.strictEqual((yield* jobOf(endpoint, next)).status, "COMPLETED")
      yield* after("16 seconds")
      assert.deepInclude(yield* jobOf(endpoint, job), { status: "COMPLETED", attempt: 1 })
      assert.notInclude(yield* running, worker)
    }))

  test("a drained worker that is starting or idle exits, and is replaced without a backoff if the endpoint needs it", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ workers: { min: 1, max: 1 } })
      yield* after(100)
      const idle = yield* onlyWorker
      yield* remove(endpoint, idle, "drain")
      yield* after("1 second")
      const second = yield* onlyWorker
      assert.notStrictEqual(second, idle)
      const slow = yield* deploy({ id: "slow", workers: { min: 1, max: 1 }, env: { BOOT_MS: "60000" } })
      const [starting = ""] = (yield* running).filter((one) => one !== second)
      yield* remove(slow, starting, "drain")
      assert.deepStrictEqual(yield* states(slow), ["draining"])
      yield* after("11 seconds")
      assert.notInclude(yield* running, starting)
      const [replacement] = (yield* running).filter((one) => one !== second)
      assert.isDefined(replacement)
      assert.deepStrictEqual(yield* states(slow), ["initializing"])
    }))

  for (const how of ["a working worker", "a worker that was drained before", "a worker that ignores requests to exit"] as const) {
    test(`a stop kills ${how}, and its job runs again at once on another one without being isolated`, () =>
      Effect.gen(function*() {
        const endpoint = yield* deploy({ env: how.includes("ignores") ? { STUBBORN: "1" } : {} })
        const job = yield* submit(endpoint, { ms: 20_000 })
        yield* now
        const worker = yield* onlyWorker
        if (how.includes("before")) yield* remove(endpoint, worker, "drain")
        yield* now
        yield* remove(endpoint, worker, "stop")
        yield* after("1 second")
        const again = yield* jobOf(endpoint, job)
        assert.deepInclude(again, { status: "IN_PROGRESS", attempt: 2, retries: 1, isolated: false })
        assert.match(again.lastError ?? "", new RegExp(`^Worker ${worker} was stopped by an operator\\.`))
        assert.notStrictEqual(again.worker, worker)
        assert.deepStrictEqual(yield* running, [again.worker])
      }))
  }

  test("stopping a worker that is starting cancels its start, and counts as no failure", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ env: { BOOT_MS: "30000" } })
      const job = yield* submit(endpoint, { ms: 1_000 })
      yield* now
      const first = yield* onlyWorker
      yield* remove(endpoint, first, "stop")
      yield* after("1 second")
      assert.notStrictEqual(yield* onlyWorker, first, "its replacement starts without a backoff")
      yield* after("32 seconds")
      assert.deepInclude(yield* jobOf(endpoint, job), { status: "COMPLETED", attempt: 1, retries: 0 })
    }))

  test("a failed start cannot be drained or stopped, because there is no worker", () =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ env: { BOOT_EXIT: "1" } })
      yield* submit(endpoint)
      yield* after(100)
      const [failed] = yield* registry.list(endpoint.id)
      assert.strictEqual(failed?.state, "unhealthy")
      for (const how of ["drain", "stop"] as const) {
        assert.strictEqual((yield* Effect.flip(remove(endpoint, failed?.id ?? "", how)))._tag, "WorkerMissing")
      }
    }))

  test("a stop fails a job that has no attempt left, and is named as the cause", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ maxAttempts: 1 })
      const job = yield* submit(endpoint, { ms: 20_000 })
      yield* now
      yield* remove(endpoint, yield* onlyWorker, "stop")
      yield* after("1 second")
      const failed = yield* jobOf(endpoint, job)
      assert.strictEqual(failed.status, "FAILED")
      assert.match(failed.error ?? "", /was stopped by an operator/)
    }))
})

describe("Autoscaler: failing workers", () => {
  test("runs the job of a killed worker on another worker at once", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      const endpoint = yield* deploy()
      const job = yield* submit(endpoint, { ms: 5_000 })
      yield* now
      const worker = yield* onlyWorker
      yield* faults.crash(worker, { signal: "SIGKILL" })
      yield* now
      const again = yield* jobOf(endpoint, job)
      assert.deepStrictEqual([again.status, again.retries, again.attempt], ["IN_PROGRESS", 1, 2])
      assert.notStrictEqual(yield* onlyWorker, worker)
      yield* after("6 seconds")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("fails a job after its last attempt with the exit of the worker and its last output", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      const endpoint = yield* deploy({ maxAttempts: 2 })
      const job = yield* submit(endpoint, { ms: 5_000, print: ["loading the model", "about to run"] })
      yield* now
      yield* faults.crash(yield* onlyWorker, { signal: "SIGKILL" })
      yield* now
      const worker = yield* onlyWorker
      yield* faults.crash(worker, { code: 137 })
      yield* now
      const failed = yield* jobOf(endpoint, job)
      assert.strictEqual(failed.status, "FAILED")
      assert.strictEqual(
        failed.error,
        `Worker ${worker} exited with code 137 (128 + 9: signal SIGKILL). If you did not kill it, the operating system may have, because ` +
          `memory ran out.\nIts last output:\n  loading the model\n  about to run\n(end of output) This was attempt 2 of 2.`
      )
    }))

  test("treats an exit with code 0 during a job as a crash", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ maxAttempts: 1 })
      const job = yield* submit(endpoint, { exit: 0 })
      yield* now
      const failed = yield* jobOf(endpoint, job)
      assert.strictEqual(failed.status, "FAILED")
      assert.match(failed.error ?? "", /exited with code 0 without delivering the result\. This was the only attempt allowed\.$/)
    }))

  test("backs off when workers fail to start, and shows the reason", () =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ env: { BOOT_EXIT: "1" } })
      yield* submit(endpoint)
      yield* now
      assert.strictEqual(yield* started, 1)
      const [shown] = yield* registry.list(endpoint.id)
      assert.strictEqual(shown?.state, "unhealthy")
      assert.match(
        shown?.reason ?? "",
        /^Worker w-\w+ exited with code 1\.\nIts last output:\n {2}cannot find module\n\(end of output\)$/
      )
      yield* after(900)
      assert.strictEqual(yield* started, 1, "the first delay is at least about a second")
      yield* after("59 seconds")
      const firstMinute = yield* started
      assert.isAtLeast(firstMinute, 5)
      assert.isAtMost(firstMinute, 8)
      yield* after("5 minutes")
      assert.isAtMost((yield* started) - firstMinute, 13, "at most one in about 30 s")
      assert.deepStrictEqual(yield* states(endpoint), ["unhealthy"])

      yield* deploy()
      yield* after("40 seconds")
      assert.notInclude(yield* states(endpoint), "unhealthy", "a working worker clears the state")
    }))

  test("backs off when workers crash soon after they are ready, from the third crash on", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ workers: { min: 1 }, env: { READY_EXIT: "7" } })
      yield* after(500)
      assert.strictEqual(yield* started, 3)
      assert.deepStrictEqual(yield* states(endpoint), ["unhealthy"])
      yield* after("1 minute")
      assert.isAtMost(yield* started, 12)
    }))

  test("does not delay other jobs because some jobs crash their workers", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ workers: { max: 1 } })
      const crashing = yield* Effect.forEach([1, 2, 3, 4], () => submit(endpoint, { exit: 1 }))
      const jobs = yield* Effect.forEach(Array.from({ length: 60 }), () => submit(endpoint, { ms: 10 }))
      yield* after("3 seconds")
      for (const job of jobs) assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
      for (const job of crashing) assert.strictEqual((yield* jobOf(endpoint, job)).status, "FAILED")
      assert.strictEqual(yield* started, 9, "eight crashes, then one worker for the rest")
    }))

  test("replaces crashed workers at once for as long as workers deliver results", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ workers: { max: 1 }, maxAttempts: 1 })
      const jobs = yield* Effect.forEach(
        Array.from({ length: 40 }),
        (_, index) => submit(endpoint, index % 2 === 0 ? { ms: 10 } : { exit: 1 })
      )
      yield* after("4 seconds")
      const last = yield* jobOf(endpoint, jobs.at(-1) ?? jobs[0]!)
      assert.deepStrictEqual([last.status, yield* started], ["FAILED", 20])
    }))

  test("starts a new release at once, even while the last release backs off", () =>
    Effect.gen(function*() {
      yield* deploy({ workers: { min: 1 }, env: { BOOT_EXIT: "1" } })
      yield* after("3 minutes")
      const before = yield* started
      const endpoint = yield* deploy({ workers: { min: 1 } })
      assert.strictEqual(yield* started, before + 1)
      assert.deepStrictEqual(yield* states(endpoint), ["idle"], "the failure of the old release is no longer shown")
    }))

  test("starts one worker per attempt while the exit of the last worker cannot be stored", () =>
    Effect.gen(function*() {
      const store = yield* StoreFaults.StoreFaults
      yield* deploy({ workers: { min: 1, max: 1 }, env: { BOOT_EXIT: "1" } })
      yield* after("3 minutes")
      const before = yield* started
      yield* store.failNextWrites(1_000)
      yield* after("36 seconds")
      yield* store.failNextWrites(0)
      assert.isAtMost((yield* started) - before, 2)
    }))

  test("drains no worker while the store is unavailable, and returns the jobs of a lost worker once it is available again", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      const store = yield* StoreFaults.StoreFaults
      const endpoint = yield* deploy({ workers: { min: 1, max: 1 }, maxAttempts: 1 })
      yield* after(100)
      const worker = yield* onlyWorker
      const queue = yield* QueueFaults
      yield* faults.freeze(worker)
      yield* after("31 seconds")
      queue.depthFails = true
      const job = yield* submit(endpoint, { ms: 60_000 })
      yield* after("1 minute")
      queue.depthFails = false
      yield* after("5 seconds")
      assert.notInclude(yield* states(endpoint), "draining")
      yield* faults.thaw(worker)
      yield* after("1 second")
      assert.strictEqual((yield* jobOf(endpoint, job)).worker, worker)

      yield* store.failNextWrites(1_000)
      yield* faults.crash(worker, { code: 9 })
      yield* now
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "IN_PROGRESS")
      yield* store.failNextWrites(0)
      yield* after("1 second")
      assert.match((yield* jobOf(endpoint, job)).error ?? "", /exited with code 9/)
    }))

  test("does not treat workers as silent after the platform itself was frozen", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      const store = yield* StoreFaults.StoreFaults
      const endpoint = yield* deploy({ workers: { min: 1, max: 1 } })
      yield* after(100)
      const worker = yield* onlyWorker
      yield* faults.freeze(worker)
      yield* store.freeze
      yield* after("10 minutes")
      yield* store.thaw
      yield* after("1 minute")
      assert.deepStrictEqual(yield* states(endpoint), ["idle"])
      yield* faults.thaw(worker)
      yield* after("10 minutes")
      assert.strictEqual(yield* onlyWorker, worker)
    }))

  test("shows a worker as throttled while the pool has no capacity, and retries", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      yield* faults.failNextStarts(2, new PoolError.NoCapacity({ problem: "no more processes" }))
      const endpoint = yield* deploy()
      const job = yield* submit(endpoint)
      yield* now
      assert.deepStrictEqual(yield* states(endpoint), ["throttled"])
      yield* after("5 seconds")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
      assert.deepStrictEqual(yield* states(endpoint), ["idle"])
    }))

  test("kills a worker that never calls the platform after the init limit", () =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ env: { BOOT_MS: "1000000000" } })
      yield* submit(endpoint)
      yield* after("419 seconds")
      assert.deepStrictEqual(yield* states(endpoint), ["initializing"])
      yield* after("1.5 seconds")
      const [shown] = yield* registry.list(endpoint.id)
      assert.strictEqual(shown?.state, "unhealthy")
      assert.match(shown?.reason ?? "", /did not call the platform within 420 s of its start/)
      yield* after("3 seconds")
      assert.strictEqual(yield* started, 2)
    }))

  test("reclaims the job of a frozen worker after its lease, then replaces the worker", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      const endpoint = yield* deploy({ workers: { max: 1 }, leaseMs: 10_000 })
      const job = yield* submit(endpoint, { ms: 5_000 })
      yield* now
      const frozen = yield* onlyWorker
      yield* faults.freeze(frozen)
      yield* after("9 seconds")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "IN_PROGRESS")
      yield* after("22 seconds")
      assert.notStrictEqual(yield* onlyWorker, frozen, "lease 10 s, stuck for 10 s, exit requested for 10 s")
      yield* after("6 seconds")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("replaces an idle frozen worker too", () =>
    Effect.gen(function*() {
      const faults = yield* MemoryWorkerPool.Faults
      yield* deploy({ workers: { min: 1 } })
      yield* after(100)
      const frozen = yield* onlyWorker
      yield* faults.freeze(frozen)
      yield* after("115 seconds")
      assert.strictEqual(yield* onlyWorker, frozen)
      yield* after("20 seconds")
      assert.notStrictEqual(yield* onlyWorker, frozen)
    }))

  test("replaces a worker whose handler cannot be stopped when jobs wait", () =>
    Effect.gen(function*() {
      const queue = yield* JobQueue.JobQueue
      const endpoint = yield* deploy({ workers: { max: 1 } })
      const uninterruptible = yield* submit(endpoint, { uninterruptible: true })
      yield* now
      const worker = yield* onlyWorker
      yield* queue.cancel(endpoint.id, uninterruptible)
      const job = yield* submit(endpoint)
      yield* after("9 seconds")
      assert.strictEqual(yield* onlyWorker, worker)
      yield* after("13 seconds")
      assert.strictEqual((yield* jobOf(endpoint, job)).status, "COMPLETED")
    }))

  test("counts workers that never take a waiting job as failures, with a hint", () =>
    Effect.gen(function*() {
      const registry = yield* WorkerRegistry.WorkerRegistry
      const endpoint = yield* deploy({ workers: { max: 1 }, env: { IDLE: "1" } })
      yield* submit(endpoint)
      yield* after("31 seconds")
      const [shown] = yield* registry.list(endpoint.id)
      assert.strictEqual(shown?.state, "unhealthy")
      assert.match(
        shown?.reason ?? "",
        /^Worker w-\w+ was replaced because it took no job for 10 s although jobs waited\. .*\.runpod_jobs\.pkl.*\nIts last output:\n {2}waiting for a lock\n/
      )
      yield* after("5 minutes")
      assert.isAtMost(yield* started, 16, "the pauses grow to 30 s")
    }))

  test("kills an idle worker that does not exit on request", () =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ env: { STUBBORN: "1" } })
      yield* submit(endpoint)
      yield* after("6 seconds")
      assert.deepStrictEqual(yield* states(endpoint), ["draining"])
      yield* after("10 seconds")
      assert.strictEqual((yield* running).length, 0)
      assert.deepStrictEqual(yield* states(endpoint), [])
    }))
})

describe("Autoscaler: shutdown", () => {
  const closing = (
    title: string,
    body: (close: Effect.Effect<void>) => Effect.Effect<void, unknown, Layer.Success<typeof withoutAutoscaler>>
  ) =>
    it.effect(title, () =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        yield* Layer.buildWithScope(Autoscaler.layer(), scope)
        yield* body(Scope.close(scope, Exit.void))
      }).pipe(Effect.provide(withoutAutoscaler)), 10_000)

  closing("finishes running jobs, starts nothing new, and stops all workers", (close) =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ workers: { min: 1 }, scaler: { type: "REQUEST_COUNT", value: 1 } })
      const jobs = [yield* submit(endpoint, { ms: 20_000 }), yield* submit(endpoint, { ms: 10_000 })]
      yield* after(200)
      assert.strictEqual((yield* running).length, 2)
      const closed = yield* Effect.forkChild(close)
      yield* now
      const late = yield* submit(endpoint)
      yield* deploy({ workers: { min: 3 } })
      yield* after("19 seconds")
      assert.strictEqual(closed.pollUnsafe(), undefined)
      yield* after("1.5 seconds")
      yield* Fiber.join(closed)
      for (const job of jobs) {
        const { retries, status } = yield* jobOf(endpoint, job)
        assert.deepStrictEqual([status, retries], ["COMPLETED", 0])
      }
      assert.strictEqual((yield* jobOf(endpoint, late)).status, "IN_QUEUE")
      assert.deepStrictEqual([yield* started, (yield* running).length], [2, 0])
    }))

  closing("ends the attempt of a job that runs past the grace period, with that reason", (close) =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ maxAttempts: 1 })
      const job = yield* submit(endpoint, { ms: 600_000 })
      yield* now
      const closed = yield* Effect.forkChild(close)
      yield* after("31 seconds")
      yield* Fiber.join(closed)
      assert.strictEqual((yield* running).length, 0)
      const { error, status } = yield* jobOf(endpoint, job)
      assert.strictEqual(status, "FAILED")
      assert.match(
        error ?? "",
        /still ran a job 30s after the platform began to shut down, and was killed\. This was the only attempt allowed\.$/
      )
    }))

  closing("takes no time without workers", (close) =>
    Effect.gen(function*() {
      yield* deploy()
      yield* close
    }))

  closing("does not wait for a worker that is still starting", (close) =>
    Effect.gen(function*() {
      const endpoint = yield* deploy({ env: { BOOT_MS: "60000" } })
      yield* submit(endpoint)
      yield* now
      assert.strictEqual((yield* running).length, 1)
      const closed = yield* Effect.forkChild(close)
      yield* after("11 seconds")
      yield* Fiber.join(closed)
      assert.strictEqual((yield* running).length, 0)
    }))
})

import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"
import { assessHealth, type HealthLimits, isReady, type WorkerObservation } from "../src/WorkerHealth.ts"

const NOW = 10_000_000
const limits: HealthLimits = { initLimitMs: 420_000, stuckAfterMs: 10_000, silentAfterMs: 120_000, stopGraceMs: 10_000 }

const status = (more: Partial<WorkerStatus> = {}): WorkerStatus => ({
  id: "w-1",
  endpoint: EndpointId.make("tested"),
  state: "idle",
  jobs: [],
  reason: null,
  retryAt: null,
  firstSeenAt: 0,
  lastSeenAt: NOW,
  idleSince: NOW - 60_000,
  exitAnnounced: false,
  results: 0,
  ...more
})

const assess = (more: Partial<WorkerObservation> = {}) =>
  assessHealth({
    worker: "w-1",
    progressedAt: NOW - 3_600_000,
    ready: true,
    tookJob: true,
    status: status(),
    oldestQueuedAt: null,
    unreachableUntil: 0,
    now: NOW,
    ...more
  }, limits)

describe("WorkerHealth", () => {
  it("reports an idle worker as healthy after a call, and checks it again when its silence could exceed the limit", () =>
    assert.deepStrictEqual(assess(), { _tag: "Healthy", checkAt: NOW + 120_000 }))

  it("drains a worker for an operator at once, even if it is starting, is unhealthy or runs a job", () => {
    for (
      const [ready, one] of [
        [true, status({ leaving: "drain", state: "draining" })],
        [true, status({ leaving: "drain", state: "draining", jobs: ["a"] })],
        [false, status({ leaving: "drain", state: "draining", idleSince: null })],
        [false, status({ leaving: "drain", state: "unhealthy" })]
      ] as const
    ) {
      assert.deepStrictEqual(assess({ ready, status: one, progressedAt: NOW }), {
        _tag: "Drain",
        requestExitAt: NOW,
        reason: "an operator drained it"
      })
    }
  })

  it("does not count a worker as started if it was drained before its first call", () => {
    const drained = { state: "draining", leaving: "drain" } as const
    assert.isFalse(isReady(status({ ...drained, idleSince: null })))
    assert.isTrue(isReady(status(drained)))
    assert.isTrue(isReady(status({ ...drained, idleSince: null, jobs: ["a"] })))
    assert.isTrue(isReady(status({ state: "draining", idleSince: null })), "it leaves by itself, so it has called")
  })

  it("reports a silent worker with a job as healthy, because the lease covers it", () =>
    assert.strictEqual(
      assess({ status: status({ state: "running", jobs: ["a"], lastSeenAt: 0, idleSince: null }) })._tag,
      "Healthy"
    ))

  it("drains an idle worker as stuck when it and a waiting job have both waited long enough", () => {
    const left = (idleFor: number, waitedFor: number) =>
      assess({ status: status({ idleSince: NOW - idleFor }), oldestQueuedAt: NOW - waitedFor })._tag
    assert.deepStrictEqual([left(60_000, 9_999), left(9_999, 60_000), left(10_000, 10_000)], ["Healthy", "Healthy", "Drain"])
  })

  it("counts a stuck worker as failed unless it has taken a job", () => {
    const stuck = { status: status({ idleSince: NOW - 10_000 }), oldestQueuedAt: NOW - 10_000 }
    assert.deepInclude(assess({ ...stuck, tookJob: false }), { _tag: "Drain", failed: true })
    assert.deepInclude(assess({ ...stuck, tookJob: true }), { _tag: "Drain", failed: false })
  })

  it("does not count the time in which workers could not reach the platform", () => {
    const quiet = { status: status({ lastSeenAt: 0 }), unreachableUntil: NOW - 1_000 }
    assert.strictEqual(assess(quiet)._tag, "Healthy")
    assert.strictEqual(assess({ ...quiet, unreachableUntil: 0 })._tag, "Drain")
    assert.strictEqual(assess({ oldestQueuedAt: 0, unreachableUntil: NOW - 9_000 })._tag, "Healthy")
    assert.strictEqual(assess({ oldestQueuedAt: 0, unreachableUntil: NOW - 10_000 })._tag, "Drain")
    const late = { ready: false, status: status({ state: "initializing" }) }
    assert.strictEqual(assess({ ...late, unreachableUntil: NOW - 1_000 })._tag, "Healthy")
    assert.strictEqual(assess(late)._tag, "Kill")
  })

  it("lets a setup run as long as the worker said, and kills a worker that exceeds it", () => {
    const setup = (rest: Partial<WorkerObservation>, limitAt: number) =>
      assess({
        ready: false,
        ...rest,
        status: status({ state: "initializing", idleSince: null, setup: { startedAt: NOW - 3_500_000, limitAt } })
      })
    // Longer than the limit of a start.
    assert.deepStrictEqual(setup({}, NOW + 5_000), { _tag: "Healthy", checkAt: NOW + 15_000 })
    assert.strictEqual(setup({}, NOW - 9_999)._tag, "Healthy")
    assert.deepStrictEqual(setup({}, NOW - 10_000), {
      _tag: "Kill",
      reason:
        "The setup of worker w-1 did not end within 3490 s, and it was killed. Give it more time with PLATFORM_SETUP_TIMEOUT, or " +
        "see in its last output why it hangs."
    })
    assert.strictEqual(setup({ unreachableUntil: NOW - 1_000 }, NOW - 60_000)._tag, "Healthy")
  })

  it("gives a worker that announces its exit or is unhealthy time to exit by itself", () => {
    for (const state of ["draining", "unhealthy"] as const) {
      const result = assess({ status: status({ state, exitAnnounced: state === "draining" }) })
      assert.strictEqual(result._tag === "Drain" && result.requestExitAt, NOW + 10_000)
    }
  })

  it("requests at once the exit of a worker that asked to be replaced, because it does not exit by itself", () => {
    const result = assess({ status: status({ state: "draining" }) })
    assert.strictEqual(result._tag === "Drain" && result.requestExitAt, NOW)
  })
})

import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import type { WorkerStatus } from "@stint/queue/WorkerRegistry"
import { assessHealth, type HealthLimits, type WorkerObservation } from "../src/WorkerHealth.ts"

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
  ...more
})

const verdict = (more: Partial<WorkerObservation> = {}) =>
  assessHealth({
    worker: "w-1",
    startedAt: NOW - 3_600_000,
    ready: true,
    status: status(),
    oldestQueuedAt: null,
    unreachableUntil: 0,
    now: NOW,
    ...more
  }, limits)

describe("WorkerHealth", () => {
  it("an idle worker that calls is fine, and is looked at again before it could be silent for too long", () =>
    assert.deepStrictEqual(verdict(), { _tag: "Healthy", checkAt: NOW + 120_000 }))

  it("a worker that holds a job is not judged, however silent: leases are for that", () =>
    assert.strictEqual(
      verdict({ status: status({ state: "running", jobs: ["a"], lastSeenAt: 0, idleSince: null }) })._tag,
      "Healthy"
    ))

  it("one that leaves a waiting job alone is stuck, when both have been there long enough", () => {
    const left = (idleFor: number, waitedFor: number) =>
      verdict({ status: status({ idleSince: NOW - idleFor }), oldestQueuedAt: NOW - waitedFor })._tag
    assert.deepStrictEqual([left(60_000, 9_999), left(9_999, 60_000), left(10_000, 10_000)], ["Healthy", "Healthy", "Drain"])
  })

  it("while nobody could call, nobody was silent, stuck or late", () => {
    const quiet = { status: status({ lastSeenAt: 0 }), unreachableUntil: NOW - 1_000 }
    assert.strictEqual(verdict(quiet)._tag, "Healthy")
    assert.strictEqual(verdict({ ...quiet, unreachableUntil: 0 })._tag, "Drain")
    assert.strictEqual(verdict({ oldestQueuedAt: 0, unreachableUntil: NOW - 9_000 })._tag, "Healthy")
    assert.strictEqual(verdict({ oldestQueuedAt: 0, unreachableUntil: NOW - 10_000 })._tag, "Drain")
    const late = { ready: false, status: status({ state: "initializing" }) }
    assert.strictEqual(verdict({ ...late, unreachableUntil: NOW - 1_000 })._tag, "Healthy")
    assert.strictEqual(verdict(late)._tag, "Kill")
  })

  it("one that says goodbye, or that it is unhealthy, has its time to go by itself", () => {
    for (const state of ["draining", "unhealthy"] as const) {
      const leave = verdict({ status: status({ state }) })
      assert.strictEqual(leave._tag === "Drain" && leave.requestExitAt, NOW + 10_000)
    }
  })
})

import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { type CanaryObservation, decideCanary } from "../src/CanaryPolicy.ts"
import type { PolicyWorker } from "../src/ScalingPolicy.ts"

const NOW = 1_000_000

const worker = (id: string, state: PolicyWorker["state"], idleSince: number | null = null): PolicyWorker => ({
  id,
  state,
  idleSince: state === "idle" ? idleSince ?? NOW : null,
  outdated: false
})

const observe = (rest: Partial<CanaryObservation> & { readonly max?: number }): CanaryObservation => ({
  limits: { min: 0, max: rest.max ?? 3, idleTimeoutMs: 5_000 },
  scaler: { type: "REQUEST_COUNT", value: 1 },
  startable: true,
  depth: { waiting: 0, waitingLow: 0, running: 0, oldestQueuedAt: null },
  workers: [],
  roll: "replacing",
  externalWorkers: { idle: 0, running: 0 },
  lastStartAt: null,
  now: NOW,
  canary: { percent: 10, workers: [], isProven: true },
  ...rest
})

const waiting = (jobs: number, running = 0) => ({ waiting: jobs, waitingLow: 0, running, oldestQueuedAt: NOW - 100 })

describe("decideCanary", () => {
  it("starts one worker of a canary that has not been ready, even without jobs", () => {
    assert.deepInclude(decideCanary(observe({ canary: { percent: 10, workers: [], isProven: false } })), {
      start: 0,
      startCanary: 1
    })
    const starting = { percent: 10, workers: [worker("c", "starting")], isProven: false }
    assert.deepInclude(decideCanary(observe({ canary: starting })), { start: 0, startCanary: 0 })
  })

  it("gives the canary its share of the workers, rounded up, and none while the active release has none", () => {
    assert.deepInclude(decideCanary(observe({})), { startCanary: 0 })
    assert.deepInclude(decideCanary(observe({ depth: waiting(1), max: 1 })), { start: 1, startCanary: 1 })
    assert.deepInclude(decideCanary(observe({ depth: waiting(30), max: 30 })), { start: 28, startCanary: 3 })
  })

  it("stops idle workers of the canary after those of the active release", () => {
    const idle = [worker("c", "idle", NOW - 6_000)]
    const canary = { percent: 10, workers: idle, isProven: true }
    assert.deepInclude(decideCanary(observe({ canary })), { drain: ["c"] })
    assert.deepInclude(decideCanary(observe({ canary, workers: [worker("a", "running")] })), { drain: [] })
    const fresh = { ...canary, workers: [worker("c", "idle", NOW - 1_000)] }
    assert.deepInclude(decideCanary(observe({ canary: fresh })), { drain: [], wakeAt: NOW + 4_000 })
  })

  it("keeps at most one worker more than the maximum, and never starts one of a paused endpoint", () => {
    const state = fc.constantFrom<PolicyWorker["state"]>("starting", "idle", "running", "draining")
    const workersOf = (prefix: string) =>
      fc.array(state, { maxLength: 6 }).map((states) =>
        states.map((one, index) => worker(`${prefix}${index}`, one, NOW - 10_000))
      )
    fc.assert(fc.property(
      fc.nat({ max: 6 }),
      fc.integer({ min: 1, max: 50 }),
      workersOf("a"),
      workersOf("c"),
      fc.nat({ max: 20 }),
      fc.boolean(),
      (max, percent, workers, own, jobs, isProven) => {
        const decision = decideCanary(
          observe({ max, workers, depth: waiting(jobs), canary: { percent, workers: own, isProven } })
        )
        assert.isAtLeast(decision.start, 0)
        assert.isAtLeast(decision.startCanary, 0)
        const started = decision.start + decision.startCanary
        if (started > 0) assert.isAtMost(started + workers.length + own.length, max + 1)
        if (max === 0) assert.strictEqual(started, 0)
        const known = new Set([...workers, ...own].map(({ id }) => id))
        for (const id of [...decision.drain, ...decision.retire]) assert.isTrue(known.has(id))
      }
    ))
  })
})

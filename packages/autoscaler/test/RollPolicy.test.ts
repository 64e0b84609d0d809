import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { decideRoll } from "../src/RollPolicy.ts"
import { decide, type Decision, type Observation, type PolicyWorker } from "../src/ScalingPolicy.ts"

const NOW = 1_000_000

const worker = (id: string, state: PolicyWorker["state"], outdated = false): PolicyWorker => ({
  id,
  state,
  idleSince: state === "idle" ? NOW : null,
  outdated
})

const observation = (more: Partial<Observation> = {}): Observation => ({
  limits: { min: 0, max: 3, idleTimeoutMs: 60_000 },
  scaler: { type: "QUEUE_DELAY", value: 4 },
  startable: true,
  depth: { waiting: 0, waitingLow: 0, running: 0, oldestQueuedAt: null },
  workers: [],
  externalWorkers: { idle: 0, running: 0 },
  lastStartAt: null,
  now: NOW,
  ...more
})

const old = (...states: ReadonlyArray<PolicyWorker["state"]>) => states.map((state, index) => worker(`old${index}`, state, true))
const waiting = { waiting: 2, waitingLow: 0, running: 0, oldestQueuedAt: NOW }

describe("RollPolicy: examples", () => {
  it("proving: starts one worker without demand, in addition to max, and keeps the previous ones", () => {
    const decision = decideRoll(observation({ roll: "proving", workers: old("running", "idle", "idle") }))
    assert.deepInclude(decision, { start: 1, startPrevious: 0, drain: [], retire: [] })
  })

  it("proving: leaves the first jobs of an endpoint without workers to the new release", () =>
    assert.deepInclude(decideRoll(observation({ roll: "proving", depth: waiting })), { start: 1, startPrevious: 0 }))

  it("proving: retires the workers of a release that was replaced while it was tried, and no others", () => {
    const workers = [...old("running"), { ...worker("tried", "starting", true), abandoned: true }]
    const limits = { min: 1, max: 1, idleTimeoutMs: 0 }
    assert.deepInclude(decideRoll(observation({ roll: "proving", workers, limits })), { start: 0, retire: ["tried"] })
  })

  it("proving: adds workers of the previous release when jobs wait too long", () => {
    const depth = { ...waiting, oldestQueuedAt: NOW - 10_000 }
    const workers = [...old("running"), worker("new", "starting")]
    assert.deepInclude(decideRoll(observation({ roll: "proving", depth, workers })), { start: 0, startPrevious: 1 })
  })

  it("replacing: replaces one busy worker with each ready one, and uses one worker more than max", () => {
    const workers = [...old("running", "running", "running"), worker("new", "idle")]
    assert.deepInclude(decideRoll(observation({ roll: "replacing", workers })), { start: 0, retire: ["old0"] })
    const later = [...old("running", "running"), worker("new", "running")]
    assert.deepInclude(decideRoll(observation({ roll: "replacing", workers: later })), { start: 1, retire: [] })
  })

  it("replacing: retires idle workers that are not needed at once", () => {
    const workers = [...old("idle", "idle"), worker("new", "idle")]
    assert.deepInclude(decideRoll(observation({ roll: "replacing", workers })), { start: 0, retire: ["old0", "old1"] })
  })

  it("starts nothing for a paused endpoint", () => {
    const paused = { min: 0, max: 0, idleTimeoutMs: 0 }
    for (const roll of ["proving", "replacing"] as const) {
      assert.strictEqual(decideRoll(observation({ roll, limits: paused, depth: waiting })).start, 0)
    }
  })
})

const stateArb = fc.constantFrom<PolicyWorker["state"]>("starting", "idle", "running", "draining")

const observationArb = fc.record({
  min: fc.integer({ min: 0, max: 4 }),
  above: fc.integer({ min: 0, max: 5 }),
  scaler: fc.oneof(
    fc.record({ type: fc.constant("QUEUE_DELAY" as const), value: fc.double({ min: 0.1, max: 10, noNaN: true }) }),
    fc.record({ type: fc.constant("REQUEST_COUNT" as const), value: fc.integer({ min: 1, max: 5 }) })
  ),
  waiting: fc.integer({ min: 0, max: 20 }),
  waitedMs: fc.integer({ min: 0, max: 20_000 }),
  old: fc.array(stateArb, { maxLength: 5 }),
  current: fc.array(stateArb, { maxLength: 5 }),
  roll: fc.constantFrom("proving" as const, "replacing" as const)
}).map((seed): Observation => ({
  ...observation(),
  limits: { min: seed.min, max: seed.min + seed.above, idleTimeoutMs: 5_000 },
  scaler: seed.scaler,
  depth: { waiting: seed.waiting, waitingLow: 0, running: 0, oldestQueuedAt: seed.waiting === 0 ? null : NOW - seed.waitedMs },
  workers: [...old(...seed.old), ...seed.current.map((state, index) => worker(`new${index}`, state))],
  roll: seed.roll
}))

const isReady = ({ state }: PolicyWorker) => state === "idle" || state === "running"

/** The workers after a decision is applied. */
const applied = (
  { workers }: Observation,
  { drain, retire, start, startPrevious = 0 }: Decision
): ReadonlyArray<PolicyWorker> => [
  ...workers.map((one) => [...drain, ...retire].includes(one.id) ? { ...one, state: "draining" as const } : one),
  ...Array.from({ length: start }, (_, index) => worker(`started${index}`, "starting")),
  ...Array.from({ length: startPrevious }, (_, index) => worker(`previous${index}`, "starting", true))
]

describe("RollPolicy: properties", () => {
  const holds = (property: (seen: Observation, decision: Decision) => void) => () =>
    fc.assert(fc.property(observationArb, (seen) => property(seen, decideRoll(seen))), { numRuns: 2_000 })

  it(
    "never starts more than one worker beyond max, and never fewer than zero",
    holds(({ limits, workers }, { start, startPrevious = 0 }) => {
      assert.isAtLeast(Math.min(start, startPrevious), 0)
      if (start + startPrevious > 0) assert.isAtMost(workers.length + start + startPrevious, limits.max + 1)
    })
  )

  it(
    "proving: never retires an outdated worker except above max, and starts at most one worker of the new release at a time",
    holds((seen, { retire, start }) => {
      if (seen.roll !== "proving") return
      const outdated = seen.workers.filter((one) => one.outdated && one.state !== "draining")
      assert.isAtMost(retire.length, Math.max(0, outdated.length - seen.limits.max))
      if (seen.workers.some((one) => !one.outdated && one.state !== "draining")) assert.strictEqual(start, 0)
      assert.isAtMost(start, 1)
    })
  )

  it(
    "proving: starts a worker of the new release as soon as there is room, whatever the demand",
    holds((seen, { start }) => {
      if (seen.roll !== "proving" || seen.limits.max === 0 || seen.workers.length > seen.limits.max) return
      if (seen.workers.every((one) => one.outdated || one.state === "draining")) assert.strictEqual(start, 1)
    })
  )

  it(
    "replacing: never retires busy outdated workers beyond the ready ones of the new release",
    holds((seen, decision) => {
      if (seen.roll !== "replacing") return
      const ready = seen.workers.filter((one) => !one.outdated && isReady(one)).length
      const busy = seen.workers.filter((one) => one.state === "running").length
      const after = applied(seen, decision).filter(isReady).length
      const before = seen.workers.filter(isReady).length
      if (before > after) {
        assert.isAtLeast(after, Math.min(before, Math.min(busy, seen.limits.max), Math.max(ready, seen.limits.min)))
      }
      const retiredBusy = seen.workers.filter((one) =>
        one.outdated && one.state === "running" && decision.retire.includes(one.id)
      )
      const surplus = Math.max(0, busy - seen.limits.max)
      assert.isAtMost(retiredBusy.length, ready + surplus)
    })
  )

  it("makes the same decision as without a rollout when there are no outdated workers", () =>
    fc.assert(
      fc.property(observationArb, (seen) => {
        const workers = seen.workers.filter((one) => !one.outdated)
        assert.deepStrictEqual(
          decideRoll({ ...seen, workers, roll: "replacing" }),
          decide({ ...seen, workers, roll: undefined })
        )
      })
    ))

  it("reaches the new release from any state, with no busy worker retired before its replacement was ready", () =>
    fc.assert(
      fc.property(observationArb, (seed) => {
        let seen: Observation = { ...seed, roll: "replacing", limits: { ...seed.limits, max: Math.max(1, seed.limits.max) } }
        for (let step = 0; step < 60; step++) {
          const workers = applied(seen, decideRoll(seen))
            // Draining workers exit, and starting ones become ready; both take a step.
            .filter((one) =>
              !(one.state === "draining" && seen.workers.some(({ id, state }) => id === one.id && state === "draining"))
            )
            .map((one) => one.state === "starting" && !one.id.startsWith("started") ? { ...one, state: "running" as const } : one)
            .map((one, index) => ({ ...one, id: `${one.outdated ? "old" : "new"}-${step}-${index}` }))
          seen = { ...seen, workers }
        }
        assert.isTrue(seen.workers.every((one) => !one.outdated || one.state === "draining"), JSON.stringify(seen.workers))
      }),
      { numRuns: 500 }
    ))
})

import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { decide, type Decision, type Observation, type PolicyWorker } from "../src/ScalingPolicy.ts"

const NOW = 1_000_000

const worker = (id: string, state: PolicyWorker["state"], more: Partial<PolicyWorker> = {}): PolicyWorker => ({
  id,
  state,
  idleSince: state === "idle" ? NOW : null,
  outdated: false,
  ...more
})

const observation = (more: Partial<Observation> = {}): Observation => ({
  limits: { min: 0, max: 3, idleTimeoutMs: 5_000 },
  scaler: { type: "QUEUE_DELAY", value: 4 },
  startable: true,
  depth: { waiting: 0, waitingLow: 0, running: 0, oldestQueuedAt: null },
  workers: [],
  externalWorkers: { idle: 0, running: 0 },
  lastStartAt: null,
  now: NOW,
  ...more
})

const waiting = (count: number, sinceMs: number, low = 0): Observation["depth"] => ({
  waiting: count + low,
  waitingLow: low,
  running: 0,
  oldestQueuedAt: count === 0 ? null : NOW - sinceMs
})

const nothing: Decision = { start: 0, drain: [], retire: [], wakeAt: null }

describe("ScalingPolicy: examples", () => {
  it("decides nothing for an idle endpoint without workers", () => assert.deepStrictEqual(decide(observation()), nothing))

  it("starts one worker for the first jobs", () =>
    assert.deepStrictEqual(decide(observation({ depth: waiting(10, 0) })), { ...nothing, start: 1 }))

  it("does not count a draining worker as serving: the next job starts another, if max allows it", () => {
    const workers = [worker("a", "draining")]
    assert.strictEqual(decide(observation({ workers, depth: waiting(1, 0) })).start, 1)
    const full = decide(observation({ workers, depth: waiting(1, 0), limits: { min: 0, max: 1, idleTimeoutMs: 0 } }))
    assert.strictEqual(full.start, 0)
  })

  it("QUEUE_DELAY: returns the time at which a further worker becomes necessary", () => {
    const workers = [worker("a", "running")]
    const early = decide(observation({ workers, depth: waiting(2, 1_000), lastStartAt: NOW - 1_500 }))
    assert.deepStrictEqual(early, { ...nothing, wakeAt: NOW + 3_000 })
    const late = decide(observation({ workers, depth: waiting(2, 9_000), lastStartAt: NOW - 3_000 }))
    assert.deepStrictEqual(late, { ...nothing, wakeAt: NOW + 1_000 })
    assert.strictEqual(decide(observation({ workers, depth: waiting(2, 4_000), lastStartAt: NOW - 4_000 })).start, 1)
  })

  it("never starts a worker for low-priority jobs, not even the first", () => {
    assert.deepStrictEqual(decide(observation({ depth: waiting(0, 0, 5) })), nothing)
    const scaler = { type: "REQUEST_COUNT", value: 1 } as const
    assert.deepStrictEqual(decide(observation({ scaler, depth: waiting(0, 0, 5) })), nothing)
  })

  it("does not drain an idle worker while low-priority jobs wait", () => {
    const workers = [worker("a", "idle", { idleSince: 0 })]
    assert.deepStrictEqual(decide(observation({ workers, depth: waiting(0, 0, 1) })), nothing)
    assert.deepStrictEqual(decide(observation({ workers })).drain, ["a"])
  })

  it("drains the longest idle workers first, and keeps min", () => {
    const workers = [5, 1, 3].map((since) => worker(`w${since}`, "idle", { idleSince: since }))
    assert.deepStrictEqual(decide(observation({ workers, limits: { min: 1, max: 3, idleTimeoutMs: 10 } })).drain, ["w1", "w3"])
  })

  it("leaves the first job to an idle external worker for one second, then starts a worker", () => {
    const externalWorkers = { idle: 1, running: 0 }
    assert.deepStrictEqual(decide(observation({ externalWorkers, depth: waiting(1, 200) })), { ...nothing, wakeAt: NOW + 800 })
    assert.strictEqual(decide(observation({ externalWorkers, depth: waiting(1, 1_000) })).start, 1)
  })

  it("starts no worker for jobs that run on external workers", () => {
    const scaler = { type: "REQUEST_COUNT", value: 1 } as const
    const depth = { waiting: 0, waitingLow: 0, running: 2, oldestQueuedAt: null }
    assert.strictEqual(decide(observation({ scaler, depth, externalWorkers: { idle: 0, running: 2 } })).start, 0)
    assert.strictEqual(decide(observation({ scaler, depth, externalWorkers: { idle: 0, running: 1 } })).start, 1)
  })

  it("retires idle workers first, then starting ones, then busy ones, after max is lowered", () => {
    const workers = [worker("busy", "running"), worker("new", "starting"), worker("idle", "idle")]
    const retired = (max: number) => decide(observation({ workers, limits: { min: 0, max, idleTimeoutMs: 60_000 } })).retire
    assert.deepStrictEqual([retired(3), retired(2), retired(1), retired(0)], [[], ["idle"], ["idle", "new"], [
      "idle",
      "new",
      "busy"
    ]])
  })

  it("retires outdated workers and starts their replacements, as far as max allows", () => {
    const workers = [worker("a", "running", { outdated: true }), worker("b", "idle", { outdated: true })]
    const decision = decide(observation({ workers, limits: { min: 2, max: 3, idleTimeoutMs: 0 } }))
    assert.deepStrictEqual(decision, { start: 1, drain: [], retire: ["a", "b"], wakeAt: null })
  })

  it("starts nothing for a source that the pool cannot start, and retires its workers", () => {
    const workers = [worker("a", "idle")]
    const decision = decide(
      observation({ workers, startable: false, limits: { min: 2, max: 3, idleTimeoutMs: 0 }, depth: waiting(1, 0) })
    )
    assert.deepStrictEqual([decision.start, decision.retire], [0, ["a"]])
  })
})

const workerArb = fc.record({
  state: fc.constantFrom<PolicyWorker["state"]>("starting", "idle", "running", "draining"),
  idleFor: fc.integer({ min: 0, max: 20_000 }),
  outdated: fc.oneof({ weight: 5, arbitrary: fc.constant(false) }, { weight: 1, arbitrary: fc.constant(true) })
})

const observationArb: fc.Arbitrary<Observation> = fc.record({
  min: fc.integer({ min: 0, max: 4 }),
  above: fc.integer({ min: 0, max: 6 }),
  idleTimeoutMs: fc.integer({ min: 0, max: 10_000 }),
  scaler: fc.oneof(
    fc.record({ type: fc.constant("QUEUE_DELAY" as const), value: fc.double({ min: 0.1, max: 10, noNaN: true }) }),
    fc.record({ type: fc.constant("REQUEST_COUNT" as const), value: fc.integer({ min: 1, max: 5 }) })
  ),
  startable: fc.oneof({ weight: 9, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.constant(false) }),
  high: fc.integer({ min: 0, max: 20 }),
  low: fc.integer({ min: 0, max: 3 }),
  running: fc.integer({ min: 0, max: 10 }),
  waitedMs: fc.integer({ min: 0, max: 20_000 }),
  workers: fc.array(workerArb, { maxLength: 8 }),
  externalWorkers: fc.record({ idle: fc.integer({ min: 0, max: 2 }), running: fc.integer({ min: 0, max: 2 }) }),
  startedAgo: fc.option(fc.integer({ min: 0, max: 20_000 }))
}).map((seed) => ({
  limits: { min: seed.min, max: seed.min + seed.above, idleTimeoutMs: seed.idleTimeoutMs },
  scaler: seed.scaler,
  startable: seed.startable,
  depth: { ...waiting(seed.high, seed.waitedMs, seed.low), running: seed.running },
  workers: seed.workers.map((one, index) =>
    worker(`w${index}`, one.state, { outdated: one.outdated, idleSince: one.state === "idle" ? NOW - one.idleFor : null })
  ),
  externalWorkers: seed.externalWorkers,
  lastStartAt: seed.startedAgo === null ? null : NOW - seed.startedAgo,
  now: NOW
}))

/** The observation after a decision is applied. */
const applied = (before: Observation, { drain, retire, start }: Decision): Observation => ({
  ...before,
  workers: [
    ...before.workers.map((one) =>
      [...drain, ...retire].includes(one.id) ? { ...one, state: "draining" as const, idleSince: null } : one
    ),
    ...Array.from({ length: start }, (_, index) => worker(`new${index}`, "starting"))
  ],
  lastStartAt: start > 0 ? before.now : before.lastStartAt
})

const serving = (seen: Observation) => seen.workers.filter((one) => one.state !== "draining" && !one.outdated)

describe("ScalingPolicy: properties", () => {
  const holds = (property: (seen: Observation, decision: Decision, after: Observation) => void) => () =>
    fc.assert(
      fc.property(observationArb, (seen) => {
        const decision = decide(seen)
        property(seen, decision, applied(seen, decision))
      }),
      { numRuns: 2_000 }
    )

  it(
    "never starts above max",
    holds((seen, { start }) => assert.isAtMost(start === 0 ? 0 : seen.workers.length + start, seen.limits.max))
  )

  it(
    "keeps min workers serving, as far as max allows",
    holds((seen, _, after) => {
      if (!seen.startable) return
      const room = seen.limits.max - after.workers.length
      assert.isTrue(serving(after).length >= seen.limits.min || room <= 0)
    })
  )

  it(
    "never serves with more than max",
    holds((seen, _, after) => assert.isAtMost(serving(after).length, seen.startable ? seen.limits.max : 0))
  )

  it(
    "drains only workers that were idle for the timeout, longest idle first, and never below min",
    holds((seen, { drain }, after) => {
      const idle = serving(seen).filter((one) => one.state === "idle").sort((a, b) => (a.idleSince ?? 0) - (b.idleSince ?? 0))
      for (const id of drain) {
        const one = idle.find((candidate) => candidate.id === id)
        assert.isTrue(one !== undefined && NOW - (one.idleSince ?? NOW) >= seen.limits.idleTimeoutMs)
      }
      if (drain.length === 0) return
      assert.isAtLeast(serving(after).length, seen.limits.min)
      const youngest = Math.max(...idle.filter((one) => drain.includes(one.id)).map((one) => one.idleSince ?? 0))
      for (const one of serving(after)) if (one.state === "idle") assert.isAtLeast(one.idleSince ?? 0, youngest)
    })
  )

  it(
    "retires no worker without a reason in the settings",
    holds((seen, { retire }) => {
      const reason = !seen.startable || seen.workers.some((one) => one.outdated) || serving(seen).length > seen.limits.max
      if (!reason) assert.deepStrictEqual(retire, [])
    })
  )

  it(
    "starts at least one worker for a waiting job when no worker serves the endpoint",
    holds((seen, { start }) => {
      const unserved = serving(seen).length === 0 && seen.externalWorkers.idle === 0 && seen.depth.waiting > seen.depth.waitingLow
      if (unserved && seen.startable && seen.workers.length < seen.limits.max) assert.isAtLeast(start, 1)
    })
  )

  it(
    "starts no worker for low-priority jobs",
    holds((seen, { start }) => {
      const without = decide({
        ...seen,
        depth: { ...seen.depth, waiting: seen.depth.waiting - seen.depth.waitingLow, waitingLow: 0 }
      })
      assert.strictEqual(start, without.start)
    })
  )

  it(
    "does not flap: a decision, once applied, leads to no further decision, and no drained worker is replaced",
    holds((_, { drain }, after) => {
      const next = decide(after)
      assert.deepStrictEqual([next.start, next.drain, next.retire], [0, [], []])
      const empty = { ...after, workers: after.workers.filter((one) => one.state !== "draining") }
      if (drain.length > 0) assert.strictEqual(decide(empty).start, 0)
    })
  )

  it(
    "returns only a later wake-up time, and the decision holds until then",
    holds((seen, decision) => {
      if (decision.wakeAt !== null) assert.isAbove(decision.wakeAt, seen.now)
      const until = decision.wakeAt === null ? seen.now + 3_600_000 : Math.ceil(decision.wakeAt) - 1
      if (until <= seen.now) return
      const later = decide({ ...seen, now: until })
      assert.deepStrictEqual([later.start, later.drain, later.retire], [decision.start, decision.drain, decision.retire])
    })
  )
})

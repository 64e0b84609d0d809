import { assert, describe, it } from "@effect/vitest"
import type { CanaryResults } from "@stint/queue/Canaries"
import * as fc from "fast-check"
import { reasonToRollBack, rollbackReason } from "../src/CanaryVerdict.ts"

const rule = { percent: 10, minJobs: 50, maxPoints: 5 }

const results = (
  canary: readonly [failed: number, jobs: number],
  active: readonly [failed: number, jobs: number]
): CanaryResults => ({
  canary: { failed: canary[0], jobs: canary[1] },
  active: { failed: active[0], jobs: active[1] }
})

const isBad = (...args: Parameters<typeof results>) => reasonToRollBack(rule, results(...args)) !== undefined

/** A generator of numbers in [0, 1) that depend only on the seed. */
const randomOf = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let value = Math.imul(state ^ (state >>> 15), 1 | state)
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32
  }
}

/** The number of attempts after which a canary with these error rates is rolled back, checked after every attempt; undefined: never. */
const rolledBackAfter = (seed: number, rates: { readonly canary: number; readonly active: number }, attempts: number) => {
  const random = randomOf(seed)
  const counts = { canary: { jobs: 0, failed: 0 }, active: { jobs: 0, failed: 0 } }
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const side = random() < rule.percent / 100 ? "canary" : "active"
    counts[side].jobs += 1
    if (random() < rates[side]) counts[side].failed += 1
    if (reasonToRollBack(rule, counts) !== undefined) return attempt
  }
  return undefined
}

const count = fc.nat({ max: 2_000 }).chain((jobs) => fc.record({ jobs: fc.constant(jobs), failed: fc.nat({ max: jobs }) }))

describe("the verdict about a canary", () => {
  it("rolls back a canary that clearly fails more often, after the minimum number of attempts", () => {
    assert.isFalse(isBad([49, 49], [0, 441]))
    assert.isTrue(isBad([50, 50], [0, 450]))
    assert.isTrue(isBad([10, 50], [0, 450]))
    assert.isTrue(isBad([30, 60], [20, 540]))
  })

  it("keeps a canary that is worse by no more than the permitted points, or only by chance", () => {
    assert.isFalse(isBad([0, 5_000], [0, 50_000]))
    assert.isFalse(isBad([250, 5_000], [0, 50_000]), "exactly 5 points")
    assert.isTrue(isBad([251, 5_000], [0, 50_000]))
    assert.isFalse(isBad([15, 50], [90, 450]), "10 points more, but of 50 attempts with a rate of 20 %")
    assert.isTrue(isBad([300, 1_000], [1_800, 9_000]), "the same rates after 1,000 attempts")
    assert.isFalse(isBad([0, 100], [900, 900]))
    assert.isFalse(isBad([25, 50], [0, 0]), "nothing to compare with")
  })

  it("raises no false alarm when both releases fail equally often: 200 canaries, each checked 5,000 times", () => {
    for (const rate of [0, 0.01, 0.05, 0.2, 0.5]) {
      const alarms = Array.from({ length: 40 }, (_, seed) => rolledBackAfter(seed + 1, { canary: rate, active: rate }, 5_000))
      assert.deepStrictEqual(alarms.filter((at) => at !== undefined), [], `error rate ${rate}`)
    }
  })

  it("always finds a release whose error rate is 25 points higher", () => {
    for (const active of [0, 0.05, 0.2]) {
      for (let seed = 1; seed <= 40; seed++) {
        assert.isDefined(rolledBackAfter(seed, { canary: active + 0.25, active }, 5_000), `seed ${seed}, error rate ${active}`)
      }
    }
  })

  it("never rolls back too early or within the permitted points, and more failures never make a canary better", () => {
    fc.assert(
      fc.property(
        count,
        count,
        fc.integer({ min: 1, max: 200 }),
        fc.integer({ min: 0, max: 50 }),
        (canary, active, minJobs, maxPoints) => {
          const rates = reasonToRollBack({ minJobs, maxPoints }, { canary, active })
          if (rates !== undefined) {
            assert.isAtLeast(canary.jobs, minJobs)
            assert.isAbove(rates.canary - rates.active, maxPoints)
            if (canary.failed < canary.jobs && maxPoints < 45) {
              const worse = { ...canary, failed: canary.jobs }
              assert.isDefined(reasonToRollBack({ minJobs, maxPoints }, { canary: worse, active }))
            }
          }
        }
      )
    )
  })

  it("explains itself with the numbers", () => {
    const found = results([12, 60], [3, 540])
    const rates = reasonToRollBack(rule, found)
    assert.strictEqual(
      rates && rollbackReason(rule, found, rates, 4),
      "As a canary, it failed 12 of 60 attempts (20 %). In the same time, release 4 failed 3 of 540 (0.6 %). More than 5 percentage points of " +
        "difference are not permitted."
    )
  })
})

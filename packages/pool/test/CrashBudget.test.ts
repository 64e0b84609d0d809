import { assert, describe, it } from "@effect/vitest"
import * as CrashBudget from "@stint/pool/CrashBudget"
import * as fc from "fast-check"

/** Fails starts one after the other, each as soon as it is allowed. */
const waits = (count: number, random: number): ReadonlyArray<number> => {
  let budget = CrashBudget.empty
  let now = 0
  const result: Array<number> = []
  for (let index = 0; index < count; index++) {
    const startedAt = now
    now += 100
    budget = CrashBudget.failedStart(budget, { now, startedAt, random })
    result.push(budget.notBefore - now)
    now = budget.notBefore
  }
  return result
}

describe("CrashBudget", () => {
  it("doubles the wait from 1 s to 30 s", () =>
    assert.deepStrictEqual(waits(7, 0.5), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]))

  it("stays between the first and the longest wait, whatever the dice say", () =>
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (count, random) => {
          const wait = CrashBudget.waitOf(count, random)
          assert.isTrue(wait >= CrashBudget.FIRST_WAIT_MILLIS && wait <= CrashBudget.LONGEST_WAIT_MILLIS)
        }
      )
    ))

  it("counts workers that were started together once", () => {
    let budget = CrashBudget.empty
    for (let index = 0; index < 5; index++) {
      budget = CrashBudget.failedStart(budget, { now: 100 + index, startedAt: 0, random: 0.5 })
    }
    assert.deepStrictEqual([budget.failedStarts, budget.notBefore], [1, 1_100])
  })

  it("tries one at a time until one works", () => {
    const failed = CrashBudget.failedStart(CrashBudget.empty, { now: 100, startedAt: 0, random: 0.5 })
    assert.strictEqual(CrashBudget.allow(failed, 5, 0, 1_099), 0)
    assert.strictEqual(CrashBudget.allow(failed, 5, 0, 1_100), 1)
    assert.strictEqual(CrashBudget.allow(failed, 5, 1, 1_100), 0)
    assert.strictEqual(CrashBudget.allow(CrashBudget.ready(failed), 5, 3, 200), 5)
  })

  it("replaces two quick crashes at once and lets the third wait", () => {
    let budget = CrashBudget.empty
    const allowed = [1, 2, 3].map((now) => {
      budget = CrashBudget.crashed(CrashBudget.ready(budget), { now: now * 10, startedAt: now * 10 - 5, random: 0.5 })
      return CrashBudget.allow(budget, 1, 0, now * 10)
    })
    assert.deepStrictEqual(allowed, [1, 1, 0])
    assert.strictEqual(CrashBudget.allow(budget, 1, 0, 1_030), 1)
  })

  it("forgets quick crashes when a worker lived long or left in order", () => {
    const twice = [1, 2].reduce(
      (budget) => CrashBudget.crashed(budget, { now: 10, startedAt: 0, random: 0.5 }),
      CrashBudget.empty
    )
    assert.strictEqual(CrashBudget.crashed(twice, { now: 10_000, startedAt: 0, random: 0.5 }).quickCrashes, 0)
    assert.strictEqual(CrashBudget.left(twice).quickCrashes, 0)
  })
})

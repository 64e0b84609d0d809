import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import * as Canaries from "@stint/queue/Canaries"
import * as fc from "fast-check"

const E = EndpointId.make("letters")

describe("Canaries", () => {
  it("holds back no worker without a canary, and none of another release or endpoint", () => {
    const canaries = Canaries.make()
    assert.isUndefined(canaries.allowance(E, 2))
    assert.isFalse(canaries.claimed(E, 1, 100))
    canaries.set(E, { release: 2, active: 1, percent: 10 })
    assert.isUndefined(canaries.allowance(E, 1))
    assert.isUndefined(canaries.allowance(E, undefined))
    assert.isUndefined(canaries.allowance(EndpointId.make("other"), 2))
    assert.strictEqual(canaries.allowance(E, 2), 0)
    canaries.set(E, undefined)
    assert.isUndefined(canaries.allowance(E, 2))
  })

  it("says when the canary may claim again", () => {
    const canaries = Canaries.make()
    canaries.set(E, { release: 2, active: 1, percent: 10 })
    const due = Array.from({ length: 25 }, () => canaries.claimed(E, 1, 1))
    assert.deepStrictEqual(due.flatMap((is, index) => is ? [index + 1] : []), [10])
    assert.strictEqual(canaries.allowance(E, 2), 2)
    canaries.claimed(E, 2, 2)
    assert.strictEqual(canaries.allowance(E, 2), 0)
  })

  it("never gives the canary more than its share, and all of it when its workers claim what they may", () => {
    fc.assert(fc.property(
      fc.integer({ min: 1, max: 50 }),
      fc.array(fc.record({ canary: fc.boolean(), jobs: fc.integer({ min: 1, max: 3 }) }), { maxLength: 300 }),
      fc.boolean(),
      (percent, claims, isEager) => {
        const canaries = Canaries.make()
        canaries.set(E, { release: 2, active: 1, percent })
        let all = 0
        let taken = 0
        for (const { canary, jobs } of claims) {
          const may = canaries.allowance(E, 2) ?? 0
          const claimed = (isEager ? may > 0 : canary) ? Math.min(may, jobs) : 0
          canaries.claimed(E, claimed > 0 ? 2 : 1, claimed > 0 ? claimed : jobs)
          all += claimed > 0 ? claimed : jobs
          taken += claimed
          assert.isAtMost(taken, (all * percent) / 100 + 1e-6)
        }
        // Up to three jobs are claimed at once.
        if (isEager) assert.isAtLeast(taken, Math.floor((all * percent) / 100) - 6)
      }
    ))
  })
})

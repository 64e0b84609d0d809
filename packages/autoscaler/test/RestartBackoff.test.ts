import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as RestartBackoff from "../src/RestartBackoff.ts"

/** Fails starts one after the other, each as soon as it is allowed. */
const waits = (count: number, random: number): ReadonlyArray<number> => {
  let backoff = RestartBackoff.empty
  let now = 0
  const result: Array<number> = []
  for (let index = 0; index < count; index++) {
    const startedAt = now
    now += 100
    backoff = RestartBackoff.failedStart(backoff, { now, startedAt, random })
    result.push(backoff.notBefore - now)
    now = backoff.notBefore
  }
  return result
}

describe("RestartBackoff", () => {
  it("doubles the wait from 1 s to 30 s", () =>
    assert.deepStrictEqual(waits(7, 0.5), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]))

  it("stays between the first and the longest wait, whatever the dice say", () =>
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 10_000 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        (count, random) => {
          const wait = RestartBackoff.delayOf(count, random)
          assert.isTrue(wait >= RestartBackoff.INITIAL_DELAY_MILLIS && wait <= RestartBackoff.MAX_DELAY_MILLIS)
        }
      )
    ))

  it("counts workers that were started together once", () => {
    let backoff = RestartBackoff.empty
    for (let index = 0; index < 5; index++) {
      backoff = RestartBackoff.failedStart(backoff, { now: 100 + index, startedAt: 0, random: 0.5 })
    }
    assert.deepStrictEqual([backoff.failedStarts, backoff.notBefore], [1, 1_100])
  })

  it("tries one at a time until one works", () => {
    const failed = RestartBackoff.failedStart(RestartBackoff.empty, { now: 100, startedAt: 0, random: 0.5 })
    assert.strictEqual(RestartBackoff.allowedStarts(failed, 5, 0, 1_099), 0)
    assert.strictEqual(RestartBackoff.allowedStarts(failed, 5, 0, 1_100), 1)
    assert.strictEqual(RestartBackoff.allowedStarts(failed, 5, 1, 1_100), 0)
    assert.strictEqual(RestartBackoff.allowedStarts(RestartBackoff.ready(failed), 5, 3, 200), 5)
  })

  it("replaces two quick crashes at once and lets the third wait", () => {
    let backoff = RestartBackoff.empty
    const allowed = [1, 2, 3].map((now) => {
      backoff = RestartBackoff.crashed(RestartBackoff.ready(backoff), { now: now * 10, startedAt: now * 10 - 5, random: 0.5 })
      return RestartBackoff.allowedStarts(backoff, 1, 0, now * 10)
    })
    assert.deepStrictEqual(allowed, [1, 1, 0])
    assert.strictEqual(RestartBackoff.allowedStarts(backoff, 1, 0, 1_030), 1)
  })

  it("forgets quick crashes when a worker lived long or left in order", () => {
    const twice = [1, 2].reduce(
      (backoff) => RestartBackoff.crashed(backoff, { now: 10, startedAt: 0, random: 0.5 }),
      RestartBackoff.empty
    )
    assert.strictEqual(RestartBackoff.crashed(twice, { now: 10_000, startedAt: 0, random: 0.5 }).quickCrashes, 0)
    assert.strictEqual(RestartBackoff.exited(twice).quickCrashes, 0)
  })
})

import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import * as RestartBackoff from "../src/RestartBackoff.ts"

/** The delays after consecutive failed starts, each attempted as soon as it is allowed. */
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
  it("doubles the delay from 1 s to 30 s", () =>
    assert.deepStrictEqual(waits(7, 0.5), [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]))

  it("keeps the delay between the initial and the maximum delay, for any random number", () =>
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

  it("counts the failed starts of workers that were started together as one", () => {
    let backoff = RestartBackoff.empty
    for (let index = 0; index < 5; index++) {
      backoff = RestartBackoff.failedStart(backoff, { now: 100 + index, startedAt: 0, random: 0.5 })
    }
    assert.deepStrictEqual([backoff.failedStarts, backoff.notBefore], [1, 1_100])
  })

  it("allows one start at a time until a worker is ready", () => {
    const failed = RestartBackoff.failedStart(RestartBackoff.empty, { now: 100, startedAt: 0, random: 0.5 })
    assert.strictEqual(RestartBackoff.allowedStarts(failed, 5, 0, 1_099), 0)
    assert.strictEqual(RestartBackoff.allowedStarts(failed, 5, 0, 1_100), 1)
    assert.strictEqual(RestartBackoff.allowedStarts(failed, 5, 1, 1_100), 0)
    assert.strictEqual(RestartBackoff.allowedStarts(RestartBackoff.ready(failed), 5, 3, 200), 5)
  })

  it("allows a restart at once after two quick crashes, and delays it after the third", () => {
    let backoff = RestartBackoff.empty
    const allowed = [1, 2, 3].map((now) => {
      backoff = RestartBackoff.crashed(RestartBackoff.ready(backoff), { now: now * 10, startedAt: now * 10 - 5, random: 0.5 })
      return RestartBackoff.allowedStarts(backoff, 1, 0, now * 10)
    })
    assert.deepStrictEqual(allowed, [1, 1, 0])
    assert.strictEqual(RestartBackoff.allowedStarts(backoff, 1, 0, 1_030), 1)
  })

  it("resets the quick crashes when a worker lived long or exited in order", () => {
    const twice = [1, 2].reduce(
      (backoff) => RestartBackoff.crashed(backoff, { now: 10, startedAt: 0, random: 0.5 }),
      RestartBackoff.empty
    )
    assert.strictEqual(RestartBackoff.crashed(twice, { now: 10_000, startedAt: 0, random: 0.5 }).quickCrashes, 0)
    assert.strictEqual(RestartBackoff.exited(twice).quickCrashes, 0)
  })
})

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

  const crash = (backoff: RestartBackoff.RestartBackoff, now: number, jobs: ReadonlyArray<string> = []) =>
    RestartBackoff.crashed(backoff, { now, startedAt: now - 5, random: 0.5, jobs })

  it("allows a restart at once after two quick crashes, and delays it after the third", () => {
    let backoff = RestartBackoff.empty
    const allowed = [1, 2, 3].map((now) => {
      backoff = crash(RestartBackoff.ready(backoff), now * 10)
      return RestartBackoff.allowedStarts(backoff, 1, 0, now * 10)
    })
    assert.deepStrictEqual(allowed, [1, 1, 0])
    assert.strictEqual(RestartBackoff.allowedStarts(backoff, 3, 0, 1_030), 1, "one trial at a time")
  })

  it("delays a restart only after five different jobs have crashed a worker", () => {
    const jobs = ["a", "a", "b", "b", "c", "d", "d", "e", "e", "f"]
    const waits = jobs.map((_, index) => {
      const state = jobs.slice(0, index + 1).reduce((before, job, at) => crash(before, at * 10 + 10, [job]), RestartBackoff.empty)
      return state.notBefore > 0
    })
    assert.deepStrictEqual(waits, [false, false, false, false, false, false, false, false, false, true])
  })

  it("counts crashes of workers that share a job as one", () => {
    const jobs = Array.from({ length: 20 }, (_, index) => [`other ${index}`, "culprit"])
    const state = jobs.reduce((before, held, at) => crash(before, at * 10 + 10, held), RestartBackoff.empty)
    assert.deepStrictEqual([state.jobCrashes, state.notBefore], [1, 0])
  })

  it("counts the crashes of workers that ran side by side once per wait", () => {
    const backingOff = [10, 20, 30].reduce((before, now) => crash(before, now), RestartBackoff.empty)
    const older = RestartBackoff.crashed(backingOff, { now: 40, startedAt: 25, random: 0.5, jobs: [] })
    assert.strictEqual(older, backingOff)
  })

  it("resets the crashes when a worker delivers a result, lives long or exits as requested", () => {
    const failing = [10, 20, 30].reduce((before, now) => crash(crash(before, now), now, [`job ${now}`]), RestartBackoff.empty)
    assert.isAbove(failing.notBefore, 0)
    assert.deepStrictEqual(RestartBackoff.succeeded(failing), { ...RestartBackoff.empty, failedAt: failing.failedAt })
    const long = RestartBackoff.crashed(failing, { now: 20_000, startedAt: 10_000, random: 0.5, jobs: ["job 40"] })
    assert.deepStrictEqual(long, RestartBackoff.succeeded(failing))
  })

  it("keeps the wait after a failed start when another worker delivers a result", () => {
    const failed = RestartBackoff.failedStart(crash(RestartBackoff.empty, 50), { now: 100, startedAt: 0, random: 0.5 })
    const { failedStarts, notBefore } = RestartBackoff.succeeded(failed)
    assert.deepStrictEqual([failedStarts, notBefore], [1, 1_100])
  })
})

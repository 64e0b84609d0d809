/**
 * What is counted together, what clients are told, and what is forgotten; on the test clock.
 */
import { expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as RateLimits from "../src/RateLimits.ts"

const subject = { key: "k", endpoint: "hello", operation: "run" }

const run = <A>(body: Effect.Effect<A, never, RateLimits.RateLimits>) => Effect.provide(body, RateLimits.layer)

it.effect("says the policy and what is left, in the syntax of the RateLimit header fields", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimits.RateLimits
    const limit = { limit: 3, perMs: 10_000, concurrent: 5 }
    expect(limits.enter(subject, limit)).toMatchObject({
      refused: undefined,
      headers: {
        "ratelimit-policy": "\"run\";q=3;w=10, \"run-open\";q=5;qu=\"concurrent-requests\"",
        ratelimit: "\"run\";r=2;t=4, \"run-open\";r=4"
      }
    })
    expect(limits.enter({ ...subject, operation: "status" }, { limit: 1, perMs: 60_000 }).headers).toEqual({
      "ratelimit-policy": "\"status\";q=1;w=60",
      ratelimit: "\"status\";r=0;t=60"
    })
  })))

it.effect("counts each key, each endpoint and each kind of operation for itself", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimits.RateLimits
    const limit = { limit: 1, perMs: 10_000 }
    const subjects = [
      subject,
      { ...subject, key: "other" },
      { ...subject, endpoint: "other" },
      { ...subject, operation: "cancel" }
    ]
    expect(subjects.map((one) => limits.enter(one, limit).refused)).toEqual([undefined, undefined, undefined, undefined])
    expect(subjects.map((one) => limits.enter(one, limit).refused)).toEqual(["rate", "rate", "rate", "rate"])
  })))

it.effect("Retry-After is honest: whoever waits that long is admitted", () =>
  Effect.promise(() =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 120 }),
        fc.integer({ min: 0, max: 2_000 }),
        (limit, seconds, pause) =>
          Effect.runPromise(
            run(Effect.gen(function*() {
              const limits = yield* RateLimits.RateLimits
              const rate = { limit, perMs: seconds * 1_000 }
              for (let round = 0; round < 3; round++) {
                let pass = limits.enter(subject, rate)
                while (pass.refused === undefined) pass = limits.enter(subject, rate)
                yield* TestClock.adjust(pass.retryAfter * 1_000)
                expect(limits.enter(subject, rate).refused).toBeUndefined()
                yield* TestClock.adjust(pause)
              }
            })).pipe(Effect.provide(TestClock.layer()))
          )
      ),
      { numRuns: 100 }
    )
  ))

it.effect("calls that are open count until they are over, and a refused one costs nothing", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimits.RateLimits
    const limit = { limit: 10, perMs: 1_000, concurrent: 2 }
    const first = limits.enter(subject, limit)
    limits.enter(subject, limit)
    const refused = limits.enter(subject, limit)
    expect(refused).toMatchObject({ refused: "open", retryAfter: 1 })
    expect(refused.headers["ratelimit"]).toBe("\"run\";r=8;t=1, \"run-open\";r=0")
    refused.leave()
    expect(limits.enter(subject, limit).refused).toBe("open")
    first.leave()
    expect(limits.enter(subject, limit).refused).toBeUndefined()
  })))

it.effect("a limit that was changed counts anew", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimits.RateLimits
    expect(limits.enter(subject, { limit: 1, perMs: 60_000 }).refused).toBeUndefined()
    expect(limits.enter(subject, { limit: 1, perMs: 60_000 }).refused).toBe("rate")
    expect(limits.enter(subject, { limit: 2, perMs: 60_000 }).refused).toBeUndefined()
  })))

it.effect("memory is bounded by who called lately, and whoever still counts is not forgotten", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimits.RateLimits
    const short = { limit: 1, perMs: 1_000 }
    const long = { limit: 1, perMs: 86_400_000 }
    const open = { ...subject, key: "open" }
    const slow = limits.enter({ ...subject, key: "long" }, long)
    expect(slow.refused).toBeUndefined()
    slow.leave()
    limits.enter(open, { ...short, concurrent: 1 })
    for (let i = 0; i < 20_000; i++) {
      limits.enter({ ...subject, key: String(i) }, short).leave()
      if (i % 100 === 0) yield* TestClock.adjust(1_000)
    }
    expect(limits.size()).toBeLessThan(3_000)
    expect(limits.enter({ ...subject, key: "long" }, long).refused).toBe("rate")
    expect(limits.enter(open, { ...short, concurrent: 1 }).refused).toBe("open")
  })))

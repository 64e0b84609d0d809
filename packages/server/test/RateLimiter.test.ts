/**
 * Tests of the rate limiter on the test clock: which calls share a count, what clients receive, and when counts are removed.
 */
import { expect, it } from "@effect/vitest"
import type { RateLimit } from "@stint/contract/RateLimit"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as LeakyBucket from "../src/auth/LeakyBucket.ts"
import * as RateLimiter from "../src/auth/RateLimiter.ts"

const subject = { key: "k", endpoint: "hello", operation: "run" }

/** An endpoint's limit, which is the usual kind. */
const of = (endpoint: RateLimit): RateLimiter.Limits => ({ endpoint })

const run = <A>(body: Effect.Effect<A, never, RateLimiter.RateLimiter>) => Effect.provide(body, RateLimiter.layer)

it.effect("reports the policy and the remaining calls in the syntax of the RateLimit header fields", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimiter.RateLimiter
    const limit = { limit: 3, perMs: 10_000, concurrent: 5 }
    expect(limits.acquire(subject, of(limit))).toMatchObject({
      rejection: undefined,
      headers: {
        "ratelimit-policy": "\"run\";q=3;w=10, \"run-open\";q=5;qu=\"concurrent-requests\"",
        ratelimit: "\"run\";r=2;t=4, \"run-open\";r=4"
      }
    })
    expect(limits.acquire({ ...subject, operation: "status" }, of({ limit: 1, perMs: 60_000 })).headers).toEqual({
      "ratelimit-policy": "\"status\";q=1;w=60",
      ratelimit: "\"status\";r=0;t=60"
    })
  })))

it.effect("counts each key, each endpoint and each operation separately", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimiter.RateLimiter
    const limit = { limit: 1, perMs: 10_000 }
    const subjects = [
      subject,
      { ...subject, key: "other" },
      { ...subject, endpoint: "other" },
      { ...subject, operation: "cancel" }
    ]
    expect(subjects.map((one) => limits.acquire(one, of(limit)).rejection)).toEqual([undefined, undefined, undefined, undefined])
    expect(subjects.map((one) => limits.acquire(one, of(limit)).rejection?.why)).toEqual(["rate", "rate", "rate", "rate"])
  })))

it.effect("reports Retry-After accurately: a call after that time is admitted", () =>
  Effect.promise(() =>
    fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 50 }),
        fc.integer({ min: 1, max: 120 }),
        fc.integer({ min: 0, max: 2_000 }),
        (limit, seconds, pause) =>
          Effect.runPromise(
            run(Effect.gen(function*() {
              const limits = yield* RateLimiter.RateLimiter
              const rate = { limit, perMs: seconds * 1_000 }
              for (let round = 0; round < 3; round++) {
                let permit = limits.acquire(subject, of(rate))
                while (permit.rejection === undefined) permit = limits.acquire(subject, of(rate))
                yield* TestClock.adjust(permit.rejection.retryAfter * 1_000)
                expect(limits.acquire(subject, of(rate)).rejection).toBeUndefined()
                yield* TestClock.adjust(pause)
              }
            })).pipe(Effect.provide(TestClock.layer()))
          )
      ),
      { numRuns: 100 }
    )
  ))

it.effect("counts calls as open until they have ended, and does not count rejected calls", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimiter.RateLimiter
    const limit = { limit: 10, perMs: 1_000, concurrent: 2 }
    const first = limits.acquire(subject, of(limit))
    limits.acquire(subject, of(limit))
    const rejected = limits.acquire(subject, of(limit))
    expect(rejected).toMatchObject({ rejection: { by: "endpoint", why: "open", retryAfter: 1 } })
    expect(rejected.headers["ratelimit"]).toBe("\"run\";r=8;t=1, \"run-open\";r=0")
    rejected.release()
    expect(limits.acquire(subject, of(limit)).rejection?.why).toBe("open")
    first.release()
    expect(limits.acquire(subject, of(limit)).rejection).toBeUndefined()
  })))

it.effect("applies the limits of the endpoint and the key, and a rejection by one limit does not count against the other", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimiter.RateLimiter
    const both = { endpoint: { limit: 3, perMs: 3_000 }, key: { limit: 2, perMs: 60_000 } }
    expect(limits.acquire(subject, both).headers).toEqual({
      "ratelimit-policy": "\"run\";q=3;w=3, \"run-key\";q=2;w=60",
      ratelimit: "\"run\";r=2;t=1, \"run-key\";r=1;t=30"
    })
    limits.acquire(subject, both)
    for (let i = 0; i < 5; i++) {
      const permit = limits.acquire(subject, both)
      expect(permit.rejection).toMatchObject({ by: "key", why: "rate", retryAfter: 30 })
      expect(permit.headers.ratelimit).toMatch(/^"run";r=1;t=2, "run-key";r=0/)
    }
    yield* TestClock.adjust(30_000)
    expect(limits.acquire(subject, both).rejection).toBeUndefined()

    const other = { ...subject, key: "generous" }
    const generous = { endpoint: both.endpoint, key: { limit: 1_000, perMs: 1_000, concurrent: 1_000 } }
    for (let i = 0; i < 3; i++) expect(limits.acquire(other, generous).rejection).toBeUndefined()
    expect(limits.acquire(other, generous).rejection).toMatchObject({ by: "endpoint", why: "rate", retryAfter: 1 })

    const busy = { ...subject, key: "busy" }
    const few = { endpoint: { limit: 100, perMs: 1_000, concurrent: 5 }, key: { limit: 100, perMs: 1_000, concurrent: 1 } }
    const first = limits.acquire(busy, few)
    expect(limits.acquire(busy, few).rejection).toMatchObject({ by: "key", why: "open" })
    first.release()
    expect(limits.acquire(busy, few).rejection).toBeUndefined()
  })))

it.effect("never admits more calls than either limit alone, and never rejects a call that both limits would admit", () =>
  Effect.promise(() =>
    fc.assert(
      fc.asyncProperty(
        fc.record({ limit: fc.integer({ min: 1, max: 8 }), perMs: fc.integer({ min: 1, max: 20 }).map((s) => s * 1_000) }),
        fc.record({ limit: fc.integer({ min: 1, max: 8 }), perMs: fc.integer({ min: 1, max: 20 }).map((s) => s * 1_000) }),
        fc.array(fc.integer({ min: 0, max: 4_000 }), { maxLength: 40 }),
        (endpoint, key, pauses) =>
          Effect.runPromise(
            run(Effect.gen(function*() {
              const limits = yield* RateLimiter.RateLimiter
              const model = {
                endpoint: undefined as LeakyBucket.Meter | undefined,
                key: undefined as LeakyBucket.Meter | undefined
              }
              let now = 0
              for (const pause of pauses) {
                yield* TestClock.adjust(pause)
                now += pause
                const wanted = LeakyBucket.peek(endpoint, model.endpoint, now).admitted &&
                  LeakyBucket.peek(key, model.key, now).admitted
                expect(limits.acquire(subject, { endpoint, key }).rejection === undefined).toBe(wanted)
                if (!wanted) continue
                model.endpoint = LeakyBucket.consume(endpoint, model.endpoint, now).meter
                model.key = LeakyBucket.consume(key, model.key, now).meter
              }
            })).pipe(Effect.provide(TestClock.layer()))
          )
      ),
      { numRuns: 100 }
    )
  ))

it.effect("starts the count of a changed limit from zero", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimiter.RateLimiter
    expect(limits.acquire(subject, of({ limit: 1, perMs: 60_000 })).rejection).toBeUndefined()
    expect(limits.acquire(subject, of({ limit: 1, perMs: 60_000 })).rejection?.why).toBe("rate")
    expect(limits.acquire(subject, of({ limit: 2, perMs: 60_000 })).rejection).toBeUndefined()
  })))

it.effect("removes idle subjects from memory, and keeps subjects with usage", () =>
  run(Effect.gen(function*() {
    const limits = yield* RateLimiter.RateLimiter
    const short = { limit: 1, perMs: 1_000 }
    const long = { limit: 1, perMs: 86_400_000 }
    const open = { ...subject, key: "open" }
    const slow = limits.acquire({ ...subject, key: "long" }, of(long))
    expect(slow.rejection).toBeUndefined()
    slow.release()
    limits.acquire(open, of({ ...short, concurrent: 1 }))
    for (let i = 0; i < 20_000; i++) {
      limits.acquire({ ...subject, key: String(i) }, of(short)).release()
      if (i % 100 === 0) yield* TestClock.adjust(1_000)
    }
    expect(limits.size()).toBeLessThan(3_000)
    expect(limits.acquire({ ...subject, key: "long" }, of(long)).rejection?.why).toBe("rate")
    expect(limits.acquire(open, of({ ...short, concurrent: 1 })).rejection?.why).toBe("open")
  })))

it.effect("continues to admit calls at their rate when the wall clock is set back an hour", () =>
  Effect.flatMap(Clock.Clock, (clock) => {
    let offset = 0
    const wall = { currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() + offset }
    const settable: Clock.Clock = Object.setPrototypeOf(wall, clock)
    return run(Effect.gen(function*() {
      const limits = yield* RateLimiter.RateLimiter
      const limit = of({ limit: 1, perMs: 10_000 })
      expect(limits.acquire(subject, limit).rejection).toBeUndefined()
      offset = -3_600_000
      expect(limits.acquire(subject, limit).rejection?.retryAfter).toBe(10)
      yield* TestClock.adjust(10_000)
      expect(limits.acquire(subject, limit).rejection).toBeUndefined()
    })).pipe(Effect.provideService(Clock.Clock, settable))
  }))

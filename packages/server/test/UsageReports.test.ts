/**
 * Tests of the rate limits of several nodes: what a node learns from the reports of the others. The heartbeats are calls of the tests.
 */
import { describe, expect, it } from "@effect/vitest"
import { NodeNetwork } from "@stint/store-testing"
import { Nodes, type Reports } from "@stint/store/Nodes"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as LeakyBucket from "../src/auth/LeakyBucket.ts"
import * as RateLimiter from "../src/auth/RateLimiter.ts"
import * as UsageReports from "../src/auth/UsageReports.ts"

const subject = { key: "k", endpoint: "hello", operation: "run" }

/** Nodes that exchange reports through a table, as they do through the database. */
const network = () => {
  const written = new Map<string, string>()
  const others = (name: string): Reports => new Map([...written].filter(([other]) => other !== name))
  const join = Effect.fnUntraced(function*(name: string) {
    const topic = { report: () => "", receive: (_: Reports) => {} }
    const nodes = NodeNetwork.stub({
      name,
      setReport: (_, report, receive = () => {}) => void Object.assign(topic, { report, receive }),
      reports: () => others(name)
    })
    const context = yield* Layer.build(Layer.fresh(RateLimiter.layer)).pipe(Effect.provideService(Nodes, nodes))
    const limits = Context.get(context, RateLimiter.RateLimiter)
    const acquire = (limit: RateLimiter.Limits, of = subject) => limits.acquire(of, limit)
    return {
      ...limits,
      acquire,
      report: topic.report,
      /** Writes the report of this node, and reads those of the others. */
      beat: () => {
        written.set(name, topic.report())
        topic.receive(others(name))
      },
      /** The calls that are left, according to the headers. Counts a call. */
      left: (limit: RateLimiter.Limits, of = subject) =>
        Number(/;r=(\d+)/.exec(acquire(limit, of).headers["ratelimit"] ?? "")?.[1]),
      leave: () => void written.delete(name)
    }
  })
  /** Two nodes that know each other. */
  const pair = Effect.gen(function*() {
    const [first, second] = [yield* join("node 1"), yield* join("node 2")]
    for (const node of [first, second, first, second]) node.beat()
    return [first, second] as const
  })
  return { join, pair }
}

/** So slow that no call leaves the bucket during a test. */
const DAY = { endpoint: { limit: 1_000, perMs: 86_400_000 } }

describe("rate limits of several nodes", () => {
  it.effect("count a call of another node once, however often its report is read", () =>
    Effect.gen(function*() {
      const [first, second] = yield* network().pair
      for (let call = 0; call < 7; call++) first.acquire(DAY)
      for (let beat = 0; beat < 5; beat++) for (const node of [first, second]) node.beat()
      expect(second.left(DAY)).toBe(1_000 - 7 - 1)
      first.acquire(DAY)
      for (const node of [first, second, first]) node.beat()
      expect(second.left(DAY)).toBe(1_000 - 8 - 2)
      expect(first.left(DAY)).toBe(1_000 - 8 - 1 - 1)
    }))

  it.effect("reject a call beyond the shared limit, also of a key or an endpoint that this node has not seen before", () =>
    Effect.gen(function*() {
      const [first, second] = yield* network().pair
      const both = { endpoint: { limit: 5, perMs: 10_000 }, key: { limit: 3, perMs: 60_000 } }
      for (let call = 0; call < 3; call++) expect(first.acquire(both).rejection).toBeUndefined()
      for (const node of [first, second]) node.beat()
      expect(second.acquire(both)).toMatchObject({
        rejection: { by: "key", why: "rate", retryAfter: 20 },
        headers: { ratelimit: "\"run\";r=2;t=6, \"run-key\";r=0;t=60" }
      })
      expect(second.acquire(both, { ...subject, operation: "status" }).rejection).toBeUndefined()
    }))

  it.effect("agree on the number of calls after any sequence of calls, missed heartbeats and pauses", () =>
    Effect.promise(() =>
      fc.assert(
        fc.asyncProperty(
          fc.array(
            fc.oneof(
              { weight: 5, arbitrary: fc.record({ node: fc.nat(2), calls: fc.integer({ min: 1, max: 4 }) }) },
              { weight: 3, arbitrary: fc.record({ seconds: fc.constant(1), misses: fc.nat(3) }) },
              { weight: 1, arbitrary: fc.record({ seconds: fc.constant(12), misses: fc.constant(3) }) }
            ),
            { maxLength: 40 }
          ),
          (steps) =>
            Effect.runPromise(
              Effect.scoped(Effect.gen(function*() {
                const { join } = network()
                const nodes = [yield* join("node 1"), yield* join("node 2"), yield* join("node 3")]
                const missed = [0, 0, 0]
                const second = Effect.fnUntraced(function*(misses: number) {
                  yield* TestClock.adjust(1_000)
                  for (const [at, node] of nodes.entries()) {
                    // More than three would make it dead.
                    missed[at] = at === misses ? (missed[at] ?? 0) + 1 : 0
                    if (at !== misses || (missed[at] ?? 0) > 3) node.beat()
                  }
                })
                yield* second(3)
                yield* second(3)
                let total = 0
                for (const step of steps) {
                  if ("calls" in step) {
                    for (let call = 0; call < step.calls; call++) nodes[step.node]?.acquire(DAY).release()
                    total += step.calls
                  } else for (let at = 0; at < step.seconds; at++) yield* second(step.misses)
                }
                yield* second(3)
                yield* second(3)
                for (const node of nodes) {
                  // A few calls may have left the bucket: one each 86 s.
                  const counted = 1_000 - 1 - node.left(DAY)
                  expect(counted).toBeLessThanOrEqual(total)
                  expect(counted).toBeGreaterThanOrEqual(total - 7)
                }
              })).pipe(Effect.provide(TestClock.layer()))
            )
        ),
        { numRuns: 100 }
      )
    ))

  it.effect("admit the rate of one limit over time, however many nodes are saturated", () =>
    Effect.gen(function*() {
      const { join } = network()
      const nodes = [yield* join("node 1"), yield* join("node 2"), yield* join("node 3")]
      for (const node of [...nodes, ...nodes]) node.beat()
      const limit = { endpoint: { limit: 10, perMs: 1_000 } }
      let admitted = 0
      for (let at = 0; at < 120_000; at += 50) {
        yield* TestClock.adjust(50)
        for (const [index, node] of nodes.entries()) {
          const permit = node.acquire(limit)
          if (permit.rejection === undefined) admitted += 1
          permit.release()
          if (at % 1_000 === 300 * index) node.beat()
        }
      }
      // 1,200 calls in two minutes, and what the nodes admit until they hear of each other: the burst and two seconds of three nodes.
      expect(admitted).toBeGreaterThan(1_000)
      expect(admitted).toBeLessThan(1_200 + 3 * (10 + 20))
    }))

  it.effect("add the open calls of the other nodes, until these end or their node is gone", () =>
    Effect.gen(function*() {
      const [first, second] = yield* network().pair
      const limit = { endpoint: { limit: 100, perMs: 1_000, concurrent: 2 } }
      const open = first.acquire(limit)
      for (const node of [first, second]) node.beat()
      const own = second.acquire(limit)
      expect(own.headers["ratelimit"]).toMatch(/"run-open";r=0$/)
      expect(second.acquire(limit).rejection).toMatchObject({ why: "open", retryAfter: 1 })
      open.release()
      for (const node of [first, second]) node.beat()
      const other = second.acquire(limit)
      expect(other.rejection).toBeUndefined()
      own.release()
      other.release()

      for (let call = 0; call < 2; call++) first.acquire(limit)
      // It stays open much longer than a subject without calls is reported.
      for (let at = 0; at < 60; at++) {
        yield* TestClock.adjust("1 second")
        for (const node of [first, second]) node.beat()
      }
      expect(second.acquire(limit).rejection?.why).toBe("open")
      first.leave()
      second.beat()
      expect(second.acquire(limit).rejection).toBeUndefined()
    }))

  it.effect("start from zero at a node that starts, and do not count the calls that another node admitted before", () =>
    Effect.gen(function*() {
      const { join, pair } = network()
      const [first, second] = yield* pair
      for (let call = 0; call < 10; call++) first.acquire(DAY)
      for (let call = 0; call < 4; call++) second.acquire(DAY)
      for (const node of [first, second]) node.beat()
      first.leave()
      const restarted = yield* join("node 3")
      expect(second.left(DAY)).toBe(1_000 - 14 - 1)
      for (const node of [second, restarted, second]) node.beat()
      expect(restarted.left(DAY)).toBe(1_000 - 1 - 1)
      for (const node of [restarted, second]) node.beat()
      expect(second.left(DAY)).toBe(1_000 - 14 - 1 - 1 - 1)
    }))

  it.effect("report the subjects with the most calls, at most 200, and count each call of a subject that is reported later", () =>
    Effect.gen(function*() {
      const [first, second] = yield* network().pair
      const of = (key: number) => ({ ...subject, key: String(key) })
      const busy = 10_000
      for (let key = 0; key < 500; key++) first.acquire(DAY, of(key)).release()
      for (let call = 0; call < 3; call++) first.acquire(DAY, of(busy)).release()
      for (const node of [first, second]) node.beat()
      const entries = UsageReports.makeReader()
      entries(new Map([["node 1", "[]"]]))
      const read = entries(new Map([["node 1", first.report()]]))
      expect(read).toHaveLength(RateLimiter.MAX_REPORTED)
      expect(second.left(DAY, of(busy))).toBe(1_000 - 3 - 1)
      // Not among those with the most calls, so it counts only at its node until it is.
      expect(second.left(DAY, of(499))).toBe(1_000 - 1)
      for (let call = 0; call < 5; call++) first.acquire(DAY, of(499)).release()
      for (const node of [first, second]) node.beat()
      expect(second.left(DAY, of(499))).toBe(1_000 - 1 - 5 - 1)
    }))

  it.effect("count a subject whose count has begun again, even if the report between the two was missed", () =>
    Effect.sync(() => {
      const read = UsageReports.makeReader()
      const report = (entry: number, admitted: number) => {
        const text = UsageReports.encode([{ subject: "k hello run", entry, admitted, open: 0, rates: [] }])
        return read(new Map([["node 1", text]])).map(({ calls }) => calls)
      }
      expect([report(1, 4), report(1, 9), report(1, 9), report(2, 3), report(3, 7)]).toEqual([[0], [5], [0], [3], [7]])
    }))

  it.effect("report every call of a subject that was idle between two heartbeats", () =>
    Effect.gen(function*() {
      const [first] = yield* network().pair
      const short = { endpoint: { limit: 1_000, perMs: 1_000 } }
      for (let call = 0; call < 5; call++) first.acquire(short).release()
      yield* TestClock.adjust(500)
      // So many that idle subjects are removed.
      for (let key = 0; key < 3_000; key++) first.acquire(short, { ...subject, key: String(key) }).release()
      first.acquire(short).release()
      expect(first.report()).toMatch(/"subject":"k hello run","entry":1,"admitted":6,/)
    }))

  it.effect("forget subjects without calls", () =>
    Effect.gen(function*() {
      const [first] = yield* network().pair
      const short = { endpoint: { limit: 1, perMs: 1_000 } }
      for (let key = 0; key < 20_000; key++) {
        first.acquire(short, { ...subject, key: String(key) }).release()
        if (key % 100 !== 0) continue
        yield* TestClock.adjust(1_000)
        first.beat()
      }
      expect(first.size()).toBeLessThan(3_000)
      yield* TestClock.adjust("10 seconds")
      expect(first.report()).toBe("[]")
    }))

  it.effect("ignore the calls that another node counts with a limit that this node has replaced", () =>
    Effect.gen(function*() {
      const [first, second] = yield* network().pair
      const [old, changed] = [{ endpoint: { limit: 100, perMs: 60_000 } }, { endpoint: { limit: 50, perMs: 60_000 } }]
      second.acquire(changed)
      for (let call = 0; call < 4; call++) first.acquire(old)
      for (const node of [first, second]) node.beat()
      expect(second.left(changed)).toBe(50 - 2)
      for (let call = 0; call < 4; call++) first.acquire(changed)
      for (const node of [first, second]) node.beat()
      expect(second.left(changed)).toBe(50 - 3 - 4)
    }))

  it.effect("ignore a report of a version that this one cannot read", () =>
    Effect.sync(() => {
      const read = UsageReports.makeReader()
      for (const text of ["[]", "not JSON", "[{\"subject\":1}]", "{}"]) expect(read(new Map([["node 1", text]]))).toEqual([])
    }))

  it("admits no call at a bucket above its capacity, and says how long that lasts", () => {
    const rate = { limit: 10, perMs: 1_000 }
    const meter = LeakyBucket.add(rate, undefined, 25, 0)
    expect(LeakyBucket.consume(rate, meter, 0)).toMatchObject({ admitted: false, remaining: 0, resetMs: 2_500, waitMs: 1_600 })
    expect(LeakyBucket.consume(rate, meter, 1_599).admitted).toBe(false)
    expect(LeakyBucket.consume(rate, meter, 1_600).admitted).toBe(true)
    expect(LeakyBucket.add(rate, meter, Number.MAX_SAFE_INTEGER, 0).debt).toBe(Number.MAX_SAFE_INTEGER)
  })
})

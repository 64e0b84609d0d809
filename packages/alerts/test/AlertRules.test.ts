import { assert, describe, it } from "@effect/vitest"
import * as fc from "fast-check"
import { conditionsOf, defaults, type EndpointObservation, type Observation } from "../src/AlertRules.ts"

const NOW = 10_000_000

const endpoint = (more: Partial<EndpointObservation> = {}): EndpointObservation => ({
  id: "hello",
  ended: 0,
  failed: 0,
  oldestQueuedAt: null,
  workerProblem: undefined,
  failedBuild: undefined,
  ...more
})

const observe = (more: Partial<Observation> = {}): Observation => ({
  now: NOW,
  endpoints: [],
  hosts: [],
  isDiskLow: false,
  budgets: [],
  ...more
})

const fingerprints = (observation: Observation) => conditionsOf(observation, defaults).map(({ fingerprint }) => fingerprint)

const ofEndpoint = (more: Partial<EndpointObservation>) => fingerprints(observe({ endpoints: [endpoint(more)] }))

describe("the rules of alerts", () => {
  it("find nothing on a platform that works", () => assert.deepStrictEqual(ofEndpoint({ ended: 1_000, failed: 9 }), []))

  it("find an endpoint that fails enough of its jobs, by number and by share", () => {
    assert.deepStrictEqual(ofEndpoint({ ended: 20, failed: 10 }), ["endpoint_failing/hello"])
    assert.deepStrictEqual(ofEndpoint({ ended: 21, failed: 10 }), [])
    assert.deepStrictEqual(ofEndpoint({ ended: 9, failed: 9 }), [])
  })

  it("find a job that has waited too long", () => {
    assert.deepStrictEqual(ofEndpoint({ oldestQueuedAt: NOW - defaults.queueAgeMs }), ["queue_old/hello"])
    assert.deepStrictEqual(ofEndpoint({ oldestQueuedAt: NOW - defaults.queueAgeMs + 1 }), [])
  })

  it("find failing workers, with the first line of the reason, and wait for a minute before they fire", () => {
    const [found] = conditionsOf(
      observe({ endpoints: [endpoint({ workerProblem: "It exited with code 1\nTraceback" })] }),
      defaults
    )
    assert.strictEqual(found?.fingerprint, "workers_failing/hello")
    assert.strictEqual(found?.summary, "No worker of endpoint hello works: It exited with code 1.")
    assert.strictEqual(found?.forMs, 60_000)
  })

  it("find a failed last build, a lack of space, and webhook receivers that are gone", () => {
    assert.deepStrictEqual(ofEndpoint({ failedBuild: { build: 3, reason: undefined } }), ["build_failed/hello"])
    assert.deepStrictEqual(fingerprints(observe({ isDiskLow: true })), ["disk_low"])
    const host = (failed: number) =>
      observe({ hosts: [{ host: "https://a.example", failed, reason: "The receiver answered 500." }] })
    assert.deepStrictEqual(fingerprints(host(2)), [])
    assert.deepStrictEqual(fingerprints(host(3)), ["webhook_receiver_gone/https://a.example"])
  })

  it("fire when a budget is used up, and name the budget, what was spent, and when it renews", () => {
    const budget = {
      scope: "endpoint",
      id: "a",
      period: "daily",
      limit: 5,
      currency: "EUR",
      renewsAt: 1_790_812_800_000
    } as const
    const found = conditionsOf(
      observe({ budgets: [{ ...budget, spent: 4.99 }, { ...budget, period: "monthly", spent: 5 }] }),
      defaults
    )
    assert.deepStrictEqual(found.map(({ endpoint, fingerprint, summary }) => [endpoint, fingerprint, summary]), [[
      "a",
      "budget_reached/endpoint/a/monthly",
      "The monthly budget of endpoint a is used up: 5.00 of 5 EUR. New jobs are refused until 2026-10-01T00:00:00.000Z."
    ]])
    assert.deepStrictEqual(fingerprints(observe({ budgets: [{ ...budget, scope: "key", spent: 9 }] })), [
      "budget_reached/key/a/daily"
    ])
  })

  it("give each condition its own fingerprint, a sentence and a remedy", () => {
    const anyEndpoint = fc.record({
      id: fc.constantFrom("a", "b", "c", "d"),
      ended: fc.integer({ min: 0, max: 100 }),
      failed: fc.integer({ min: 0, max: 100 }),
      oldestQueuedAt: fc.option(fc.integer({ min: 0, max: NOW })),
      workerProblem: fc.option(fc.string(), { nil: undefined }),
      failedBuild: fc.option(fc.record({ build: fc.integer(), reason: fc.option(fc.string(), { nil: undefined }) }), {
        nil: undefined
      })
    })
    const observations = fc.uniqueArray(anyEndpoint, { selector: ({ id }) => id })
    fc.assert(fc.property(observations, fc.boolean(), (endpoints, isDiskLow) => {
      const found = conditionsOf(observe({ endpoints, isDiskLow }), defaults)
      assert.strictEqual(new Set(found.map(({ fingerprint }) => fingerprint)).size, found.length)
      for (const { action, summary } of found) {
        assert.match(summary, /[.!?]$/)
        assert.match(action, /\.$/)
        assert.notInclude(summary, "\n")
      }
    }))
  })
})

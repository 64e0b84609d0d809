/**
 * Each scenario of the simulation runs over a store with a planted bug and must report the broken rule. A scenario that stays green here
 * could not detect such a bug. apps/cli/test/PlantedBugs.long.test.ts does the same with real processes.
 */
import { assert, describe, it } from "@effect/vitest"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { StoreFaults } from "@stint/store-testing"
import { hasSlot } from "@stint/store/ConcurrencyRule"
import type { JobStore } from "@stint/store/JobStore"
import * as MemoryJobStore from "@stint/store/MemoryJobStore"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { chaos } from "../src/rules/ChaosRules.ts"
import { racingKeys } from "../src/rules/ConcurrencyRules.ts"
import { submitKeys } from "../src/rules/IdempotencyChaosRules.ts"
import { fullQueue, fullStorage } from "../src/rules/QueueLimitRules.ts"
import { faultless } from "../src/rules/SimulationRules.ts"
import { deadWorker } from "../src/rules/WorkerRules.ts"
import { acceptsStaleResults, ignoresKeys, planted, type Store } from "./PlantedStores.ts"

const world = (store: Layer.Layer<JobStore>) =>
  JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(StoreFaults.layer(store), WorkerRegistry.layer)))

/** Whether this is one of every `every` calls. */
const sometimes = (every: number) => {
  let calls = 0
  return () => ++calls % every === 0
}

/** Forgets some jobs that it acknowledges. */
const losesJobs = planted((store) => {
  const isLost = sometimes(10)
  return { insert: (job, key) => isLost() ? Effect.succeed({ _tag: "Inserted" }) : store.insert(job, key) }
})

/** Hands some jobs to two workers. */
const handsOutTwice = planted((store) => {
  const isRepeated = sometimes(10)
  let earlier: Effect.Success<ReturnType<Store["claim"]>>["jobs"] = []
  return {
    claim: (endpoint, limit, event) =>
      Effect.map(store.claim(endpoint, limit, event), (claimed) => {
        const jobs = isRepeated() ? [...claimed.jobs, ...earlier] : claimed.jobs
        if (claimed.jobs.length > 0) earlier = claimed.jobs
        return { ...claimed, jobs }
      })
  }
})

/** Never fires a timer, so that the jobs of silent workers stay where they are. */
const firesNoTimers = planted(() => ({ tick: () => Effect.succeed([]) }))

/** Does not move leases and timers when the wall clock is set. */
const ignoresClockJumps = planted((store) => ({
  applyRunning: (filter, event) => event._tag === "Recover" ? Effect.succeed([]) : store.applyRunning(filter, event)
}))

/** Keeps the jobs of a worker that is gone. */
const keepsJobsOfDeadWorkers = planted(() => ({ applyRunning: () => Effect.succeed([]) }))

/** Acknowledges the cancel of a running job and does not store it. */
const forgetsCancels = planted((store) => ({
  apply: (endpoint, id, event) =>
    event._tag !== "Cancel" ?
      store.apply(endpoint, id, event) :
      Effect.flatMap(store.get(endpoint, id), (job): ReturnType<Store["apply"]> =>
        job?.status === "IN_PROGRESS"
          ? Effect.succeed({ _tag: "Changed", before: job, after: { ...job, status: "CANCELLED" } })
          : store.apply(endpoint, id, event))
}))

/** Withholds the last chunk from readers. */
const withholdsChunks = planted((store) => ({
  peek: (endpoint, id, after, limit) =>
    Effect.map(
      store.peek(endpoint, id, after, limit),
      (peeked) => peeked === undefined || peeked.more ? peeked : { ...peeked, chunks: peeked.chunks.slice(0, -1) }
    )
}))

/** Admits every submission. */
const ignoresQuotas = planted((store) => ({ insert: (job, key) => store.insert(job, key) }))

/** Counts the waiting jobs of an endpoint, but no bytes. */
const countsNoBytes = planted((store) => ({
  insert: (job, key, quotas) =>
    store.insert(
      job,
      key,
      quotas === undefined ? undefined : { ...quotas, endpoint: { ...quotas.endpoint, storedBytes: undefined } }
    )
}))

/** Never frees the bytes of chunks, because it keeps jobs after their retention. */
const freesNothing = planted((store) => ({
  tick: (event, limit) => store.tick({ ...event, now: Math.min(event.now, 500_000) }, limit)
}))

/** Refuses results of jobs whose endpoint is beyond its quota. */
const refusesResults = planted((store) => ({
  apply: (endpoint, id, event) =>
    event._tag === "Finish" && event.error !== null
      ? store.apply(endpoint, id, { ...event, error: null })
      : store.apply(endpoint, id, event)
}))

/** Counts the slots of a concurrency key before the step that stores the job, so that two submissions may receive the same slot. */
const countsSlotsTooEarly = planted((store) => ({
  insert: (job, key, quotas) =>
    Effect.gen(function*() {
      const { concurrency, endpoint } = job
      if (concurrency === null) return yield* store.insert(job, key, quotas)
      const { jobs } = yield* store.list(endpoint, { limit: 1_000 })
      const used = jobs.filter((other) => other.concurrency?.key === concurrency.key && hasSlot(other)).length
      yield* Effect.yieldNow
      return yield* store.insert(
        used < concurrency.limit ? { ...job, concurrency: { ...concurrency, limit: 1_000 } } : job,
        key,
        quotas
      )
    })
}))

/** Runs the chaos scenario with fixed seeds until it reports the rule. */
const chaosReports = (store: Layer.Layer<JobStore>, rule: string) =>
  Effect.gen(function*() {
    const run = chaos(store)
    const rules = new Set<string>()
    for (let seed = 1; seed <= 20 && !rules.has(rule); seed++) {
      for (const violation of (yield* run({ seed, steps: 80 })).violations) rules.add(violation.rule)
    }
    assert.include([...rules], rule)
  })

describe("chaos: planted bugs in a simulation", () => {
  it.effect("the chaos scenario reports nothing over a store without a bug", () =>
    Effect.gen(function*() {
      const run = chaos(MemoryJobStore.layer)
      for (const seed of [1, 2, 3]) assert.deepStrictEqual((yield* run({ seed, steps: 60 })).violations, [])
    }))

  it.effect.each(
    [
      ["R1", "forgets acknowledged jobs", losesJobs],
      ["R2", "accepts stale results", acceptsStaleResults],
      ["R2", "hands out a job twice", handsOutTwice],
      ["R3", "ignores idempotency keys", ignoresKeys],
      ["R5", "fires no timers", firesNoTimers],
      ["R5", "does not move timers when the clock is set", ignoresClockJumps],
      ["R8", "forgets cancels", forgetsCancels],
      ["R9", "withholds chunks", withholdsChunks]
    ] as const
  )("%s: the chaos scenario detects a store that %s", ([rule, , store]) => chaosReports(store, rule))

  it.effect("R3: the scenario of idempotency keys detects a store that ignores them", () =>
    Effect.gen(function*() {
      const { violations } = yield* submitKeys({ keys: 50, seed: 1 })
      assert.include(violations.map(({ rule }) => rule), "R3")
    }).pipe(Effect.provide(StoreFaults.layer(ignoresKeys))))

  it.effect("R4: the scenario without faults detects a store that hands out a job twice", () =>
    Effect.gen(function*() {
      assert.include((yield* faultless).map(({ rule }) => rule), "R4")
    }).pipe(Effect.provide(world(handsOutTwice))))

  it.effect.each(
    [
      ["waiting jobs", "admits every submission", fullQueue, ignoresQuotas],
      ["stored bytes", "admits every submission", fullStorage, ignoresQuotas],
      ["stored bytes", "counts no bytes", fullStorage, countsNoBytes],
      ["stored bytes", "frees nothing", fullStorage, freesNothing],
      ["stored bytes", "drops the errors of jobs beyond the quota", fullStorage, refusesResults]
    ] as const
  )("the rule about %s detects a store that %s", ([, , rule, store]) =>
    Effect.gen(function*() {
      assert.isFalse(Exit.isFailure(yield* Effect.exit(Effect.provide(rule, world(MemoryJobStore.layer)))))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(Effect.provide(rule, world(store)))))
    }))

  it.effect.each(
    [
      ["counts the slots of a key outside of its transaction", countsSlotsTooEarly]
    ] as const
  )("the rule about concurrency keys detects a store that %s", ([, store]) =>
    Effect.gen(function*() {
      assert.isFalse(Exit.isFailure(yield* Effect.exit(Effect.provide(racingKeys, world(MemoryJobStore.layer)))))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(Effect.provide(racingKeys, world(store)))))
    }))

  it.effect("R6: the rule about dead workers fails over a store that keeps their jobs", () =>
    Effect.gen(function*() {
      assert.isFalse(Exit.isFailure(yield* Effect.exit(Effect.provide(deadWorker, world(MemoryJobStore.layer)))))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(Effect.provide(deadWorker, world(keepsJobsOfDeadWorkers)))))
    }))
})

/**
 * A long run of the queue with a failing store: callers, workers, timers and readers run concurrently while some of the writes fail and
 * others are stored but reported as failed, and the wall clock is set to other times. Then the faults stop, and every job must end.
 *
 * Unlike in SimulationRules, time passes on its own (the queue's timers run), workers wait in long polls, and every request is repeated
 * until it receives a response, as in production.
 */
import { assert, it } from "@effect/vitest"
import { toJsonText } from "@stint/contract/Json"
import type { JobEvent } from "@stint/queue/JobEventCursor"
import * as JobQueue from "@stint/queue/JobQueue"
import * as JobTimers from "@stint/queue/JobTimers"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import type { JobRecord } from "@stint/store/JobRecord"
import { JobStore } from "@stint/store/JobStore"
import { StoreError } from "@stint/store/StoreError"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { reportChaos } from "../ChaosReport.ts"
import { type SetWallClock, withDivergentClock } from "../DivergentClock.ts"
import { recordReads } from "../history/CommandHistory.ts"
import * as History from "../history/History.ts"
import * as Liveness from "../history/Liveness.ts"
import * as Scenario from "../Scenario.ts"
import { chaosMinutes, runSeed, seededRandom } from "../SeededRandom.ts"
import * as StoreFaults from "../StoreFaults.ts"

const LEASE = 2_000
const ATTEMPTS = 3

const WORKERS = ["ann", "bob", "cid", "dee"]

/** The share of writes that fail, and the share of writes that are stored but reported as failed. */
const SHARES = { failed: 0.04, lost: 0.04 }

/** The width of the range, around the time that has passed, to which the wall clock is set. Less than the jobs' ttl. Milliseconds. */
const MAX_CLOCK_OFFSET = 1_800_000

/** How long to wait before a failed request is repeated, in milliseconds. */
const RETRY_DELAY_MILLIS = 50

/** Repeats a request until the store responds. */
const retryUntilAnswered = <A, E extends { readonly _tag: string }, R>(
  effect: Effect.Effect<A, E | StoreError, R>
): Effect.Effect<A, E | StoreError, R> =>
  Effect.catch(
    effect,
    (error) =>
      error instanceof StoreError && error.reason._tag === "StoreUnavailable"
        ? Effect.andThen(Effect.sleep(RETRY_DELAY_MILLIS), retryUntilAnswered(effect))
        : Effect.fail(error)
  )

/** The length of a run. */
interface Size {
  readonly steps: number
  readonly seed: number
}

/** What a run found and what happened in it. */
interface Outcome {
  readonly violations: ReadonlyArray<History.Violation>
  readonly counts: ReturnType<typeof History.count> & { readonly "failed writes": number; readonly "clock jumps": number }
}

const storm = Effect.fnUntraced(function*({ seed, steps }: Size, setWallClock: SetWallClock) {
  const random = seededRandom(seed)
  const { failRandomly } = yield* StoreFaults.StoreFaults
  const store = yield* JobStore
  const scenario = yield* Scenario.make({
    leaseMs: LEASE,
    retentionMs: 86_400_000,
    ttlMs: 3_600_000,
    retry: { maxAttempts: ATTEMPTS, onError: true, backoff: { initialMs: 100, maxMs: 1_500 } }
  })
  const { endpoint, queue } = scenario
  const history = History.make()
  let clock = 0
  const at = () => clock++
  let injectFaults = true
  let failedWrites = 0
  let clockOffset = 0
  let clockJumps = 0
  const found: Array<History.Violation> = []
  const ids: Array<string> = []
  let readers = 0

  const submit = Effect.fnUntraced(function*(n: number) {
    const key = `order ${n}`
    const { id } = yield* retryUntilAnswered(scenario.submit({ idempotencyKey: key, input: toJsonText(n) }))
    history.record({ _tag: "Submitted", at: at(), job: id, key, attempts: ATTEMPTS })
    if (!ids.includes(id)) ids.push(id)
    if (random() < 0.15) {
      yield* Effect.sleep(Math.floor(random() * 1_000))
      const { status } = yield* retryUntilAnswered(queue.cancel(endpoint.id, id))
      if (status === "CANCELLED") history.record({ _tag: "Cancelled", at: at(), job: id })
    }
    if (random() < 0.4) yield* follow(id)
  })

  /** Reads a job from its beginning over connections that are cut after a few events. */
  const follow = Effect.fnUntraced(function*(id: string) {
    const reader = `reader ${++readers}`
    let last: JobEvent | undefined
    while (true) {
      const events = [
        ...yield* queue.follow(endpoint.id, id, Scenario.resumeAfter(last)).pipe(
          Stream.take(1 + Math.floor(random() * 4)),
          Stream.runCollect
        )
      ]
      recordReads(history, at, reader, events, (yield* queue.get(endpoint.id, id)).id)
      last = events.at(-1) ?? last
      if (events.length === 0 || events.at(-1)?._tag === "End") return
    }
  })

  const deliver = Effect.fnUntraced(function*(job: JobRecord, failed: boolean) {
    const { attempt, id, worker } = job
    const askedAt = at()
    const output = `attempt ${attempt}`
    const verdict = yield* retryUntilAnswered(failed ? scenario.fail(job, "no such city") : scenario.finish(job, output)).pipe(
      Effect.match({ onFailure: () => "refused" as const, onSuccess: (delivery) => delivery })
    )
    history.record({
      _tag: "Delivered",
      at: at(),
      askedAt,
      job: id,
      worker: worker ?? "",
      attempt,
      verdict,
      failed,
      output: failed ? null : toJsonText(output)
    })
  })

  const stream = Effect.fnUntraced(function*(job: JobRecord) {
    const count = Math.floor(random() * 4)
    for (let number = 1; number <= count; number++) {
      const output = toJsonText(`${job.attempt}.${number}`)
      const appended = yield* Effect.exit(retryUntilAnswered(queue.append(Scenario.holderOf(job), output, number)))
      if (appended._tag === "Failure" || appended.value !== "accepted") return
      history.record({ _tag: "ChunkWritten", at: at(), job: job.id, attempt: job.attempt, number, output })
    }
  })

  /** The job that each worker's heartbeats name. A job that waits in the worker's own queue is not named. */
  const named = new Map<string, string>()

  const sendHeartbeats = (worker: string) =>
    Effect.suspend(() => queue.heartbeat(endpoint.id, worker, [...named].flatMap(([name, id]) => name === worker ? [id] : [])))
      .pipe(
        Effect.ignore,
        Effect.andThen(Effect.sleep(LEASE / 4)),
        Effect.forever
      )

  const work = Effect.fnUntraced(function*(worker: string, job: JobRecord) {
    named.set(worker, job.id)
    yield* stream(job)
    const chance = injectFaults ? random() : 0
    if (chance < 0.5) return yield* deliver(job, false)
    if (chance < 0.7) return yield* deliver(job, true)
    if (chance < 0.8) {
      return yield* Effect.ignore(queue.workerGone(endpoint.id, worker, `Worker ${worker} was killed by SIGKILL.`))
    }
    // The worker drops the job: its heartbeats no longer name it.
    if (chance < 0.88) return named.delete(worker)
    // The worker loses the job, but still delivers a result.
    if (chance < 0.94) {
      named.delete(worker)
      return yield* Effect.andThen(Effect.sleep(1.3 * LEASE), deliver(job, random() < 0.3))
    }
    yield* Effect.sleep(1.5 * LEASE)
    yield* deliver(job, false)
  })

  const serve = Effect.fnUntraced(function*(worker: string) {
    while (true) {
      const jobs = yield* retryUntilAnswered(scenario.take(worker, { waitMs: 60_000, limit: 1 + Math.floor(random() * 2) }))
      for (const { attempt, id } of jobs) history.record({ _tag: "Started", at: at(), job: id, worker, attempt })
      for (const job of jobs) {
        yield* work(worker, job)
        // Otherwise the heartbeats would name the job forever if the response to a later take of it were lost.
        if (named.get(worker) === job.id) named.delete(worker)
      }
    }
  })

  /** A violation counts only if it is found twice, because a single check may read the store before and after a change. */
  const checkLiveness = Effect.gen(function*() {
    const now = yield* Clock.currentTimeMillis
    const first = yield* Liveness.violations(store, endpoint.id, now)
    if (first.length === 0) return
    const second = yield* Liveness.violations(store, endpoint.id, now)
    for (const text of first) if (second.includes(text)) found.push({ rule: "R5", job: "", text })
  })

  /** Sets the wall clock, and waits until the timers have been moved, which the failing store may delay. */
  const jump = Effect.gen(function*() {
    const target = Math.floor((random() - 0.5) * MAX_CLOCK_OFFSET)
    yield* setWallClock(target - clockOffset)
    clockOffset = target
    clockJumps += 1
    for (let sweep = 0; sweep < 10; sweep++) {
      yield* Scenario.pass(250)
      if ((yield* Liveness.violations(store, endpoint.id, yield* Clock.currentTimeMillis)).length === 0) return
    }
  })

  yield* failRandomly(SHARES, () => {
    const dice = random()
    if (dice < SHARES.failed + SHARES.lost) failedWrites += 1
    return dice
  })
  for (const worker of WORKERS) {
    yield* Effect.forkChild(serve(worker))
    yield* Effect.forkChild(sendHeartbeats(worker))
  }
  let submitted = 0
  for (let step = 0; step < steps; step++) {
    for (let count = Math.floor(random() * 3); count > 0; count--) {
      const n = submitted++
      // Occasionally, two callers submit the same order concurrently.
      for (let times = random() < 0.3 ? 2 : 1; times > 0; times--) yield* Effect.forkChild(submit(n))
    }
    if (random() < 0.04) yield* jump
    yield* Scenario.pass(Math.floor(random() * 400))
    yield* checkLiveness
  }

  // The faults stop. A job can be without a worker for at most one lease.
  yield* failRandomly({ failed: 0, lost: 0 }, random)
  injectFaults = false
  for (let passed = 0; passed < LEASE + 5_000; passed += 250) {
    yield* Scenario.pass(250)
    yield* checkLiveness
  }
  for (const id of ids) {
    const askedAt = at()
    const job = yield* Effect.catchTag(queue.get(endpoint.id, id), "JobMissing", () => Effect.undefined)
    if (job === undefined) {
      history.record({ _tag: "Unknown", at: at(), job: id })
      continue
    }
    const { attempt, output, status } = job
    history.record({ _tag: "Seen", at: at(), askedAt, job: id, status, attempt, output })
  }
  const { delayed, running, waiting } = yield* queue.depth(endpoint.id)
  if (delayed + running + waiting > 0) {
    found.push({ rule: "R5", job: "", text: `${delayed} delayed, ${running} running and ${waiting} waiting jobs are left` })
  }
  if (ids.length !== submitted) found.push({ rule: "R3", job: "", text: `${submitted} keys have ${ids.length} jobs` })
  const violations = [...found, ...history.check({ endedBy: clock })]
  const outcome: Outcome = {
    violations,
    counts: { ...History.count(history.events(), violations), "failed writes": failedWrites, "clock jumps": clockJumps }
  }
  return outcome
})

/**
 * Runs callers, workers, timers and readers over this store while some of its writes fail, then lets all jobs end. Returns the broken
 * rules.
 */
export const chaos = <E>(store: Layer.Layer<JobStore, E>) => {
  const world = JobTimers.layer().pipe(
    Layer.provideMerge(JobQueue.layer),
    Layer.provideMerge(Layer.mergeAll(StoreFaults.layer(store), WorkerRegistry.layer))
  )
  return (size: Size) =>
    withDivergentClock((setWallClock) => Effect.scoped(storm(size, setWallClock)).pipe(Effect.provide(world, { local: true })))
}

/** Registers the rule, which runs this number of storms. */
export const chaosRules = <E>(store: Layer.Layer<JobStore, E>, storms: number): void => {
  const run = chaos(store)
  it.effect(
    "R1, R2, R3, R5, R8, R9: gives every job a next event over a store that fails and loses responses, and ends all jobs within a lease " +
      "and 5 s after the faults stop",
    (context) => {
      const minutes = chaosMinutes()
      return Effect.gen(function*() {
        const first = runSeed()
        const until = performance.now() + (minutes ?? 0) * 60_000
        const sums: Record<string, number> = {}
        for (let seed = first; seed < first + storms || performance.now() < until; seed++) {
          const { counts, violations } = yield* run({ seed, steps: 150 })
          for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count
          reportChaos(context, sums)
          assert.deepStrictEqual(violations, [], `seed ${seed}: set STINT_PROPERTY_SEED to run it again`)
          assert.isAbove(counts.jobs, 100)
        }
      })
    },
    // A storm takes seconds over a store in this process, and a minute over a database on a busy machine.
    600_000 + (chaosMinutes() ?? 0) * 60_000
  )
}

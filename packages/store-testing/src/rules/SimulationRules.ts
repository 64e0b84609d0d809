/**
 * A simulation of the queue: callers, workers, timers and faults are interleaved at random. Afterwards, the recorded history is checked.
 */
import { assert } from "@effect/vitest"
import { isTerminal } from "@stint/contract/Job"
import { dueAt } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import * as Effect from "effect/Effect"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as History from "../history/History.ts"
import * as Scenario from "../Scenario.ts"
import type { Rule } from "./StoreRule.ts"

/** What a worker does with a job. */
type WorkerAction = "finish" | "fail" | "crash" | "stop heartbeats" | "deliver late"

const actions: ReadonlyArray<WorkerAction> = ["finish", "finish", "finish", "fail", "crash", "stop heartbeats", "deliver late"]

/** Performs the steps of one simulation and records what it observes. Its clock counts observations. */
const observer = (scenario: Scenario.Scenario) => {
  const history = History.make()
  const { queue } = scenario
  let clock = 0
  const now = () => clock++

  const submit = Effect.gen(function*() {
    const { id } = yield* scenario.submit()
    history.record({ _tag: "Submitted", at: now(), job: id })
    return id
  })

  const take = Effect.fnUntraced(function*(worker: string, waitMs: number) {
    const jobs = yield* scenario.take(worker, { waitMs, limit: 2 })
    for (const { attempt, id } of jobs) history.record({ _tag: "Started", at: now(), job: id, worker, attempt })
    return jobs
  })

  const deliver = Effect.fnUntraced(function*(job: JobHead, fails: boolean) {
    const askedAt = now()
    const output = JSON.stringify(`attempt ${job.attempt}`)
    const verdict = yield* (fails ? scenario.fail(job, "no such city") : scenario.finish(job, `attempt ${job.attempt}`)).pipe(
      Effect.match({ onFailure: () => "refused" as const, onSuccess: (delivery) => delivery })
    )
    const { attempt, id, worker } = job
    history.record({
      _tag: "Delivered",
      at: now(),
      askedAt,
      job: id,
      worker: worker ?? "",
      attempt,
      verdict,
      output: fails ? null : output
    })
  })

  const observe = Effect.fnUntraced(function*(id: string) {
    const askedAt = now()
    const job = yield* queue.get(scenario.endpoint.id, id)
    const { attempt, output, status } = job
    history.record({ _tag: "Seen", at: now(), askedAt, job: id, status, attempt, output })
    return job
  })

  const cancel = Effect.fnUntraced(function*(id: string) {
    const { status } = yield* queue.cancel(scenario.endpoint.id, id)
    if (status === "CANCELLED") history.record({ _tag: "Cancelled", at: now(), job: id })
  })

  return { history, submit, take, deliver, observe, cancel }
}

/** Starts and ends 60 jobs on four workers, without a fault. Returns the broken rules. */
export const faultless = Effect.gen(function*() {
  const { deliver, history, observe, submit, take } = observer(yield* Scenario.make())
  const count = 60
  const worker = Effect.fnUntraced(function*(name: string) {
    while (true) {
      const jobs = yield* take(name, 60_000)
      yield* Effect.forEach(jobs, (job) => deliver(job, false), { concurrency: "unbounded" })
    }
  })
  const workers = yield* Effect.forEach(["ann", "bob", "cid", "dee"], (name) => Effect.forkChild(worker(name)))
  const submitted = yield* Effect.replicateEffect(submit, count, { concurrency: 8 })
  const { queue, endpoint } = yield* Scenario.make()
  for (const id of submitted) yield* queue.awaitEnd(endpoint.id, id, 60_000)
  for (const id of submitted) yield* observe(id)
  for (const fiber of workers) assert.isFalse(Scenario.isDone(fiber))
  const starts = history.events().filter((event) => event._tag === "Started").length
  const found = starts === count ? [] : [{ rule: "R4", job: "", text: `${count} jobs started ${starts} times` }]
  return [...history.check({ faultless: true }), ...found]
})

/** Registers the rules. */
export const simulationRules = (rule: Rule): void => {
  rule(
    "R4: starts every job once and ends it when nothing fails",
    () => Effect.map(faultless, (violations) => assert.deepStrictEqual(violations, []))
  )

  rule(
    "R1, R2, R5, R8: loses no job, ends none twice, and ends all in time, whatever fails",
    () =>
      Effect.gen(function*() {
        const scenario = yield* Scenario.make({ leaseMs: 1_000, maxAttempts: 3 })
        const { queue, endpoint } = scenario
        const { cancel, deliver, history, observe, submit, take } = observer(scenario)
        const seed = Number(process.env["STINT_PROPERTY_SEED"] ?? Date.now() % 2 ** 31)
        const [steps] = fc.sample(
          fc.array(
            fc.record({
              submissions: fc.integer({ min: 0, max: 4 }),
              worker: fc.constantFrom("ann", "bob", "cid"),
              action: fc.constantFrom(...actions),
              cancels: fc.nat({ max: 9 }),
              passes: fc.constantFrom(0, 100, 600, 1_000, 2_500)
            }),
            { minLength: 120, maxLength: 120 }
          ),
          { numRuns: 1, seed }
        )
        const ids: Array<string> = []
        const late: Array<JobHead> = []

        const work = Effect.fnUntraced(function*(worker: string, action: WorkerAction) {
          for (const job of yield* take(worker, 0)) {
            if (action === "finish" || action === "fail") yield* deliver(job, action === "fail")
            if (action === "crash") yield* queue.workerGone(endpoint.id, worker, `Worker ${worker} was killed by SIGKILL.`)
            if (action === "deliver late") late.push(job)
          }
        })

        for (const { cancels, action, passes, submissions, worker } of steps ?? []) {
          const submitting = Effect.replicateEffect(Effect.map(submit, (id) => ids.push(id)), submissions)
          const cancelling = Effect.suspend(() => {
            const id = ids[ids.length - 1 - cancels]
            return cancels < 3 && id !== undefined ? cancel(id) : Effect.void
          })
          const returning = Effect.suspend(() => {
            const job = late.length > 3 ? late.shift() : undefined
            return job === undefined ? Effect.void : deliver(job, false)
          })
          const observing = Effect.suspend(() => Effect.forEach(ids.slice(-5), observe))
          yield* Effect.all([submitting, work(worker, action), cancelling, returning, observing, queue.tick], {
            concurrency: "unbounded",
            discard: true
          })
          yield* TestClock.adjust(passes)
        }
        // R5: no worker is left, but a next timer always exists, so in the end every job has ended.
        for (let sweep = 0; sweep < 10; sweep++) {
          const jobs = yield* Effect.forEach(ids, observe)
          const next = Math.min(...jobs.filter((job) => !isTerminal(job.status)).map(dueAt))
          if (next === Infinity) break
          yield* TestClock.setTime(Math.max(next, ...jobs.filter((job) => !isTerminal(job.status)).map(dueAt)))
          while (yield* queue.tick);
        }
        yield* Effect.forEach(ids, observe)
        assert.isAbove(ids.length, 100)
        assert.deepStrictEqual(history.check(), [], `seed ${seed}: set STINT_PROPERTY_SEED to run it again`)
      })
  )
}

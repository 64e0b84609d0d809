/** The heads of running jobs are cached: the cache must always equal the rows. */
import { assert, describe, it } from "@effect/vitest"
import { BatchId } from "@stint/contract/Batch"
import { EndpointId } from "@stint/contract/Ids"
import { Scenario } from "@stint/store-testing"
import type { JobRecord } from "@stint/store/JobRecord"
import { JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as fc from "fast-check"
import * as SqliteDatabase from "../src/SqliteDatabase.ts"
import * as SqliteJobStore from "../src/SqliteJobStore.ts"
import { layerTemp } from "./TestDatabase.ts"

const world = SqliteJobStore.layer.pipe(Layer.provideMerge(layerTemp()))

const worker = "ann"

/** The head of a job as a worker's write finds it: a write by another worker is rejected and returns it. */
const headOfWrite = Effect.fnUntraced(function*(store: JobStore["Service"], { endpoint, id }: JobRecord, now: number) {
  const applied = yield* store.apply(endpoint, id, { _tag: "Heartbeat", now, endpoint, worker: "stranger" })
  return applied._tag === "Rejected" ? applied.job : undefined
})

/** The head of a job as it is in the file. */
const headOfRead = Effect.fnUntraced(function*(store: JobStore["Service"], { endpoint, id }: JobRecord) {
  const report = yield* store.get(endpoint, id)
  if (report === undefined) return undefined
  const { error: _error, lastError: _lastError, output: _output, progress: _progress, ...head } = report
  return head
})

const STEPS = [
  "Claim",
  "Claim",
  "Claim",
  "Heartbeat",
  "Progress",
  "Chunk",
  "Chunk",
  "Drain",
  "Return",
  "Cancel",
  "Retry",
  "Recover",
  "Tick",
  "Finish",
  "FinishWithError"
] as const
type Step = typeof STEPS[number]

const run = (store: JobStore["Service"], { endpoint, id }: JobRecord, step: Step, now: number) => {
  const by = { now, endpoint, worker }
  switch (step) {
    case "Claim":
      return store.claim(endpoint, 1, { _tag: "Claim", now, worker })
    case "Heartbeat":
    case "Return":
      return store.apply(endpoint, id, { _tag: step, ...by })
    case "Progress":
      return store.apply(endpoint, id, { _tag: step, output: Scenario.text(now), ...by })
    case "Chunk":
      return store.append(endpoint, id, { _tag: step, ...by }, Scenario.text(now))
    case "Drain":
      return store.drain(endpoint, id, 1)
    case "Cancel":
    case "Retry":
      return store.apply(endpoint, id, { _tag: step, now, endpoint })
    case "Recover":
      return store.applyRunning("timed", { _tag: step, now, by: 1_000 })
    case "Tick":
      return store.tick({ _tag: step, now }, 100)
    case "Finish":
      return store.apply(endpoint, id, { _tag: step, output: Scenario.text(now), error: null, ...by })
    case "FinishWithError":
      return store.apply(endpoint, id, { _tag: "Finish", output: null, error: "it failed", ...by })
  }
}

describe("running jobs", () => {
  it.effect("are the same for the writes of workers as in the file, after any sequence of changes", () =>
    Effect.gen(function*() {
      const store = yield* JobStore
      let runs = 0
      let running = 0
      const check = Effect.fnUntraced(function*(steps: ReadonlyArray<readonly [Step, number]>) {
        runs += 1
        const job = Scenario.record({
          endpoint: EndpointId.make(`run-${runs}`),
          retry: { onError: true, backoff: null },
          maxAttempts: 3
        })
        yield* store.insert(job)
        let now = 0
        for (const [name, millis] of steps) {
          now += millis
          yield* run(store, job, name, now)
          const [written, read] = [yield* headOfWrite(store, job, now), yield* headOfRead(store, job)]
          assert.deepStrictEqual(written, read, name)
          if (read?.status === "IN_PROGRESS") running += 1
        }
      })
      const sequence = fc.array(fc.tuple(fc.constantFrom(...STEPS), fc.constantFrom(0, 1_000, 9_000, 11_000)), {
        minLength: 5,
        maxLength: 25
      })
      yield* Effect.promise(() =>
        fc.assert(fc.asyncProperty(sequence, (steps) => Effect.runPromise(check(steps))), { numRuns: 60 })
      )
      assert.isAbove(running, 100)
    }).pipe(Effect.provide(world)))

  it.effect("are decoded column by column as readers decode them", () =>
    Effect.gen(function*() {
      const store = yield* JobStore
      const job = Scenario.record({
        lowPriority: true,
        priority: 1,
        createdAt: 2,
        queuedAt: 3,
        notBefore: 4,
        ttlMs: 5,
        expiresAt: 6,
        executionTimeoutMs: 7,
        leaseMs: 8,
        maxAttempts: 9,
        retry: { onError: true, backoff: { initialMs: 10, factor: 2, maxMs: 20 } },
        retentionMs: 11,
        attempt: 12,
        retries: 13,
        worker,
        startedAt: 14,
        leaseExpiresAt: 15,
        finishedAt: 16,
        isolated: true,
        chunks: 17,
        drained: 18,
        webhook: { url: "http://127.0.0.1/", events: ["completed"], errorTraceback: "none" },
        tags: ["blue"],
        batchId: BatchId.make("batch_1")
      })
      yield* store.insert(job)
      const head = yield* headOfRead(store, job)
      const { error: _error, input: _input, lastError: _lastError, output: _output, progress: _progress, ...submitted } = job
      const { s3Config: _s3Config, traceparent: _traceparent, tracestate: _tracestate, ...expected } = submitted
      assert.deepStrictEqual(head, expected)
      assert.deepStrictEqual(yield* headOfWrite(store, job, 0), expected)
    }).pipe(Effect.provide(world)))

  it.effect("are read again after a transaction was rolled back", () =>
    Effect.gen(function*() {
      const store = yield* JobStore
      const db = yield* SqliteDatabase.SqliteDatabase
      const job = Scenario.record()
      const { endpoint, id } = job
      yield* store.insert(job)
      yield* store.claim(endpoint, 1, { _tag: "Claim", now: 0, worker })
      const fails = db.write("fail", () => {
        throw new Error("the command fails")
      })
      // One transaction: the failure rolls the chunk back, which then runs again, alone.
      const [appended] = yield* Effect.all(
        [store.append(endpoint, id, { _tag: "Chunk", now: 1, endpoint, worker }, Scenario.text("a")), Effect.exit(fails)],
        { concurrency: "unbounded" }
      )
      assert.strictEqual(appended._tag === "Changed" ? appended.after.chunks : undefined, 1)
      const peeked = yield* store.peek(endpoint, id, { attempt: 1, chunk: 0 }, 10)
      assert.deepStrictEqual(peeked?.chunks, [Scenario.text("a")])
    }).pipe(Effect.provide(world)))
})

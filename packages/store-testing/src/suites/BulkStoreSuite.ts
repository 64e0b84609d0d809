/**
 * The conformance suite for a store of bulk operations and the jobs that they change, and for `BulkJobs` on top of it.
 *
 * The last rule checks this machine. A server may stop between any two of its commits, and the response to a commit may be lost:
 *
 * ```
 *                     +--- step: job and record in one commit ---+     crash before a commit: nothing of it is stored
 *                     v                                          |     lost response: all of it is stored
 *   held --claimed--> running --page ends--> running ------------+     both: another server reads the record, and continues
 *                        \--list ends--> done
 * ```
 */
import { assert, describe, it } from "@effect/vitest"
import type { BulkAction } from "@stint/contract/Bulk"
import type { JobId } from "@stint/contract/Ids"
import { EVERYTHING } from "@stint/contract/JobSearch"
import * as BulkJobs from "@stint/queue/BulkJobs"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { BULK_KEPT, BULK_LIST_LIMIT, type BulkRecord, BulkStore } from "@stint/store/BulkStore"
import { bulkOf } from "@stint/store/JobMachine"
import type { JobRecord } from "@stint/store/JobRecord"
import { JobStore } from "@stint/store/JobStore"
import { Nodes } from "@stint/store/Nodes"
import { StoreError, StoreUnavailable } from "@stint/store/StoreError"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import { TestClock } from "effect/testing"
import * as fc from "fast-check"
import * as NodeNetwork from "../NodeNetwork.ts"
import {
  type BulkStores,
  bulkWorkRules,
  by,
  endpoint,
  endpoints,
  failWaiting,
  insertJob,
  statusOf
} from "../rules/BulkWorkRules.ts"
import * as Scenario from "../Scenario.ts"

const operation = (settings: Partial<BulkRecord> = {}): BulkRecord => ({
  id: "first",
  version: 1,
  action: "retry",
  query: "status:failed",
  state: "held",
  createdAt: 1_000,
  startsAt: 11_000,
  endedAt: null,
  by,
  matched: { count: 3, more: false },
  done: 0,
  skipped: { changed: 0, missing: 0, endpoint: 0 },
  failed: 0,
  problems: [],
  cursor: null,
  lease: null,
  ...settings
})

/** The operation after a step on a job. */
const stepped = (before: BulkRecord, { createdAt, id }: Pick<JobRecord, "createdAt" | "id">): BulkRecord => ({
  ...before,
  version: before.version + 1,
  state: "running",
  done: before.done + 1,
  cursor: { createdAt, id }
})

const step = Effect.fnUntraced(function*(id: JobId, _tag: "Cancel" | "Retry", bulk: BulkRecord) {
  const applied = yield* (yield* JobStore).apply(endpoint.id, id, { _tag, now: 2_000, endpoint: endpoint.id, bulk })
  return applied._tag === "Rejected" ? applied.rejection._tag : applied._tag
})

/** What happens to a commit of a step: it succeeds, it fails, or it succeeds and its response is lost. */
type Fate = "stored" | "failed" | "lost"

/** The store, whose steps meet these fates. Counts in `changes` how often each job was changed. */
const withFates = (fates: Array<Fate>, changes: Map<string, number>) =>
  Layer.effect(
    JobStore,
    Effect.map(JobStore, (store) => {
      const meet = <A>(commit: Effect.Effect<A, StoreError>): Effect.Effect<A, StoreError> =>
        Effect.suspend(() => {
          const fate = fates.shift() ?? "stored"
          const lost = new StoreError({ reason: new StoreUnavailable({ operation: "step", cause: new Error("gone") }) })
          if (fate === "failed") return Effect.fail(lost)
          return fate === "lost" ? Effect.andThen(commit, Effect.fail(lost)) : commit
        })
      const count = (id: string) => changes.set(id, (changes.get(id) ?? 0) + 1)
      return JobStore.of({
        ...store,
        apply: (endpoint, id, event) =>
          bulkOf(event) === undefined
            ? store.apply(endpoint, id, event)
            : meet(Effect.tap(store.apply(endpoint, id, event), (applied) =>
              Effect.sync(() => {
                if (applied._tag === "Changed") count(id)
              }))),
        insert: (job, key, quotas) =>
          key?.bulk === undefined
            ? store.insert(job, key, quotas)
            : meet(Effect.tap(store.insert(job, key, quotas), ({ _tag }) =>
              Effect.sync(() => {
                if (_tag === "Inserted") count(key.key.slice(key.key.lastIndexOf("/") + 1))
              })))
      })
    })
  )

/** One of two nodes. */
const oneOfTwo = (name: string) => Layer.succeed(Nodes, NodeNetwork.stub({ name, isOldest: () => false }))

/** One server after another works on an operation, until it has ended. */
const runCrashes = Effect.fnUntraced(function*(action: BulkAction, count: number, given: ReadonlyArray<Fate>) {
  yield* TestClock.setTime(1_000)
  const jobs: Array<JobRecord> = []
  for (let n = 0; n < count; n++) jobs.push(yield* insertJob())
  if (action !== "cancel") yield* failWaiting
  const changes = new Map<string, number>()
  const fates = [...given]
  const server = <A, E>(body: Effect.Effect<A, E, BulkJobs.BulkJobs>) =>
    body.pipe(
      Effect.provide(
        Layer.fresh(BulkJobs.layer.pipe(
          Layer.provide(JobQueue.layer),
          Layer.provide(Layer.mergeAll(withFates(fates, changes), WorkerRegistry.layer, endpoints))
        ))
      )
    )
  const started = yield* server(
    Effect.flatMap(BulkJobs.BulkJobs, ({ start }) => start({ action, search: EVERYTHING, holdMs: 0, by }))
  )
  assert.deepStrictEqual(started.matched, { count, more: false })
  for (let turn = 0;; turn++) {
    assert.isBelow(turn, 100, "the operation does not end")
    const exit = yield* server(
      Effect.flatMap(BulkJobs.BulkJobs, ({ get, tick }) => Effect.andThen(tick, get(started.id, by)))
    ).pipe(Effect.exit)
    // A job that was retried fails again at once, so that a second retry would change it.
    if (action === "retry") yield* failWaiting
    if (Exit.isFailure(exit) || exit.value.state !== "done") continue
    assert.deepInclude(exit.value, { done: count, failed: 0, skipped: { changed: 0, missing: 0, endpoint: 0 } })
    break
  }
  assert.deepStrictEqual(
    [...changes].map(([id, times]) => `${id} ${times}`).toSorted(),
    jobs.map(({ id }) => `${id} 1`).toSorted()
  )
})

/** Registers the rules for a store of bulk operations. The layer is built for every test. */
export const bulkStoreSuite = <E>(name: string, store: Layer.Layer<BulkStores, E>, { sequences = 100 } = {}): void => {
  const rule = (title: string, body: () => Effect.Effect<void, unknown, BulkStores>) =>
    it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(store)))

  describe(`bulk operations: ${name}`, () => {
    rule(
      "returns stored operations unchanged, newest first, and separately those that have not ended",
      () =>
        Effect.gen(function*() {
          const store = yield* BulkStore
          const full = operation({
            state: "done",
            query: "error:\"\u{1f600}\" tag:a",
            by: { ...by, endpoints: ["letters"], limits: { waitingJobs: 3 } },
            matched: { count: 10_000, more: true },
            skipped: { changed: 1, missing: 2, endpoint: 3 },
            failed: 1,
            problems: [{ endpoint: "letters", job: "x", reason: "full" }],
            cursor: { createdAt: 5, id: "x" },
            lease: { node: "a", until: 7 },
            endedAt: 12_000
          })
          const held = operation({ id: "second", createdAt: 2_000 })
          const running = operation({ id: "third", createdAt: 500, state: "running" })
          for (const one of [full, held, running]) assert.isTrue(yield* store.put(one))
          assert.deepStrictEqual(yield* store.list, [held, full, running])
          assert.deepStrictEqual(yield* store.unended, [running, held])
          assert.deepStrictEqual(yield* store.get("first"), full)
          for (const id of ["none", "a\0b"]) assert.isUndefined(yield* store.get(id))
        })
    )

    rule("replaces an operation only by its next version", () =>
      Effect.gen(function*() {
        const store = yield* BulkStore
        assert.isFalse(yield* store.put(operation({ version: 2 })))
        assert.isTrue(yield* store.put(operation()))
        for (const version of [1, 3]) assert.isFalse(yield* store.put(operation({ version })))
        const next = operation({ version: 2, state: "cancelled", endedAt: 3_000 })
        assert.isTrue(yield* store.put(next))
        assert.deepStrictEqual(yield* store.list, [next])
        assert.deepStrictEqual(yield* store.unended, [])
      }))

    rule("stores a step and the operation after it together, or neither", () =>
      Effect.gen(function*() {
        const store = yield* BulkStore
        const [failed, other] = [yield* insertJob(), yield* insertJob()]
        yield* failWaiting
        const waiting = yield* insertJob()
        const first = operation()
        yield* store.put(first)
        const second = stepped(first, failed)
        assert.strictEqual(yield* step(failed.id, "Retry", second), "Changed")
        assert.strictEqual(yield* statusOf(failed.id), "IN_QUEUE")
        assert.deepStrictEqual(yield* store.get("first"), second)

        // Another server, or the same one after a crash, repeats the step while the job has failed again.
        yield* failWaiting
        assert.strictEqual(yield* step(failed.id, "Retry", second), "Superseded")
        assert.strictEqual(yield* statusOf(failed.id), "FAILED")
        assert.strictEqual(yield* step(other.id, "Retry", stepped(first, other)), "Superseded")
        assert.strictEqual(yield* statusOf(other.id), "FAILED")

        // A step that changes no job leaves the operation as it is.
        assert.strictEqual(yield* step(Scenario.jobId(), "Retry", stepped(second, other)), "Missing")
        assert.strictEqual(yield* step(other.id, "Cancel", stepped(second, other)), "Ended")
        assert.deepStrictEqual(yield* store.get("first"), second)
        assert.strictEqual(yield* statusOf(waiting.id), "FAILED")
        const third = yield* insertJob()
        assert.strictEqual(yield* step(third.id, "Cancel", stepped(second, third)), "Changed")
        assert.deepStrictEqual(yield* store.get("first"), stepped(second, third))
      }))

    rule("stores the job of a rerun and the operation after it together, or neither", () =>
      Effect.gen(function*() {
        const store = yield* BulkStore
        const jobs = yield* JobStore
        const first = operation({ action: "rerun" })
        yield* store.put(first)
        const again = () => Scenario.record({ endpoint: endpoint.id })
        const insert = (job: JobRecord, key: string, bulk: BulkRecord, waitingJobs = 9) =>
          Effect.map(
            jobs.insert(job, { key, owner: by.key, fingerprint: "f", bulk }, { endpoint: { waitingJobs }, key: {} }),
            ({ _tag }) => _tag
          )
        const [one, two, three] = [again(), again(), again()]
        const second = stepped(first, one)
        assert.strictEqual(yield* insert(one, "one", second), "Inserted")
        assert.deepStrictEqual(yield* store.get("first"), second)
        assert.strictEqual(yield* insert(two, "two", stepped(first, two)), "BulkChanged")
        assert.isUndefined(yield* statusOf(two.id))
        assert.strictEqual(yield* insert(three, "three", stepped(second, three), 1), "QuotaExceeded")
        assert.isUndefined(yield* statusOf(three.id))
        assert.deepStrictEqual(yield* store.get("first"), second)
      }))

    rule("keeps the newest operations, and those that have not ended", () =>
      Effect.gen(function*() {
        const store = yield* BulkStore
        yield* store.put(operation({ id: "held", createdAt: 1 }))
        for (let n = 0; n < BULK_KEPT + 5; n++) {
          yield* store.put(operation({ id: `n${n}`, createdAt: 10 + n, state: "done", endedAt: 5_000 }))
        }
        assert.strictEqual((yield* store.list).length, BULK_LIST_LIMIT)
        const known = yield* Effect.forEach(
          ["held", "n0", "n4", "n5", "n6"],
          (id) => Effect.map(store.get(id), (one) => one !== undefined)
        )
        assert.deepStrictEqual(known, [true, false, false, true, true])
      }))

    bulkWorkRules(rule)

    rule("leaves an operation to its server, until that server is silent for 15 seconds", () =>
      Effect.gen(function*() {
        yield* TestClock.setTime(1_000)
        for (let n = 0; n < 3; n++) yield* insertJob()
        const changes = new Map<string, number>()
        const server = (name: string, fates: Array<Fate>) =>
          Layer.build(Layer.fresh(
            BulkJobs.layer.pipe(
              Layer.provide(JobQueue.layer),
              Layer.provide(Layer.mergeAll(withFates(fates, changes), WorkerRegistry.layer, endpoints, oneOfTwo(name)))
            )
          )).pipe(Effect.map((context) => Context.get(context, BulkJobs.BulkJobs)))
        // It stops after its first step.
        const first = yield* server("first", ["stored", "failed"])
        const second = yield* server("second", [])
        const { id } = yield* first.start({ action: "cancel", search: EVERYTHING, holdMs: 0, by })
        yield* Effect.exit(first.tick)
        yield* TestClock.setTime(15_999)
        yield* second.tick
        assert.deepInclude(yield* second.get(id, by), { state: "running", done: 1 })
        yield* TestClock.setTime(16_000)
        yield* second.tick
        assert.deepInclude(yield* second.get(id, by), { state: "done", done: 3 })
        assert.deepStrictEqual([...changes.values()], [1, 1, 1])
      }).pipe(Effect.scoped))

    it.live(
      "changes each job once, wherever a server stops and whichever response is lost",
      () =>
        Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(
              fc.constantFrom<BulkAction>("retry", "cancel", "rerun"),
              fc.integer({ min: 1, max: 12 }),
              fc.array(fc.constantFrom<Fate>("stored", "failed", "lost"), { maxLength: 30, size: "max" }),
              (action, count, fates) =>
                Effect.runPromise(
                  runCrashes(action, count, fates).pipe(Effect.provide(Layer.merge(Layer.fresh(store), TestClock.layer())))
                )
            ),
            { numRuns: sequences }
          )
        ),
      60_000
    )
  })
}

/**
 * The conformance suite for a store of schedules and the jobs that they submit.
 */
import { assert, describe, it } from "@effect/vitest"
import { EndpointId } from "@stint/contract/Ids"
import { ScheduleName, ScheduleSpec } from "@stint/contract/Schedule"
import type { JobRecord } from "@stint/store/JobRecord"
import { type InsertResult, JobStore } from "@stint/store/JobStore"
import { NO_OWNER } from "@stint/store/Owner"
import { type ScheduleRecord, ScheduleStore, SET_BACK_MILLIS } from "@stint/store/ScheduleStore"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as fc from "fast-check"
import * as Scenario from "../Scenario.ts"

/** The stores that share a transaction with schedules. */
type Stores = JobStore | ScheduleStore

const letters = EndpointId.make("letters")
const stamps = EndpointId.make("stamps")
const nightly = ScheduleName.make("nightly")

const spec = (settings: Partial<typeof ScheduleSpec.Encoded> = {}): ScheduleSpec =>
  Schema.decodeUnknownSync(ScheduleSpec)({ cron: "0 3 * * *", ...settings })

const record = (settings: Partial<ScheduleRecord> = {}): ScheduleRecord => ({
  endpoint: letters,
  name: nightly,
  id: "first",
  version: 1,
  spec: spec(),
  paused: false,
  createdAt: 1_000,
  updatedAt: 1_000,
  updatedBy: "the key \"ci\"",
  nextAt: 10_000,
  checkedAt: 1_000,
  waiting: [],
  dueAt: 10_000,
  last: null,
  job: null,
  ...settings
})

/** The schedule after a firing that submits a job. */
const fired = (before: ScheduleRecord, { id: job }: JobRecord, settings: Partial<ScheduleRecord> = {}): ScheduleRecord => ({
  ...before,
  version: before.version + 1,
  nextAt: 20_000,
  dueAt: 20_000,
  last: { scheduledFor: 10_000, at: 10_001, trigger: "time", outcome: "submitted", job },
  job,
  ...settings
})

const fire = (
  job: JobRecord,
  schedule: ScheduleRecord,
  key = "10000",
  quotas?: Parameters<JobStore["Service"]["insert"]>[2]
): Effect.Effect<InsertResult, StoreError, JobStore> =>
  Effect.flatMap(JobStore, (jobs) => jobs.insert(job, { key, owner: NO_OWNER, fingerprint: "f", schedule }, quotas))

const isStored = ({ endpoint, id }: JobRecord) =>
  Effect.flatMap(JobStore, (jobs) => Effect.map(jobs.get(endpoint, id), (job) => job !== undefined))

/** One of two servers creates, changes, fires or removes the schedule, based on the version that it read last. */
const command = fc.record({
  _tag: fc.constantFrom("read", "put", "fire", "remove", "create"),
  server: fc.constantFrom(0, 1),
  time: fc.integer({ min: 1, max: 4 })
})

type Command = typeof command extends fc.Arbitrary<infer A> ? A : never

const runModel = Effect.fnUntraced(function*(sequence: ReadonlyArray<Command>) {
  const schedules = yield* ScheduleStore
  const jobs = yield* JobStore
  /** What must be stored, and how many jobs each key has. */
  let model: ScheduleRecord | undefined
  let creations = 0
  const firings = new Map<string, number>()
  const seen: [ScheduleRecord | undefined, ScheduleRecord | undefined] = [undefined, undefined]
  const isNext = (after: ScheduleRecord) => model !== undefined && model.id === after.id && model.version + 1 === after.version

  for (const { _tag, server, time } of sequence) {
    const known = seen[server]
    if (_tag === "read") {
      seen[server] = yield* schedules.get(letters, nightly)
      assert.deepStrictEqual(seen[server], model)
    } else if (_tag === "create") {
      const after = record({ id: `${++creations}` })
      const expected = model === undefined
      assert.strictEqual(yield* schedules.put(after), expected)
      if (expected) model = after
    } else if (_tag === "remove") {
      assert.strictEqual(yield* schedules.remove(letters, nightly), model !== undefined)
      model = undefined
    } else if (known !== undefined && _tag === "put") {
      const after = { ...known, version: known.version + 1, updatedAt: time }
      const expected = isNext(after)
      assert.strictEqual(yield* schedules.put(after), expected)
      if (expected) model = after
    } else if (known !== undefined) {
      const job = Scenario.record()
      const key = `${known.id} ${time}`
      const after = fired(known, job)
      const expected = firings.has(key) ? "Duplicate" : isNext(after) ? "Inserted" : "ScheduleChanged"
      assert.strictEqual((yield* fire(job, after, key))._tag, expected)
      if (expected === "Inserted") {
        model = after
        firings.set(key, 1)
      }
      assert.strictEqual(yield* isStored(job), expected === "Inserted")
    }
    assert.deepStrictEqual(yield* schedules.list(), model === undefined ? [] : [model])
    assert.strictEqual((yield* jobs.depth(letters)).waiting, firings.size)
  }
})

/** Registers the rules for a store of schedules. The layer is built for every test. */
export const scheduleStoreSuite = <E>(name: string, store: Layer.Layer<Stores, E>, { sequences = 100 } = {}): void => {
  const rule = (title: string, body: () => Effect.Effect<void, unknown, Stores>) =>
    it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(store)))

  describe(`schedule store: ${name}`, () => {
    rule("returns stored schedules unchanged, ordered by endpoint and name", () =>
      Effect.gen(function*() {
        const store = yield* ScheduleStore
        const full = record({
          spec: spec({
            timeZone: "Europe/Berlin",
            input: { text: "\u{1f600}", list: [1, null, { a: "b" }] },
            policy: { ttl: 60_000, retry: { maxAttempts: 3, onError: true } },
            priority: -5,
            tags: ["report"],
            webhook: { url: "https://example.com/hook", events: ["start"] },
            overlap: "queue",
            catchUp: "all",
            catchUpLimit: 3,
            jitterMs: 5_000
          }),
          waiting: [8_000, 9_000],
          last: { scheduledFor: 7_000, at: 7_100, trigger: "time", outcome: "skipped", reason: "busy" },
          job: Scenario.jobId(),
          earlierJobs: [Scenario.jobId()]
        })
        const once = record({
          name: ScheduleName.make("Once"),
          spec: Schema.decodeUnknownSync(ScheduleSpec)({ at: 5_000 }),
          nextAt: null,
          dueAt: null
        })
        const other = record({ endpoint: stamps, id: "second" })
        for (const one of [other, full, once]) assert.isTrue(yield* store.put(one))
        assert.deepStrictEqual(yield* store.list(), [once, full, other])
        assert.deepStrictEqual(yield* store.list(letters), [once, full])
        assert.deepStrictEqual(yield* store.list(EndpointId.make("none")), [])
        assert.deepStrictEqual(yield* store.get(letters, nightly), full)
        assert.isUndefined(yield* store.get(letters, ScheduleName.make("NIGHTLY")))
      }))

    rule("replaces a schedule only by its next version", () =>
      Effect.gen(function*() {
        const store = yield* ScheduleStore
        assert.isFalse(yield* store.put(record({ version: 2 })))
        assert.isTrue(yield* store.put(record()))
        for (const refused of [record(), record({ version: 3 }), record({ version: 2, id: "other" })]) {
          assert.isFalse(yield* store.put(refused))
        }
        const next = record({ version: 2, paused: true, dueAt: null })
        assert.isTrue(yield* store.put(next))
        assert.deepStrictEqual(yield* store.list(), [next])
      }))

    rule("removes a schedule, and refuses late changes to it, even if another has its name", () =>
      Effect.gen(function*() {
        const store = yield* ScheduleStore
        const removed = record()
        yield* store.put(removed)
        assert.isTrue(yield* store.remove(letters, nightly))
        assert.isFalse(yield* store.remove(letters, nightly))
        assert.isFalse(yield* store.put({ ...removed, version: 2 }))
        const job = Scenario.record()
        assert.strictEqual((yield* fire(job, fired(removed, job)))._tag, "ScheduleChanged")
        yield* store.put(record({ id: "second" }))
        assert.strictEqual((yield* fire(job, fired(removed, job)))._tag, "ScheduleChanged")
        assert.isFalse(yield* isStored(job))
        assert.deepStrictEqual(yield* store.list(), [record({ id: "second" })])
      }))

    rule("finds due schedules, the longest overdue first", () =>
      Effect.gen(function*() {
        const store = yield* ScheduleStore
        for (const [name, dueAt] of [["a", 3_000], ["b", 1_000], ["c", null], ["d", 2_000], ["e", 3_001]] as const) {
          yield* store.put(record({ name: ScheduleName.make(name), dueAt, checkedAt: 500 }))
        }
        const due = (now: number) => Effect.map(store.due(now), (found) => found.map(({ name }) => String(name)))
        assert.deepStrictEqual(yield* due(999), [])
        assert.deepStrictEqual(yield* due(3_000), ["b", "d", "a"])
        assert.deepStrictEqual(yield* due(3_001), ["b", "d", "a", "e"])
      }))

    rule(
      "finds a schedule whose next time was computed with a clock that has since been set back by three hours",
      () =>
        Effect.gen(function*() {
          const store = yield* ScheduleStore
          const checkedAt = 100 * SET_BACK_MILLIS
          yield* store.put(record({ checkedAt, dueAt: 2 * checkedAt }))
          yield* store.put(record({ name: ScheduleName.make("paused"), checkedAt, dueAt: null }))
          assert.deepStrictEqual(yield* store.due(checkedAt - SET_BACK_MILLIS), [])
          assert.deepStrictEqual(yield* store.due(checkedAt - SET_BACK_MILLIS - 1), [{ endpoint: letters, name: nightly }])
        })
    )

    rule("stores the job and the schedule of a firing together, or neither of them", () =>
      Effect.gen(function*() {
        const store = yield* ScheduleStore
        const before = record()
        yield* store.put(before)
        const [job, late, full] = [Scenario.record(), Scenario.record(), Scenario.record()]
        const after = fired(before, job)
        assert.deepStrictEqual(yield* fire(job, after), { _tag: "Inserted" })
        assert.isTrue(yield* isStored(job))
        assert.deepStrictEqual(yield* store.list(), [after])

        // Another server has decided on the same version, with its own key.
        assert.deepStrictEqual(yield* fire(late, fired(before, late), "other key"), { _tag: "ScheduleChanged" })
        assert.isFalse(yield* isStored(late))
        const refused = yield* fire(full, fired(after, full), "third key", { endpoint: { waitingJobs: 1 }, key: {} })
        assert.strictEqual(refused._tag, "QuotaExceeded")
        assert.isFalse(yield* isStored(full))
        assert.deepStrictEqual(yield* store.list(), [after])
      }))

    rule("returns the job of a firing that was submitted before, and leaves the schedule as it is", () =>
      Effect.gen(function*() {
        const store = yield* ScheduleStore
        const before = record()
        yield* store.put(before)
        const [job, again] = [Scenario.record(), Scenario.record()]
        yield* fire(job, fired(before, job))
        const stored = yield* store.list()
        for (const schedule of [fired(before, again), fired(fired(before, job), again)]) {
          const repeated = yield* fire(again, schedule)
          assert.strictEqual(repeated._tag === "Duplicate" ? repeated.job.id : undefined, job.id)
        }
        assert.isFalse(yield* isStored(again))
        assert.deepStrictEqual(yield* store.list(), stored)
      }))

    it.live(
      "agrees with a model after every sequence of changes and firings by two servers",
      () =>
        Effect.promise(() =>
          fc.assert(
            fc.asyncProperty(
              fc.array(command, { minLength: 1, maxLength: 30, size: "max" }),
              (sequence) => Effect.runPromise(Effect.provide(runModel(sequence), store))
            ),
            { numRuns: sequences }
          )
        ),
      60_000
    )
  })
}

/**
 * The conformance suite for a store of error groups, which change in the commits of their jobs.
 */
import { assert, describe, it } from "@effect/vitest"
import type { JobId } from "@stint/contract/Ids"
import { parseSearch } from "@stint/contract/JobSearch"
import * as JobQueue from "@stint/queue/JobQueue"
import * as WorkerRegistry from "@stint/queue/WorkerRegistry"
import { EndpointStore } from "@stint/store/EndpointStore"
import {
  type ErrorGroupRecord,
  ErrorGroupStore,
  GROUP_RETENTION_MILLIS,
  GROUPS_KEPT,
  RELEASES_KEPT,
  SAMPLE_JOBS
} from "@stint/store/ErrorGroupStore"
import { type ApplyResult, JobStore } from "@stint/store/JobStore"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Scenario from "../Scenario.ts"

type Stores = JobStore | ErrorGroupStore | EndpointStore

const WORKER = "ann"
const endpoint = Scenario.endpoint()

/** Settings that let a job live longer than any time used here. */
const LONG = { endpoint: endpoint.id, ttlMs: 1e12, expiresAt: 1e12, leaseMs: 1e12, executionTimeoutMs: 1e12, retentionMs: 1e12 }

interface Run {
  readonly at?: number
  readonly release?: number
  readonly maxAttempts?: number
}

/** Submits a job, and a worker of a release takes it. */
const taken = Effect.fnUntraced(function*({ at = 1_000, maxAttempts = 1, release }: Run = {}) {
  const store = yield* JobStore
  const { id } = Scenario.record({ ...LONG, maxAttempts })
  yield* store.insert(Scenario.record({ ...LONG, id, maxAttempts, createdAt: at, queuedAt: at }))
  const { jobs } = yield* store.claim(endpoint.id, 1, { _tag: "Claim", now: at, worker: WORKER, release })
  assert.deepStrictEqual(jobs.map((job) => job.id), [id])
  return id
})

/** Ends a job with an error, or with an output if there is none. */
const ended = Effect.fnUntraced(function*(error: string | null, { at = 1_000, ...run }: Run = {}) {
  const id = yield* taken({ ...run, at })
  yield* finish(id, error, at)
  return id
})

const finish = (id: JobId, error: string | null, now: number) =>
  Effect.flatMap(JobStore, (store) =>
    store.apply(endpoint.id, id, {
      _tag: "Finish",
      now,
      endpoint: endpoint.id,
      worker: WORKER,
      output: error === null ? Scenario.text("done") : null,
      error
    }))

const groups = (since = 0) => Effect.flatMap(ErrorGroupStore, (store) => store.list(endpoint.id, since))

const onlyGroup = Effect.flatMap(groups(), ({ groups: [group, ...others] }) => {
  assert.deepStrictEqual(others, [])
  return group === undefined ? Effect.die(new Error("there is no group")) : Effect.succeed(group)
})

const resolve = (fingerprint: string, release: number | null, at = 5_000) =>
  Effect.flatMap(ErrorGroupStore, (store) => store.resolve(endpoint.id, fingerprint, { at, release, by: "the key \"ops\"" }))

const tagOf = ({ _tag }: ApplyResult) => _tag

/** The group that each job of the endpoint has in lists, newest first. */
const groupsOfJobs = Effect.flatMap(
  JobStore,
  (store) =>
    Effect.map(
      store.list(endpoint.id, { limit: 200 }),
      ({ jobs }) => new Map(jobs.map(({ errorGroup, id }) => [String(id), errorGroup]))
    )
)

/** Registers the rules. The layer is built for every test. */
export const errorGroupSuite = <E>(name: string, store: Layer.Layer<Stores, E>): void => {
  const world = JobQueue.layer.pipe(Layer.provideMerge(Layer.mergeAll(store, WorkerRegistry.layer)))
  const rule = (title: string, body: () => Effect.Effect<void, unknown, Stores | JobQueue.JobQueue>) =>
    it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(world)))

  describe(`error groups: ${name}`, () => {
    rule(
      "counts every failure in the group of its error, with the first and last failure, the releases and the last jobs",
      () =>
        Effect.gen(function*() {
          const first = yield* ended("no user 'ann' (id 1)", { at: 1_000, release: 3 })
          const second = yield* ended("no user 'bob' (id 2)", { at: 3_000, release: 5 })
          const third = yield* ended("no user 'cy' (id 3)", { at: 2_000, release: 3 })
          const other = yield* ended("the disk is full", { at: 2_500 })
          const { groups: found, removed } = yield* groups()
          assert.strictEqual(removed, 0)
          assert.deepStrictEqual(found.map(({ count, message }) => [message, count]), [
            ["no user <value> (id <n>)", 3],
            ["the disk is full", 1]
          ])
          const [users, disk] = found
          assert.deepStrictEqual(
            users,
            {
              fingerprint: users?.fingerprint ?? "",
              type: null,
              message: "no user <value> (id <n>)",
              frames: [],
              count: 3,
              firstSeen: 1_000,
              lastSeen: 3_000,
              firstRelease: 3,
              releases: [
                { release: 5, count: 1, firstSeen: 3_000, lastSeen: 3_000 },
                { release: 3, count: 2, firstSeen: 1_000, lastSeen: 2_000 }
              ],
              jobs: [third, second, first],
              resolved: null,
              reopenedAt: null
            } satisfies ErrorGroupRecord
          )
          assert.deepStrictEqual(disk?.releases, [{ release: null, count: 1, firstSeen: 2_500, lastSeen: 2_500 }])
          const ofJobs = yield* groupsOfJobs
          assert.deepStrictEqual([first, second, third, other].map((id) => ofJobs.get(id)), [
            users?.fingerprint,
            users?.fingerprint,
            users?.fingerprint,
            disk?.fingerprint
          ])
          assert.deepStrictEqual((yield* groups(2_501)).groups.map(({ message }) => message), ["no user <value> (id <n>)"])
          const errors = yield* ErrorGroupStore
          assert.deepStrictEqual(yield* errors.get(endpoint.id, users?.fingerprint ?? ""), users)
          assert.isUndefined(yield* errors.get("elsewhere", users?.fingerprint ?? ""))
          assert.isUndefined(yield* errors.get(endpoint.id, "0000000000000000"))
          assert.deepStrictEqual(yield* errors.list("elsewhere", 0), { groups: [], removed: 0 })
        })
    )

    rule(
      "counts jobs that time out and jobs that are lost with their worker, and no job that ends otherwise",
      () =>
        Effect.gen(function*() {
          const jobs = yield* JobStore
          yield* ended(null)
          const cancelled = yield* taken()
          yield* jobs.apply(endpoint.id, cancelled, { _tag: "Cancel", now: 1_000, endpoint: endpoint.id })
          // A retried attempt is not a failure of the job.
          const lost = yield* taken({ maxAttempts: 2 })
          const lose = (now: number) =>
            jobs.apply(endpoint.id, lost, {
              _tag: "LoseLease",
              now,
              endpoint: endpoint.id,
              worker: WORKER,
              cause: "Worker ann left."
            })
          assert.strictEqual(tagOf(yield* lose(2_000)), "Changed")
          assert.deepStrictEqual((yield* groups()).groups, [])
          yield* jobs.claim(endpoint.id, 1, { _tag: "Claim", now: 3_000, worker: WORKER })
          assert.strictEqual(tagOf(yield* lose(4_000)), "Changed")
          const short = Scenario.record({ ...LONG, createdAt: 5_000, expiresAt: 6_000, ttlMs: 1_000 })
          yield* jobs.insert(short)
          yield* jobs.tick({ _tag: "Tick", now: 7_000 }, 10)
          assert.deepStrictEqual((yield* groups()).groups.map(({ count, jobs, message }) => [message, count, jobs]), [
            ["The job's time to live (<n> s) ended while it was waiting for a worker.", 1, [short.id]],
            ["Worker <worker> left.", 1, [lost]]
          ])
        })
    )

    rule(
      "removes a job from its group when it is retried, and counts it again when it fails again",
      () =>
        Effect.gen(function*() {
          const jobs = yield* JobStore
          const id = yield* ended("bad", { at: 1_000 })
          const { fingerprint } = yield* onlyGroup
          yield* jobs.apply(endpoint.id, id, { _tag: "Retry", now: 2_000, endpoint: endpoint.id })
          assert.isNull((yield* groupsOfJobs).get(id))
          yield* jobs.claim(endpoint.id, 1, { _tag: "Claim", now: 2_000, worker: WORKER })
          assert.strictEqual(tagOf(yield* finish(id, "bad", 3_000)), "Changed")
          assert.strictEqual(tagOf(yield* finish(id, "bad", 4_000)), "Rejected")
          const group = yield* onlyGroup
          assert.deepStrictEqual([group.fingerprint, group.count, group.jobs, group.lastSeen], [fingerprint, 2, [id], 3_000])
          assert.strictEqual((yield* groupsOfJobs).get(id), fingerprint)
        })
    )

    rule("loses no failure when many jobs fail at once", () =>
      Effect.gen(function*() {
        const ids = yield* Effect.replicateEffect(taken(), 60)
        yield* Effect.forEach(ids, (id, index) => finish(id, index % 3 === 0 ? "a fault" : "another one", 2_000 + index), {
          concurrency: "unbounded",
          discard: true
        })
        const { groups: found } = yield* groups()
        assert.deepStrictEqual(
          new Map(found.map(({ count, message }) => [message, count])),
          new Map([["another one", 40], ["a fault", 20]])
        )
        assert.isTrue(found.every(({ jobs }) => jobs.length === SAMPLE_JOBS))
        const ofJobs = yield* groupsOfJobs
        for (const { fingerprint, count } of found) {
          assert.strictEqual([...ofJobs.values()].filter((one) => one === fingerprint).length, count)
        }
      }))

    rule(
      "reopens a resolved group when it is seen in a later release, but not for a worker that still runs an earlier one",
      () =>
        Effect.gen(function*() {
          yield* ended("bad", { at: 1_000, release: 3 })
          const { fingerprint } = yield* onlyGroup
          const resolution = { at: 5_000, release: 3, by: "the key \"ops\"" }
          assert.deepStrictEqual((yield* resolve(fingerprint, 3))?.resolved, resolution)
          yield* ended("bad", { at: 6_000, release: 2 })
          yield* ended("bad", { at: 6_000, release: 3 })
          assert.deepStrictEqual([(yield* onlyGroup).resolved, (yield* onlyGroup).count], [resolution, 3])
          yield* ended("bad", { at: 7_000, release: 4 })
          const again = yield* onlyGroup
          assert.deepStrictEqual([again.resolved, again.reopenedAt, again.count], [null, 7_000, 4])
          // Resolved once more, it is as before.
          assert.deepInclude(yield* resolve(fingerprint, 4, 8_000), { reopenedAt: null, count: 4 })
          yield* ended("bad", { at: 9_000, release: 4 })
          assert.strictEqual((yield* onlyGroup).resolved?.at, 8_000)
        })
    )

    rule(
      "reopens a resolved group by hand, or when the release of the failure or of the resolution is not known",
      () =>
        Effect.gen(function*() {
          const errors = yield* ErrorGroupStore
          yield* ended("bad", { at: 1_000 })
          const { fingerprint } = yield* onlyGroup
          yield* resolve(fingerprint, 3)
          yield* ended("bad", { at: 6_000 })
          assert.strictEqual((yield* onlyGroup).reopenedAt, 6_000)
          yield* resolve(fingerprint, null)
          yield* ended("bad", { at: 7_000, release: 1 })
          assert.deepInclude(yield* onlyGroup, { resolved: null, reopenedAt: 7_000 })
          yield* resolve(fingerprint, 3)
          assert.isNull((yield* errors.resolve(endpoint.id, fingerprint, null))?.resolved)
          assert.isNull((yield* onlyGroup).resolved)
          assert.isUndefined(yield* errors.resolve(endpoint.id, "0000000000000000", null))
          assert.isUndefined(yield* errors.resolve("elsewhere", fingerprint, null))
        })
    )

    rule(
      "keeps a limited number of groups, removes the least recently seen, and says how many it has removed",
      () =>
        Effect.gen(function*() {
          const fault = (index: number) =>
            `fault ${String.fromCharCode(97 + index % 26)}${String.fromCharCode(97 + Math.floor(index / 26))}`
          const ids = yield* Effect.replicateEffect(taken(), GROUPS_KEPT + 3)
          for (const [index, id] of ids.slice(0, GROUPS_KEPT).entries()) yield* finish(id, fault(index), 2_000 + index)
          assert.deepInclude(yield* groups(), { removed: 0 })
          const [again, ...last] = ids.slice(GROUPS_KEPT)
          if (again === undefined) return yield* Effect.die(new Error("there are too few jobs"))
          yield* finish(again, fault(0), 10_000)
          for (const [index, id] of last.entries()) yield* finish(id, fault(GROUPS_KEPT + index), 11_000 + index)
          const { groups: found, removed } = yield* groups()
          assert.deepStrictEqual([found.length, removed], [GROUPS_KEPT, 2])
          const messages = new Set(found.map(({ message }) => message))
          assert.deepStrictEqual([0, 1, 2, 3, GROUPS_KEPT, GROUPS_KEPT + 1].map((index) => messages.has(fault(index))), [
            true,
            false,
            false,
            true,
            true,
            true
          ])
        })
    )

    rule(
      "removes groups that were not seen within the retention, and keeps a limited number of releases and jobs",
      () =>
        Effect.gen(function*() {
          yield* ended("old", { at: 1_000 })
          for (let release = 1; release <= RELEASES_KEPT + 2; release++) yield* ended("known", { at: 1_000 + release, release })
          yield* ended("new", { at: 1_001 + GROUP_RETENTION_MILLIS })
          const { groups: found, removed } = yield* groups()
          assert.deepStrictEqual([found.map(({ message }) => message), removed], [["new", "known"], 0])
          const [, known] = found
          assert.deepStrictEqual(
            [known?.count, known?.firstRelease, known?.releases.length, known?.releases[0]?.release, known?.jobs.length],
            [RELEASES_KEPT + 2, 1, RELEASES_KEPT, RELEASES_KEPT + 2, SAMPLE_JOBS]
          )
        })
    )

    rule("removes the groups of an endpoint with the endpoint", () =>
      Effect.gen(function*() {
        const endpoints = yield* EndpointStore
        yield* endpoints.put(endpoint)
        yield* ended("bad")
        assert.lengthOf((yield* groups()).groups, 1)
        assert.strictEqual(yield* endpoints.remove(endpoint.id), "removed")
        assert.deepStrictEqual(yield* groups(), { groups: [], removed: 0 })
      }))

    rule("finds the jobs of a group by a text query, and counts them", () =>
      Effect.gen(function*() {
        const queue = yield* JobQueue.JobQueue
        const wanted = [yield* ended("no user 'ann'"), yield* ended("no user 'bob'")]
        yield* ended("the disk is full")
        yield* ended(null)
        const [users] = (yield* groups()).groups.filter(({ count }) => count === 2)
        const find = (text: string) => {
          const { search } = parseSearch(`${text} error-group:${users?.fingerprint}`)
          if (search === undefined) throw new Error(text)
          return { endpoints: [endpoint.id], search, now: 1_000 }
        }
        const { jobs } = yield* queue.search(find(""))
        assert.sameMembers(jobs.map(({ id }) => id), wanted)
        assert.deepStrictEqual(yield* queue.count(find("status:failed"), 10), { count: 2, more: false })
        assert.deepStrictEqual(yield* queue.count(find("status:completed"), 10), { count: 0, more: false })
      }))

    rule("accepts texts that no database can store unchanged", () =>
      Effect.gen(function*() {
        yield* ended("a\u0000b \u001b[31m \ud800 \"quoted\" ü 😀")
        assert.include((yield* onlyGroup).message, "<value> ü 😀")
        assert.isUndefined(yield* (yield* ErrorGroupStore).get(endpoint.id, "a\0b"))
        assert.isUndefined(yield* resolve("a\0b", null))
      }))
  })
}

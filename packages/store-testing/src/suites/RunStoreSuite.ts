/**
 * The conformance suite for a store of pipeline runs and their jobs.
 */
import { assert, describe, it } from "@effect/vitest"
import type { JobId } from "@stint/contract/Ids"
import { EndpointId } from "@stint/contract/Ids"
import { type JsonText, toJsonText } from "@stint/contract/Json"
import { isParked, type JobMachineEvent } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import { type ApplyResult, JobStore } from "@stint/store/JobStore"
import { CANCEL_PATH, memberOf } from "@stint/store/RunMachine"
import {
  type JournalResult,
  type JournalWrite,
  MAX_KEPT_EVENT_BYTES,
  MAX_KEPT_EVENTS,
  type NewEntry,
  RunStore
} from "@stint/store/RunStore"
import { CHILD_RETENTION_MILLIS, childId } from "@stint/store/RunTransactions"
import type { StoreError } from "@stint/store/StoreError"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { runModelRule } from "../models/RunModel.ts"
import * as Scenario from "../Scenario.ts"

/** The stores that share a transaction with runs. */
export type RunStores = JobStore | RunStore

const ENDPOINT = EndpointId.make("letters")
const CHILDREN = EndpointId.make("stamps")
const HASH = "a".repeat(64)
const OTHER = "b".repeat(64)

const graph = (...nodes: ReadonlyArray<readonly [address: string, kind: string, output?: string]>): JsonText =>
  toJsonText({
    name: "letters",
    nodes: nodes.map(([address, kind, output]) => ({ address, kind, ...(output === undefined ? {} : { output }) }))
  })

/** A pipeline's endpoint with one definition, and its worker. */
const make = Effect.gen(function*() {
  const jobs = yield* JobStore
  const runs = yield* RunStore
  yield* runs.define(ENDPOINT, HASH, graph(["write", "step"], ["stamp", "run"], ["post", "step"]), 0)

  const apply = (id: JobId, event: JobMachineEvent, endpoint = ENDPOINT) => jobs.apply(endpoint, id, event)
  const head = (id: JobId, endpoint = ENDPOINT): Effect.Effect<JobHead, StoreError> =>
    Effect.flatMap(
      jobs.get(endpoint, id),
      (job) => job === undefined ? Effect.die(new Error(`no job ${id}`)) : Effect.succeed(job)
    )
  const claim = (worker = "ann", now = 0, endpoint = ENDPOINT) =>
    Effect.map(jobs.claim(endpoint, 10, { _tag: "Claim", now, worker }), ({ jobs }) => jobs)

  const write = Effect.fnUntraced(function*(
    job: Pick<JobHead, "id" | "attempt">,
    changes: Partial<JournalWrite> = {},
    { now = 0, worker = "ann" } = {}
  ): Effect.fn.Return<JournalResult, StoreError> {
    const [result] = yield* runs.journal(
      ENDPOINT,
      worker,
      [{ run: job.id, attempt: job.attempt, records: [], isHeld: false, ...changes }],
      now
    )
    return result ?? (yield* Effect.die(new Error("no result")))
  })

  /** A run that worker ann has begun. */
  const started = Effect.fnUntraced(function*(options: { readonly undo?: boolean; readonly retentionMs?: number } = {}) {
    const { retentionMs = 600_000, undo = false } = options
    yield* jobs.insert(Scenario.record({ retentionMs }))
    const [job] = yield* claim()
    if (job === undefined) return yield* Effect.die(new Error("no job"))
    yield* write(job, { start: { definition: HASH, ttlMs: 1_000_000_000, undo } })
    return job
  })

  const park = (seen: number, wakeAfter = 1) => ({ park: { seen, wakeAfter, until: null } })

  return { apply, claim, head, jobs, park, runs, started, write }
})

const step = (path: string, value: unknown = path): NewEntry => ({ kind: "step", path, body: toJsonText(value) })

const spawn = (path: string, until: number | null = null): NewEntry & { readonly kind: "spawn"; readonly id: JobId } => {
  const id = childId(uuidV7At(0))
  const child = Scenario.record({ id, endpoint: CHILDREN, retentionMs: CHILD_RETENTION_MILLIS })
  return { kind: "spawn", path, child, until, id }
}

const finished = (worker: string, now: number, error: string | null = null): JobMachineEvent => ({
  _tag: "Finish",
  endpoint: CHILDREN,
  worker,
  now,
  output: error === null ? toJsonText("stamped") : null,
  error
})

const pathsOf = (result: Pick<JournalResult, "entries">) => result.entries.map(({ kind, path }) => `${path} ${kind}`)

/** The changes to other jobs that are part of a change. */
const othersOf = (applied: ApplyResult): ReadonlyArray<string> =>
  applied._tag === "Changed" ? (applied.others ?? []).flatMap((other) => other._tag === "Changed" ? [other.after.id] : []) : []

/** Registers the rules for a store of runs. The layer is built for every test. */
export const runStoreSuite = <E>(name: string, store: Layer.Layer<RunStores, E>, { sequences = 150 } = {}): void => {
  const rule = (title: string, body: () => Effect.Effect<void, unknown, RunStores>) =>
    it.effect(title, () => Effect.suspend(body).pipe(Effect.provide(store)))

  describe(`runs: ${name}`, () => {
    rule("R14: stores an entry once when its write is repeated, and returns the stored one", () =>
      Effect.gen(function*() {
        const { runs, started, write } = yield* make
        const job = yield* started()
        const records: ReadonlyArray<NewEntry> = [
          step("write", 1),
          { kind: "choice", path: "size", body: toJsonText("zip") },
          { kind: "sleep", path: "cool", until: 5_000 },
          { kind: "wait", path: "approved", name: "approval", key: "7", until: null }
        ]
        assert.deepInclude(yield* write(job, { records }), { state: "running", last: 4 })
        const repeated = yield* write(job, { records: [...records, step("write", 2)] })
        assert.deepInclude(repeated, { state: "running", last: 4 })
        assert.deepStrictEqual(pathsOf(repeated), ["write step", "write step", "size choice", "cool sleep", "approved wait"])
        assert.strictEqual(repeated.entries[1]?.body, "1")
        const all = yield* runs.entries(ENDPOINT, job.id, 0, 100)
        assert.deepStrictEqual(all.map(({ n }) => n), [1, 2, 3, 4])
      }))

    rule("keeps how long attempts ran, where the worker reports it", () =>
      Effect.gen(function*() {
        const { runs, started, write } = yield* make
        const job = yield* started({ undo: true })
        const failure = { kind: "failed" as const, path: "post~1", body: toJsonText({ error: "no stamp" }), ms: 7_200_000 }
        const timed = (path: string, ms: number) => ({ kind: "step" as const, path, body: toJsonText(path), ms })
        yield* write(job, { records: [timed("write", 250), failure, timed("post", 0), step("stamp")] })
        yield* write(job, { records: [{ kind: "undo", path: "write~undo", body: null, ms: 31 }, timed("write", 9)] })
        const all = yield* runs.entries(ENDPOINT, job.id, 0, 100)
        assert.deepStrictEqual(all.map(({ ms, path }) => [path, ms]), [
          ["write", 250],
          ["post~1", 7_200_000],
          ["post", 0],
          ["stamp", null],
          ["write~undo", 31]
        ])
      }))

    rule("keeps the inputs of steps, where the worker records them", () =>
      Effect.gen(function*() {
        const { runs, started, write } = yield* make
        const job = yield* started()
        const input = toJsonText({ value: { text: "größe \u0000 'x'" } })
        const failure = { kind: "failed" as const, path: "post~1", body: toJsonText({ error: "no stamp" }), input }
        yield* write(job, { records: [failure, step("post")] })
        // The first write wins.
        yield* write(job, { records: [{ ...failure, input: toJsonText({ value: 1 }) }] })
        const all = yield* runs.entries(ENDPOINT, job.id, 0, 100)
        assert.deepStrictEqual(all.map(({ input, path }) => [path, input]), [["post~1", input], ["post", null]])
      }))

    rule(
      "keeps the progress of a run that has lost a worker when its next worker records an entry",
      () =>
        Effect.gen(function*() {
          const { apply, claim, jobs, started, write } = yield* make
          const { id } = yield* started()
          yield* apply(id, { _tag: "LoseLease", endpoint: ENDPOINT, worker: "ann", cause: "gone", now: 0 })
          const [job] = yield* claim("ann", 100_000)
          if (job === undefined) return yield* Effect.die(new Error("no job"))
          const identity = { endpoint: ENDPOINT, worker: "ann", now: 100_000 }
          yield* apply(id, { _tag: "Progress", output: toJsonText("50 %"), ...identity })
          yield* write(job, { records: [step("write")] }, { now: 100_000 })
          assert.deepInclude(yield* jobs.get(ENDPOINT, id), { progress: toJsonText("50 %"), retries: 0, isolated: false })
        })
    )

    rule("a run that sleeps until the latest possible time can be read and cancelled", () =>
      Effect.gen(function*() {
        const { apply, head, started, write } = yield* make
        const job = yield* started()
        yield* write(job, { records: [{ kind: "sleep", path: "cool", until: Number.MAX_SAFE_INTEGER }] })
        assert.strictEqual((yield* head(job.id)).expiresAt, Number.MAX_SAFE_INTEGER)
        yield* apply(job.id, { _tag: "Cancel", now: 0, endpoint: ENDPOINT })
        assert.strictEqual((yield* head(job.id)).status, "CANCELLED")
      }))

    rule(
      "says how far a full page reaches, and also returns the entries that the write itself stores",
      () =>
        Effect.gen(function*() {
          const { started, write } = yield* make
          const job = yield* started()
          const large = "x".repeat(5 * 1024 * 1024)
          yield* write(job, { records: [step("a", large), step("b", large), step("c", large)] })
          const cut = yield* write(job, { records: [{ kind: "sleep", path: "cool", until: 5_000 }], after: 0 })
          assert.deepInclude(cut, { last: 4, upTo: 2 })
          assert.deepStrictEqual(pathsOf(cut), ["a step", "b step", "cool sleep"])
          const rest = yield* write(job, { after: 2 })
          assert.deepInclude(rest, { last: 4, upTo: null })
          assert.deepStrictEqual(pathsOf(rest), ["c step", "cool sleep"])
        })
    )

    rule("R14: starts one child when its spawn is repeated", () =>
      Effect.gen(function*() {
        const { claim, started, write } = yield* make
        const job = yield* started()
        const first = spawn("stamp")
        const { spawned } = yield* write(job, { records: [first] })
        const repeated = yield* write(job, { records: [{ ...first, child: spawn("stamp").child }] })
        assert.deepStrictEqual(spawned.map(({ endpoint, id }) => [endpoint, id]), [[CHILDREN, first.id]])
        assert.deepStrictEqual(repeated.spawned, [])
        assert.strictEqual(memberOf(repeated.entries[0] ?? assert.fail(), "job"), first.id)
        assert.deepStrictEqual((yield* claim("bob", 0, CHILDREN)).map(({ id }) => id), [first.id])
      }))

    rule(
      "says in which trace a started child is, and gives the child to its worker with this trace",
      () =>
        Effect.gen(function*() {
          const { claim, started, write } = yield* make
          const job = yield* started()
          const trace = { traceparent: `00-${"1".repeat(32)}-${"2".repeat(16)}-01`, tracestate: "vendor=1" }
          const id = childId(uuidV7At(0))
          const child = Scenario.record({ id, endpoint: CHILDREN, createdAt: 7, ...trace })
          const { spawned: [one = assert.fail()] } = yield* write(job, {
            records: [{ kind: "spawn", path: "stamp", child, until: null }]
          })
          assert.deepInclude(one, { id, endpoint: CHILDREN, createdAt: 7, ...trace })
          const [taken = assert.fail()] = yield* claim("bob", 0, CHILDREN)
          assert.deepInclude(taken, { id, ...trace })
        })
    )

    rule("reports the end of a run once when the write that ends it is repeated", () =>
      Effect.gen(function*() {
        const { started, write } = yield* make
        const job = yield* started()
        const changes = { records: [spawn("stamp")], finish: { output: null, error: "no", cancelled: false } }
        const first = yield* write(job, changes)
        assert.strictEqual(first.state, "ended")
        const ends = first.applied.flatMap((one) => one._tag === "Changed" ? [[one.after.id, one.after.status]] : [])
        assert.deepStrictEqual(ends, [[job.id, "FAILED"]])
        assert.deepStrictEqual(first.applied.flatMap(othersOf), first.spawned.map(({ id }) => id))
        assert.deepInclude(yield* write(job, changes), { state: "ended", applied: [], spawned: [] })
      }))

    rule(
      "R2: refuses the record of a worker that does not hold the run's lease, and stores nothing of it",
      () =>
        Effect.gen(function*() {
          const { apply, claim, head, runs, started, write } = yield* make
          const job = yield* started()
          assert.deepInclude(yield* write(job, { records: [step("write")] }, { worker: "eve" }), { state: "lost" })
          yield* apply(job.id, { _tag: "Tick", now: 10_000 })
          const [again] = yield* claim("ann", 10_000)
          assert.deepInclude(yield* head(job.id), { attempt: 2, status: "IN_PROGRESS", worker: "ann" })
          // The frozen activation has the same worker id, but an earlier attempt.
          assert.deepInclude(
            yield* write(job, {
              records: [step("write"), spawn("stamp")],
              finish: { output: null, error: null, cancelled: false }
            }),
            {
              state: "lost"
            }
          )
          assert.deepStrictEqual(yield* runs.entries(ENDPOINT, job.id, 0, 100), [])
          assert.deepStrictEqual(yield* claim("bob", 0, CHILDREN), [])
          assert.deepInclude(yield* write(again ?? assert.fail(), { records: [step("write")] }), { state: "running", last: 1 })
        })
    )

    rule("needs the run's definition before its first record", () =>
      Effect.gen(function*() {
        const { claim, jobs, write } = yield* make
        yield* jobs.insert(Scenario.record())
        const [job = assert.fail()] = yield* claim()
        assert.deepInclude(yield* write(job, { records: [step("write")] }), { state: "lost" })
        const start = { definition: OTHER, ttlMs: 1_000, undo: false }
        assert.deepInclude(yield* write(job, { start, records: [step("write")] }), { state: "unknown", last: 0 })
      }))

    rule("settles a path once: the first result wins", () =>
      Effect.gen(function*() {
        const { apply, claim, runs, started, write } = yield* make
        const job = yield* started()
        const child = spawn("stamp", 5_000)
        yield* write(job, { records: [child] })
        assert.deepInclude(yield* write(job, { after: 0 }, { now: 5_000 }), { last: 2 })
        const ends = (yield* runs.entries(ENDPOINT, job.id, 1, 100)).map((entry) => memberOf(entry, "status"))
        assert.deepStrictEqual(ends, ["TIMED_OUT"])
        assert.deepStrictEqual(yield* claim("bob", 5_000, CHILDREN), [])
        const late = yield* write(job, { records: [step("stamp", "late")] }, { now: 5_000 })
        assert.deepStrictEqual(pathsOf(late), ["stamp end"])
        assert.deepInclude(yield* apply(child.id, finished("bob", 6_000), CHILDREN), { _tag: "Rejected" })
        assert.strictEqual((yield* runs.entries(ENDPOINT, job.id, 0, 100)).length, 2)
      }))

    rule("a parked run is IN_PROGRESS, has no worker and is not counted as running", () =>
      Effect.gen(function*() {
        const { apply, claim, head, jobs, park, started, write } = yield* make
        const job = yield* started()
        const parked = yield* write(job, { records: [spawn("stamp")], ...park(1) })
        assert.deepInclude(parked, { state: "parked", last: 1 })
        assert.deepInclude(yield* head(job.id), { status: "IN_PROGRESS", worker: null, leaseExpiresAt: null, attempt: 1 })
        assert.deepInclude(yield* jobs.depth(ENDPOINT), { running: 0, waiting: 0, delayed: 0 })
        assert.deepStrictEqual(yield* claim(), [])
        // Neither a dead worker nor a clock change affects it.
        const lost = { _tag: "LoseLease", endpoint: ENDPOINT, worker: "ann", cause: "gone", now: 0 } as const
        assert.deepStrictEqual(yield* jobs.applyRunning({ endpoint: ENDPOINT, worker: "ann" }, lost), [])
        assert.deepStrictEqual(yield* jobs.applyRunning("timed", { _tag: "Recover", now: 0, by: -1_000 }), [])
        assert.deepInclude(yield* apply(job.id, { _tag: "Heartbeat", endpoint: ENDPOINT, worker: "ann", now: 0 }), {
          _tag: "Rejected"
        })
      }))

    rule("R14: a child's end, its entry and the wake of its run are one change", () =>
      Effect.gen(function*() {
        const { apply, claim, head, jobs, park, runs, started, write } = yield* make
        const job = yield* started()
        const child = spawn("stamp")
        yield* write(job, { records: [child], ...park(1) })
        yield* claim("bob", 1_000, CHILDREN)
        const ended = yield* apply(child.id, finished("bob", 2_000), CHILDREN)
        assert.deepStrictEqual(othersOf(ended), [job.id])
        assert.deepInclude(yield* head(job.id), { status: "IN_QUEUE", queuedAt: 2_000, retries: 0 })
        assert.deepInclude(yield* jobs.depth(ENDPOINT), { waiting: 1 })
        const [entry = assert.fail()] = yield* runs.entries(ENDPOINT, job.id, 1, 10)
        assert.deepInclude(entry, { path: "stamp", kind: "end", n: 2, at: 2_000 })
        assert.deepStrictEqual([memberOf(entry, "status"), memberOf(entry, "job")], ["COMPLETED", child.id])
        const [again = assert.fail()] = yield* claim("ann", 2_000)
        assert.strictEqual(again.attempt, 2)
        const resumed = yield* write(again, { start: { definition: HASH, ttlMs: 1_000_000_000, undo: false }, after: 0 }, {
          now: 2_000
        })
        assert.deepStrictEqual(pathsOf(resumed), ["stamp spawn", "stamp end"])
      }))

    rule("R14: a run does not park when something arrived that its worker has not seen", () =>
      Effect.gen(function*() {
        const { apply, claim, head, park, started, write } = yield* make
        const job = yield* started()
        const child = spawn("stamp")
        const { last } = yield* write(job, { records: [child] })
        yield* claim("bob", 0, CHILDREN)
        yield* apply(child.id, finished("bob", 0), CHILDREN)
        const refused = yield* write(job, { records: [step("write")], ...park(last) })
        assert.deepInclude(refused, { state: "running", last: 3 })
        assert.deepStrictEqual(pathsOf(refused), ["stamp end", "write step"])
        assert.deepInclude(yield* head(job.id), { status: "IN_PROGRESS", worker: "ann" })
        // A held write checks in the same way, and does not park.
        assert.deepInclude(yield* write(job, { ...park(last), isHeld: true }), { state: "running" })
        assert.deepInclude(yield* write(job, { ...park(3), isHeld: true }), { state: "idle" })
        assert.deepInclude(yield* write(job, park(3)), { state: "parked" })
      }))

    rule("wakes a run when enough of its children have ended, and at once when one fails", () =>
      Effect.gen(function*() {
        const { apply, claim, head, park, started, write } = yield* make
        const run = Effect.fnUntraced(function*(failing: boolean) {
          const job = yield* started()
          const children = [spawn("stamp[0]"), spawn("stamp[1]"), spawn("stamp[2]")]
          yield* write(job, { records: children, ...park(3, 3) })
          yield* claim("bob", 0, CHILDREN)
          const statuses: Array<string> = []
          for (const [at, { id }] of children.entries()) {
            yield* apply(id, finished("bob", 0, failing && at === 1 ? "torn" : null), CHILDREN)
            statuses.push((yield* head(job.id)).status)
          }
          yield* claim()
          return statuses
        })
        assert.deepStrictEqual(yield* run(false), ["IN_PROGRESS", "IN_PROGRESS", "IN_QUEUE"])
        assert.deepStrictEqual(yield* run(true), ["IN_PROGRESS", "IN_QUEUE", "IN_QUEUE"])
      }))

    rule("wakes a sleeping run at its time, and ends the sleep when its worker takes it", () =>
      Effect.gen(function*() {
        const { claim, head, jobs, park, started, write } = yield* make
        const job = yield* started()
        const records: ReadonlyArray<NewEntry> = [
          { kind: "sleep", path: "cool", until: 9_000 },
          { kind: "sleep", path: "rest", until: 5_000 }
        ]
        assert.deepInclude(yield* write(job, { records, ...park(2) }), { state: "parked", nextTimer: 5_000 })
        yield* jobs.tick({ _tag: "Tick", now: 4_999 }, 10)
        assert.isTrue(isParked(yield* head(job.id)))
        yield* jobs.tick({ _tag: "Tick", now: 5_000 }, 10)
        assert.deepInclude(yield* head(job.id), { status: "IN_QUEUE", queuedAt: 5_000, notBefore: null })
        const [again = assert.fail()] = yield* claim("ann", 5_000)
        const resumed = yield* write(again, { after: 2 }, { now: 5_000 })
        assert.deepStrictEqual(pathsOf(resumed), ["rest end"])
        assert.strictEqual(resumed.nextTimer, 9_000)
      }))

    rule("a run lives as long as its start specifies, and longer than any sleep that it records", () =>
      Effect.gen(function*() {
        const { apply, claim, head, park, started, write } = yield* make
        const day = 86_400_000
        const brief = yield* started()
        assert.strictEqual((yield* head(brief.id)).expiresAt, 1_000_000_000)
        yield* write(brief, { records: [step("write")], ...park(1) })
        yield* apply(brief.id, { _tag: "Tick", now: 1_000_000_000 })
        const ended = yield* head(brief.id)
        assert.deepInclude(ended, { status: "TIMED_OUT" })
        const long = yield* started()
        yield* write(long, { records: [{ kind: "sleep", path: "cool", until: 400 * day }], ...park(1) })
        yield* apply(long.id, { _tag: "Tick", now: 400 * day })
        assert.deepInclude(yield* head(long.id), { status: "IN_QUEUE", expiresAt: 401 * day })
        assert.lengthOf(yield* claim("ann", 400 * day), 1)
      }))

    rule("delivers an event that came before its wait, once, to the run that has waited longest", () =>
      Effect.gen(function*() {
        const { claim, park, runs, started, write } = yield* make
        const event = (id: string | null, expiresAt = 50_000) => ({
          name: "approval",
          key: "7",
          body: toJsonText({ by: id }),
          id,
          expiresAt
        })
        const wait: NewEntry = { kind: "wait", path: "approved", name: "approval", key: "7", until: null }
        assert.deepInclude(yield* runs.send(ENDPOINT, event("a", 1_000), 0), { run: null, isDuplicate: false })
        assert.deepInclude(yield* runs.send(ENDPOINT, event("b"), 0), { run: null, isDuplicate: false })
        assert.deepInclude(yield* runs.send(ENDPOINT, event("b"), 0), { run: null, isDuplicate: true })
        const first = yield* started()
        // The event "a" has expired.
        assert.deepStrictEqual(pathsOf(yield* write(first, { records: [wait] }, { now: 2_000 })), [
          "approved wait",
          "approved event"
        ])
        assert.deepInclude(yield* runs.send(ENDPOINT, event("b"), 2_000), { isDuplicate: true })
        const second = yield* started()
        yield* write(second, { records: [wait], ...park(1) }, { now: 3_000 })
        const third = yield* started()
        yield* write(third, { records: [wait], ...park(1) }, { now: 4_000 })
        assert.deepInclude(yield* runs.send(ENDPOINT, { ...event("c"), key: "8" }, 5_000), { run: null })
        assert.deepInclude(yield* runs.send(ENDPOINT, event(null), 5_000), { run: second.id })
        assert.deepStrictEqual((yield* claim("ann", 5_000)).map(({ id }) => id), [second.id])
        assert.deepInclude(yield* runs.send(ENDPOINT, event(null), 5_000), { run: third.id })
        assert.deepInclude(yield* runs.send(ENDPOINT, event(null), 5_000), { run: null })
      }))

    rule(
      "keeps a bounded number of events and bytes for later waits, and still delivers events that a run waits for",
      () =>
        Effect.gen(function*() {
          const { runs, started, write } = yield* make
          const send = (name: string, body: JsonText, now: number, expiresAt = 50_000) =>
            runs.send(ENDPOINT, { name, key: "", body, id: null, expiresAt }, now)
          const full = { run: null, isDuplicate: false, isFull: true, applied: [] }
          const large = toJsonText("x".repeat(MAX_KEPT_EVENT_BYTES / 4 - 2))
          for (const expiresAt of [1_000, 50_000, 50_000, 50_000]) {
            assert.deepInclude(yield* send("early", large, 0, expiresAt), { isFull: false })
          }
          assert.deepStrictEqual(yield* send("early", toJsonText(1), 999), full)
          // Each endpoint has its own bound.
          const elsewhere = { name: "early", key: "", body: large, id: null, expiresAt: 1_000 }
          assert.deepInclude(yield* runs.send(CHILDREN, elsewhere, 999), { isFull: false })
          const job = yield* started()
          const wait = (name: string): NewEntry => ({ kind: "wait", path: name, name, key: "", until: null })
          yield* write(job, { records: [wait("now")] })
          assert.deepInclude(yield* send("now", large, 999), { run: job.id, isFull: false })
          // One event has expired.
          assert.deepInclude(yield* send("early", large, 1_000), { isFull: false })
          assert.deepStrictEqual(yield* send("early", toJsonText(1), 1_000), full)
          yield* write(job, { records: [wait("early")] })
          const many = Array.from({ length: MAX_KEPT_EVENTS - 3 }, () => send("early", toJsonText(1), 1_000))
          const results = yield* Effect.all(many, { concurrency: 100 })
          assert.isEmpty(results.filter(({ isFull }) => isFull))
          assert.deepStrictEqual(yield* send("early", toJsonText(1), 1_000), full)
        })
    )

    rule("keeps an event for the next wait when it arrives after the timeout or the end of a run", () =>
      Effect.gen(function*() {
        const { apply, runs, started, write } = yield* make
        const wait = (until: number | null): NewEntry => ({ kind: "wait", path: "approved", name: "approval", key: "", until })
        const event = { name: "approval", key: "", body: toJsonText("yes"), id: null, expiresAt: 50_000 }
        const job = yield* started()
        yield* write(job, { records: [wait(1_000)] })
        assert.deepStrictEqual(pathsOf(yield* write(job, { after: 1 }, { now: 1_000 })), ["approved end"])
        const ended = yield* started()
        yield* write(ended, { records: [wait(null)] })
        yield* apply(ended.id, { _tag: "Cancel", now: 1_000, endpoint: ENDPOINT })
        assert.deepInclude(yield* runs.send(ENDPOINT, event, 2_000), { run: null, isDuplicate: false })
        const next = yield* started()
        assert.deepStrictEqual(pathsOf(yield* write(next, { records: [wait(null)] }, { now: 3_000 })), [
          "approved wait",
          "approved event"
        ])
      }))

    rule("cancels the children of a run that ends, in the same change", () =>
      Effect.gen(function*() {
        const { apply, claim, head, runs, started, write } = yield* make
        for (const ending of ["Cancel", "Finish"] as const) {
          const job = yield* started()
          const [running, waiting] = [spawn("stamp[0]"), spawn("stamp[1]")]
          yield* write(job, { records: [running] })
          yield* claim("bob", 0, CHILDREN)
          yield* write(job, { records: [waiting] })
          const applied = ending === "Cancel"
            ? [yield* apply(job.id, { _tag: "Cancel", now: 0, endpoint: ENDPOINT })]
            : (yield* write(job, { finish: { output: null, error: "torn", cancelled: false } })).applied
          assert.includeMembers(applied.flatMap(othersOf), [running.id, waiting.id])
          assert.strictEqual((yield* head(job.id)).status, ending === "Cancel" ? "CANCELLED" : "FAILED")
          assert.strictEqual((yield* head(running.id, CHILDREN)).status, "CANCELLED")
          assert.strictEqual((yield* head(waiting.id, CHILDREN)).status, "CANCELLED")
          assert.deepStrictEqual(yield* runs.open(ENDPOINT, job.id, 10), [])
        }
      }))

    rule("R2: changes each job once in a sweep of timers in which a child and its run are due", () =>
      Effect.gen(function*() {
        const { claim, head, jobs, park, started, write } = yield* make
        const tick = (now: number) => jobs.tick({ _tag: "Tick", now }, 10)
        // The child's end wakes the parked run, whose own timer is due, too.
        const parked = yield* started()
        const waiting = spawn("stamp")
        const records: ReadonlyArray<NewEntry> = [
          { ...waiting, child: Scenario.record({ id: waiting.id, endpoint: CHILDREN, expiresAt: 4_000 }) },
          { kind: "sleep", path: "cool", until: 5_000 }
        ]
        yield* write(parked, { records, ...park(2) })
        yield* tick(6_000)
        assert.strictEqual((yield* head(waiting.id, CHILDREN)).status, "TIMED_OUT")
        assert.deepInclude(yield* head(parked.id), { status: "IN_QUEUE" })
        assert.deepInclude(yield* jobs.depth(ENDPOINT), { waiting: 1, running: 0 })
        yield* claim("ann", 6_000)
        assert.deepInclude(yield* jobs.depth(ENDPOINT), { waiting: 0, running: 1 })

        // The run's last lease ends, which cancels the child, whose own lease has ended, too.
        const last = Scenario.record({ maxAttempts: 1, createdAt: 6_000 })
        yield* jobs.insert(last)
        const [lost = assert.fail()] = yield* claim("ann", 6_000)
        const running = spawn("stamp")
        yield* write(lost, {
          start: { definition: HASH, ttlMs: 1_000_000_000, undo: false },
          records: [running]
        }, { now: 6_000 })
        yield* claim("bob", 6_000, CHILDREN)
        yield* tick(16_000)
        assert.strictEqual((yield* head(lost.id)).status, "FAILED")
        assert.strictEqual((yield* head(running.id, CHILDREN)).status, "CANCELLED")
        assert.deepInclude(yield* jobs.depth(CHILDREN), { waiting: 0, running: 0 })
      }))

    rule("lets a cancelled run undo what it did, and a repeated cancel changes nothing", () =>
      Effect.gen(function*() {
        const { apply, claim, head, park, runs, started, write } = yield* make
        const cancel = { _tag: "Cancel", now: 1_000, endpoint: ENDPOINT } as const
        const job = yield* started({ undo: true })
        const child = spawn("stamp")
        yield* write(job, { records: [step("write"), child], ...park(2) })
        yield* apply(job.id, cancel)
        assert.deepInclude(yield* head(job.id), { status: "IN_QUEUE", finishedAt: null })
        assert.strictEqual((yield* head(child.id, CHILDREN)).status, "CANCELLED")
        const [again = assert.fail()] = yield* claim("ann", 1_000)
        const resumed = yield* write(again, { after: 2 }, { now: 1_000 })
        assert.deepStrictEqual([resumed.phase, ...pathsOf(resumed)], ["undoing", "stamp end", `${CANCEL_PATH} event`])
        yield* write(again, {
          records: [{ kind: "undo", path: "write", body: null }],
          finish: { output: null, error: null, cancelled: true }
        }, { now: 1_000 })
        assert.strictEqual((yield* head(job.id)).status, "CANCELLED")
        assert.strictEqual((yield* runs.entries(ENDPOINT, job.id, 0, 10)).length, 5)

        const other = yield* started({ undo: true })
        yield* write(other, { records: [step("write")] })
        yield* apply(other.id, cancel)
        assert.strictEqual((yield* head(other.id)).status, "IN_PROGRESS")
        const undoing = yield* runs.get(ENDPOINT, other.id)
        yield* apply(other.id, cancel)
        assert.deepStrictEqual(yield* runs.get(ENDPOINT, other.id), undoing)
      }))

    rule(
      "R14: a cancel ends what a run waits for, but no compensation of a run that had already failed",
      () =>
        Effect.gen(function*() {
          const { apply, claim, head, runs, started, write } = yield* make
          const job = yield* started({ undo: true })
          const [stamp, refund] = [spawn("stamp"), spawn("write~undo")]
          yield* write(job, {
            records: [step("write"), stamp, { kind: "failed", path: "post", body: toJsonText({ error: "no" }) }, refund]
          })
          yield* claim("bob", 0, CHILDREN)
          yield* apply(job.id, { _tag: "Cancel", now: 1_000, endpoint: ENDPOINT })
          assert.strictEqual((yield* head(stamp.id, CHILDREN)).status, "CANCELLED")
          assert.strictEqual((yield* head(refund.id, CHILDREN)).status, "IN_PROGRESS")
          assert.deepStrictEqual((yield* runs.open(ENDPOINT, job.id, 10)).map(({ path }) => path), ["write~undo"])
          yield* apply(refund.id, finished("bob", 2_000), CHILDREN)
          const after = yield* write(job, { after: 4 }, { now: 2_000 })
          assert.deepStrictEqual([after.phase, ...pathsOf(after)], [
            "undoing",
            "stamp end",
            `${CANCEL_PATH} event`,
            "write~undo end"
          ])
        })
    )

    rule("removes a run with its entries, waits and children, and no child before its run", () =>
      Effect.gen(function*() {
        const { apply, claim, jobs, runs, started, write } = yield* make
        const job = yield* started({ retentionMs: 10_000 })
        const child = spawn("stamp")
        yield* write(job, { records: [child, step("write")] })
        yield* claim("bob", 0, CHILDREN)
        yield* apply(child.id, finished("bob", 0), CHILDREN)
        yield* jobs.tick({ _tag: "Tick", now: 9_000 }, 10)
        const tick = (now: number) => jobs.tick({ _tag: "Tick", now }, 10)
        yield* write(job, { finish: { output: toJsonText("done"), error: null, cancelled: false } }, { now: 9_000 })
        yield* tick(18_999)
        assert.isDefined(yield* runs.get(ENDPOINT, job.id))
        assert.isDefined(yield* jobs.get(CHILDREN, child.id))
        yield* tick(19_000)
        yield* tick(19_000)
        assert.isUndefined(yield* jobs.get(ENDPOINT, job.id))
        assert.isUndefined(yield* jobs.get(CHILDREN, child.id))
        assert.isUndefined(yield* runs.get(ENDPOINT, job.id))
        assert.deepStrictEqual(yield* runs.entries(ENDPOINT, job.id, 0, 10), [])
      }))

    rule(
      "removes a run with its nested run, their jobs, entries, waits and chunks, and none of them before it",
      () =>
        Effect.gen(function*() {
          const { apply, claim, jobs, runs, started, write } = yield* make
          const graphs = toJsonText({ name: "stamps", nodes: [] })
          yield* runs.define(CHILDREN, HASH, graphs, 0)
          const root = yield* started({ retentionMs: 10_000 })
          const nested = spawn("stamp")
          const leaf = spawn("print")
          yield* jobs.append(
            ENDPOINT,
            root.id,
            { _tag: "Chunk", endpoint: ENDPOINT, worker: "ann", attempt: 1, number: 1, now: 0 },
            toJsonText("chunk")
          )
          yield* write(root, { records: [nested, { kind: "wait", path: "approved", name: "approved", key: "7", until: null }] })
          yield* claim("bob", 0, CHILDREN)
          const inner = (changes: Partial<JournalWrite>, now: number) =>
            runs.journal(CHILDREN, "bob", [{ run: nested.id, attempt: 1, records: [], isHeld: false, ...changes }], now)
          yield* inner({ start: { definition: HASH, ttlMs: 1_000_000_000, undo: false }, records: [leaf, step("note")] }, 0)
          yield* claim("cleo", 0, CHILDREN)
          yield* apply(leaf.id, finished("cleo", 0), CHILDREN)
          yield* inner({ finish: { output: toJsonText("stamped"), error: null, cancelled: false } }, 1_000)
          yield* write(root, { finish: { output: toJsonText("done"), error: null, cancelled: false } }, { now: 5_000 })
          const all = [[ENDPOINT, root.id], [CHILDREN, nested.id], [CHILDREN, leaf.id]] as const
          const present = Effect.forEach(all, ([endpoint, id]) => Effect.map(jobs.get(endpoint, id), (job) => job !== undefined))
          // The jobs of a run have ended long before the run, and stay as long as it does.
          for (const now of [5_000, 14_999]) yield* jobs.tick({ _tag: "Tick", now }, 10)
          assert.deepStrictEqual(yield* present, [true, true, true])
          assert.strictEqual((yield* runs.entries(CHILDREN, nested.id, 0, 10)).length, 3)
          for (let round = 0; round < 4; round++) yield* jobs.tick({ _tag: "Tick", now: 15_000 }, 10)
          assert.deepStrictEqual(yield* present, [false, false, false])
          for (const [endpoint, id] of all) {
            assert.isUndefined(yield* runs.get(endpoint, id))
            assert.deepStrictEqual(yield* runs.entries(endpoint, id, 0, 10), [])
            assert.deepStrictEqual(yield* runs.open(endpoint, id, 10), [])
          }
          // An event for the wait that is gone is kept for another run.
          const sent = yield* runs.send(
            ENDPOINT,
            { name: "approved", key: "7", body: toJsonText(1), id: null, expiresAt: 100_000 },
            15_000
          )
          assert.isNull(sent.run)
        })
    )

    rule("R3: keeps the chunks of a run across its attempts, with their numbers", () =>
      Effect.gen(function*() {
        const { claim, jobs, park, started, write } = yield* make
        const job = yield* started()
        const chunk = (attempt: number, number: number) =>
          jobs.append(
            ENDPOINT,
            job.id,
            { _tag: "Chunk", endpoint: ENDPOINT, worker: "ann", attempt, number, now: 0 },
            toJsonText(`chunk ${number}`)
          )
        yield* chunk(1, 1)
        yield* chunk(1, 2)
        yield* write(job, { records: [{ kind: "sleep", path: "cool", until: 5_000 }], ...park(1) })
        assert.deepInclude(yield* jobs.drain(ENDPOINT, job.id, 1), { chunks: [toJsonText("chunk 1")] })
        yield* jobs.tick({ _tag: "Tick", now: 5_000 }, 10)
        yield* claim("ann", 5_000)
        assert.deepInclude(yield* chunk(2, 3), { _tag: "Changed" })
        yield* jobs.tick({ _tag: "Tick", now: 15_000 }, 10)
        yield* claim("ann", 15_000)
        const read = yield* jobs.peek(ENDPOINT, job.id, { attempt: 1, chunk: 1 }, 10)
        assert.deepInclude(read, { from: 2, chunks: [toJsonText("chunk 2"), toJsonText("chunk 3")] })
        assert.deepInclude(yield* jobs.drain(ENDPOINT, job.id, 10), { chunks: [toJsonText("chunk 2"), toJsonText("chunk 3")] })
      }))

    rule("resets the retries of a run that makes progress, and extends its life", () =>
      Effect.gen(function*() {
        const { apply, claim, head, jobs, started, write } = yield* make
        const job = yield* started()
        assert.strictEqual((yield* head(job.id)).expiresAt, 1_000_000_000)
        yield* apply(job.id, { _tag: "Tick", now: 10_000 })
        const [again = assert.fail()] = yield* claim("ann", 10_000)
        assert.deepInclude(yield* jobs.depth(ENDPOINT), { retried: 1 })
        yield* write(again, { records: [step("write")] }, { now: 10_000 })
        assert.deepInclude(yield* head(job.id), { retries: 0, isolated: false, leaseExpiresAt: 20_000 })
        assert.deepInclude(yield* jobs.depth(ENDPOINT), { retried: 0, isolated: 0 })
      }))

    rule(
      "fails a run whose workers end before they record anything new, after the allowed attempts",
      () =>
        Effect.gen(function*() {
          const { apply, claim, head, started, write } = yield* make
          const job = yield* started()
          yield* write(job, { records: [step("write")] })
          yield* apply(job.id, { _tag: "Tick", now: 10_000 })
          const [again = assert.fail()] = yield* claim("ann", 10_000)
          yield* write(again, { start: { definition: HASH, ttlMs: 1_000_000_000, undo: false }, after: 0 }, { now: 10_000 })
          assert.deepInclude(yield* head(job.id), { retries: 1, isolated: true, leaseExpiresAt: 20_000 })
          yield* apply(job.id, { _tag: "Tick", now: 20_000 })
          assert.deepInclude(yield* head(job.id), { status: "FAILED" })
        })
    )

    rule(
      "holds a run whose records do not fit another definition, until a worker with a fitting one starts",
      () =>
        Effect.gen(function*() {
          const { apply, claim, head, runs, started, write } = yield* make
          const start = (definition: string) => ({ start: { definition, ttlMs: 1_000_000_000, undo: false } })
          const job = yield* started()
          yield* write(job, { records: [step("write")] })
          // A node that has not run may change its type; the run then follows the new definition.
          yield* runs.define(ENDPOINT, "c".repeat(64), graph(["write", "step"], ["post", "run", "string"]), 0)
          assert.deepInclude(yield* write(job, start("c".repeat(64))), { state: "running" })
          yield* runs.define(ENDPOINT, OTHER, graph(["write", "step", "number"], ["post", "step"]), 0)
          const held = yield* write(job, { ...start(OTHER), records: [step("post")] })
          assert.deepInclude(held, { state: "held", last: 1 })
          assert.include(held.cause, "\"write\"")
          assert.isTrue(isParked(yield* head(job.id)))
          assert.deepInclude((yield* runs.get(ENDPOINT, job.id))?.run, { definition: "c".repeat(64), held: held.cause })
          yield* runs.define(ENDPOINT, OTHER, graph(), 0)
          assert.isTrue(isParked(yield* head(job.id)))
          yield* runs.define(ENDPOINT, "c".repeat(64), graph(), 0)
          const [again = assert.fail()] = yield* claim()
          assert.deepInclude(yield* write(again, { ...start("c".repeat(64)), records: [step("post")] }), {
            state: "running",
            last: 2
          })
          // A fitting worker that is already running announces nothing more, so the run returns to the queue on its own.
          const later = yield* started()
          yield* write(later, { records: [step("write")] })
          assert.deepInclude(yield* write(later, start(OTHER)), { state: "held" })
          yield* apply(later.id, { _tag: "Tick", now: 60_000 })
          const [taken = assert.fail()] = yield* claim("ann", 60_000)
          assert.strictEqual(taken.id, later.id)
          assert.deepInclude(yield* write(taken, start(HASH), { now: 60_000 }), { state: "running" })
        })
    )

    rule(
      "lists the definitions of an endpoint, newest first, and its runs that have not ended",
      () =>
        Effect.gen(function*() {
          const { jobs, runs, started, write } = yield* make
          yield* runs.define(ENDPOINT, OTHER, graph(["write", "step"]), 5)
          yield* runs.define(CHILDREN, "c".repeat(64), graph(), 6)
          assert.deepStrictEqual(yield* runs.definitions(ENDPOINT, 10), [{ hash: OTHER, at: 5 }, { hash: HASH, at: 0 }])
          assert.deepStrictEqual(yield* runs.definitions(ENDPOINT, 1), [{ hash: OTHER, at: 5 }])
          assert.deepStrictEqual(yield* runs.definitions(EndpointId.make("none"), 10), [])
          assert.isUndefined(yield* runs.definition(ENDPOINT, "a\0b"))
          // A job that no worker has started is not a run.
          const all = [yield* started(), yield* started(), yield* started(), yield* started()].map(({ id }) => id)
          yield* jobs.insert(Scenario.record({ retentionMs: 1_000 }))
          const [first = assert.fail(), second = assert.fail(), third = assert.fail(), last = assert.fail()] = all.toSorted()
          yield* write({ id: second, attempt: 1 }, {
            records: [step("write")],
            finish: { output: null, error: null, cancelled: false }
          })
          yield* write({ id: third, attempt: 1 }, { park: { seen: 0, wakeAfter: 1, until: null } })
          const ids = (after: JobId | undefined, limit: number) =>
            Effect.map(runs.openRuns(ENDPOINT, after, limit), (found) => found.map(({ run }) => run))
          assert.deepStrictEqual(yield* ids(undefined, 10), [first, third, last])
          assert.deepStrictEqual(yield* ids(first, 1), [third])
          assert.deepStrictEqual(yield* ids(last, 10), [])
          assert.deepStrictEqual(yield* runs.openRuns(CHILDREN, undefined, 10), [])
          assert.deepInclude((yield* runs.openRuns(ENDPOINT, undefined, 1))[0], { definition: HASH, held: null, last: 0 })
        })
    )

    rule(
      "runs a held run again from a node with the definition that did not fit, and cancels the jobs that it forgets",
      () =>
        Effect.gen(function*() {
          const { apply, claim, head, runs, started, write } = yield* make
          const start = (definition: string) => ({ start: { definition, ttlMs: 1_000_000_000, undo: false } })
          const job = yield* started()
          const child = spawn("stamp")
          yield* write(job, { records: [step("write"), child, step("post~1")] })
          assert.deepInclude(yield* runs.retry(ENDPOINT, job.id, "stamp", 0), { _tag: "Rejected" })
          yield* runs.define(ENDPOINT, OTHER, graph(["write", "step"], ["stamp", "step"], ["post", "step"]), 0)
          const held = yield* write(job, start(OTHER))
          assert.include(held.cause, "\"stamp\" as a run; in the definition of the worker it is a step")
          assert.deepInclude(yield* runs.retry(ENDPOINT, job.id, "nowhere", 0), { _tag: "UnknownNode" })
          const retried = yield* runs.retry(ENDPOINT, job.id, "stamp", 0)
          assert.deepInclude(retried, { _tag: "Changed" })
          if (retried._tag !== "Changed") return assert.fail()
          assert.deepStrictEqual(othersOf(retried), [child.id])
          assert.strictEqual((yield* head(child.id, CHILDREN)).status, "CANCELLED")
          assert.deepInclude((yield* runs.get(ENDPOINT, job.id))?.run, { held: null })
          const [again = assert.fail()] = yield* claim()
          const resumed = yield* write(again, { ...start(OTHER), after: 0 })
          assert.strictEqual(resumed.state, "running")
          assert.deepStrictEqual(pathsOf(resumed), ["write step"])
          // The end of the forgotten job does not settle the new step.
          yield* apply(child.id, { _tag: "Cancel", now: 0, endpoint: CHILDREN }, CHILDREN)
          assert.deepStrictEqual(pathsOf(yield* write(again, { records: [step("stamp")], after: 0 })), [
            "write step",
            "stamp step"
          ])
        })
    )

    rule("holds a run whose branch another definition does not offer, and no other run", () =>
      Effect.gen(function*() {
        const { runs, started, write } = yield* make
        const branches = (...parts: ReadonlyArray<string>) =>
          toJsonText({ name: "letters", nodes: [{ address: "size", kind: "branch", parts }] })
        const start = (definition: string) => ({ start: { definition, ttlMs: 1_000_000_000, undo: false } })
        yield* runs.define(ENDPOINT, "c".repeat(64), branches("zip", "plain", "raw"), 0)
        yield* runs.define(ENDPOINT, "d".repeat(64), branches("zip", "plain"), 0)
        yield* runs.define(ENDPOINT, "e".repeat(64), branches("plain"), 0)
        const job = yield* started()
        yield* write(job, start("c".repeat(64)))
        yield* write(job, { records: [{ kind: "choice", path: "size", body: toJsonText({ branch: "zip" }) }] })
        assert.deepInclude(yield* write(job, start("d".repeat(64))), { state: "running" })
        const held = yield* write(job, start("e".repeat(64)))
        assert.deepInclude(held, {
          state: "held",
          cause: "The run has chosen \"zip\" at the node \"size\", which the definition of the worker does not offer there."
        })
      }))

    rule(
      "a retry forgets what failed or was not settled; a retry from a node forgets that node and those after it",
      () =>
        Effect.gen(function*() {
          const { apply, claim, head, runs, started, write } = yield* make
          const job = yield* started()
          const child = spawn("stamp")
          const failing: NewEntry = { kind: "failed", path: "post", body: toJsonText({ error: "no stamps" }) }
          yield* write(job, { records: [step("write"), child, failing, { kind: "sleep", path: "cool", until: 90_000 }] })
          yield* claim("bob", 0, CHILDREN)
          yield* apply(child.id, finished("bob", 0), CHILDREN)
          yield* write(job, { finish: { output: null, error: "no stamps", cancelled: false } })
          assert.deepInclude(yield* runs.retry(ENDPOINT, job.id, "nowhere", 0), {
            _tag: "UnknownNode",
            nodes: ["write", "stamp", "post"]
          })
          yield* apply(job.id, { _tag: "Retry", now: 0, endpoint: ENDPOINT })
          assert.strictEqual((yield* head(job.id)).status, "IN_QUEUE")
          const [again = assert.fail()] = yield* claim()
          const kept = yield* write(again, { after: 0 })
          assert.deepStrictEqual(pathsOf(kept), ["write step", "stamp spawn", "stamp end"])
          yield* write(again, { records: [failing], finish: { output: null, error: "no stamps", cancelled: false } })
          assert.deepInclude(yield* runs.retry(ENDPOINT, job.id, "stamp", 0), { _tag: "Changed" })
          const [last = assert.fail()] = yield* claim()
          assert.deepStrictEqual(pathsOf(yield* write(last, { after: 0 })), ["write step"])
          assert.deepInclude(yield* write(last, { records: [spawn("stamp")] }), { state: "running" })
          // The child of the forgotten spawn does not settle the new one.
          assert.deepStrictEqual(
            othersOf(yield* apply(child.id, { _tag: "Retry", now: 0, endpoint: CHILDREN }, CHILDREN)),
            []
          )
          assert.strictEqual((yield* runs.open(ENDPOINT, job.id, 10)).length, 1)
        })
    )

    rule(
      "a retry forgets an event at which the run failed, and waits for another one; it keeps other events",
      () =>
        Effect.gen(function*() {
          const { apply, claim, runs, started, write } = yield* make
          const job = yield* started()
          const waiting = (path: string): NewEntry => ({ kind: "wait", path, name: path, key: "", until: null })
          const event = (name: string, body: JsonText) =>
            runs.send(ENDPOINT, { name, key: "", body, id: null, expiresAt: 9_000 }, 0)
          yield* write(job, { records: [waiting("write"), waiting("post")] })
          yield* event("write", toJsonText({ text: "hello" }))
          yield* event("post", toJsonText({ stamp: 1 }))
          yield* write(job, {
            records: [{ kind: "failed", path: "post~0", body: toJsonText({ error: "the event does not fit" }) }],
            finish: { output: null, error: "the event does not fit", cancelled: false }
          })
          yield* apply(job.id, { _tag: "Retry", now: 0, endpoint: ENDPOINT })
          const [again = assert.fail()] = yield* claim()
          assert.deepStrictEqual(pathsOf(yield* write(again, { after: 0 })), ["write wait", "write event"])
          yield* write(again, { records: [waiting("post")] })
          assert.deepInclude(yield* event("post", toJsonText({ stamps: 1 })), { run: job.id })
        })
    )

    rule(
      "a retry from a node within a part forgets the later nodes of this part, and no other part",
      () =>
        Effect.gen(function*() {
          const { claim, runs, started, write } = yield* make
          const hash = "c".repeat(64)
          const nodes = ["list", "both", "both.left.cut", "both.left.glue", "both.right.dry", "post"]
          const kinds = nodes.map((address) => ({ address, kind: address === "both" ? "all" : "step" }))
          yield* runs.define(ENDPOINT, hash, toJsonText({ name: "letters", nodes: kinds }), 0)
          const job = yield* started()
          yield* write(job, { start: { definition: hash, ttlMs: 1_000_000_000, undo: false } })
          const failing: NewEntry = { kind: "failed", path: "post", body: toJsonText({ error: "no stamps" }) }
          yield* write(job, {
            records: [...nodes.slice(0, -1).filter((one) => one !== "both").map(step), failing],
            finish: { output: null, error: "no stamps", cancelled: false }
          })
          for (const address of ["both.left", "both.left.cutt", "both.middle.cut"]) {
            assert.deepInclude(yield* runs.retry(ENDPOINT, job.id, address, 0), { _tag: "UnknownNode", nodes })
          }
          assert.deepInclude(yield* runs.retry(ENDPOINT, job.id, "both.left.cut", 0), { _tag: "Changed" })
          const [again = assert.fail()] = yield* claim()
          assert.deepStrictEqual(pathsOf(yield* write(again, { after: 0 })), ["list step", "both.right.dry step"])
        })
    )

    rule(
      "gives a child the priority and the tags of its run, up to the maximum, when it inherits them",
      () =>
        Effect.gen(function*() {
          const { claim, head, jobs, write } = yield* make
          yield* jobs.insert(Scenario.record({ priority: 40, tags: ["nightly"] }))
          const [job = assert.fail()] = yield* claim()
          const [own, inheriting, bounded] = [spawn("own"), spawn("stamp"), spawn("post")]
          yield* write(job, {
            start: { definition: HASH, ttlMs: 1_000_000_000, undo: false },
            records: [
              own,
              { ...inheriting, inherits: { maxPriority: 100, tags: true } },
              { ...bounded, inherits: { maxPriority: 10, tags: false } }
            ]
          })
          const found = yield* Effect.forEach([own, inheriting, bounded], ({ id }) => head(id, CHILDREN))
          assert.deepStrictEqual(found.map(({ priority, tags }) => [priority, tags]), [[0, []], [40, ["nightly"]], [10, []]])
        })
    )

    rule("ends a spawn that cannot start as FAILED", () =>
      Effect.gen(function*() {
        const { started, write } = yield* make
        const job = yield* started()
        const refused = yield* write(job, {
          records: [{ kind: "spawn", path: "stamp", child: { refused: "There is no endpoint \"stamps\"." }, until: null }]
        })
        assert.deepStrictEqual(pathsOf(refused), ["stamp end"])
        assert.strictEqual(memberOf(refused.entries[0] ?? assert.fail(), "status"), "FAILED")
      }))

    runModelRule(store, sequences)
  })
}

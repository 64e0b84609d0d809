/**
 * Model tests for runs: after each random command, the journal of every run must be consistent with its job and its children, and no run
 * may miss a wake-up.
 *
 * Each command is one store operation, so that a sequence may end between any two operations, as it does in a crash.
 */
import { it } from "@effect/vitest"
import { EndpointId, type JobId } from "@stint/contract/Ids"
import { isTerminal } from "@stint/contract/Job"
import { toJsonText } from "@stint/contract/Json"
import { SETTLING_KINDS } from "@stint/contract/RunJournal"
import { isParked } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import { JobStore } from "@stint/store/JobStore"
import { memberOf, type RunEntry } from "@stint/store/RunMachine"
import { type JournalWrite, type NewEntry, RunStore } from "@stint/store/RunStore"
import { CHILD_RETENTION_MILLIS, childId } from "@stint/store/RunTransactions"
import type { StoreError } from "@stint/store/StoreError"
import { uuidV7At } from "@stint/store/UuidV7"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as fc from "fast-check"
import assert from "node:assert/strict"
import * as Scenario from "../Scenario.ts"

const ENDPOINT = EndpointId.make("letters")
const CHILDREN = EndpointId.make("stamps")
const HASH = "a".repeat(64)
const WORKERS = ["ann", "bob"] as const
const PATHS = ["write", "stamp", "post", "stamp[1]"] as const

type Kind = "step" | "failed" | "choice" | "spawn" | "sleep" | "wait"

type Command =
  | { readonly _tag: "Submit" }
  | { readonly _tag: "Claim"; readonly worker: number }
  | {
    readonly _tag: "Write"
    readonly run: number
    readonly records: ReadonlyArray<{ readonly kind: Kind; readonly path: number; readonly timed: boolean }>
    readonly then: "nothing" | "park" | "park for 2" | "hold" | "finish" | "fail"
    /** Whether the worker repeats the write, because the response was lost. */
    readonly repeated: boolean
    /** Whether the writer is the holder, the holder of an earlier attempt, or another worker. */
    readonly writer: "holder" | "earlier" | "other"
  }
  | { readonly _tag: "EndChild"; readonly child: number; readonly how: "complete" | "fail" | "cancel" }
  | { readonly _tag: "Send"; readonly id: number }
  | { readonly _tag: "Cancel" | "Retry"; readonly run: number }
  | { readonly _tag: "Pass"; readonly millis: number }

const number = fc.nat({ max: 20 })

const command: fc.Arbitrary<Command> = fc.oneof(
  { weight: 2, arbitrary: fc.constant({ _tag: "Submit" as const }) },
  { weight: 6, arbitrary: fc.record({ _tag: fc.constant("Claim" as const), worker: fc.nat({ max: 1 }) }) },
  {
    weight: 12,
    arbitrary: fc.record({
      _tag: fc.constant("Write" as const),
      run: number,
      records: fc.array(
        fc.record({
          kind: fc.constantFrom<Kind>("step", "failed", "choice", "spawn", "spawn", "sleep", "wait"),
          path: fc.nat({ max: PATHS.length - 1 }),
          timed: fc.boolean()
        }),
        { maxLength: 3 }
      ),
      then: fc.constantFrom("nothing", "park", "park", "park for 2", "hold", "finish", "fail"),
      repeated: fc.boolean(),
      writer: fc.constantFrom("holder", "holder", "holder", "earlier", "other")
    })
  },
  {
    weight: 6,
    arbitrary: fc.record({
      _tag: fc.constant("EndChild" as const),
      child: number,
      how: fc.constantFrom("complete", "complete", "fail", "cancel")
    })
  },
  { weight: 3, arbitrary: fc.record({ _tag: fc.constant("Send" as const), id: fc.nat({ max: 4 }) }) },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constantFrom("Cancel" as const, "Retry" as const), run: number }) },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Pass" as const), millis: fc.constantFrom(1, 700, 2_000, 11_000) }) }
)

/** What the test knows about a run beyond what the store contains. */
interface Known {
  readonly id: JobId
  entries: ReadonlyArray<RunEntry>
  /** The last park that the store accepted. */
  parked: { readonly seen: number; readonly wakeAfter: number } | undefined
}

const keyOf = ({ kind, path }: RunEntry) => `${kind} ${path}`

const run = Effect.fnUntraced(function*(sequence: ReadonlyArray<Command>) {
  const jobs = yield* JobStore
  const runs = yield* RunStore
  const known: Array<Known> = []
  const children: Array<JobId> = []
  let now = 0
  yield* runs.define(ENDPOINT, HASH, toJsonText({ name: "letters", nodes: [] }), now)

  const headOf = (endpoint: EndpointId, id: JobId): Effect.Effect<JobHead | undefined, StoreError> => jobs.get(endpoint, id)

  const toRecord = ({ kind, path: at, timed }: Extract<Command, { readonly _tag: "Write" }>["records"][number]): NewEntry => {
    const path = PATHS[at] ?? PATHS[0]
    switch (kind) {
      case "spawn": {
        const id = childId(uuidV7At(0))
        children.push(id)
        const child = Scenario.record({ id, endpoint: CHILDREN, retentionMs: CHILD_RETENTION_MILLIS, expiresAt: 100_000_000 })
        return { kind, path, child, until: timed ? now + 1_000 : null }
      }
      case "sleep":
        return { kind, path, until: now + (timed ? 1_000 : 5_000) }
      case "wait":
        return { kind, path, name: "approval", key: "", until: timed ? now + 1_000 : null }
      default:
        return { kind, path, body: toJsonText(now) }
    }
  }

  const journal = Effect.fnUntraced(function*(job: JobHead, worker: string, write: Partial<JournalWrite>) {
    const [result] = yield* runs.journal(
      ENDPOINT,
      worker,
      [{ run: job.id, attempt: job.attempt, records: [], isHeld: false, ...write }],
      now
    )
    return result ?? assert.fail("no result")
  })

  const writeAll = Effect.fnUntraced(function*(command: Extract<Command, { readonly _tag: "Write" }>) {
    const one = known[command.run % Math.max(1, known.length)]
    const job = one === undefined ? undefined : yield* headOf(ENDPOINT, one.id)
    if (one === undefined || job === undefined || job.attempt === 0) return
    const holder = job.worker ?? WORKERS[0]
    const worker = command.writer === "other" ? WORKERS.find((name) => name !== holder) ?? holder : holder
    const attempt = command.writer === "earlier" ? job.attempt - 1 : job.attempt
    const isHolder = job.leaseExpiresAt !== null && worker === holder && attempt === job.attempt
    const seen = one.entries.at(-1)?.n ?? 0
    const wakeAfter = command.then === "park for 2" ? 2 : 1
    const write: Partial<JournalWrite> = {
      attempt,
      records: command.records.map(toRecord),
      ...(command.then.startsWith("park") || command.then === "hold"
        ? { park: { seen, wakeAfter, until: null }, isHeld: command.then === "hold" }
        : command.then === "finish"
        ? { finish: { output: toJsonText("done"), error: null, cancelled: false } }
        : command.then === "fail"
        ? { finish: { output: null, error: "torn", cancelled: false } }
        : {})
    }
    const result = yield* journal(job, worker, write)
    const stored = yield* runs.entries(ENDPOINT, job.id, 0, 1_000)
    if (!isHolder) {
      assert.ok(result.state === "lost" || result.state === "ended", `R2: a writer without the lease got ${result.state}`)
      assert.deepEqual(stored.filter(({ n }) => n > seen), [], "R2: a record of a writer without the lease was stored")
      return
    }
    for (const record of write.records ?? []) {
      const isStored = stored.some((entry) =>
        entry.path === record.path && (entry.kind === record.kind ||
          (record.kind !== "choice" && (SETTLING_KINDS.has(entry.kind) || ["spawn", "sleep", "wait"].includes(entry.kind))))
      )
      assert.ok(isStored, `R14: the ${record.kind} of ${record.path} was acknowledged and is not stored`)
    }
    if (result.state === "parked") one.parked = { seen, wakeAfter }
    if (!command.repeated) return
    yield* journal(job, worker, write)
    const again = yield* runs.entries(ENDPOINT, job.id, 0, 1_000)
    assert.deepEqual(again.map(keyOf), stored.map(keyOf), "R14: a repeated write stored something else")
  })

  const check = Effect.fnUntraced(function*(title: string) {
    for (const one of known) {
      const job = yield* headOf(ENDPOINT, one.id)
      const entries = yield* runs.entries(ENDPOINT, one.id, 0, 1_000)
      if (job === undefined) {
        assert.deepEqual(entries, [], `entries of the removed run ${one.id}`)
        continue
      }
      const label = `${title}: run ${one.id}`
      assert.deepEqual(entries.map(({ n }) => n), [...new Set(entries.map(({ n }) => n))].sort((a, b) => a - b), label)
      assert.equal(new Set(entries.map(keyOf)).size, entries.length, `${label} has an entry twice`)
      const settled = entries.filter(({ kind }) => SETTLING_KINDS.has(kind)).map(({ path }) => path)
      assert.equal(new Set(settled).size, settled.length, `${label} settled a path twice`)
      for (const before of one.entries) {
        const after = entries.find(({ n }) => n === before.n)
        if (after !== undefined) {
          assert.deepEqual({ ...after, isOpen: false }, { ...before, isOpen: false }, `${label} changed an entry`)
        } else assert.equal(title, "Retry", `${label} lost an entry`)
      }
      one.entries = entries
      const open = entries.filter(({ isOpen }) => isOpen)
      for (const entry of entries.filter(({ kind }) => kind === "spawn")) {
        const child = yield* headOf(
          CHILDREN,
          children.find((id) => id === memberOf(entry, "job")) ?? assert.fail("unknown child")
        )
        const isOver = child === undefined || isTerminal(child.status)
        if (isTerminal(job.status)) assert.ok(isOver, `${label} has ended, and its child has not`)
        else assert.equal(entry.isOpen && isOver, false, `${label} does not know that its child has ended`)
      }
      if (isParked(job) && one.parked !== undefined) {
        const { seen, wakeAfter } = one.parked
        const news = entries.filter((entry) => entry.n > seen && entry.news > 0)
        assert.ok(news.length < wakeAfter && news.every((entry) => entry.news === 1), `R14: ${label} missed a wake`)
        const timers = open.flatMap(({ until }) => until === null ? [] : [until])
        if (timers.length > 0) {
          assert.ok(job.notBefore !== null && job.notBefore <= Math.max(now, ...timers), `R14: ${label} sleeps without a timer`)
        }
      }
    }
  })

  const step = Effect.fnUntraced(function*(command: Command) {
    switch (command._tag) {
      case "Submit": {
        const job = Scenario.record({ maxAttempts: 100, createdAt: now, expiresAt: now + 300_000, queuedAt: now })
        yield* jobs.insert(job)
        known.push({ id: job.id, entries: [], parked: undefined })
        return
      }
      case "Claim": {
        const worker = WORKERS[command.worker] ?? WORKERS[0]
        for (const job of (yield* jobs.claim(ENDPOINT, 2, { _tag: "Claim", now, worker })).jobs) {
          const start = { definition: HASH, ttlMs: 10_000_000, undo: job.priority > 0 }
          assert.equal((yield* journal(job, worker, { start })).state, "running")
          const one = known.find(({ id }) => id === job.id)
          if (one !== undefined) one.parked = undefined
        }
        return
      }
      case "Write":
        return yield* writeAll(command)
      case "EndChild": {
        const id = children[command.child % Math.max(1, children.length)]
        if (id === undefined) return
        const endpoint = CHILDREN
        if (command.how === "cancel") return void (yield* jobs.apply(endpoint, id, { _tag: "Cancel", now, endpoint }))
        yield* jobs.claim(endpoint, 100, { _tag: "Claim", now, worker: "zoe" })
        const error = command.how === "fail" ? "torn" : null
        yield* jobs.apply(endpoint, id, { _tag: "Finish", endpoint, worker: "zoe", now, output: toJsonText("stamped"), error })
        return
      }
      case "Send": {
        const id = command.id === 0 ? null : `event ${command.id}`
        yield* runs.send(ENDPOINT, { name: "approval", key: "", body: toJsonText("yes"), id, expiresAt: now + 3_000 }, now)
        return
      }
      case "Cancel":
      case "Retry": {
        const one = known[command.run % Math.max(1, known.length)]
        if (one !== undefined) yield* jobs.apply(ENDPOINT, one.id, { _tag: command._tag, now, endpoint: ENDPOINT })
        return
      }
      case "Pass":
        now += command.millis
        yield* jobs.tick({ _tag: "Tick", now, random: 0 }, 100)
        return
    }
  })

  for (const command of sequence) {
    yield* step(command)
    yield* check(command._tag)
  }

  // Time alone ends and removes everything.
  for (let turn = 0; turn < 6; turn++) {
    now += 50_000_000
    yield* jobs.tick({ _tag: "Tick", now, random: 0 }, 1_000)
    yield* jobs.tick({ _tag: "Tick", now, random: 0 }, 1_000)
  }
  for (const { id } of known) assert.equal(yield* headOf(ENDPOINT, id), undefined, `run ${id} was not removed`)
  for (const id of children) assert.equal(yield* headOf(CHILDREN, id), undefined, `child ${id} was not removed`)
})

/** How many sequences to run, and the seed, as for the model tests of the job store. */
const runsOf = (asked: number): number => Number(process.env["STINT_PROPERTY_RUNS"] ?? asked)
const seed = process.env["STINT_PROPERTY_SEED"]

/** Registers the rule. The layer is built for every sequence. */
export const runModelRule = <E>(store: Layer.Layer<JobStore | RunStore, E>, sequences: number): void => {
  it.live(
    "R1, R2, R14: journals, children and wakes are consistent after every sequence of commands",
    () =>
      Effect.promise(() =>
        fc.assert(
          fc.asyncProperty(
            fc.array(command, { minLength: 1, maxLength: 40, size: "max" }),
            (sequence) => Effect.runPromise(Effect.provide(run(sequence), store))
          ),
          { numRuns: runsOf(sequences), ...(seed === undefined ? {} : { seed: Number(seed) }) }
        )
      ),
    120_000
  )
}

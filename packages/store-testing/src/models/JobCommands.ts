/**
 * Model tests for a job store: run random commands against the store and against {@link JobStoreModel}, and compare the results.
 *
 * ```
 *   command --> model result == store result? --> rules of every change --> Liveness --> at the end: History.check, and time ends all jobs
 * ```
 *
 * A command selects a job by number and a worker by role, so that a sequence keeps its meaning while fast-check shrinks it.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { isTerminal, JobStatus } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import { dueAt, isParked, isReady, type JobMachineEvent, submitted, type WorkerEvent } from "@stint/store/JobMachine"
import type { JobPage } from "@stint/store/JobQuery"
import type { JobHead, JobSummary } from "@stint/store/JobRecord"
import type { ApplyResult, JobStore } from "@stint/store/JobStore"
import type { ListCursor } from "@stint/store/ListCursor"
import { NO_OWNER } from "@stint/store/Owner"
import type { Quotas } from "@stint/store/Quota"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import assert from "node:assert/strict"
import * as CommandHistory from "../history/CommandHistory.ts"
import * as Liveness from "../history/Liveness.ts"
import * as JobStoreModel from "./JobStoreModel.ts"

const ENDPOINTS = [EndpointId.make("red"), EndpointId.make("blue")] as const
/** Both endpoints deliberately use the same worker names. */
const WORKERS = ["ann", "bob"] as const

const TAGS = ["urgent", "nightly"]

/** Selects a job by number: if `applicable`, among the jobs that the command applies to; otherwise among all jobs ever submitted. */
interface JobSelector {
  readonly job: number
  readonly applicable: boolean
}

/** One step of a sequence. */
export type JobCommand =
  | {
    readonly _tag: "Submit"
    readonly blue: boolean
    readonly lowPriority: boolean
    readonly ttl: number
    readonly executionTimeout: number
    readonly lease: number
    readonly maxAttempts: number
    readonly retention: number
    readonly priority: number
    /** The retry rule's backoff in milliseconds; undefined: no backoff. */
    readonly backoff: number | undefined
    readonly onError: boolean
    /** There are few keys and only two requests, so that submissions collide. */
    readonly key: number | undefined
    readonly owner: string
    readonly request: number
    readonly tags: ReadonlyArray<string>
    readonly webhook: boolean
    /** Milliseconds until the start time; undefined: none. */
    readonly startAfter: number | undefined
    /** The quotas of the submission. */
    readonly quotas: Quotas | undefined
    /** The concurrency key and its limit. */
    readonly concurrency: { readonly key: string; readonly limit: number } | undefined
  }
  | {
    readonly _tag: "Claim"
    readonly blue: boolean
    readonly worker: number
    readonly limit: number
    /** The present limit for concurrency keys. */
    readonly keyLimit: number | undefined
  }
  | {
    readonly _tag: "WorkerWrite"
    readonly selector: JobSelector
    readonly kind: WorkerEvent["_tag"]
    /** The writer: the worker that holds the job, another worker, or a worker with the holder's name on the other endpoint. */
    readonly writer: "holder" | "stranger" | "namesake"
    readonly attempt: "none" | "current" | "earlier"
    readonly fails: boolean
    /** The number of a chunk: the next number, a repeated number, a number after a gap, or no number. */
    readonly number: "next" | "none" | "repeated" | "gap"
    readonly random: number
  }
  | { readonly _tag: "Cancel" | "Retry"; readonly selector: JobSelector; readonly elsewhere: boolean }
  | { readonly _tag: "Drain"; readonly selector: JobSelector; readonly limit: number }
  | {
    readonly _tag: "Peek"
    readonly selector: JobSelector
    readonly limit: number
    readonly earlier: boolean
    readonly chunk: number
  }
  /** The job's reader reads once. `cut`: whether it reads over a new connection. */
  | { readonly _tag: "Follow"; readonly selector: JobSelector; readonly limit: number; readonly cut: boolean }
  | {
    readonly _tag: "List"
    readonly blue: boolean
    readonly status: JobStatus | undefined
    readonly tag: string | undefined
    readonly limit: number
    /** The submission times of two jobs, as the range of the list. */
    readonly window: readonly [number, number] | undefined
  }
  | { readonly _tag: "Ahead"; readonly selector: JobSelector; readonly limit: number }
  | { readonly _tag: "WorkerGone"; readonly blue: boolean; readonly worker: number; readonly inOrder: boolean }
  | { readonly _tag: "Purge"; readonly blue: boolean; readonly limit: number }
  | { readonly _tag: "Recover"; readonly by: number }
  | { readonly _tag: "Pass"; readonly millis: number }
  | { readonly _tag: "Tick"; readonly limit: number }

/** An arbitrary that generates the first value five times out of six. */
const usually = <A>(usual: A, ...others: ReadonlyArray<A>): fc.Arbitrary<A> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) })

const worker = fc.nat({ max: WORKERS.length - 1 })
const limit = fc.integer({ min: 1, max: 4 })
const selector: fc.Arbitrary<JobSelector> = fc.record({ job: fc.nat({ max: 30 }), applicable: usually<boolean>(true, false) })

/** Small quotas, so that a few jobs reach them. */
const QUOTAS: ReadonlyArray<Quotas> = [
  { endpoint: { waitingJobs: 3 }, key: {} },
  { endpoint: { storedBytes: 100 }, key: {} },
  { endpoint: { storedBytes: 300 }, key: { storedBytes: 200 } },
  { endpoint: {}, key: { waitingJobs: 2 } }
]

/** A random command. There are only a few short durations, so that different timers coincide. */
const command: fc.Arbitrary<JobCommand> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      _tag: fc.constant("Submit" as const),
      blue: fc.boolean(),
      lowPriority: usually<boolean>(false, true),
      ttl: fc.constantFrom(5_000, 60_000, 60_000),
      executionTimeout: fc.constantFrom(3_000, 60_000, 60_000),
      lease: fc.constantFrom(1_000, 5_000),
      maxAttempts: fc.integer({ min: 1, max: 3 }),
      retention: fc.constantFrom(1_000, 20_000),
      priority: usually(0, -100, 1, 100),
      backoff: usually<number | undefined>(undefined, 0, 1_000, 4_000),
      onError: usually<boolean>(false, true),
      key: usually<number | undefined>(undefined, 0, 1),
      owner: usually<string>(NO_OWNER, "ann", "bob"),
      request: usually<number>(0, 1),
      tags: fc.subarray(TAGS),
      webhook: usually<boolean>(false, true),
      startAfter: usually<number | undefined>(undefined, 1, 1_000, 30_000),
      quotas: fc.constantFrom<Quotas | undefined>(undefined, ...QUOTAS),
      concurrency: fc.constantFrom(
        undefined,
        undefined,
        { key: "acme", limit: 1 },
        { key: "acme", limit: 2 },
        { key: "other", limit: 1 }
      )
    })
  },
  {
    weight: 5,
    arbitrary: fc.record({
      _tag: fc.constant("Claim" as const),
      blue: fc.boolean(),
      worker,
      limit,
      keyLimit: usually<number | undefined>(2, 1, 3, undefined)
    })
  },
  {
    weight: 12,
    arbitrary: fc.record({
      _tag: fc.constant("WorkerWrite" as const),
      selector,
      kind: fc.constantFrom<WorkerEvent["_tag"]>(
        "Heartbeat",
        "Progress",
        "Chunk",
        "Chunk",
        "Chunk",
        "Finish",
        "Finish",
        "LoseLease",
        "Return",
        "Journal",
        "Park"
      ),
      writer: usually<"holder" | "stranger" | "namesake">("holder", "stranger", "namesake"),
      attempt: usually<"none" | "current" | "earlier">("current", "none", "earlier"),
      fails: fc.boolean(),
      number: usually<"next" | "none" | "repeated" | "gap">("next", "none", "repeated", "gap"),
      random: fc.constantFrom(0, 0.25, 0.999)
    })
  },
  {
    weight: 1,
    arbitrary: fc.record({ _tag: fc.constant("Cancel" as const), selector, elsewhere: usually<boolean>(false, true) })
  },
  {
    weight: 2,
    arbitrary: fc.record({ _tag: fc.constant("Retry" as const), selector, elsewhere: usually<boolean>(false, true) })
  },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Drain" as const), selector, limit }) },
  {
    weight: 2,
    arbitrary: fc.record({
      _tag: fc.constant("Peek" as const),
      selector,
      limit,
      earlier: usually<boolean>(false, true),
      chunk: fc.nat({ max: 4 })
    })
  },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Follow" as const), selector, limit, cut: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      _tag: fc.constant("List" as const),
      blue: fc.boolean(),
      status: usually<JobStatus | undefined>(undefined, ...JobStatus.literals),
      tag: usually<string | undefined>(undefined, ...TAGS),
      limit,
      window: fc.option(fc.tuple(fc.nat({ max: 30 }), fc.nat({ max: 30 })), { nil: undefined })
    })
  },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Ahead" as const), selector, limit }) },
  {
    weight: 1,
    arbitrary: fc.record({ _tag: fc.constant("WorkerGone" as const), blue: fc.boolean(), worker, inOrder: fc.boolean() })
  },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Purge" as const), blue: fc.boolean(), limit }) },
  {
    weight: 1,
    arbitrary: fc.record({ _tag: fc.constant("Recover" as const), by: fc.constantFrom(0, 700, 60_000, -700, -60_000) })
  },
  {
    weight: 4,
    arbitrary: fc.record({
      _tag: fc.constant("Pass" as const),
      millis: fc.constantFrom(1, 1, 499, 500, 500, 1_000, 1_000, 2_000, 5_000, 20_000)
    })
  },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Tick" as const), limit }) }
)

/** Random command sequences. */
export const commands: fc.Arbitrary<ReadonlyArray<JobCommand>> = fc.array(command, {
  minLength: 1,
  maxLength: 100,
  size: "max"
})

/** Sorts results by job, because the store contract does not specify the order for operations on several jobs. */
const byJob = (all: ReadonlyArray<ApplyResult>): ReadonlyArray<ApplyResult> => {
  const key = (one: ApplyResult) => one._tag === "Rejected" ? one.job.id : one._tag === "Missing" ? "" : one.before.id
  return [...all].sort((a, b) => (key(a) < key(b) ? -1 : 1))
}

/** Checks the rules of every change (R2 and R5, docs/spec/figures.md#reliability). */
const assertRules = (applied: ApplyResult, event: JobMachineEvent) => {
  if (applied._tag !== "Changed") return
  const { after, before } = applied
  assert.ok(Number.isFinite(dueAt(after)), `R5: job ${after.id} has no next event`)
  assert.ok(after.attempt >= before.attempt, `R2: the attempt of job ${after.id} decreased`)
  assert.ok(!isTerminal(before.status) || event._tag === "Retry", `R2: ${event._tag} changed job ${after.id}, which had ended`)
  assert.equal(after.finishedAt !== null, isTerminal(after.status), `R5: finishedAt of job ${after.id}, which is ${after.status}`)
  assert.equal(
    after.leaseExpiresAt !== null,
    after.status === "IN_PROGRESS" && after.worker !== null,
    `R5: the lease of job ${after.id}, which is ${after.status}`
  )
  assert.ok(
    after.notBefore === null || after.status === "IN_QUEUE" || isParked(after),
    `R5: job ${after.id} is ${after.status} and in a backoff`
  )
  assert.ok(
    after.concurrency?.held !== true || (after.status === "IN_QUEUE" && after.notBefore === null),
    `R5: job ${after.id} is held, and ${after.status} or in a backoff`
  )
  assert.ok(
    after.notBefore === null || after.notBefore < after.expiresAt,
    `R5: the backoff of job ${after.id} ends after its ttl`
  )
  assert.equal(after.createdAt, before.createdAt, `createdAt of job ${after.id} changed`)
  assert.ok(
    event._tag !== "Claim" || after.status !== "IN_PROGRESS" || event.now < before.expiresAt,
    `job ${after.id} was claimed after its ttl`
  )
}

/**
 * Runs a sequence against an empty store. Fails with an `AssertionError` when the store and the model return different results, when a
 * change or the history breaks a rule, when a job has no next event after a step (`everyStep: false` skips this check, which reads a lot of
 * data), or when the passage of time alone does not end and remove every job.
 */
export const run = Effect.fnUntraced(function*(
  store: JobStore["Service"],
  sequence: ReadonlyArray<JobCommand>,
  { everyStep = true }: { readonly everyStep?: boolean } = {}
): Effect.fn.Return<void, StoreError> {
  const model = JobStoreModel.make()
  const history = CommandHistory.make()
  const ids: Array<JobId> = []
  /** The endpoint of each job. */
  const endpoints = new Map<JobId, EndpointId>()
  const endpointOf = (id: JobId) => endpoints.get(id) ?? ENDPOINTS[0]
  /** The submission time of each job. */
  const created: Array<number> = []
  let now = 1_700_000_000_000
  let steps = 0

  /** Runs an operation on both stores and compares the results. */
  const both = Effect.fnUntraced(function*<A>(
    title: string,
    ask: (store: JobStore["Service"]) => Effect.Effect<A, StoreError>,
    comparable: (answer: A) => unknown = (answer) => answer
  ) {
    const expected = yield* ask(model)
    const actual = yield* ask(store)
    assert.deepStrictEqual(comparable(actual), comparable(expected), title)
    return expected
  })

  const applyOne = Effect.fnUntraced(function*(endpoint: EndpointId, id: JobId, event: JobMachineEvent) {
    const title = `${event._tag} of ${id}`
    // Each chunk is different, so that a wrong chunk is detected.
    const body = JsonText.make(`"chunk ${steps}"`)
    const applied = event._tag === "Chunk"
      ? yield* both(title, (store) => store.append(endpoint, id, event, body))
      : yield* both(title, (store) => store.apply(endpoint, id, event))
    assertRules(applied, event)
    history.applied(event, applied, body)
    history.seen(id, yield* both(`the report of ${id}`, (store) => store.get(endpointOf(id), id)))
    yield* both(`the trace context of ${id}`, (store) => store.traceOf(endpointOf(id), id))
  })

  const applyMany = Effect.fnUntraced(function*(
    event: JobMachineEvent,
    apply: (store: JobStore["Service"]) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>
  ) {
    const applied = yield* both(`${event._tag} of many`, apply, byJob)
    for (const one of applied) assertRules(one, event)
    return applied
  })

  const tick = (limit: number) => {
    const event = { _tag: "Tick", now, random: 0.5 } as const
    return applyMany(event, (store) => store.tick(event, limit))
  }

  const pick = ({ applicable, job }: JobSelector, applies: (head: JobHead) => boolean): JobId | undefined => {
    const candidates = applicable ? model.heads().filter(applies).map((head) => head.id) : ids
    return candidates[job % candidates.length]
  }

  const submit = (options: Extract<JobCommand, { readonly _tag: "Submit" }>) => {
    const id = JobId.make(`job-${ids.length}`)
    ids.push(id)
    endpoints.set(id, ENDPOINTS[options.blue ? 1 : 0])
    created.push(now)
    const record = submitted({
      id,
      endpoint: ENDPOINTS[options.blue ? 1 : 0],
      input: JsonText.make(`{"of":"${id}"}`),
      s3Config: options.lowPriority ? JsonText.make(`{"bucketName":"b"}`) : null,
      traceparent: options.lowPriority ? "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" : null,
      tracestate: options.lowPriority ? "vendor=1" : null,
      lowPriority: options.lowPriority,
      createdAt: now,
      notBefore: options.startAfter === undefined ? null : now + options.startAfter,
      ttlMs: options.ttl,
      executionTimeoutMs: options.executionTimeout,
      leaseMs: options.lease,
      maxAttempts: options.maxAttempts,
      retentionMs: options.retention,
      priority: options.priority,
      retry: options.onError || options.backoff !== undefined
        ? {
          onError: options.onError,
          backoff: options.backoff === undefined ? null : { initialMs: options.backoff, factor: 2, maxMs: 6_000 }
        }
        : null,
      tags: options.tags,
      owner: options.owner,
      concurrency: options.concurrency === undefined ? null : { ...options.concurrency, held: false },
      webhook: options.webhook
        ? { url: "http://127.0.0.1/hook", events: ["start", "output", "progress", "completed"], errorTraceback: "full" }
        : null
    })
    const key = options.key === undefined
      ? undefined
      : { key: `key ${options.key}`, owner: options.owner, fingerprint: `request ${options.request}` }
    return both(`submit ${id}`, (store) => store.insert(record, key, options.quotas)).pipe(
      Effect.tap(({ _tag }) => Effect.sync(() => _tag === "Inserted" && history.submitted(record)))
    )
  }

  /** Reads once for a job's reader. Returns true when there may be more to read. */
  const follow = Effect.fnUntraced(function*(id: JobId, limit: number, cut: boolean) {
    const cursor = history.cursorOf(id, cut)
    const peeked = yield* both(`follow ${id}`, (store) => store.peek(endpointOf(id), id, cursor, limit))
    return peeked !== undefined && history.read(id, peeked)
  })

  const workerEvent = (
    { attempt, fails, kind, number, random, writer }: Extract<JobCommand, { readonly _tag: "WorkerWrite" }>,
    head: JobHead
  ): WorkerEvent => {
    const other = (name: string) => (name === WORKERS[0] ? WORKERS[1] : WORKERS[0])
    const fence = {
      now,
      endpoint: (head.endpoint === ENDPOINTS[0]) === (writer === "namesake") ? ENDPOINTS[1] : ENDPOINTS[0],
      worker: writer === "stranger" ? other(head.worker ?? WORKERS[0]) : head.worker ?? WORKERS[0],
      ...(attempt === "none" ? {} : { attempt: attempt === "current" ? head.attempt : head.attempt - 1 })
    }
    const text = JsonText.make(`{"by":"${fence.worker}","at":${now}}`)
    switch (kind) {
      case "Progress":
        return { _tag: kind, output: text, ...fence }
      case "Finish":
        return { _tag: kind, output: fails ? null : text, error: fails ? "it failed" : null, random, ...fence }
      case "LoseLease":
        return { _tag: kind, cause: "The worker is gone.", random, ...fence }
      case "Chunk": {
        const numbers = { next: head.chunks + 1, repeated: head.chunks, gap: head.chunks + 2, none: undefined }
        const chosen = numbers[number]
        return { _tag: kind, ...(chosen === undefined ? {} : { number: chosen }), ...fence }
      }
      case "Journal":
        return { _tag: kind, progress: random > 0, expiresAt: fails ? now + 100_000 : 0, ...fence }
      case "Park":
        return { _tag: kind, until: fails ? now + Math.round(random * 5_000) : null, ...fence }
      default:
        return { _tag: kind, ...fence }
    }
  }

  /** Reads all pages of a list. Each store uses its own cursors. */
  const listAll = ({ blue, limit, status, tag, window }: Extract<JobCommand, { readonly _tag: "List" }>) => {
    const times = window?.map((job) => created[job % created.length])
    const query = { status, tag, createdAfter: times?.[0], createdBefore: times?.[1], limit }
    return both(
      "list",
      Effect.fnUntraced(function*(store) {
        const pages: Array<ReadonlyArray<JobSummary>> = []
        let after: ListCursor | undefined
        while (true) {
          const page: JobPage = yield* store.list(ENDPOINTS[blue ? 1 : 0], { ...query, after })
          pages.push(page.jobs)
          if (page.next === null) return pages.flat()
          after = page.next
        }
      })
    )
  }

  const step = Effect.fnUntraced(function*(command: JobCommand) {
    switch (command._tag) {
      case "Submit":
        return yield* submit(command)
      case "Claim": {
        const { blue, keyLimit, limit, worker } = command
        const event = {
          _tag: "Claim",
          now,
          worker: WORKERS[worker] ?? WORKERS[0],
          keyLimit,
          ...(worker === 0 ? {} : { release: worker })
        } as const
        const claimed = yield* both("claim", (store) => store.claim(ENDPOINTS[blue ? 1 : 0], limit, event))
        for (const one of claimed.expired) assertRules(one, event)
        for (const job of claimed.jobs) assert.ok(now < job.expiresAt, `job ${job.id} was claimed after its ttl`)
        history.claimed(claimed.jobs)
        return
      }
      case "WorkerWrite": {
        const head = model.heads().find((head) => head.id === pick(command.selector, (head) => head.status === "IN_PROGRESS"))
        if (head !== undefined) yield* applyOne(head.endpoint, head.id, workerEvent(command, head))
        return
      }
      case "Cancel":
      case "Retry": {
        const id = pick(command.selector, (head) => isTerminal(head.status) === (command._tag === "Retry"))
        if (id === undefined) return
        const own = endpointOf(id)
        const other = own === ENDPOINTS[0] ? ENDPOINTS[1] : ENDPOINTS[0]
        const endpoint = command.elsewhere ? other : own
        yield* applyOne(endpoint, id, { _tag: command._tag, now, endpoint })
        return
      }
      case "Drain": {
        const id = pick(command.selector, (head) => head.chunks > head.drained)
        if (id !== undefined) yield* both(`drain ${id}`, (store) => store.drain(endpointOf(id), id, command.limit))
        return
      }
      case "Peek": {
        const head = model.heads().find((head) => head.id === pick(command.selector, (head) => head.chunks > 0))
        if (head === undefined) return
        const after = { attempt: head.attempt - (command.earlier ? 1 : 0), chunk: command.chunk }
        yield* both(`peek ${head.id}`, (store) => store.peek(head.endpoint, head.id, after, command.limit))
        return
      }
      case "Follow": {
        const id = pick(command.selector, (head) => head.attempt > 0)
        if (id !== undefined) yield* follow(id, command.limit, command.cut)
        return
      }
      case "List":
        return yield* listAll(command)
      case "Ahead": {
        const id = pick(command.selector, isReady)
        if (id !== undefined) yield* both(`the position of ${id}`, (store) => store.ahead(endpointOf(id), id, command.limit))
        const held = pick(command.selector, ({ concurrency }) => concurrency?.held === true)
        if (held !== undefined) {
          yield* both(`the key of ${held}`, (store) => store.keyUsage(endpointOf(held), held, command.limit))
        }
        return
      }
      case "WorkerGone": {
        const filter = { endpoint: ENDPOINTS[command.blue ? 1 : 0], worker: WORKERS[command.worker] ?? WORKERS[0] }
        const event: JobMachineEvent = command.inOrder
          ? { _tag: "Return", now, ...filter }
          : { _tag: "LoseLease", now, cause: "The worker is gone.", ...filter }
        yield* applyMany(event, (store) => store.applyRunning(filter, event))
        return
      }
      case "Purge": {
        const endpoint = ENDPOINTS[command.blue ? 1 : 0]
        const event = { _tag: "Cancel", now, endpoint } as const
        yield* applyMany(event, (store) => store.applyWaiting(endpoint, event, command.limit))
        return
      }
      case "Recover": {
        const event = { _tag: "Recover", now, by: command.by } as const
        yield* applyMany(event, (store) => store.applyRunning("timed", event))
        return
      }
      case "Pass":
        now += command.millis
        return
      case "Tick":
        yield* tick(command.limit)
    }
  })

  for (const command of sequence) {
    steps += 1
    yield* step(command)
    for (const endpoint of ENDPOINTS) {
      yield* both(`the depth of ${endpoint}`, (store) => store.depth(endpoint))
      // Skip endpoints without jobs in the model: the depth comparison has shown that the store has none either.
      if (!everyStep || !model.heads().some((head) => head.endpoint === endpoint && !isTerminal(head.status))) continue
      assert.deepStrictEqual(yield* Liveness.violations(store, endpoint, now), [], `R5: after ${command._tag}`)
    }
  }
  for (const id of history.readers()) while (yield* follow(id, 4, false));

  // R5: the passage of time alone ends and removes every job. The longest sequence is lease, backoff, ttl, retention.
  for (let round = 0; round < 4 && model.heads().length > 0; round++) {
    now = Math.max(now, ...model.heads().map(dueAt))
    yield* tick(1_000)
  }
  assert.deepStrictEqual(model.heads(), [], "R5: jobs that no timer ends")
  for (const id of ids) {
    assert.equal(yield* store.get(endpointOf(id), id), undefined, `job ${id} still exists after its retention`)
    history.seen(id, undefined)
  }
  assert.deepStrictEqual(history.violations(), [])
})

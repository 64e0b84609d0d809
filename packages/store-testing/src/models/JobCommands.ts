/**
 * Model testing of a job store: random commands, run against the store and against {@link JobStoreModel}, which must answer alike.
 *
 * A command names jobs by their number and workers by their role, so that a sequence keeps its sense while fast-check shortens it.
 */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { isTerminal, JobStatus } from "@stint/contract/Job"
import { JsonText } from "@stint/contract/Json"
import { dueAt, isReady, type JobMachineEvent, submitted, type WorkerEvent } from "@stint/store/JobMachine"
import type { JobPage } from "@stint/store/JobQuery"
import type { JobHead, JobSummary } from "@stint/store/JobRecord"
import type { ApplyResult, JobStore } from "@stint/store/JobStore"
import type { ListCursor } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"
import * as fc from "fast-check"
import assert from "node:assert/strict"
import * as CommandHistory from "../history/CommandHistory.ts"
import * as Liveness from "../history/Liveness.ts"
import * as JobStoreModel from "./JobStoreModel.ts"

const ENDPOINTS = [EndpointId.make("red"), EndpointId.make("blue")] as const
/** The same names on both endpoints, on purpose. */
const WORKERS = ["ann", "bob"] as const

const TAGS = ["urgent", "nightly"]

/** Which job a command is about: by number, among those for which it makes sense or, not `aimed`, among all that ever were. */
interface Which {
  readonly job: number
  readonly aimed: boolean
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
    /** A retry rule: none, or one that makes errors wait, at once or for so many milliseconds. */
    readonly backoff: number | undefined
    readonly onError: boolean
    /** One of few keys, so that they meet, and one of two requests. */
    readonly key: number | undefined
    readonly request: number
    readonly tags: ReadonlyArray<string>
    readonly webhook: boolean
  }
  | { readonly _tag: "Claim"; readonly blue: boolean; readonly worker: number; readonly limit: number }
  | {
    readonly _tag: "Say"
    readonly which: Which
    readonly what: WorkerEvent["_tag"]
    /** Who says it: the worker that holds the job, another one, or the holder's namesake on the other endpoint. */
    readonly who: "holder" | "stranger" | "namesake"
    readonly attempt: "none" | "current" | "earlier"
    readonly fails: boolean
    /** Of a chunk: the next, one that was sent before, one too far, or uncounted. */
    readonly number: "next" | "none" | "repeated" | "gap"
    readonly random: number
  }
  | { readonly _tag: "Cancel" | "Retry"; readonly which: Which; readonly elsewhere: boolean }
  | { readonly _tag: "Drain"; readonly which: Which; readonly limit: number }
  | { readonly _tag: "Peek"; readonly which: Which; readonly limit: number; readonly earlier: boolean; readonly chunk: number }
  /** The reader that follows the job looks once; `cut`: over another connection than before. */
  | { readonly _tag: "Follow"; readonly which: Which; readonly limit: number; readonly cut: boolean }
  | {
    readonly _tag: "List"
    readonly blue: boolean
    readonly status: JobStatus | undefined
    readonly tag: string | undefined
    readonly limit: number
    /** Of the times at which jobs were submitted. */
    readonly window: readonly [number, number] | undefined
  }
  | { readonly _tag: "Ahead"; readonly which: Which; readonly limit: number }
  | { readonly _tag: "Gone"; readonly blue: boolean; readonly worker: number; readonly inOrder: boolean }
  | { readonly _tag: "Purge"; readonly blue: boolean; readonly limit: number }
  | { readonly _tag: "Recover" }
  | { readonly _tag: "Pass"; readonly millis: number }
  | { readonly _tag: "Tick"; readonly limit: number }

/** Mostly the first, now and then one of the others. */
const mostly = <A>(usual: A, ...others: ReadonlyArray<A>): fc.Arbitrary<A> =>
  fc.oneof({ weight: 5, arbitrary: fc.constant(usual) }, { weight: 1, arbitrary: fc.constantFrom(...others) })

const worker = fc.nat({ max: WORKERS.length - 1 })
const limit = fc.integer({ min: 1, max: 4 })
const which: fc.Arbitrary<Which> = fc.record({ job: fc.nat({ max: 30 }), aimed: mostly<boolean>(true, false) })

/** One random command. Times are short and few, so that they meet. */
export const command: fc.Arbitrary<JobCommand> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      _tag: fc.constant("Submit" as const),
      blue: fc.boolean(),
      lowPriority: mostly<boolean>(false, true),
      ttl: fc.constantFrom(5_000, 60_000, 60_000),
      executionTimeout: fc.constantFrom(3_000, 60_000, 60_000),
      lease: fc.constantFrom(1_000, 5_000),
      maxAttempts: fc.integer({ min: 1, max: 3 }),
      retention: fc.constantFrom(1_000, 20_000),
      priority: mostly(0, -100, 1, 100),
      backoff: mostly<number | undefined>(undefined, 0, 1_000, 4_000),
      onError: mostly<boolean>(false, true),
      key: mostly<number | undefined>(undefined, 0, 1),
      request: mostly<number>(0, 1),
      tags: fc.subarray(TAGS),
      webhook: mostly<boolean>(false, true)
    })
  },
  { weight: 5, arbitrary: fc.record({ _tag: fc.constant("Claim" as const), blue: fc.boolean(), worker, limit }) },
  {
    weight: 12,
    arbitrary: fc.record({
      _tag: fc.constant("Say" as const),
      which,
      what: fc.constantFrom<WorkerEvent["_tag"]>(
        "Heartbeat",
        "Progress",
        "Chunk",
        "Chunk",
        "Chunk",
        "Finish",
        "Finish",
        "LoseLease",
        "Return"
      ),
      who: mostly<"holder" | "stranger" | "namesake">("holder", "stranger", "namesake"),
      attempt: mostly<"none" | "current" | "earlier">("current", "none", "earlier"),
      fails: fc.boolean(),
      number: mostly<"next" | "none" | "repeated" | "gap">("next", "none", "repeated", "gap"),
      random: fc.constantFrom(0, 0.25, 0.999)
    })
  },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Cancel" as const), which, elsewhere: mostly<boolean>(false, true) }) },
  { weight: 2, arbitrary: fc.record({ _tag: fc.constant("Retry" as const), which, elsewhere: mostly<boolean>(false, true) }) },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Drain" as const), which, limit }) },
  {
    weight: 2,
    arbitrary: fc.record({
      _tag: fc.constant("Peek" as const),
      which,
      limit,
      earlier: mostly<boolean>(false, true),
      chunk: fc.nat({ max: 4 })
    })
  },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Follow" as const), which, limit, cut: fc.boolean() }) },
  {
    weight: 1,
    arbitrary: fc.record({
      _tag: fc.constant("List" as const),
      blue: fc.boolean(),
      status: mostly<JobStatus | undefined>(undefined, ...JobStatus.literals),
      tag: mostly<string | undefined>(undefined, ...TAGS),
      limit,
      window: fc.option(fc.tuple(fc.nat({ max: 30 }), fc.nat({ max: 30 })), { nil: undefined })
    })
  },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Ahead" as const), which, limit }) },
  {
    weight: 1,
    arbitrary: fc.record({ _tag: fc.constant("Gone" as const), blue: fc.boolean(), worker, inOrder: fc.boolean() })
  },
  { weight: 1, arbitrary: fc.record({ _tag: fc.constant("Purge" as const), blue: fc.boolean(), limit }) },
  { weight: 1, arbitrary: fc.constant({ _tag: "Recover" as const }) },
  {
    weight: 4,
    arbitrary: fc.record({
      _tag: fc.constant("Pass" as const),
      millis: fc.constantFrom(1, 1, 499, 500, 500, 1_000, 1_000, 2_000, 5_000, 20_000)
    })
  },
  { weight: 4, arbitrary: fc.record({ _tag: fc.constant("Tick" as const), limit }) }
)

/** Sequences of commands. */
export const commands: fc.Arbitrary<ReadonlyArray<JobCommand>> = fc.array(command, {
  minLength: 1,
  maxLength: 100,
  size: "max"
})

/** Of what a store answers for several jobs at once, the order does not matter unless the seam says so. */
const byJob = (all: ReadonlyArray<ApplyResult>): ReadonlyArray<ApplyResult> => {
  const key = (one: ApplyResult) => one._tag === "Rejected" ? one.job.id : one._tag === "Missing" ? "" : one.before.id
  return [...all].sort((a, b) => (key(a) < key(b) ? -1 : 1))
}

/** The rules that hold for every change, whatever led to it (R2 and R5, docs/spec/figures.md#reliability). */
const assertLawful = (applied: ApplyResult, event: JobMachineEvent) => {
  if (applied._tag !== "Changed") return
  const { after, before } = applied
  assert.ok(Number.isFinite(dueAt(after)), `R5: job ${after.id} has no next event`)
  assert.ok(after.attempt >= before.attempt, `R2: the attempt of job ${after.id} shrank`)
  assert.ok(!isTerminal(before.status) || event._tag === "Retry", `R2: ${event._tag} changed job ${after.id}, which had ended`)
  assert.equal(after.finishedAt !== null, isTerminal(after.status), `R5: job ${after.id} is ${after.status} and has ended or not`)
  assert.equal(
    after.leaseExpiresAt !== null,
    after.status === "IN_PROGRESS",
    `R5: the lease of job ${after.id}, which is ${after.status}`
  )
  assert.ok(after.notBefore === null || after.status === "IN_QUEUE", `R5: job ${after.id} is ${after.status} and in a backoff`)
  assert.ok(
    after.notBefore === null || after.notBefore < after.expiresAt,
    `R5: the backoff of job ${after.id} is longer than its life`
  )
  assert.equal(after.createdAt, before.createdAt, `job ${after.id} was submitted once`)
  assert.ok(
    event._tag !== "Claim" || after.status !== "IN_PROGRESS" || event.now < before.expiresAt,
    `job ${after.id} was handed out after its time`
  )
}

/**
 * Runs a sequence against a store that is empty. Fails with an `AssertionError` where the store and the model answer differently, where a
 * change breaks a rule, where after a step a job waits for nothing (unless not `everyStep`: that asks the store much), where the history of all of it breaks a rule, and where, after all the
 * time in the world, a job is left that no timer ends.
 */
export const run = Effect.fnUntraced(function*(
  store: JobStore["Service"],
  sequence: ReadonlyArray<JobCommand>,
  { everyStep = true }: { readonly everyStep?: boolean } = {}
): Effect.fn.Return<void, StoreError> {
  const model = JobStoreModel.make()
  const history = CommandHistory.make()
  const ids: Array<JobId> = []
  /** The endpoint of each. */
  const endpoints = new Map<JobId, EndpointId>()
  const endpointOf = (id: JobId) => endpoints.get(id) ?? ENDPOINTS[0]
  /** When each was submitted. */
  const created: Array<number> = []
  let now = 1_700_000_000_000
  let steps = 0

  /** Asks both, and compares what they say. */
  const both = Effect.fnUntraced(function*<A>(
    what: string,
    ask: (store: JobStore["Service"]) => Effect.Effect<A, StoreError>,
    comparable: (answer: A) => unknown = (answer) => answer
  ) {
    const expected = yield* ask(model)
    const actual = yield* ask(store)
    assert.deepStrictEqual(comparable(actual), comparable(expected), what)
    return expected
  })

  const applyOne = Effect.fnUntraced(function*(endpoint: EndpointId, id: JobId, event: JobMachineEvent) {
    const what = `${event._tag} of ${id}`
    // No two alike, so that a reader who is told the wrong one is noticed.
    const body = JsonText.make(`"chunk ${steps}"`)
    const applied = event._tag === "Chunk"
      ? yield* both(what, (store) => store.append(endpoint, id, event, body))
      : yield* both(what, (store) => store.apply(endpoint, id, event))
    assertLawful(applied, event)
    history.applied(event, applied, body)
    history.seen(id, yield* both(`the report of ${id}`, (store) => store.get(endpointOf(id), id)))
  })

  const applyMany = Effect.fnUntraced(function*(
    event: JobMachineEvent,
    apply: (store: JobStore["Service"]) => Effect.Effect<ReadonlyArray<ApplyResult>, StoreError>
  ) {
    const applied = yield* both(`${event._tag} of many`, apply, byJob)
    for (const one of applied) assertLawful(one, event)
    return applied
  })

  const tick = (limit: number) => {
    const event = { _tag: "Tick", now, random: 0.5 } as const
    return applyMany(event, (store) => store.tick(event, limit))
  }

  const pick = ({ aimed, job }: Which, makesSense: (head: JobHead) => boolean): JobId | undefined => {
    const candidates = aimed ? model.heads().filter(makesSense).map((head) => head.id) : ids
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
      webhook: options.webhook
        ? { url: "http://127.0.0.1/hook", events: ["start", "output", "progress", "completed"], errorTraceback: "full" }
        : null
    })
    const key = options.key === undefined ? undefined : { key: `key ${options.key}`, fingerprint: `request ${options.request}` }
    return both(`submit ${id}`, (store) => store.insert(record, key)).pipe(
      Effect.tap(({ _tag }) => Effect.sync(() => _tag === "Kept" && history.submitted(record)))
    )
  }

  /** The reader of a job looks. True when there may be more to see. */
  const follow = Effect.fnUntraced(function*(id: JobId, limit: number, cut: boolean) {
    const cursor = history.cursorOf(id, cut)
    const peeked = yield* both(`follow ${id}`, (store) => store.peek(endpointOf(id), id, cursor, limit))
    return peeked !== undefined && history.read(id, peeked)
  })

  const say = (
    { attempt, fails, number, random, what, who }: Extract<JobCommand, { readonly _tag: "Say" }>,
    head: JobHead
  ): WorkerEvent => {
    const other = (name: string) => (name === WORKERS[0] ? WORKERS[1] : WORKERS[0])
    const speaker = {
      now,
      endpoint: (head.endpoint === ENDPOINTS[0]) === (who === "namesake") ? ENDPOINTS[1] : ENDPOINTS[0],
      worker: who === "stranger" ? other(head.worker ?? WORKERS[0]) : head.worker ?? WORKERS[0],
      ...(attempt === "none" ? {} : { attempt: attempt === "current" ? head.attempt : head.attempt - 1 })
    }
    const text = JsonText.make(`{"by":"${speaker.worker}","at":${now}}`)
    switch (what) {
      case "Progress":
        return { _tag: what, output: text, ...speaker }
      case "Finish":
        return { _tag: what, output: fails ? null : text, error: fails ? "it failed" : null, random, ...speaker }
      case "LoseLease":
        return { _tag: what, cause: "The worker is gone.", random, ...speaker }
      case "Chunk": {
        const numbers = { next: head.chunks + 1, repeated: head.chunks, gap: head.chunks + 2, none: undefined }
        const chosen = numbers[number]
        return { _tag: what, ...(chosen === undefined ? {} : { number: chosen }), ...speaker }
      }
      default:
        return { _tag: what, ...speaker }
    }
  }

  /** All pages of a list, each store by its own cursors. */
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
        const { blue, limit, worker } = command
        const event = { _tag: "Claim", now, worker: WORKERS[worker] ?? WORKERS[0] } as const
        const claimed = yield* both("claim", (store) => store.claim(ENDPOINTS[blue ? 1 : 0], limit, event))
        for (const one of claimed.expired) assertLawful(one, event)
        for (const job of claimed.jobs) assert.ok(now < job.expiresAt, `job ${job.id} was handed out after its time`)
        history.claimed(claimed.jobs)
        return
      }
      case "Say": {
        const head = model.heads().find((head) => head.id === pick(command.which, (head) => head.status === "IN_PROGRESS"))
        if (head !== undefined) yield* applyOne(head.endpoint, head.id, say(command, head))
        return
      }
      case "Cancel":
      case "Retry": {
        const id = pick(command.which, (head) => isTerminal(head.status) === (command._tag === "Retry"))
        if (id === undefined) return
        const own = endpointOf(id)
        const other = own === ENDPOINTS[0] ? ENDPOINTS[1] : ENDPOINTS[0]
        const endpoint = command.elsewhere ? other : own
        yield* applyOne(endpoint, id, { _tag: command._tag, now, endpoint })
        return
      }
      case "Drain": {
        const id = pick(command.which, (head) => head.chunks > head.drained)
        if (id !== undefined) yield* both(`drain ${id}`, (store) => store.drain(endpointOf(id), id, command.limit))
        return
      }
      case "Peek": {
        const head = model.heads().find((head) => head.id === pick(command.which, (head) => head.chunks > 0))
        if (head === undefined) return
        const after = { attempt: head.attempt - (command.earlier ? 1 : 0), chunk: command.chunk }
        yield* both(`peek ${head.id}`, (store) => store.peek(head.endpoint, head.id, after, command.limit))
        return
      }
      case "Follow": {
        const id = pick(command.which, (head) => head.attempt > 0)
        if (id !== undefined) yield* follow(id, command.limit, command.cut)
        return
      }
      case "List":
        return yield* listAll(command)
      case "Ahead": {
        const id = pick(command.which, isReady)
        if (id !== undefined) yield* both(`the place of ${id}`, (store) => store.ahead(endpointOf(id), id, command.limit))
        return
      }
      case "Gone": {
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
        const event = { _tag: "Recover", now } as const
        yield* applyMany(event, (store) => store.applyRunning("all", event))
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
      // Where the model has none, and the store counts none, there is nothing that could wait.
      if (!everyStep || !model.heads().some((head) => head.endpoint === endpoint && !isTerminal(head.status))) continue
      assert.deepStrictEqual(yield* Liveness.violations(store, endpoint, now), [], `R5: after ${command._tag}`)
    }
  }
  for (const id of history.readers()) while (yield* follow(id, 4, false));

  // R5: time alone ends every job and then removes it. The longest way is lease, backoff, ttl, retention.
  for (let round = 0; round < 4 && model.heads().length > 0; round++) {
    now = Math.max(now, ...model.heads().map(dueAt))
    yield* tick(1_000)
  }
  assert.deepStrictEqual(model.heads(), [], "R5: jobs that no timer ends")
  for (const id of ids) {
    assert.equal(yield* store.get(endpointOf(id), id), undefined, `job ${id} is still there after its retention`)
    history.seen(id, undefined)
  }
  assert.deepStrictEqual(history.violations(), [])
})

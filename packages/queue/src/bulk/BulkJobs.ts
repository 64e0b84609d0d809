/**
 * Bulk operations on top of the queue: they retry, cancel or rerun the jobs that match a query.
 *
 * ```
 *   tick: operation whose hold is over and that no other server works on
 *            --> claim it --> a page of at most BATCH jobs --> for each: change it and store the operation, in one commit
 *                                                          --> store where the next page begins, or the end
 * ```
 *
 * Each step is one commit, which is rejected if the operation has changed since the step was decided (BulkStore.ts). If a server is killed, it or
 * another server continues after the last changed job. The steps run one after the other and share commits with timers and calls, so that they do not
 * delay submissions.
 */
import { type BulkAction, type BulkOperation, COUNT_LIMIT, type SkipReason } from "@stint/contract/Bulk"
import type { Endpoint } from "@stint/contract/Endpoint"
import { type EndpointId, JobId } from "@stint/contract/Ids"
import { hasWords, type JobSearch, parseSearch, printSearch } from "@stint/contract/JobSearch"
import { coversEndpoint, matchesSearch, restrictedTo } from "@stint/contract/SearchMatch"
import { type BulkRecord, BulkStore } from "@stint/store/BulkStore"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobSummary } from "@stint/store/JobRecord"
import { Nodes } from "@stint/store/Nodes"
import type { StoreError } from "@stint/store/StoreError"
import { slotOfKey, uuidV7At } from "@stint/store/UuidV7"
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { monotonicMillis } from "../ClockWatch.ts"
import { BudgetReached, QuotaExceeded } from "../jobs/JobErrors.ts"
import { type Counted, JobQueue, type Submission } from "../jobs/JobQueue.ts"
import { Budgets } from "../usage/Budgets.ts"
import * as BulkMachine from "./BulkMachine.ts"

/** There is no such operation, or the caller may not see it. */
export class BulkMissing extends Schema.TaggedError<BulkMissing>()("BulkMissing", { id: Schema.String }) {
  override get message(): string {
    return `no bulk operation ${this.id}`
  }
}

/** The query names only statuses in which the action changes no job. */
export class BulkPointless extends Schema.TaggedError<BulkPointless>()("BulkPointless", { action: Schema.String }) {
  override get message(): string {
    return `${this.action} cannot change any job that matches the query`
  }
}

/** Too many operations have not ended. */
export class BulkBusy extends Schema.TaggedError<BulkBusy>()("BulkBusy", { limit: Schema.Int }) {
  override get message(): string {
    return `${this.limit} bulk operations have not ended`
  }
}

/** The maximum number of operations that may be held or running. */
const MAX_UNENDED = 20

/** The number of jobs in one page of an operation. The server does other work between its commits. */
const BATCH = 100

/** How often an idle server looks for operations that another server has started and abandoned. */
const LOOK_MILLIS = 10_000

/** The caller's key: it determines the operations that the caller sees and the endpoints that it may change. */
export type BulkCaller = BulkRecord["by"]

/** A new operation. */
export interface NewBulk {
  readonly action: BulkAction
  readonly search: JobSearch
  readonly holdMs: number
  readonly by: BulkCaller
}

export class BulkJobs extends Context.Service<BulkJobs, {
  /** The number of jobs that an operation would change now. */
  readonly count: (bulk: Pick<NewBulk, "action" | "search" | "by">) => Effect.Effect<Counted, StoreError | BulkPointless>

  /** Counts the matching jobs, and stores the operation. Nothing is changed before the hold ends. */
  readonly start: (bulk: NewBulk) => Effect.Effect<BulkOperation, StoreError | BulkPointless | BulkBusy>

  /** The newest operations that the caller may see, newest first. */
  readonly list: (caller: BulkCaller) => Effect.Effect<ReadonlyArray<BulkOperation>, StoreError>
  readonly get: (id: string, caller: BulkCaller) => Effect.Effect<BulkOperation, StoreError | BulkMissing>

  /** Cancels a held operation, or stops a running one after the current job. Returns an ended operation unchanged. */
  readonly cancel: (id: string, caller: BulkCaller) => Effect.Effect<BulkOperation, StoreError | BulkMissing>

  /** Works on the operations that are due. Returns true when more may be due. */
  readonly tick: Effect.Effect<boolean, StoreError>
}>()("@stint/queue/BulkJobs") {}

/** A key that is limited to endpoints sees only its own operations. */
const isVisible = ({ by }: BulkRecord, caller: BulkCaller): boolean => caller.endpoints === "all" || by.key === caller.key

/** Excludes later jobs, but no job of the same millisecond: its caller may have its id already. */
const afterMillisecond = (at: number): number => at + 1

/** Why a rerun can never be submitted; undefined for a temporary failure. */
const lastingProblem = ({ message, reason }: StoreError): string | undefined =>
  reason._tag === "PayloadUnavailable" && reason.isLost === true ? message : undefined

const make = Effect.gen(function*() {
  const store = yield* BulkStore
  const endpoints = yield* EndpointStore
  const queue = yield* JobQueue
  const budgets = yield* Budgets
  const nodes = Option.getOrUndefined(yield* Effect.serviceOption(Nodes))
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const node = nodes?.name ?? randomUUID()

  /** Whether some operation may still be in progress, as far as this server knows. An idle server looks less often. */
  let mayHaveWork = true
  let lookAt = 0
  const expectWork = Effect.sync(() => {
    mayHaveWork = true
  })

  /** The endpoints that an operation covers, by id. */
  const covered = Effect.fnUntraced(function*(search: JobSearch, { endpoints: permitted }: BulkCaller) {
    const all = yield* endpoints.list
    const found = all.filter(({ id }) =>
      (permitted === "all" || permitted.includes(id)) && search.any.some((terms) => coversEndpoint(terms, id))
    )
    return new Map(found.map((endpoint) => [endpoint.id, endpoint]))
  })

  const count = Effect.fnUntraced(function*({ action, by, search }: Pick<NewBulk, "action" | "search" | "by">, at: number) {
    const wanted = restrictedTo(search, action)
    if (wanted === undefined) return yield* new BulkPointless({ action })
    const endpoints = [...(yield* covered(search, by)).keys()]
    return yield* queue.count({ endpoints, search: wanted, now: at, createdBefore: afterMillisecond(at) }, COUNT_LIMIT)
  })

  const start: BulkJobs["Service"]["start"] = Effect.fnUntraced(function*({ action, by, holdMs, search }) {
    if ((yield* store.unended).length >= MAX_UNENDED) return yield* new BulkBusy({ limit: MAX_UNENDED })
    const at = now()
    const matched = yield* count({ action, by, search }, at)
    const record = BulkMachine.created({
      id: uuidV7At(at),
      action,
      query: printSearch(search),
      by,
      matched,
      holdMs: holdMs + now() - at,
      now: at
    })
    yield* Effect.ensuring(store.put(record), expectWork)
    return BulkMachine.toOperation(record)
  })

  const find = Effect.fnUntraced(function*(id: string, caller: BulkCaller) {
    const record = yield* store.get(id)
    return record !== undefined && isVisible(record, caller) ? record : yield* new BulkMissing({ id })
  })

  /** Operations that callers are about to stop. This server does nothing more for them: each step would make the cancel fail once more. */
  const stopping = new Set<string>()

  const stop = Effect.fnUntraced(function*(first: BulkRecord, caller: BulkCaller) {
    let record = first
    while (true) {
      const after = BulkMachine.cancelled(record, now())
      if (after === undefined) return BulkMachine.toOperation(record)
      if (yield* store.put(after)) return BulkMachine.toOperation(after)
      record = yield* find(record.id, caller)
    }
  })

  const cancel: BulkJobs["Service"]["cancel"] = (id, caller) =>
    Effect.flatMap(find(id, caller), (record) =>
      Effect.acquireUseRelease(
        Effect.sync(() => stopping.add(id)),
        () => stop(record, caller),
        () => Effect.sync(() => stopping.delete(id))
      ))

  /** The job that repeats another one, with the current settings of its endpoint. */
  const submissionOf = (
    { by, id }: BulkRecord,
    job: JobSummary,
    endpoint: Endpoint,
    input: Submission["input"]
  ): Submission => {
    const idempotencyKey = `bulk/${id}/${job.id}`
    const { executionTimeoutMs, lowPriority, maxAttempts, priority, retry, tags, ttlMs, webhook } = job
    const [event, ...events] = webhook?.events ?? []
    return {
      endpoint,
      id: JobId.make(uuidV7At(now(), slotOfKey(endpoint.id, idempotencyKey))),
      input,
      policy: {
        executionTimeout: executionTimeoutMs,
        ttl: ttlMs,
        lowPriority,
        retry: {
          maxAttempts,
          onError: retry?.onError ?? false,
          ...(retry === null || retry.backoff === null ? {} : { backoff: retry.backoff })
        }
      },
      priority,
      tags,
      webhook: webhook === null || event === undefined ? undefined : { url: webhook.url, events: [event, ...events] },
      idempotencyKey,
      owner: by.key,
      keyQuota: by.limits
    }
  }

  const rerun = Effect.fnUntraced(function*(
    record: BulkRecord,
    job: JobSummary,
    endpoint: Endpoint | undefined
  ): Effect.fn.Return<BulkRecord | undefined, StoreError> {
    if (endpoint === undefined) return BulkMachine.passed(record, job, "endpoint")
    const budget = budgets.reachedBy(endpoint.id, record.by.key)
    if (budget !== undefined) return BulkMachine.failed(record, job, new BudgetReached(budget).message)
    const input = yield* Effect.catchTag(queue.input(job.endpoint, job.id), "JobMissing", () => Effect.undefined)
    if (input === undefined) return BulkMachine.passed(record, job, "missing")
    const after = BulkMachine.stepped(record, job, now())
    const inserted = yield* queue.submitStep(submissionOf(record, job, endpoint, input), after)
    switch (inserted._tag) {
      case "Inserted":
        return after
      case "BulkChanged":
        return undefined
      case "EndpointGone":
        return BulkMachine.passed(record, job, "endpoint")
      case "QuotaExceeded": {
        const { message } = new QuotaExceeded({ endpoint: job.endpoint, key: record.by.key, ...inserted.quota })
        return BulkMachine.failed(record, job, message)
      }
      case "Duplicate":
      case "KeyConflict":
        return BulkMachine.failed(record, job, `The key bulk/${record.id}/${job.id} belongs to another request.`)
      case "ScheduleChanged":
        return yield* Effect.die(new Error("a rerun is not submitted by a schedule"))
    }
  })

  /**
   * Whether a job no longer matches: a waiting job that has begun to run since its page was read, and any job whose words the query names, because its
   * texts may have changed.
   */
  const hasLeft = Effect.fnUntraced(function*(job: JobSummary, wanted: JobSearch, at: number) {
    if (hasWords(wanted)) {
      const current = yield* Effect.catchTag(queue.get(job.endpoint, job.id), "JobMissing", () => Effect.undefined)
      const words = yield* queue.wordsOf(job.endpoint, job.id)
      return current !== undefined && !matchesSearch(wanted, { ...job, status: current.status, error: current.error }, at, words)
    }
    if (job.status !== "IN_QUEUE") return false
    const current = yield* Effect.catchTag(queue.get(job.endpoint, job.id), "JobMissing", () => Effect.undefined)
    return current?.status === "IN_PROGRESS" && !matchesSearch(wanted, { ...current, errorGroup: null }, at)
  })

  const change = Effect.fnUntraced(function*(record: BulkRecord, job: JobSummary, action: "cancel" | "retry", wanted: JobSearch) {
    if (yield* hasLeft(job, wanted, record.createdAt)) return BulkMachine.passed(record, job, "changed")
    const after = BulkMachine.stepped(record, job, now())
    const applied = yield* queue.applyStep(job.endpoint, job.id, action, after)
    if (applied._tag === "Changed") return after
    if (applied._tag === "Rejected") {
      const { rejection: { _tag } } = applied
      if (_tag === "Superseded") return undefined
      return BulkMachine.passed(record, job, _tag === "Expired" ? "missing" : "changed")
    }
    const reason: SkipReason = "missing"
    return BulkMachine.passed(record, job, reason)
  })

  /** Changes one job. Returns the operation after the change; undefined if another server or the user has changed the operation. */
  const step = (
    record: BulkRecord,
    job: JobSummary,
    known: ReadonlyMap<EndpointId, Endpoint>,
    wanted: JobSearch
  ): Effect.Effect<BulkRecord | undefined, StoreError> =>
    record.action === "rerun"
      ? Effect.catchIf(
        rerun(record, job, known.get(job.endpoint)),
        (error) => lastingProblem(error) !== undefined,
        (error) => Effect.succeed(BulkMachine.failed(record, job, lastingProblem(error) ?? ""))
      )
      : change(record, job, record.action, wanted)

  /** Works on one page. Returns true when more may follow. */
  const work = Effect.fnUntraced(function*(stored: BulkRecord): Effect.fn.Return<boolean, StoreError> {
    let record = BulkMachine.claimed(stored, node, now())
    if (!(yield* store.put(record))) return true
    const { search } = parseSearch(record.query, Infinity)
    const wanted = search === undefined ? undefined : restrictedTo(search, record.action)
    if (search === undefined || wanted === undefined) {
      return yield* Effect.die(new Error(`the bulk operation ${record.id} has an invalid query`))
    }
    const { createdAt } = record
    const known = yield* covered(search, record.by)
    const { jobs, next } = yield* queue.search({
      endpoints: [...known.keys()],
      search: wanted,
      now: createdAt,
      createdBefore: afterMillisecond(createdAt),
      after: record.cursor,
      limit: BATCH
    })
    for (const job of jobs) {
      if (stopping.has(record.id)) return true
      const after = yield* step(record, job, known, wanted)
      if (after === undefined) return true
      record = after
    }
    record = BulkMachine.turned(record, next, now())
    yield* store.put(record)
    return record.state === "running"
  })

  return BulkJobs.of({
    count: (bulk) => count(bulk, now()),
    start,
    list: (caller) => Effect.map(store.list, (all) => all.filter((one) => isVisible(one, caller)).map(BulkMachine.toOperation)),
    get: (id, caller) => Effect.map(find(id, caller), BulkMachine.toOperation),
    cancel,
    tick: Effect.gen(function*() {
      const at = monotonicMillis(clock)
      if (!mayHaveWork && at < lookAt) return false
      // Set before the read, so that an operation that starts during the read is not missed.
      mayHaveWork = false
      const unended = yield* Effect.tapError(store.unended, () => expectWork)
      if (unended.length > 0) mayHaveWork = true
      lookAt = at + LOOK_MILLIS
      let more = false
      let problem: Cause.Cause<StoreError> | undefined
      for (const record of unended) {
        if (stopping.has(record.id) || !BulkMachine.mayWork(record, node, nodes?.hasOthers() !== true, now())) continue
        // An operation that cannot continue must not keep others from their work.
        const exit = yield* Effect.exit(work(record))
        if (Exit.isSuccess(exit)) more = exit.value || more
        else problem ??= exit.cause
      }
      return problem === undefined ? more : yield* Effect.failCause(problem)
    })
  })
})

/** The bulk operations, using the provided stores and queue. */
export const layer: Layer.Layer<BulkJobs, never, BulkStore | EndpointStore | JobQueue> = Layer.effect(BulkJobs, make)

/**
 * Schedules on top of the queue: they submit jobs at their times.
 *
 * ```
 *   tick: due schedule --> accepted times, oldest first
 *            previous job has not ended and overlap is   skip     record it
 *                                                        queue    wait for the next tick
 *                                                        replace  submit, then cancel it
 *            otherwise submit                --same commit--> job, schedule after the firing
 *            endpoint gone or paused, quota full         record it
 * ```
 *
 * Every decision is one commit, which is rejected if the schedule has changed since. So each firing is decided once, even by several servers or after
 * a crash (ScheduleStore.ts). The job's idempotency key contains the schedule and the time, so that even a job that another database or version
 * inserted is found.
 */
import type { Endpoint } from "@stint/contract/Endpoint"
import { EndpointId, JobId } from "@stint/contract/Ids"
import { isTerminal, webhookOf } from "@stint/contract/Job"
import { toJsonText } from "@stint/contract/Json"
import { type Schedule, type ScheduleFiring, ScheduleName, type ScheduleSpec, scheduleTag } from "@stint/contract/Schedule"
import { EndpointStore } from "@stint/store/EndpointStore"
import type { JobReport } from "@stint/store/JobRecord"
import { NO_OWNER } from "@stint/store/Owner"
import { type ScheduleKey, type ScheduleRecord, ScheduleStore } from "@stint/store/ScheduleStore"
import type { StoreError } from "@stint/store/StoreError"
import { slotOfKey, uuidV7At } from "@stint/store/UuidV7"
import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { randomUUID } from "node:crypto"
import { BudgetReached, EndpointGone, QuotaExceeded } from "../jobs/JobErrors.ts"
import { JobQueue, type Submission } from "../jobs/JobQueue.ts"
import { Budgets } from "../usage/Budgets.ts"
import * as ScheduleMachine from "./ScheduleMachine.ts"

/** The endpoint has no schedule with this name. */
export class ScheduleMissing extends Schema.TaggedError<ScheduleMissing>()("ScheduleMissing", {
  endpoint: Schema.String,
  name: Schema.String
}) {
  override get message(): string {
    return `no schedule ${this.name} of the endpoint ${this.endpoint}`
  }
}

/** The maximum number of decisions about one schedule in one tick, so that it does not delay the others. */
const MAX_DECISIONS = 200

export class Schedules extends Context.Service<Schedules, {
  /** All schedules, or those of one endpoint, by endpoint and name. */
  readonly list: (endpoint?: EndpointId) => Effect.Effect<ReadonlyArray<Schedule>, StoreError>
  readonly get: (endpoint: string, name: string) => Effect.Effect<Schedule, StoreError | ScheduleMissing>

  /** Creates a schedule, or replaces its settings. A paused schedule stays paused. */
  readonly put: (
    key: ScheduleKey,
    spec: ScheduleSpec,
    by: string
  ) => Effect.Effect<{ readonly schedule: Schedule; readonly isNew: boolean }, StoreError>
  readonly remove: (endpoint: string, name: string) => Effect.Effect<void, StoreError | ScheduleMissing>

  readonly pause: (endpoint: string, name: string, by: string) => Effect.Effect<Schedule, StoreError | ScheduleMissing>
  readonly resume: (endpoint: string, name: string, by: string) => Effect.Effect<Schedule, StoreError | ScheduleMissing>

  /** Submits a job now, even if the schedule is paused or its previous job is running. Returns the job's id. */
  readonly runNow: (
    endpoint: Endpoint,
    name: string
  ) => Effect.Effect<JobId, StoreError | ScheduleMissing | EndpointGone | QuotaExceeded | BudgetReached>

  /** Decides the firings that are due. Returns true when more may be due. */
  readonly tick: Effect.Effect<boolean, StoreError>
}>()("@stint/queue/Schedules") {}

const isEndpointId = Schema.is(EndpointId)
const isName = Schema.is(ScheduleName)

/** The job of a firing. */
const submissionOf = (endpoint: Endpoint, { id, name, spec }: ScheduleRecord, firing: string, now: number): Submission => {
  const { input, policy, priority, tags = [], webhook } = spec
  const idempotencyKey = `schedule/${id}/${firing}`
  return {
    endpoint,
    id: JobId.make(uuidV7At(now, slotOfKey(endpoint.id, idempotencyKey))),
    input: toJsonText(input),
    policy,
    priority,
    tags: [...tags, scheduleTag(name)],
    webhook: webhookOf(webhook),
    idempotencyKey
  }
}

/** Whether the platform starts no workers for the endpoint, because it is paused. */
const isPaused = ({ source, workers }: Endpoint): boolean => source.type !== "external" && workers.max === 0

const make = Effect.gen(function*() {
  const store = yield* ScheduleStore
  const endpoints = yield* EndpointStore
  const queue = yield* JobQueue
  const budgets = yield* Budgets
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()

  const find = Effect.fnUntraced(function*(endpoint: string, name: string) {
    const found = isEndpointId(endpoint) && isName(name) ? yield* store.get(endpoint, name) : undefined
    return found ?? (yield* new ScheduleMissing({ endpoint, name }))
  })

  /** Reads and changes a schedule; repeats both if another change came in between. */
  const change = <E>(
    read: Effect.Effect<ScheduleRecord, E>,
    apply: (record: ScheduleRecord) => ScheduleRecord
  ): Effect.Effect<Schedule, E | StoreError> =>
    Effect.flatMap(read, (record) => {
      const after = apply(record)
      return Effect.flatMap(
        store.put(after),
        (isStored) => isStored ? Effect.succeed(ScheduleMachine.toSchedule(after)) : change(read, apply)
      )
    })

  /** The schedule's previous job, and the jobs that were running at the last manual firing, unless they have ended. */
  const unendedOf = ({ earlierJobs = [], endpoint, job }: ScheduleRecord): Effect.Effect<ReadonlyArray<JobReport>, StoreError> =>
    Effect.map(
      Effect.forEach(
        job === null ? earlierJobs : [...earlierJobs, job],
        (id) => Effect.catchTag(queue.get(endpoint, id), "JobMissing", () => Effect.undefined)
      ),
      (reports) => reports.flatMap((report) => report === undefined || isTerminal(report.status) ? [] : [report])
    )

  const cancelAll = (endpoint: EndpointId, jobs: ReadonlyArray<Pick<JobReport, "id">>) =>
    Effect.forEach(jobs, ({ id }) => Effect.catchTag(queue.cancel(endpoint, id), "JobMissing", () => Effect.void), {
      discard: true
    })

  /** Records that a firing submitted no job. */
  const withoutJob = (record: ScheduleRecord, firing: ScheduleFiring) =>
    Effect.asVoid(store.put(ScheduleMachine.decided(record, firing)))

  const failed = (record: ScheduleRecord, firing: Omit<ScheduleFiring, "outcome">, reason: string) =>
    Effect.andThen(
      Effect.logWarning(`The schedule "${record.name}" of the endpoint "${record.endpoint}" submitted no job: ${reason}`),
      withoutJob(record, { ...firing, outcome: "failed", reason })
    )

  /**
   * Submits the job of the first waiting time, unless another server has done so or the schedule has changed. Then cancels the jobs that it replaces.
   * They continue if no job can be submitted.
   */
  const submit = Effect.fnUntraced(function*(record: ScheduleRecord, scheduledFor: number, replaced: ReadonlyArray<JobReport>) {
    const { endpoint: id, name } = record
    const firing = { scheduledFor, at: now(), trigger: "time" } as const
    const endpoint = yield* endpoints.get(id)
    if (endpoint === undefined) {
      return yield* failed(
        record,
        firing,
        `There is no endpoint "${id}". Create it again, or remove the schedule: stint schedules remove ${id} ${name}`
      )
    }
    if (isPaused(endpoint)) {
      return yield* failed(
        record,
        firing,
        `The endpoint "${id}" is paused: its workers.max is 0. Raise it, or pause the schedule: stint schedules pause ${id} ${name}`
      )
    }
    const submission = submissionOf(endpoint, record, `${scheduledFor}`, firing.at)
    const budget = budgets.reachedBy(id, submission.owner ?? NO_OWNER)
    if (budget !== undefined) return yield* failed(record, firing, `${new BudgetReached(budget).message}.`)
    const submitted = (before: ScheduleRecord, job: JobId) =>
      ScheduleMachine.decided(before, { ...firing, outcome: "submitted", job })
    const withJob = (before: ScheduleRecord, job: JobId) =>
      Effect.andThen(
        cancelAll(id, replaced.filter((one) => one.id !== job)),
        Effect.asVoid(store.put(submitted(before, job)))
      )
    // A firing that replaces jobs is decided after they are cancelled: when the platform is killed before that, it fires again, finds the job by
    // its idempotency key, and cancels them.
    const isReplacing = replaced.length > 0
    const undecided = ScheduleMachine.nextVersion(record)
    const fire = queue.fire(submission, isReplacing ? undecided : submitted(record, submission.id))
    const first = yield* fire
    const waiting = replaced.filter(({ status }) => status === "IN_QUEUE")
    // Replaced jobs that are still waiting may use the quota that the new job needs.
    const isRoomHeld = first._tag === "QuotaExceeded" && first.quota.resource === "waitingJobs" &&
      first.quota.used - waiting.length < first.quota.limit
    const inserted = isRoomHeld ? yield* Effect.andThen(cancelAll(id, waiting), fire) : first
    switch (inserted._tag) {
      case "Inserted":
        return isReplacing ? yield* withJob(undecided, submission.id) : undefined
      case "ScheduleChanged":
      case "BulkChanged":
        return
      case "Duplicate":
        return yield* withJob(record, inserted.job.id)
      case "KeyConflict":
        return yield* withJob(record, inserted.id)
      case "EndpointGone":
        return yield* failed(record, firing, `The endpoint "${id}" was deleted.`)
      case "QuotaExceeded": {
        const { message } = new QuotaExceeded({ endpoint: id, key: "", ...inserted.quota })
        return yield* failed(record, firing, `${message}.`)
      }
    }
  })

  /** Makes one decision. Returns false when there is none to make now. */
  const decide = Effect.fnUntraced(function*({ endpoint, name }: ScheduleKey): Effect.fn.Return<boolean, StoreError> {
    const stored = yield* store.get(endpoint, name)
    if (stored === undefined) return false
    const record = ScheduleMachine.accepted(stored, now())
    const [scheduledFor] = record.waiting
    const { overlap } = record.spec
    const unended = scheduledFor === undefined || overlap === "allow" ? [] : yield* unendedOf(record)
    const [previous] = unended
    if (scheduledFor === undefined || (previous !== undefined && overlap === "queue")) {
      if (record !== stored) yield* store.put(ScheduleMachine.nextVersion(record))
      return false
    }
    if (previous !== undefined && overlap === "skip") {
      const reason = `The previous job, ${previous.id}, has not ended.`
      yield* withoutJob(record, { scheduledFor, at: now(), trigger: "time", outcome: "skipped", reason })
      return true
    }
    yield* submit(record, scheduledFor, unended)
    return true
  })

  const decideAll = Effect.fnUntraced(function*(key: ScheduleKey) {
    for (let made = 0; made < MAX_DECISIONS; made++) {
      if (!(yield* decide(key))) return false
    }
    return true
  })

  const runNow: Schedules["Service"]["runNow"] = Effect.fnUntraced(function*(endpoint, name) {
    const record = yield* find(endpoint.id, name)
    const at = now()
    const submission = submissionOf(endpoint, record, `manual/${randomUUID()}`, at)
    const budget = budgets.reachedBy(endpoint.id, submission.owner ?? NO_OWNER)
    if (budget !== undefined) return yield* new BudgetReached(budget)
    const firing = { scheduledFor: at, at, trigger: "manual", outcome: "submitted", job: submission.id } as const
    const unended = (yield* unendedOf(record)).map(({ id }) => id)
    const inserted = yield* queue.fire(submission, ScheduleMachine.decided(record, firing, unended))
    switch (inserted._tag) {
      case "Inserted":
        return submission.id
      case "EndpointGone":
        return yield* new EndpointGone({ endpoint: endpoint.id })
      case "QuotaExceeded":
        return yield* new QuotaExceeded({ endpoint: endpoint.id, key: "", ...inserted.quota })
      case "ScheduleChanged":
        return yield* runNow(endpoint, name)
      case "BulkChanged":
      case "Duplicate":
      case "KeyConflict":
        return yield* Effect.die(new Error("the idempotency key of a manual firing is not new"))
    }
  })

  const put: Schedules["Service"]["put"] = Effect.fnUntraced(function*(key, spec, by) {
    const stored = yield* store.get(key.endpoint, key.name)
    const at = { by, now: now() }
    const after = stored === undefined
      ? ScheduleMachine.created({ ...key, id: randomUUID() }, spec, at)
      : ScheduleMachine.updated(stored, spec, at)
    return (yield* store.put(after))
      ? { schedule: ScheduleMachine.toSchedule(after), isNew: stored === undefined }
      : yield* put(key, spec, by)
  })

  return Schedules.of({
    list: (endpoint) => Effect.map(store.list(endpoint), (all) => all.map(ScheduleMachine.toSchedule)),
    get: (endpoint, name) => Effect.map(find(endpoint, name), ScheduleMachine.toSchedule),
    put,
    remove: Effect.fnUntraced(function*(endpoint, name) {
      const { endpoint: id, name: known } = yield* find(endpoint, name)
      if (!(yield* store.remove(id, known))) return yield* new ScheduleMissing({ endpoint, name })
    }),
    pause: (endpoint, name, by) => change(find(endpoint, name), (record) => ScheduleMachine.paused(record, { by, now: now() })),
    resume: (endpoint, name, by) =>
      change(
        find(endpoint, name),
        (record) => record.paused ? ScheduleMachine.resumed(record, { by, now: now() }) : ScheduleMachine.nextVersion(record)
      ),
    runNow,
    tick: Effect.gen(function*() {
      let more = false
      let problem: Cause.Cause<StoreError> | undefined
      for (const key of yield* store.due(now())) {
        // A schedule that cannot be read must not keep others from firing.
        const exit = yield* Effect.exit(decideAll(key))
        if (Exit.isSuccess(exit)) more = exit.value || more
        else problem ??= exit.cause
      }
      return problem === undefined ? more : yield* Effect.failCause(problem)
    })
  })
})

/** The schedules, using the provided stores and queue. */
export const layer: Layer.Layer<Schedules, never, ScheduleStore | EndpointStore | JobQueue> = Layer.effect(Schedules, make)

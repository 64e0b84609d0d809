/**
 * Counts jobs and measures how long they wait and run. Wraps the stores of jobs, batches and runs, because every change to a job goes through
 * one of them.
 *
 * ```
 *   JobQueue, BatchQueue, RunQueue --> JobMetrics --> JobStore, BatchStore, RunStore
 *        insert, enqueue, journal        submitted: the journal's are the children that it started
 *        claim                           wait
 *        apply, tick, journal, ...       ended by status, execution time, returned to the queue by reason
 *        every call                      time by operation, failures
 * ```
 *
 * Labels are the endpoint, the status, the reason and the operation: never the id of a job, a worker or a caller. At most {@link MAX_ENDPOINTS}
 * endpoints have their own label, so the number of series is bounded.
 */
import type { EndpointId } from "@stint/contract/Ids"
import { isTerminal, JobStatus } from "@stint/contract/Job"
import { BatchStore } from "@stint/store/BatchStore"
import { isParked, type JobMachineEvent } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import { type ApplyResult, JobStore } from "@stint/store/JobStore"
import { type RetryResult, RunStore } from "@stint/store/RunStore"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import { EndpointLabels, LIFETIME_SECONDS, STORE_SECONDS } from "./MetricLabels.ts"

/** Why an attempt ended without ending its job. */
const RETURN_REASONS: { readonly [tag in JobMachineEvent["_tag"]]?: string } = {
  Finish: "error",
  LoseLease: "worker_lost",
  Tick: "lease_expired",
  Return: "worker_exit"
}

type Labels = Readonly<Record<string, string>>

const NO_OTHERS: ReadonlyArray<ApplyResult> = []

/**
 * One metric per series. `Metric.withAttributes` would derive the labels and the key of the series again at each change: the two changes of a
 * submission would take 0.5 instead of 0.13 µs in a loop.
 */
const counter = (id: string, description: string) => (attributes: Labels) =>
  Metric.counter(id, { description, incremental: true, attributes })
const histogram = (id: string, description: string, boundaries: ReadonlyArray<number>) => (attributes: Labels) =>
  Metric.histogram(id, { description, boundaries, attributes })

const submitted = counter("stint_jobs_submitted_total", "Jobs that were stored.")
const ended = counter("stint_jobs_ended_total", "Jobs that ended, by status.")
const returned = counter("stint_jobs_returned_total", "Attempts after which the job returned to the queue, by reason.")
const wait = histogram(
  "stint_job_wait_seconds",
  "How long a job was ready before a worker took it, for each attempt.",
  LIFETIME_SECONDS
)
const execution = histogram(
  "stint_job_execution_seconds",
  "The time between the last take of a job and its end.",
  LIFETIME_SECONDS
)
const storeSeconds = histogram(
  "stint_store_operation_seconds",
  "The duration of a store operation, including its commit.",
  STORE_SECONDS
)
const storeFailures = counter("stint_store_failures_total", "Store operations that failed.")

/** The series of one endpoint. */
const seriesOf = (endpoint: string) => {
  const labels = { endpoint }
  return {
    submitted: submitted(labels),
    wait: wait(labels),
    execution: execution(labels),
    ended: new Map(JobStatus.literals.map((status) => [status, ended({ ...labels, status })])),
    returned: (reason: string) => returned({ ...labels, reason }),
    /** The number of changes to jobs so far. A reader that finds the same number again knows that nothing has changed. */
    changes: 0
  }
}

/** The counts of an endpoint's jobs since the platform started. */
export interface JobCounts {
  readonly submitted: number
  readonly completed: number
  /** FAILED and TIMED_OUT. */
  readonly failed: number
  readonly cancelled: number
  /** The number of values in each bucket of `LIFETIME_SECONDS`, and above the last one. */
  readonly waits: ReadonlyArray<number>
  readonly executions: ReadonlyArray<number>
}

/** The counts, for readers in this process. */
export class JobCounters extends Context.Service<JobCounters, {
  /** Grows with every change to a job of the endpoint on this node. Undefined before the first one, and for endpoints that share their label. */
  readonly changes: (endpoint: EndpointId) => number | undefined
  readonly read: (endpoint: EndpointId) => JobCounts | undefined
}>()("@stint/metrics/JobCounters") {}

/** The number of values in each bucket: a histogram's state has the sums up to each boundary. */
const bucketsOf = ({ buckets, count }: Metric.HistogramState): ReadonlyArray<number> => {
  const upTo = [...buckets.map(([, sum]) => sum), count]
  return upTo.map((sum, index) => sum - (upTo[index - 1] ?? 0))
}

const make = Effect.gen(function*() {
  const jobs = yield* JobStore
  const batches = yield* BatchStore
  const runs = yield* RunStore
  const context = yield* Effect.context()
  const labels = new EndpointLabels()
  const endpoints = new Map<string, ReturnType<typeof seriesOf>>()

  const series = (endpoint: EndpointId) => {
    const label = labels.of(endpoint)
    let known = endpoints.get(label)
    if (known === undefined) endpoints.set(label, known = seriesOf(label))
    known.changes += 1
    return known
  }

  const counters = JobCounters.of({
    changes: (endpoint) => endpoints.get(endpoint)?.changes,
    read: (endpoint) => {
      const known = endpoints.get(endpoint)
      if (known === undefined) return undefined
      const endedWith = (status: JobStatus) => known.ended.get(status)?.valueUnsafe(context).count ?? 0
      return {
        submitted: known.submitted.valueUnsafe(context).count,
        completed: endedWith("COMPLETED"),
        failed: endedWith("FAILED") + endedWith("TIMED_OUT"),
        cancelled: endedWith("CANCELLED"),
        waits: bucketsOf(known.wait.valueUnsafe(context)),
        executions: bucketsOf(known.execution.valueUnsafe(context))
      }
    }
  })

  const taken = ({ endpoint, queuedAt, startedAt }: JobHead) => {
    if (startedAt !== null) series(endpoint).wait.updateUnsafe((startedAt - queuedAt) / 1_000, context)
  }

  const changed = (before: JobHead, after: JobHead, event: JobMachineEvent["_tag"]) => {
    if (before.status === after.status) return
    if (after.status === "IN_PROGRESS") taken(after)
    if (isTerminal(before.status)) series(after.endpoint)
    if (isTerminal(after.status)) {
      const { ended, execution } = series(after.endpoint)
      ended.get(after.status)?.updateUnsafe(1, context)
      // A parked run that ends was not running.
      if (before.status === "IN_PROGRESS" && !isParked(before) && after.finishedAt !== null && before.startedAt !== null) {
        execution.updateUnsafe((after.finishedAt - before.startedAt) / 1_000, context)
      }
    } else if (isParked(before)) {
      // A run that wakes gave its worker up when it parked.
      series(after.endpoint)
    } else if (before.status === "IN_PROGRESS") {
      series(after.endpoint).returned(RETURN_REASONS[event] ?? "other").updateUnsafe(1, context)
    }
  }

  const applied = (result: RetryResult, event: JobMachineEvent["_tag"]) => {
    if (result._tag !== "Changed") return
    changed(result.before, result.after, event)
    // A child that ends wakes its run, and a run that ends cancels its children.
    for (const other of result.others ?? NO_OTHERS) applied(other, "Cancel")
  }

  /** Measures an operation of the store, and reads its result. */
  const measured = <Args extends ReadonlyArray<unknown>, A, E>(
    operation: string,
    call: (...args: Args) => Effect.Effect<A, E>,
    read: (result: A, ...args: Args) => void
  ) => {
    const seconds = storeSeconds({ operation })
    const failures = storeFailures({ operation })
    return (...args: Args): Effect.Effect<A, E> =>
      Effect.suspend(() => {
        const begun = performance.now()
        return Effect.matchCauseEffect(call(...args), {
          onFailure: (cause) => {
            if (Cause.hasFails(cause)) failures.updateUnsafe(1, context)
            return Effect.failCause(cause)
          },
          onSuccess: (result) => {
            seconds.updateUnsafe((performance.now() - begun) / 1_000, context)
            read(result, ...args)
            return Effect.succeed(result)
          }
        })
      })
  }

  const measuredJobs = JobStore.of({
    ...jobs,
    insert: measured("insert", jobs.insert, (result, job) => {
      if (result._tag === "Inserted") series(job.endpoint).submitted.updateUnsafe(1, context)
    }),
    apply: measured("apply", jobs.apply, (result, _endpoint, _id, event) => applied(result, event._tag)),
    append: measured("append", jobs.append, () => {}),
    claim: measured("claim", jobs.claim, ({ expired, jobs }, _endpoint, _limit, event) => {
      for (const job of jobs) taken(job)
      for (const result of expired) applied(result, event._tag)
    }),
    tick: measured("tick", jobs.tick, (results, event) => {
      for (const result of results) applied(result, event._tag)
    }),
    applyRunning: measured("applyRunning", jobs.applyRunning, (results, _filter, event) => {
      for (const result of results) applied(result, event._tag)
    }),
    applyWaiting: measured("applyWaiting", jobs.applyWaiting, (results, _endpoint, event) => {
      for (const result of results) applied(result, event._tag)
    })
  })
  const measuredBatches = BatchStore.of({
    ...batches,
    enqueue: measured("enqueue", batches.enqueue, ({ jobs }, endpoint) => {
      series(endpoint).submitted.updateUnsafe(jobs, context)
    }),
    cancel: measured("cancelBatch", batches.cancel, (result) => {
      for (const one of result.applied) applied(one, "Cancel")
    })
  })
  const measuredRuns = RunStore.of({
    ...runs,
    journal: measured("journal", runs.journal, (results) => {
      for (const result of results) {
        for (const { endpoint } of result.spawned) series(endpoint).submitted.updateUnsafe(1, context)
        for (const one of result.applied) applied(one, "Finish")
      }
    }),
    define: measured("define", runs.define, (results) => {
      for (const result of results) applied(result, "Wake")
    }),
    send: measured("sendEvent", runs.send, (result) => {
      for (const one of result.applied) applied(one, "Wake")
    }),
    retry: measured("retryRun", runs.retry, (result) => applied(result, "Retry"))
  })
  return { batches: measuredBatches, counters, jobs: measuredJobs, runs: measuredRuns }
})

/** The stores of jobs, batches and runs, measured, and their counts. */
export const layer: Layer.Layer<
  JobStore | BatchStore | RunStore | JobCounters,
  never,
  JobStore | BatchStore | RunStore
> = Layer.effectContext(
  Effect.map(
    make,
    ({ batches, counters, jobs, runs }) =>
      Context.make(JobStore, jobs).pipe(
        Context.add(BatchStore, batches),
        Context.add(RunStore, runs),
        Context.add(JobCounters, counters)
      )
  )
)

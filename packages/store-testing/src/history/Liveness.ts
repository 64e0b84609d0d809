/**
 * Checks that every job in the store that has not ended has a next event (R5, docs/spec/figures.md#reliability): a position in the queue, a
 * timer, or a lease that expires.
 *
 * ```
 *   ready       the store has it in its queue, and its ttl ends at some time
 *   delayed     its backoff ends before its ttl
 *   held        another job of its concurrency key is ready or running
 *   running     its lease expires, no later than the lease's duration from now
 *   parked      its sleep ends before its ttl; it has no worker and is not counted as running
 * ```
 */
import type { EndpointId } from "@stint/contract/Ids"
import { hasSlot } from "@stint/store/ConcurrencyRule"
import { dueAt, isParked, isReady } from "@stint/store/JobMachine"
import type { JobSummary } from "@stint/store/JobRecord"
import type { JobStore } from "@stint/store/JobStore"
import type { ListCursor } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"

/** Page size of a list. */
const PAGE = 1_000

const all = Effect.fnUntraced(function*(
  store: JobStore["Service"],
  endpoint: EndpointId,
  status: "IN_QUEUE" | "IN_PROGRESS"
): Effect.fn.Return<ReadonlyArray<JobSummary>, StoreError> {
  const found: Array<JobSummary> = []
  let after: ListCursor | undefined
  while (true) {
    const page = yield* store.list(endpoint, {
      status,
      tag: undefined,
      createdAfter: undefined,
      createdBefore: undefined,
      after,
      limit: PAGE
    })
    found.push(...page.jobs)
    if (page.next === null) return found
    after = page.next
  }
})

/** The jobs of an endpoint that have no next event. Empty when every job has a next event. */
export const violations = Effect.fnUntraced(function*(
  store: JobStore["Service"],
  endpoint: EndpointId,
  now: number
): Effect.fn.Return<ReadonlyArray<string>, StoreError> {
  const found: Array<string> = []
  const { delayed, running, waiting } = yield* store.depth(endpoint)
  const queued = yield* all(store, endpoint, "IN_QUEUE")
  const unfinished = yield* all(store, endpoint, "IN_PROGRESS")
  const inProgress = unfinished.filter((job) => !isParked(job))
  // The autoscaler does not start a worker for a job that is missing from the counts.
  if (queued.length !== waiting + delayed) found.push(`${queued.length} jobs are IN_QUEUE, and ${waiting + delayed} are counted`)
  if (inProgress.length !== running) found.push(`${inProgress.length} jobs are IN_PROGRESS, and ${running} are counted`)
  for (const job of queued) {
    const due = dueAt(job)
    if (isReady(job)) {
      if ((yield* store.ahead(endpoint, job.id, 1)) === undefined) found.push(`job ${job.id} is ready, and not in the queue`)
    } else if (job.concurrency?.held === true) {
      const holders = [...queued, ...inProgress].filter((other) =>
        other.endpoint === job.endpoint && other.concurrency?.key === job.concurrency?.key && hasSlot(other)
      )
      if (holders.length === 0) {
        found.push(`job ${job.id} is held, and no job of its key "${job.concurrency.key}" is ready or running`)
      }
    } else if (job.notBefore === null || job.notBefore >= job.expiresAt) {
      found.push(`the backoff of job ${job.id} ends after its ttl: ${job.notBefore}`)
    }
    if (!Number.isFinite(due)) found.push(`job ${job.id} waits without a timer`)
  }
  for (const job of unfinished) {
    if (!isParked(job)) continue
    if (job.worker !== null) found.push(`job ${job.id} is parked on a worker`)
    if (job.notBefore !== null && job.notBefore >= job.expiresAt) found.push(`the sleep of job ${job.id} ends after its ttl`)
  }
  for (const job of inProgress) {
    if (job.leaseExpiresAt === null) found.push(`job ${job.id} runs without a lease`)
    else if (job.leaseExpiresAt > now + job.leaseMs) found.push(`the lease of job ${job.id} is longer than its duration`)
    if (job.worker === null) found.push(`job ${job.id} runs without a worker`)
  }
  return found
})

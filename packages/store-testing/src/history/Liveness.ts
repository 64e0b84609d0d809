/**
 * Whether every job that has not ended has a next event
 * (R5, docs/spec/figures.md#reliability), looked up in the store itself: a row among the ready ones, a lease
 * with an end, or a timer.
 *
 * ```
 *   ready       the store has it in its line, and its life ends some time
 *   delayed     the end of its backoff lies before the end of its life
 *   running     a lease that ends, no later than its length from now
 * ```
 */
import type { EndpointId } from "@stint/contract/Ids"
import { dueAt, isReady } from "@stint/store/JobMachine"
import type { JobSummary } from "@stint/store/JobRecord"
import type { JobStore } from "@stint/store/JobStore"
import type { ListCursor } from "@stint/store/ListCursor"
import type { StoreError } from "@stint/store/StoreError"
import * as Effect from "effect/Effect"

/** What one look at the store takes. */
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

/** What is wrong with the jobs of an endpoint that have not ended; empty when each has its next event. */
export const violations = Effect.fnUntraced(function*(
  store: JobStore["Service"],
  endpoint: EndpointId,
  now: number
): Effect.fn.Return<ReadonlyArray<string>, StoreError> {
  const found: Array<string> = []
  const { delayed, running, waiting } = yield* store.depth(endpoint)
  const queued = yield* all(store, endpoint, "IN_QUEUE")
  const busy = yield* all(store, endpoint, "IN_PROGRESS")
  // What is not counted, nobody starts a worker for.
  if (queued.length !== waiting + delayed) found.push(`${queued.length} jobs are IN_QUEUE, and ${waiting + delayed} are counted`)
  if (busy.length !== running) found.push(`${busy.length} jobs are IN_PROGRESS, and ${running} are counted`)
  for (const job of queued) {
    const due = dueAt(job)
    if (isReady(job)) {
      if ((yield* store.ahead(endpoint, job.id, 1)) === undefined) found.push(`job ${job.id} is ready and in no line`)
    } else if (job.notBefore === null || job.notBefore >= job.expiresAt) {
      found.push(`job ${job.id} waits for a time that does not come: ${job.notBefore}`)
    }
    if (!Number.isFinite(due)) found.push(`job ${job.id} waits and has no timer`)
  }
  for (const job of busy) {
    if (job.leaseExpiresAt === null) found.push(`job ${job.id} runs without a lease`)
    else if (job.leaseExpiresAt > now + job.leaseMs) found.push(`the lease of job ${job.id} is longer than it may be`)
    if (job.worker === null) found.push(`job ${job.id} runs on no worker`)
  }
  return found
})

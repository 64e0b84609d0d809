/**
 * The jobs of the memory store, and the order in which its heaps keep them.
 */
import type { EndpointId, JobId } from "@stint/contract/Ids"
import type { JsonText } from "@stint/contract/Json"
import { isReady } from "../jobs/JobMachine.ts"
import { ERROR_PREVIEW_LENGTH, type JobPage, type JobQuery } from "../jobs/JobQuery.ts"
import type { JobHead, JobInput, JobOutcome, JobRecord, JobSummary } from "../jobs/JobRecord.ts"
import { MAX_READ_CHARACTERS, type SubmissionKey } from "../jobs/JobStore.ts"
import { inputBytes, outcomeBytes, payloadBytes, type QuotaUsage } from "../jobs/Quota.ts"
import type * as Tally from "../jobs/Tally.ts"
import { complete, type JobTexts } from "../jobs/TextIndex.ts"
import { compareNewestFirst } from "../ListCursor.ts"
import type * as MinHeap from "./MinHeap.ts"

/** A job of the memory store. */
export interface Entry {
  head: JobHead
  readonly input: JobInput
  outcome: JobOutcome
  /** The fingerprint of the error, while the job has failed. */
  errorGroup: string | null
  chunks: Array<JsonText>
  readonly key: SubmissionKey | undefined
  /** Order of submission. It does not change when the job returns to the queue. */
  readonly order: number
  /** When the job received the slot of its concurrency key: a position among all slots. 0 without a key. */
  turn: number
  /** The time of the job's valid node in `due`; undefined when it has no valid node. */
  dueNodeAt: number | undefined
}

/** A heap node with the time, or in `ready` the turn, that the entry had when the node was pushed. */
export interface HeapNode {
  readonly entry: Entry
  readonly at: number
}

/** The jobs of one endpoint. */
export interface EndpointJobs {
  /** In order of submission. */
  readonly all: Set<Entry>
  /** Ready jobs, in claim order. */
  readonly ready: MinHeap.MinHeap<HeapNode>
  /** Ready jobs without `lowPriority`, by `queuedAt`. */
  readonly oldest: MinHeap.MinHeap<HeapNode>
  readonly running: Set<Entry>
  readonly tally: Tally.Tally
}

/** Claim order of heap nodes. */
export const nodeComesBefore = ({ at: turn, entry: a }: HeapNode, { at: other, entry: b }: HeapNode): boolean =>
  a.head.priority !== b.head.priority
    ? a.head.priority > b.head.priority
    : turn === other
    ? a.order < b.order
    : turn < other

/** Claim order of jobs. */
export const comesBefore = (a: Entry, b: Entry): boolean => nodeComesBefore({ entry: a, at: a.turn }, { entry: b, at: b.turn })

/** Earliest first. */
export const byTime = (a: HeapNode, b: HeapNode): boolean => a.at < b.at || (a.at === b.at && a.entry.order < b.entry.order)

/** Whether the job can be claimed. */
export const isWaiting = (entry: Entry): boolean => isReady(entry.head)

/** Identifies an idempotency key of an owner. */
export const keyOf = (endpoint: EndpointId, { key, owner }: Pick<SubmissionKey, "key" | "owner">): string =>
  `${endpoint}\n${owner}\n${key}`

/** The complete job. */
export const recordOf = ({ head, input, outcome }: Entry): JobRecord => ({ ...head, ...outcome, ...input })

/** The texts of each job that a search compares. */
export const textsOf = (entries: ReadonlyArray<Entry>): ReadonlyMap<JobId, JobTexts> =>
  new Map(entries.map(({ head: { id, tags }, input: { input }, outcome: { error, output } }) => [
    id,
    { input: complete(input), output: complete(output), error: complete(error), tags }
  ]))

/** A new job. */
export const entryOf = (job: JobRecord, key: SubmissionKey | undefined, order: number): Entry => {
  const { error, input, lastError, output, progress, s3Config, traceparent, tracestate, ...head } = job
  return {
    head,
    input: { input, s3Config, traceparent, tracestate },
    outcome: { progress, output, error, lastError },
    errorGroup: null,
    chunks: [],
    key,
    order,
    turn: 0,
    dueNodeAt: undefined
  }
}

/** What jobs use. `logBytes`: the size of a job's log. */
export const usageOf = (entries: Iterable<Entry>, logBytes: (id: JobId) => number): QuotaUsage => {
  let waiting = 0
  let bytes = 0
  for (const { chunks, head, input, outcome } of entries) {
    if (head.status === "IN_QUEUE") waiting += 1
    bytes += inputBytes(input) + outcomeBytes(outcome) + chunks.reduce((sum, chunk) => sum + payloadBytes(chunk), 0) +
      logBytes(head.id)
  }
  return { waiting, bytes }
}

/** Up to `limit` chunks from `start`. Stops at {@link MAX_READ_CHARACTERS}. */
export const limitChunks = (chunks: ReadonlyArray<JsonText>, start: number, limit: number): ReadonlyArray<JsonText> => {
  const some: Array<JsonText> = []
  let characters = 0
  for (const body of chunks.slice(start, start + limit)) {
    some.push(body)
    characters += body.length
    if (characters >= MAX_READ_CHARACTERS) break
  }
  return some
}

const summaryOf = ({ errorGroup, head, outcome }: Entry): JobSummary => ({
  ...head,
  error: outcome.error?.slice(0, ERROR_PREVIEW_LENGTH) ?? null,
  errorGroup
})

/** A page of a list. */
export const pageOf = (
  entries: Iterable<Entry>,
  { after, createdAfter = -Infinity, createdBefore = Infinity, limit, status, tag }: JobQuery
): JobPage => {
  const found = [...entries].filter(({ head }) =>
    (status === undefined || head.status === status) && (tag === undefined || head.tags.includes(tag)) &&
    head.createdAt >= createdAfter && head.createdAt < createdBefore &&
    (after === undefined || compareNewestFirst(after, head) < 0)
  ).sort((a, b) => compareNewestFirst(a.head, b.head))
  const page = found.slice(0, limit)
  const last = found.length > page.length ? page.at(-1) : undefined
  return {
    jobs: page.map(summaryOf),
    next: last === undefined ? null : { createdAt: last.head.createdAt, id: last.head.id }
  }
}

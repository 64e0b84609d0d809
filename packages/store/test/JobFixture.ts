/** A job, and the events that tests of the job machine apply to it. */
import { EndpointId, JobId } from "@stint/contract/Ids"
import { JsonText } from "@stint/contract/Json"
import { type JobMachineEvent, type Transition, transition, type WorkerEvent } from "@stint/store/JobMachine"
import type { JobHead } from "@stint/store/JobRecord"
import * as Result from "effect/Result"
import { assert } from "vitest"

export const RED = EndpointId.make("red")
export const BLUE = EndpointId.make("blue")

/** A job that was just submitted. */
export const fresh: JobHead = {
  id: JobId.make("job"),
  endpoint: RED,
  status: "IN_QUEUE",
  lowPriority: false,
  priority: 0,
  createdAt: 1_000,
  queuedAt: 1_000,
  notBefore: null,
  ttlMs: 60_000,
  expiresAt: 61_000,
  executionTimeoutMs: 20_000,
  leaseMs: 5_000,
  maxAttempts: 3,
  retry: null,
  retentionMs: 30_000,
  attempt: 0,
  retries: 0,
  isolated: false,
  concurrency: null,
  worker: null,
  release: null,
  startedAt: null,
  leaseExpiresAt: null,
  finishedAt: null,
  chunks: 0,
  drained: 0,
  webhook: null,
  tags: [],
  batchId: null,
  owner: ""
}

/** The worker that runs {@link running}. */
export const ann = { endpoint: RED, worker: "ann" } as const

/** The change that an accepted event makes. */
export const changeOf = (job: JobHead, event: JobMachineEvent, isRun = false): Transition & { readonly _tag: "Put" } => {
  const decided = transition(job, event, isRun)
  if (Result.isSuccess(decided) && decided.success._tag === "Put") return decided.success
  return assert.fail(`${event._tag} was not accepted: ${JSON.stringify(decided)}`)
}

/** The state after an accepted event. */
export const after = (job: JobHead, event: JobMachineEvent, isRun = false): JobHead => changeOf(job, event, isRun).job

export const outcomeOf = (job: JobHead, event: JobMachineEvent, isRun = false) => changeOf(job, event, isRun).outcome

export const rejectionOf = (job: JobHead, event: JobMachineEvent, isRun = false) => {
  const decided = transition(job, event, isRun)
  return Result.isFailure(decided) ? decided.failure : undefined
}

export const claim = (job: JobHead, now: number, worker = "ann") => after(job, { _tag: "Claim", now, worker })

/** The job in its first attempt: it was claimed at 3,000, so its lease ends at 8,000 and its execution timeout at 23,000. */
export const running: JobHead = {
  ...fresh,
  status: "IN_PROGRESS",
  attempt: 1,
  worker: "ann",
  startedAt: 3_000,
  leaseExpiresAt: 8_000
}

/** The job after an end at 9,000, so its retention ends at 39,000. */
export const ended = (status: "COMPLETED" | "FAILED" | "CANCELLED" | "TIMED_OUT"): JobHead => ({
  ...running,
  status,
  leaseExpiresAt: null,
  finishedAt: 9_000
})

/** One event of each kind that a worker sends, or that tells about a worker. */
export const workerEvents: ReadonlyArray<WorkerEvent> = [
  { _tag: "Heartbeat", now: 7_000, ...ann },
  { _tag: "Progress", now: 7_000, output: JsonText.make("5"), ...ann },
  { _tag: "Chunk", now: 7_000, ...ann },
  { _tag: "Finish", now: 7_000, output: JsonText.make("5"), error: null, ...ann },
  { _tag: "LoseLease", now: 7_000, cause: "Gone.", ...ann },
  { _tag: "Return", now: 7_000, ...ann },
  { _tag: "Journal", now: 7_000, progress: true, ...ann },
  { _tag: "Park", now: 7_000, until: null, ...ann }
]

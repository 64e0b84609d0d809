/**
 * The calls of the jobs API (docs/spec/jobs-api.md#operations) and the ways to wait, as programs that any driver performs.
 *
 * ```
 *   runSync    POST runsync --ended--> the job
 *                 | still going, or cut off after its head, which has the job's id
 *   result     GET status-sync --ended--> the job
 *                 ^ | still going, however long: held by the platform, never polled
 *                 +-+ connection lost, 5xx, restart: again, for `reconnectFor`
 * ```
 *
 * Chunks and everything else that happens to a job: `Following.ts`.
 */
import type { Health } from "@stint/contract/Health"
import type { Job, JobReceipt, Purged, RunRequest } from "@stint/contract/Job"
import { type EndedJob, hasEnded } from "../JobOutcome.ts"
import type { Program } from "./DriverProtocol.ts"
import { callOf, LongPollWait, sendWithRetry, sleep, type Target } from "./RetriedRequest.ts"

/** What a caller may ask for one job: the contract's options, and our own. */
export interface SubmitOptions extends Omit<RunRequest, "idempotencyKey" | "input"> {
  /**
   * Sent as `Idempotency-Key`: the same key makes one job, however often it is sent. Only with it a submission is sent again when it is not
   * known whether the first one arrived. Stint honours it; a platform that ignores it makes a job of each.
   */
  readonly idempotencyKey?: string | undefined
}

const UNKNOWN_JOB =
  "It is not known whether a job was made of it; an idempotencyKey lets the client find out by sending it again."

/** What a submission is sent as. */
const submission = ({ newIdempotencyKey }: Target, { idempotencyKey: given, ...options }: SubmitOptions, input: unknown) => {
  const key = given ?? newIdempotencyKey?.()
  return {
    // Undefined does not exist in JSON, and a handler without input has to be callable.
    body: JSON.stringify({ ...options, input: input === undefined ? null : input }),
    headers: key === undefined ? {} : { "idempotency-key": key },
    repeat: key === undefined ? "once" as const : "repeatable" as const
  }
}

/** What the id alone says of a job. */
const queuedReceipt = (id: string) => ({ id, status: "IN_QUEUE" as const })

/** Submits a job, and tells its id. */
export function* run(target: Target, input: unknown, options: SubmitOptions, operation = "run"): Program<JobReceipt> {
  const { repeat, ...sent } = submission(target, options, input)
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation },
    call: () => callOf(target, "POST", "run", sent),
    read: target.decoders.receipt,
    byId: queuedReceipt,
    repeat,
    retryFor: target.retryFor,
    uncertaintyHint: UNKNOWN_JOB
  })
  return value
}

/** Submits a job, and waits until it ends. One request, where the job is quick. */
export function* runSync(target: Target, input: unknown, options: SubmitOptions): Program<EndedJob> {
  const { repeat, ...sent } = submission(target, options, input)
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "runSync" },
    call: () => callOf(target, "POST", "runsync", { ...sent, hold: target.wait }),
    read: target.decoders.job,
    byId: queuedReceipt,
    repeat,
    retryFor: target.retryFor,
    uncertaintyHint: UNKNOWN_JOB
  })
  return hasEnded(value) ? value : yield* result(target, value.id, "runSync")
}

/** Waits until a job ends, however long it takes. */
export function* result(target: Target, id: string, operation = "result"): Program<EndedJob> {
  const hold = new LongPollWait(target.wait)
  while (true) {
    const { took, value } = yield* sendWithRetry({
      target,
      callInfo: { operation, job: id },
      call: () => callOf(target, "GET", `status-sync/${encodeURIComponent(id)}`, { hold: hold.millis }),
      read: target.decoders.job,
      repeat: "repeatable",
      retryFor: target.reconnectFor,
      uncertaintyHint: "The job goes on without this wait: ask for its result again.",
      onFailure: (took) => hold.onConnectionLost(took)
    })
    if (hasEnded(value)) return value
    const pause = hold.pauseBeforeNext(took, false)
    if (pause !== undefined) yield* sleep(pause)
  }
}

/** A job as it is now; while IN_PROGRESS `output` is its latest progress. */
export function* status(target: Target, id: string): Program<Job> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "status", job: id },
    call: () => callOf(target, "GET", `status/${encodeURIComponent(id)}`),
    read: target.decoders.job,
    repeat: "repeatable",
    retryFor: target.retryFor
  })
  return value
}

/** Ends a job: a waiting one is dropped, a running one is stopped. The receipt of an ended job says how it had ended. */
export function* cancel(target: Target, id: string): Program<JobReceipt> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "cancel", job: id },
    call: () => callOf(target, "POST", `cancel/${encodeURIComponent(id)}`),
    read: target.decoders.receipt,
    repeat: "repeatable",
    retryFor: target.retryFor
  })
  return value
}

/** Runs a FAILED or TIMED_OUT job again, under its id. Any other gets `Conflict`. */
export function* retry(target: Target, id: string): Program<JobReceipt> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "retry", job: id },
    call: () => callOf(target, "POST", `retry/${encodeURIComponent(id)}`),
    read: target.decoders.receipt,
    repeat: "once",
    retryFor: target.retryFor,
    uncertaintyHint: "Look at the job's status before you retry it again."
  })
  return value
}

/** Removes all waiting jobs of the endpoint. */
export function* purgeQueue(target: Target): Program<Purged> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "purgeQueue" },
    call: () => callOf(target, "POST", "purge-queue"),
    read: target.decoders.purged,
    repeat: "once",
    retryFor: target.retryFor
  })
  return value
}

/** Jobs and workers of the endpoint, by state. */
export function* health(target: Target): Program<Health> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "health" },
    call: () => callOf(target, "GET", "health"),
    read: target.decoders.health,
    repeat: "repeatable",
    retryFor: target.retryFor
  })
  return value
}

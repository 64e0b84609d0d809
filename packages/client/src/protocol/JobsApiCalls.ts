/**
 * The calls of the jobs API (docs/spec/jobs-api.md#operations), as programs for any driver.
 *
 * ```
 *   runSync    POST runsync --job has ended--> the job
 *                 | job has not ended, or connection lost after the headers (they contain the job's id)
 *   result     GET status-sync --job has ended--> the job
 *                 ^ | job has not ended: long poll again, without a limit on the number of polls
 *                 +-+ connection lost, 5xx, restart: retried for `reconnectFor`
 * ```
 *
 * `JobEventSubscription.ts` reads chunks and events.
 */
import type { Health, Job, JobOptions, JobReceipt, Purged, RunEvent, RunEventReceipt } from "../ApiTypes.ts"
import { type EndedJob, hasEnded } from "../JobOutcome.ts"
import type { Program } from "./DriverProtocol.ts"
import { LongPollWait } from "./LongPollWait.ts"
import { callOf, sendWithRetry, sleep, type Target } from "./RetriedRequest.ts"

/** The options for a submission. */
export interface SubmitOptions extends JobOptions {
  /**
   * Sent as `Idempotency-Key` (docs/spec/jobs-api.md#idempotency-keys): submissions with the same key create one job. After a lost
   * connection, the client repeats a submission only if it has a key. RunPod ignores the header, so each attempt creates a job there.
   */
  readonly idempotencyKey?: string | undefined
}

const UNKNOWN_JOB = "The platform may have created a job. Pass an idempotencyKey to let the client repeat the submission safely."

const submission = ({ newIdempotencyKey }: Target, { idempotencyKey, ...options }: SubmitOptions, input: unknown) => {
  const key = idempotencyKey ?? newIdempotencyKey?.()
  return {
    // JSON has no undefined. Sending null lets callers run a handler without input.
    body: JSON.stringify({ ...options, input: input === undefined ? null : input }),
    headers: key === undefined ? {} : { "idempotency-key": key },
    repeat: key === undefined ? "once" as const : "repeatable" as const
  }
}

/** The receipt of a submission whose response was lost after its headers. */
const queuedReceipt = (id: string) => ({ id, status: "IN_QUEUE" as const })

/** Submits a job. */
export function* run(target: Target, input: unknown, options: SubmitOptions, operation = "run"): Program<JobReceipt> {
  const { repeat, ...request } = submission(target, options, input)
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation },
    call: () => callOf(target, "POST", "run", request),
    decode: target.decoders.receipt,
    fromJobId: queuedReceipt,
    repeat,
    retryFor: target.retryFor,
    uncertaintyHint: UNKNOWN_JOB
  })
  return value
}

/** Submits a job and waits until it ends. For a short job, this sends only one request. */
export function* runSync(target: Target, input: unknown, options: SubmitOptions): Program<EndedJob> {
  const { repeat, ...request } = submission(target, options, input)
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "runSync" },
    call: () => callOf(target, "POST", "runsync", { ...request, wait: target.wait }),
    decode: target.decoders.job,
    fromJobId: queuedReceipt,
    repeat,
    retryFor: target.retryFor,
    uncertaintyHint: UNKNOWN_JOB
  })
  return hasEnded(value) ? value : yield* result(target, value.id, "runSync")
}

/** Waits until a job ends. Has no time limit. */
export function* result(target: Target, id: string, operation = "result"): Program<EndedJob> {
  const wait = new LongPollWait(target.wait)
  while (true) {
    const { took, value } = yield* sendWithRetry({
      target,
      callInfo: { operation, job: id },
      call: () => callOf(target, "GET", `status-sync/${encodeURIComponent(id)}`, { wait: wait.millis }),
      decode: target.decoders.job,
      repeat: "repeatable",
      retryFor: target.reconnectFor,
      uncertaintyHint: "The job continues: ask for its result again.",
      onFailure: (took) => wait.onConnectionLost(took)
    })
    if (hasEnded(value)) return value
    const pause = wait.pauseBeforeNext(took, false)
    if (pause !== undefined) yield* sleep(pause)
  }
}

/** Reads a job. `output` is the latest progress while the job is IN_PROGRESS. */
export function* status(target: Target, id: string): Program<Job> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "status", job: id },
    call: () => callOf(target, "GET", `status/${encodeURIComponent(id)}`),
    decode: target.decoders.job,
    repeat: "repeatable",
    retryFor: target.retryFor
  })
  return value
}

/** Cancels a waiting or running job. For an ended job, the receipt has its terminal status. */
export function* cancel(target: Target, id: string): Program<JobReceipt> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "cancel", job: id },
    call: () => callOf(target, "POST", `cancel/${encodeURIComponent(id)}`),
    decode: target.decoders.receipt,
    repeat: "repeatable",
    retryFor: target.retryFor
  })
  return value
}

/** Runs a FAILED or TIMED_OUT job again under the same id. Fails with `Conflict` in any other status. */
export function* retry(target: Target, id: string): Program<JobReceipt> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "retry", job: id },
    call: () => callOf(target, "POST", `retry/${encodeURIComponent(id)}`),
    decode: target.decoders.receipt,
    repeat: "once",
    retryFor: target.retryFor,
    uncertaintyHint: "Check the job's status before you retry it again."
  })
  return value
}

/** Removes all waiting jobs of the endpoint. */
export function* purgeQueue(target: Target): Program<Purged> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "purgeQueue" },
    call: () => callOf(target, "POST", "purge-queue"),
    decode: target.decoders.purged,
    repeat: "once",
    retryFor: target.retryFor
  })
  return value
}

/** Sends an event to the run of a pipeline that waits for it. */
export function* sendEvent(target: Target, event: RunEvent): Program<RunEventReceipt> {
  const id = event.id ?? target.newIdempotencyKey?.()
  const body = JSON.stringify(id === undefined ? event : { ...event, id })
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "sendEvent" },
    call: () => callOf(target, "POST", "events", { body }),
    decode: target.decoders.eventReceipt,
    repeat: id === undefined ? "once" : "repeatable",
    retryFor: target.retryFor,
    uncertaintyHint: "A run may have received the event. Pass an id to let the client repeat the call safely."
  })
  return value
}

/** Returns the number of the endpoint's jobs and workers in each state. */
export function* health(target: Target): Program<Health> {
  const { value } = yield* sendWithRetry({
    target,
    callInfo: { operation: "health" },
    call: () => callOf(target, "GET", "health"),
    decode: target.decoders.health,
    repeat: "repeatable",
    retryFor: target.retryFor
  })
  return value
}

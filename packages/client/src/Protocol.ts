/**
 * The calls of the jobs API (wire-facts 1.1) and the ways to wait, as programs that any driver performs.
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
import { type EndedJob, hasEnded } from "./Ending.ts"
import { callOf, exchange, Hold, rest, type Target } from "./Exchange.ts"
import type { Program } from "./Wire.ts"

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
const submission = ({ newKey }: Target, { idempotencyKey: given, ...options }: SubmitOptions, input: unknown) => {
  const key = given ?? newKey?.()
  return {
    // Undefined does not exist in JSON, and a handler without input has to be callable.
    body: JSON.stringify({ ...options, input: input === undefined ? null : input }),
    headers: key === undefined ? {} : { "idempotency-key": key },
    repeat: key === undefined ? "once" as const : "repeatable" as const
  }
}

/** What the id alone says of a job. */
const known = (id: string) => ({ id, status: "IN_QUEUE" as const })

/** Submits a job, and tells its id. */
export function* run(target: Target, input: unknown, options: SubmitOptions, operation = "run"): Program<JobReceipt> {
  const { repeat, ...sent } = submission(target, options, input)
  const { value } = yield* exchange({
    target,
    asked: { operation },
    call: () => callOf(target, "POST", "run", sent),
    read: target.readers.receipt,
    byId: known,
    repeat,
    patience: target.retryFor,
    doubt: UNKNOWN_JOB
  })
  return value
}

/** Submits a job, and waits until it ends. One request, where the job is quick. */
export function* runSync(target: Target, input: unknown, options: SubmitOptions): Program<EndedJob> {
  const { repeat, ...sent } = submission(target, options, input)
  const { value } = yield* exchange({
    target,
    asked: { operation: "runSync" },
    call: () => callOf(target, "POST", "runsync", { ...sent, hold: target.wait }),
    read: target.readers.job,
    byId: known,
    repeat,
    patience: target.retryFor,
    doubt: UNKNOWN_JOB
  })
  return hasEnded(value) ? value : yield* result(target, value.id, "runSync")
}

/** Waits until a job ends, however long it takes. */
export function* result(target: Target, id: string, operation = "result"): Program<EndedJob> {
  const hold = new Hold(target.wait)
  while (true) {
    const { took, value } = yield* exchange({
      target,
      asked: { operation, job: id },
      call: () => callOf(target, "GET", `status-sync/${encodeURIComponent(id)}`, { hold: hold.millis }),
      read: target.readers.job,
      repeat: "repeatable",
      patience: target.reconnectFor,
      doubt: "The job goes on without this wait: ask for its result again.",
      onFailure: (took) => hold.lost(took)
    })
    if (hasEnded(value)) return value
    const pause = hold.kept(took, false)
    if (pause !== undefined) yield* rest(pause)
  }
}

/** A job as it is now; while IN_PROGRESS `output` is its latest progress. */
export function* status(target: Target, id: string): Program<Job> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "status", job: id },
    call: () => callOf(target, "GET", `status/${encodeURIComponent(id)}`),
    read: target.readers.job,
    repeat: "repeatable",
    patience: target.retryFor
  })
  return value
}

/** Ends a job: a waiting one is dropped, a running one is stopped. The receipt of an ended job says how it had ended. */
export function* cancel(target: Target, id: string): Program<JobReceipt> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "cancel", job: id },
    call: () => callOf(target, "POST", `cancel/${encodeURIComponent(id)}`),
    read: target.readers.receipt,
    repeat: "repeatable",
    patience: target.retryFor
  })
  return value
}

/** Runs a FAILED or TIMED_OUT job again, under its id. Any other gets `Conflict`. */
export function* retry(target: Target, id: string): Program<JobReceipt> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "retry", job: id },
    call: () => callOf(target, "POST", `retry/${encodeURIComponent(id)}`),
    read: target.readers.receipt,
    repeat: "once",
    patience: target.retryFor,
    doubt: "Look at the job's status before you retry it again."
  })
  return value
}

/** Removes all waiting jobs of the endpoint. */
export function* purgeQueue(target: Target): Program<Purged> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "purgeQueue" },
    call: () => callOf(target, "POST", "purge-queue"),
    read: target.readers.purged,
    repeat: "once",
    patience: target.retryFor
  })
  return value
}

/** Jobs and workers of the endpoint, by state. */
export function* health(target: Target): Program<Health> {
  const { value } = yield* exchange({
    target,
    asked: { operation: "health" },
    call: () => callOf(target, "GET", "health"),
    read: target.readers.health,
    repeat: "repeatable",
    patience: target.retryFor
  })
  return value
}

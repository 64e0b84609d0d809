/**
 * Determines whether a failed call is sent again, and how long to pause first. Pure.
 *
 * ```
 *   failure                              sent again
 *   connection not established           always: the platform received nothing
 *   429, 503                             always: the platform accepted nothing (docs/spec/errors.md#status-codes)
 *   408, 500, 502, 504, 52x, no response repeatable calls only: the platform may have processed the request
 *   anything else                        never: the response would be the same
 * ```
 *
 * Repeatable calls: reads (`status`, `health`, waiting for a result, following events), `cancel`, and submissions with an idempotency key.
 * All other calls are sent once. A second submission without a key would create a second job (but if the response's headers have arrived,
 * they contain the job's id, and no second request is needed). When a `stream` response is lost, so are its chunks. A second
 * `retry` would fail because the job is no longer FAILED. A second `purge-queue` would remove jobs that were submitted in between.
 */
import type { Reason } from "../CallError.ts"
import type { Pause } from "./DriverProtocol.ts"

/** Whether a call may be processed twice. */
export type Repeat = "repeatable" | "once"

/** Whether a call that failed for this reason may be sent again. */
export const mayRetry = (reason: Reason, repeat: Repeat): boolean => {
  switch (reason._tag) {
    case "RateLimited":
      return true
    case "Unavailable":
      return reason.status === 503 || repeat === "repeatable"
    case "Unreachable":
      return !reason.sent || repeat === "repeatable"
    case "Unexpected":
      return reason.status === 408 && repeat === "repeatable"
    case "Unauthorized":
    case "NotFound":
    case "Invalid":
    case "TooLarge":
    case "Conflict":
    case "BudgetReached":
    case "Mismatch":
      return false
  }
}

/** The first pause and the longest pause. Milliseconds. The first pause is short because a restart takes about a second. */
const FIRST_PAUSE = 200
const LONGEST_PAUSE = 5_000

/** The pause after `count` failures. It doubles with each failure, and is then reduced by a random amount of up to half. */
export const backoff = (count: number, longest = LONGEST_PAUSE): Pause => {
  const full = Math.min(longest, FIRST_PAUSE * 2 ** Math.min(count - 1, 20))
  return { _tag: "Pause", atLeast: full / 2, spread: full / 2 }
}

/** The pause after `failures` consecutive failures. Never shorter than the response's `Retry-After`. */
export const pauseAfter = (reason: Reason, failures: number): Pause => {
  const pause = backoff(failures)
  const retryAfter = "retryAfter" in reason ? reason.retryAfter ?? 0 : 0
  return { ...pause, atLeast: Math.max(pause.atLeast, retryAfter) }
}

/**
 * When a call is sent again, and after how long. Pure.
 *
 * ```
 *   what happened                        may be sent again
 *   nobody was reached                   always: nothing was received
 *   429, 503                             always: it was refused (contract, Problem.ts: nothing was accepted)
 *   408, 500, 502, 504, 52x, or silence  only what may be done twice: it may have been done
 *   anything else                        never: the answer would be the same
 * ```
 *
 * What may be done twice: looking (`status`, `health`, waiting for a result), following events, `cancel`, and submitting with an
 * idempotency key. What not: submitting without one (it would make two jobs; where the head of the answer came, the job's id is known and
 * nothing has to be sent again), `stream` (an answer that was lost took its chunks with it), `retry` (the second would be told that the job
 * is not FAILED), `purge-queue` (it would remove what came in between).
 */
import type { Reason } from "../CallError.ts"
import type { Pause } from "./DriverProtocol.ts"

/** Whether a call may be done twice. */
export type Repeat = "repeatable" | "once"

/** Whether a call that failed so may be sent again. */
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
    case "Mismatch":
      return false
  }
}

/** The first pause, and the longest. Milliseconds. Short at first, because a restart takes a second; long in the end, because many wait. */
const FIRST = 200
const LONGEST = 5_000

/** The pause that doubles with every one before it, from 1; between half and all of it, by chance. */
export const backoff = (count: number, longest = LONGEST): Pause => {
  const most = Math.min(longest, FIRST * 2 ** Math.min(count - 1, 20))
  return { _tag: "Pause", atLeast: most / 2, spread: most / 2 }
}

/** The pause before a call is sent again, after `failures` failures in a row. Never shorter than the platform asks for. */
export const pauseAfter = (reason: Reason, failures: number): Pause => {
  const usual = backoff(failures)
  const asked = "retryAfter" in reason ? reason.retryAfter ?? 0 : 0
  return { ...usual, atLeast: Math.max(usual.atLeast, asked) }
}

/**
 * A step of a worker's start: its time limit, and how its failure is reported (docs/spec/worker-protocol.md#unhealthy-report).
 *
 * A step that exceeds its limit is interrupted. The interruption is not awaited, because a hung call may ignore it, and the process exits anyway. A
 * step that blocks the thread cannot be ended from here; the platform kills such a worker.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import { sentence } from "../handlers/ThrownValue.ts"
import { JobSource } from "../transport/JobSource.ts"
import { ProcessExit } from "./ProcessExit.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** Timeout for the report. Milliseconds (docs/spec/worker-protocol.md#unhealthy-report). */
export const REPORT_TIMEOUT = 2_000

/** The maximum length of the reason in the report, in characters (docs/spec/worker-protocol.md#unhealthy-report). */
export const MAX_REASON = 256

/** Truncates a string to {@link MAX_REASON} UTF-16 units without splitting a surrogate pair. */
const truncateReason = (text: string) => {
  if (text.length <= MAX_REASON) return text
  const last = text.charCodeAt(MAX_REASON - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? MAX_REASON - 1 : MAX_REASON)
}

/** The error of a failed step: a promise's original rejection, unless the step mapped it to its own error. */
export const thrownBy = (cause: Cause.Cause<unknown>): unknown => {
  const failure = Cause.squash(cause)
  return Cause.isUnknownError(failure) && failure.cause !== undefined ? failure.cause : failure
}

/** Why a step failed, as one line that is never empty: the error's message, or its name if it has no message. */
export const reasonOf = (cause: Cause.Cause<unknown>): string => {
  if (Cause.hasInterruptsOnly(cause)) return "it was interrupted"
  const thrown = thrownBy(cause)
  const text = sentence(thrown).replaceAll(/\s+/g, " ").trim().replace(/\.$/, "")
  return text !== "" ? text : thrown instanceof Error ? thrown.name : "it failed without a reason"
}

/** The exit of a step, including an interruption. None when it exceeds the limit in milliseconds. */
export const awaitExit = <A, E, R>(
  run: Effect.Effect<A, E, R>,
  limit: number
): Effect.Effect<Option.Option<Exit.Exit<A, E>>, never, R> =>
  Effect.flatMap(Effect.forkDetach(run, { startImmediately: true }), (fiber) => {
    const abandon = Effect.forkDetach(Fiber.interrupt(fiber), { startImmediately: true })
    return Fiber.await(fiber).pipe(
      Effect.timeoutOption(limit),
      Effect.tap((exit) => Option.isNone(exit) ? abandon : Effect.void),
      Effect.onInterrupt(() => abandon)
    )
  })

/** Reports the failure of a step to the platform and ends the process at once, without finalizers. The caller has already logged the failure. */
export const end = Effect.fnUntraced(function*(check: string, reason: string) {
  const { identity } = yield* WorkerConfig
  const source = yield* JobSource
  const exitProcess = yield* ProcessExit
  yield* source.ping({
    runpod_version: identity.version,
    status: "unhealthy",
    check: truncateReason(check),
    reason: truncateReason(reason)
  }).pipe(
    Effect.timeoutOption(REPORT_TIMEOUT),
    Effect.catchCause((cause) => Effect.logDebug(`The report of the failed check could not be sent: ${reasonOf(cause)}.`))
  )
  return yield* exitProcess(1)
})

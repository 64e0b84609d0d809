/**
 * Runs the fitness checks before the first take
 * (docs/spec/fitness-checks.md#when-checks-run, docs/spec/fitness-checks.md#a-failed-check, docs/spec/rulings.md#fitness-failure).
 *
 * ```
 *   each check in turn --ok--> ... --ok--> the worker takes jobs
 *          |
 *          +--fails--> ERROR line --> one ping: status=unhealthy, check, reason --> process ends with 1
 *                                     (2 s at most)                                 no finalizer, no `exit` listener runs
 * ```
 *
 * A check times out after 60 s, so that a broken worker is not mistaken for a worker that is loading a model. The runner does not wait
 * until the check is interrupted: a hanging call may ignore the interruption, and the process exits anyway. A check that blocks the thread
 * cannot time out.
 *
 * Checks run one after the other, so that the failure of one check (a GPU that hangs) cannot affect another.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { sentence } from "../handlers/ThrownValue.ts"
import { FitnessChecks } from "../plugins/FitnessChecks.ts"
import { JobSource } from "../transport/JobSource.ts"
import { ProcessExit } from "./ProcessExit.ts"
import { withSpan } from "./Spans.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** Timeout of one check. Milliseconds. */
export const CHECK_TIMEOUT = 60_000

/** Timeout of the report. Milliseconds (docs/spec/worker-protocol.md#unhealthy-report). */
export const REPORT_TIMEOUT = 2_000

/** The maximum length of the reason in the report, in characters (docs/spec/worker-protocol.md#unhealthy-report). */
export const MAX_REASON = 256

/** Cuts a text to {@link MAX_REASON} UTF-16 units without splitting a surrogate pair. */
const truncateReason = (text: string) => {
  if (text.length <= MAX_REASON) return text
  const last = text.charCodeAt(MAX_REASON - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? MAX_REASON - 1 : MAX_REASON)
}

/** Why a check failed, on one line and never empty: the error's message, or its name when it has no message. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  if (Cause.hasInterruptsOnly(cause)) return "it was interrupted"
  const failure = Cause.squash(cause)
  // The original rejection of a promise, when the check did not map it to an error of its own.
  const thrown = Cause.isUnknownError(failure) && failure.cause !== undefined ? failure.cause : failure
  const text = sentence(thrown).replaceAll(/\s+/g, " ").trim().replace(/\.$/, "")
  return text !== "" ? text : thrown instanceof Error ? thrown.name : "it failed without a reason"
}

/** The exit of a check, including an interruption. None when the check times out. */
const awaitExit = (run: Effect.Effect<void, unknown>): Effect.Effect<Option.Option<Exit.Exit<void, unknown>>> =>
  Effect.flatMap(Effect.forkDetach(run, { startImmediately: true }), (fiber) => {
    const abandon = Effect.forkDetach(Fiber.interrupt(fiber), { startImmediately: true })
    return Fiber.await(fiber).pipe(
      Effect.timeoutOption(CHECK_TIMEOUT),
      Effect.tap((exit) => Option.isNone(exit) ? abandon : Effect.void),
      Effect.onInterrupt(() => abandon)
    )
  })

const make = Effect.gen(function*() {
  const { all } = yield* FitnessChecks
  const { endpoint, identity, platform } = yield* WorkerConfig
  const source = yield* JobSource
  const exitProcess = yield* ProcessExit
  if (platform === undefined) return

  const failed = Effect.fnUntraced(function*(check: string, reason: string) {
    yield* Effect.logError(`The fitness check "${check}" failed: ${reason}. This worker takes no jobs and exits with code 1.`)
    yield* source.ping({
      runpod_version: identity.version,
      status: "unhealthy",
      check: truncateReason(check),
      reason: truncateReason(reason)
    }).pipe(
      Effect.timeoutOption(REPORT_TIMEOUT),
      Effect.catchCause((cause) => Effect.logDebug(`Sending the report of the failed check failed: ${reasonOf(cause)}.`))
    )
    return yield* exitProcess(1)
  })

  const checks = yield* all
  if (checks.length === 0) return
  const checked = Effect.gen(function*() {
    const passed: Array<string> = []
    for (const { name, run } of checks) {
      const began = yield* Clock.currentTimeMillis
      const exit = yield* awaitExit(withSpan(`fitness ${name}`)(run))
      if (Option.isNone(exit)) return yield* failed(name, `it did not end within ${CHECK_TIMEOUT / 1000} s`)
      if (Exit.isFailure(exit.value)) return yield* failed(name, reasonOf(exit.value.cause))
      passed.push(`${name} (${(yield* Clock.currentTimeMillis) - began} ms)`)
    }
    yield* Effect.logDebug(`Fitness checks passed: ${passed.join(", ")}.`)
  })
  // One trace for the whole start.
  yield* withSpan(endpoint === undefined ? "start" : `start ${endpoint}`)(checked)
})

/** Completes when every check has passed. Does nothing in local test mode. */
export const layer: Layer.Layer<never, never, FitnessChecks | JobSource | WorkerConfig> = Layer.effectDiscard(make)

/**
 * Checks the machine before the first take
 * (docs/spec/fitness-checks.md#when-checks-run, docs/spec/fitness-checks.md#a-failed-check, docs/spec/rulings.md#fitness-failure).
 *
 * ```
 *   each check in turn --ok--> ... --ok--> the worker goes on to take jobs
 *          |
 *          +--fails--> ERROR line --> one ping: status=unhealthy, check, reason --> process ends with 1
 *                                     (2 s at most)                                 no finalizer runs
 * ```
 *
 * A check that never ends fails after 60 s, so that a worker that can do nothing does not look like one that loads a model. It is
 * left behind then, not waited for: what hangs need not heed an interruption, and the process ends anyway. Only a check that blocks
 * the thread itself is beyond reach.
 *
 * The checks of a healthy machine run one after the other: what one finds (a GPU that hangs) must not hide behind another.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { messageOf } from "../handlers/Outcome.ts"
import { FitnessChecks } from "../plugins/FitnessChecks.ts"
import { JobSource } from "../transport/JobSource.ts"
import { withSpan } from "./Spans.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** How long one check may take. Milliseconds. */
export const CHECK_TIMEOUT = 60_000

/** How long the report may take. Milliseconds (docs/spec/worker-protocol.md#unhealthy-report). */
export const REPORT_TIMEOUT = 2_000

/** How many characters of the reason are reported (docs/spec/worker-protocol.md#unhealthy-report). */
export const MAX_REASON = 256

/**
 * How a process ends at once, without finalizers. Default: `process.exit`, which runs nothing but Node's own `exit` listeners. For tests,
 * and for hosts that are more than one worker.
 */
export const ExitProcess = Context.Reference<(code: number) => Effect.Effect<never>>(
  "@stint/worker/FitnessCheckRunner/ExitProcess",
  {
    defaultValue: () => (code) => Effect.sync(() => process.exit(code))
  }
)

/** The first so many characters; one outside the basic plane is not cut in two. */
const truncateReason = (text: string) => {
  if (text.length <= MAX_REASON) return text
  const last = text.charCodeAt(MAX_REASON - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? MAX_REASON - 1 : MAX_REASON)
}

/** What a check failed with, on one line and never empty: an error without a message is known by its name. */
const reasonOf = (cause: Cause.Cause<unknown>): string => {
  if (Cause.hasInterruptsOnly(cause)) return "it was interrupted"
  const failure = Cause.squash(cause)
  // What a promise was rejected with, where nobody said what to make of it.
  const thrown = Cause.isUnknownError(failure) && failure.cause !== undefined ? failure.cause : failure
  const text = messageOf(thrown).replaceAll(/\s+/g, " ").trim().replace(/\.$/, "")
  return text !== "" ? text : thrown instanceof Error ? thrown.name : "it failed without saying why"
}

/** How a check ends, interrupted or not; none where it does not end in time. */
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
  const { identity, platform } = yield* WorkerConfig
  const source = yield* JobSource
  const exitProcess = yield* ExitProcess
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
      Effect.catchCause((cause) => Effect.logDebug(`The report of the failed check did not arrive: ${reasonOf(cause)}.`))
    )
    return yield* exitProcess(1)
  })

  const passed: Array<string> = []
  for (const { name, run } of yield* all) {
    const began = yield* Clock.currentTimeMillis
    const exit = yield* awaitExit(withSpan(`fitness ${name}`)(run))
    if (Option.isNone(exit)) return yield* failed(name, `it did not end within ${CHECK_TIMEOUT / 1000} s`)
    if (Exit.isFailure(exit.value)) return yield* failed(name, reasonOf(exit.value.cause))
    passed.push(`${name} (${(yield* Clock.currentTimeMillis) - began} ms)`)
  }
  if (passed.length > 0) yield* Effect.logDebug(`Fitness checks passed: ${passed.join(", ")}.`)
})

/** The duty as a layer: it is built when every check has passed. Nothing in local test mode, where the machine is what it is. */
export const layer: Layer.Layer<never, never, FitnessChecks | JobSource | WorkerConfig> = Layer.effectDiscard(make)

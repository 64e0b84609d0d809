/**
 * Checks the machine before the first take (specification 3, 7; rulings, "Fitness failure"; wire-facts 5.7).
 *
 * ```
 *   each check in turn --ok--> ... --ok--> the worker goes on to take jobs
 *          |
 *          +--fails--> ERROR line --> one ping: status=unhealthy, check, reason --> process ends with 1
 *                                     (2 s at most)                                 no finalizer runs
 * ```
 *
 * A check that never ends fails after 60 s, so that a worker that can do nothing does not look like one that loads a model. The
 * checks of a healthy machine run one after the other: what one finds (a GPU that hangs) must not hide behind another.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { FitnessChecks } from "./FitnessChecks.ts"
import { JobSource } from "./JobSource.ts"
import { messageOf } from "./Outcome.ts"
import { withSpan } from "./Spans.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** How long one check may take. Milliseconds. */
export const CHECK_LIMIT = 60_000

/** How long the report may take. Milliseconds (wire-facts 5.7). */
export const REPORT_LIMIT = 2_000

/** How many characters of the reason are reported (wire-facts 5.7). */
export const MAX_REASON = 256

/**
 * How a process ends at once, without finalizers. Default: `process.exit`. For tests, and for hosts that are more than one worker.
 */
export const ExitAtOnce = Context.Reference<(code: number) => Effect.Effect<never>>("@stint/worker/Fitness/ExitAtOnce", {
  defaultValue: () => (code) => Effect.sync(() => process.exit(code))
})

const oneLine = (text: string) => text.replaceAll(/\s+/g, " ").trim()

/** The first so many characters; one outside the basic plane is not cut in two. */
const shortened = (text: string) => {
  if (text.length <= MAX_REASON) return text
  const last = text.charCodeAt(MAX_REASON - 1)
  return text.slice(0, last >= 0xd800 && last <= 0xdbff ? MAX_REASON - 1 : MAX_REASON)
}

const make = Effect.gen(function*() {
  const { all } = yield* FitnessChecks
  const { identity, platform } = yield* WorkerConfig
  const source = yield* JobSource
  const exitAtOnce = yield* ExitAtOnce
  if (platform === undefined) return

  const failed = Effect.fnUntraced(function*(check: string, cause: Cause.Cause<unknown>) {
    const reason = oneLine(messageOf(Cause.squash(cause)))
    yield* Effect.logError(`The fitness check "${check}" failed: ${reason}. This worker takes no jobs and exits with code 1.`)
    yield* source.ping({
      runpod_version: identity.version,
      status: "unhealthy",
      check: shortened(check),
      reason: shortened(reason)
    }).pipe(
      Effect.timeoutOption(REPORT_LIMIT),
      Effect.catch((error) => Effect.logDebug(`The report of the failed check did not arrive: ${error.message}.`))
    )
    return yield* exitAtOnce(1)
  })

  for (const { name, run } of yield* all) {
    yield* run.pipe(
      Effect.timeoutOrElse({
        duration: CHECK_LIMIT,
        orElse: () => Effect.fail(new Error(`it did not end within ${CHECK_LIMIT / 1000} s`))
      }),
      withSpan(`fitness ${name}`),
      Effect.catchCause((cause) => Cause.hasInterruptsOnly(cause) ? Effect.failCause(cause) : failed(name, cause)),
      Effect.orDie
    )
  }
})

/** The duty as a layer: it is built when every check has passed. Nothing in local test mode, where the machine is what it is. */
export const layer: Layer.Layer<never, never, FitnessChecks | JobSource | WorkerConfig> = Layer.effectDiscard(make)

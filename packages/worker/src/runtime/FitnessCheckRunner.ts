/**
 * Runs the fitness checks before the first take
 * (docs/spec/fitness-checks.md#when-checks-run, docs/spec/fitness-checks.md#a-failed-check, docs/spec/rulings.md#fitness-failure).
 *
 * ```
 *   each check in turn --ok--> ... --ok--> the setup, then the worker takes jobs
 *          |
 *          +--fails--> ERROR line --> one ping: status=unhealthy, check, reason --> process ends with 1
 *                                     (2 s at most)                                 no finalizer, no `exit` listener runs
 * ```
 *
 * A check times out after 60 s, so that a hung check is not mistaken for a worker that is loading a model.
 *
 * Checks run one after the other, so that the failure of one (such as a hung GPU) cannot affect another.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { FitnessChecks } from "../plugins/FitnessChecks.ts"
import type { JobSource } from "../transport/JobSource.ts"
import { withSpan } from "./Spans.ts"
import * as StartStep from "./StartStep.ts"
import { WorkerConfig } from "./WorkerConfig.ts"

/** Timeout of one check. Milliseconds. */
export const CHECK_TIMEOUT = 60_000

const failed = Effect.fnUntraced(function*(check: string, reason: string) {
  yield* Effect.logError(`The fitness check "${check}" failed: ${reason}. This worker takes no jobs and exits with code 1.`)
  return yield* StartStep.end(check, reason)
})

const make = Effect.gen(function*() {
  const { all } = yield* FitnessChecks
  const { endpoint, platform } = yield* WorkerConfig
  if (platform === undefined) return

  const checks = yield* all
  if (checks.length === 0) return
  const checked = Effect.gen(function*() {
    const passed: Array<string> = []
    for (const { name, run } of checks) {
      const began = yield* Clock.currentTimeMillis
      const exit = yield* StartStep.awaitExit(withSpan(`fitness ${name}`)(run), CHECK_TIMEOUT)
      if (Option.isNone(exit)) return yield* failed(name, `it did not end within ${CHECK_TIMEOUT / 1000} s`)
      if (Exit.isFailure(exit.value)) return yield* failed(name, StartStep.reasonOf(exit.value.cause))
      passed.push(`${name} (${(yield* Clock.currentTimeMillis) - began} ms)`)
    }
    yield* Effect.logDebug(`Fitness checks passed: ${passed.join(", ")}.`)
  })
  // One trace covers the whole start.
  yield* withSpan(endpoint === undefined ? "start" : `start ${endpoint}`)(checked)
})

/** Completes when every check has passed. Does nothing in local test mode. */
export const layer: Layer.Layer<never, never, FitnessChecks | JobSource | WorkerConfig> = Layer.effectDiscard(make)

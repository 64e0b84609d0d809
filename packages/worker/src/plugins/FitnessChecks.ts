/**
 * What has to be true of a machine before a worker may take jobs on it
 * (docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#when-checks-run, docs/spec/fitness-checks.md#registering-a-check).
 *
 * ```
 *   plugins, handlers: add --> [ check, check, ... ] --all pass--> the first take
 *                                        \--one fails--> one report to the platform --> exit code 1, at once, no cleanup
 * ```
 *
 * A plugin adds its checks while its layer is built. They run on a platform only: in local test mode the machine is what it is.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

/** One check. Failing with anything, or dying, fails it; the message of what it failed with is the reason that the platform shows. */
export interface FitnessCheck {
  /** What the report calls it, such as `memory`. */
  readonly name: string
  readonly run: Effect.Effect<void, unknown>
}

/** All checks of this worker. */
export class FitnessChecks extends Context.Service<FitnessChecks, {
  /** Adds one, to be run after those that were added before. */
  readonly add: (check: FitnessCheck) => Effect.Effect<void>
  /** All of them, in order. */
  readonly all: Effect.Effect<ReadonlyArray<FitnessCheck>>
}>()("@stint/worker/FitnessChecks") {}

/** An empty list that plugins add to. */
export const layer: Layer.Layer<FitnessChecks> = Layer.sync(FitnessChecks, () => {
  const checks: Array<FitnessCheck> = []
  return {
    add: (check) => Effect.sync(() => void checks.push(check)),
    all: Effect.sync(() => [...checks])
  }
})

/** A layer that adds one check. What the check acquires is released when the check has ended. */
export const layerOf = <R>(
  name: string,
  run: Effect.Effect<void, unknown, R>
): Layer.Layer<never, never, FitnessChecks | Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { add } = yield* FitnessChecks
    const context = yield* Effect.context<Exclude<R, Scope.Scope>>()
    yield* add({ name, run: Effect.provideContext(Effect.scoped(run), context) })
  }))

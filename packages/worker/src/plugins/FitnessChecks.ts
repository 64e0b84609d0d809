/**
 * Fitness checks: conditions that a machine must meet before a worker takes jobs on it
 * (docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#when-checks-run, docs/spec/fitness-checks.md#registering-a-check).
 *
 * ```
 *   plugins, handlers: add --> [ check, check, ... ] --all pass--> the first take
 *                                        \--one fails--> one report to the platform --> exit code 1, at once, no cleanup
 * ```
 *
 * A layer adds its checks while it is built, and the checks run in the order in which they were added. Merged layers are built
 * concurrently, so checks must not depend on each other; to fix an order, provide one layer to the other. Checks run only on a platform,
 * not in local test mode.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"

/** One check. Any failure or defect fails the check, and the error's message is the reason that the platform shows. */
export interface FitnessCheck {
  /** The name in the report, such as `memory`. */
  readonly name: string
  readonly run: Effect.Effect<void, unknown>
}

/** The checks of this worker. */
export class FitnessChecks extends Context.Service<FitnessChecks, {
  /** Adds a check after the existing ones. */
  readonly add: (check: FitnessCheck) => Effect.Effect<void>
  /** All checks, in order. */
  readonly all: Effect.Effect<ReadonlyArray<FitnessCheck>>
}>()("@stint/worker/FitnessChecks") {}

/** An empty list. */
export const layer: Layer.Layer<FitnessChecks> = Layer.sync(FitnessChecks, () => {
  const checks: Array<FitnessCheck> = []
  return {
    add: (check) => Effect.sync(() => void checks.push(check)),
    all: Effect.sync(() => [...checks])
  }
})

/** A layer that adds one check. Resources that the check acquires are released when it ends. */
export const layerOf = <R>(
  name: string,
  run: Effect.Effect<void, unknown, R>
): Layer.Layer<never, never, FitnessChecks | Exclude<R, Scope.Scope>> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { add } = yield* FitnessChecks
    const context = yield* Effect.context<Exclude<R, Scope.Scope>>()
    yield* add({ name, run: Effect.provideContext(Effect.scoped(run), context) })
  }))

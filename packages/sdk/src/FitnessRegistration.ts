/**
 * The fitness checks that plain code registers before it calls `start` (docs/spec/fitness-checks.md#registering-a-check).
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** A check: it fails by throwing, or by a promise that is rejected. */
export type FitnessCheck = () => unknown

interface Registered {
  readonly name: string
  readonly check: FitnessCheck
}

/** One process is one worker, so its checks are the process's; `start` reads them. */
const registered: Array<Registered> = []

/**
 * Registers a check of this machine, to be run before the worker takes its first job; a decorator, or a plain call. Answers the check
 * itself.
 *
 * A check fails by throwing, or by a promise that is rejected. The worker then reports its name and the reason to the platform and exits
 * with code 1 at once. Checks run one after the other, in the order of their registration, after the automatic ones; each has 60 s. In
 * local test mode none is run.
 *
 * @throws TypeError when it is given no function
 *
 * @example
 * ```ts
 * sdk.serverless.register_fitness_check(async function modelIsThere() {
 *   await access("/models/sd15.safetensors")
 * })
 * ```
 */
export const register_fitness_check = <Check extends FitnessCheck>(check: Check): Check => {
  if (typeof check !== "function") {
    throw new TypeError(`register_fitness_check needs a function, not ${check === null ? "null" : typeof check}.`)
  }
  registered.push({ name: check.name === "" ? `check ${registered.length + 1}` : check.name, check })
  return check
}

/** The registered checks, for the worker that `start` makes. */
export const layer: Layer.Layer<never, never, FitnessChecks.FitnessChecks> = Layer.effectDiscard(
  Effect.flatMap(
    FitnessChecks.FitnessChecks,
    ({ add }) =>
      Effect.forEach(
        registered,
        ({ check, name }) => add({ name, run: Effect.promise(async () => void await check()) })
      )
  )
)

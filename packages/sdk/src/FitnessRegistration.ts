/**
 * The fitness checks that a handler file registers before it calls `start` (docs/spec/fitness-checks.md#registering-a-check).
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** A check. It fails when it throws or returns a promise that rejects. Its return value is ignored. */
export type FitnessCheck = () => unknown

interface Registered {
  readonly name: string
  readonly check: FitnessCheck
}

/** The checks of this process, which runs a single worker. `start` reads them. */
const registered: Array<Registered> = []

/**
 * Registers a fitness check, which runs before the worker takes its first job. Returns the check, so it works as a decorator and as a
 * plain call. Register checks before `start`.
 *
 * A check fails when it throws, or when its promise rejects. The worker then reports the name of the check and the reason to the platform,
 * and exits with code 1. Checks run one after another, in the order of registration, after the automatic checks. Each check times out after
 * 60 s. In local test mode, no checks run. A check is named after its function.
 *
 * @throws TypeError when `check` is not a function
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

/** Adds the registered checks to the worker. */
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

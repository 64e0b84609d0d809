/**
 * Checks that CUDA starts on every GPU (docs/spec/fitness-checks.md#automatic-checks).
 *
 * The check passes when the probe is unavailable (see `CudaProbe`).
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { CudaProbe } from "./CudaProbe.ts"
import { FitnessCheckFailed } from "./FitnessCheckFailed.ts"

/** The check's name in reports. */
export const NAME = "cuda_init"

/** Fails when the driver cannot be loaded or started, finds no GPU, or cannot create a context on one. */
export const check = Effect.gen(function*() {
  const { result } = yield* CudaProbe
  const found = yield* result
  if (found._tag === "Failed" && found.part === "init") return yield* new FitnessCheckFailed({ check: NAME, message: found.why })
})

/**
 * Adds the check `cuda_init`.
 *
 * @public
 */
export const layer: Layer.Layer<never, never, CudaProbe | FitnessChecks.FitnessChecks> = FitnessChecks.layerOf(NAME, check)

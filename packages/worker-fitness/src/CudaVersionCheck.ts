/**
 * Checks that the GPU driver supports the CUDA version that handlers were built for
 * (docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks).
 *
 * It compares the driver's version, from the header of `nvidia-smi`, because the CUDA libraries of a container need a driver that supports
 * them. When the header contains no readable version, the check passes with a warning.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"
import * as NvidiaSmi from "./NvidiaSmi.ts"

/** Options for the check. */
export interface Options extends NvidiaSmi.Options {
  /** Numbers separated by points, such as `11.8`. */
  readonly minimum: string
  /** The variable that sets the minimum, for the message. Default: none. */
  readonly setting?: string
}

/** The check's name in reports. */
export const NAME = "cuda_version"

/** Fails when the driver's version is lower, when the driver has no CUDA, and when `nvidia-smi` fails. */
export const check = Effect.fnUntraced(function*(options: Options) {
  const { minimum, setting } = options
  const version = NvidiaSmi.cudaVersion(yield* NvidiaSmi.output(NAME, [], options))
  if (version === undefined) {
    return yield* Effect.logWarning("The CUDA version cannot be read from the output of nvidia-smi, so it is not checked.")
  }
  const required = `${minimum} is required${settingSuffix(setting)}`
  if (version === "N/A") {
    return yield* new FitnessCheckFailed({
      check: NAME,
      message: `the GPU driver supports no CUDA, but ${required}; a container needs NVIDIA_DRIVER_CAPABILITIES with "compute"`
    })
  }
  if (NvidiaSmi.compareVersions(version, minimum) >= 0) return
  return yield* new FitnessCheckFailed({
    check: NAME,
    message: `the GPU driver supports CUDA ${version}, but ${required}; update the driver`
  })
})

/**
 * Adds the check `cuda_version`.
 *
 * @public
 */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf(NAME, check(options))

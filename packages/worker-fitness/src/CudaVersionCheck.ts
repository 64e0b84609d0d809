/**
 * Does the GPU driver offer the CUDA version that handlers were built for
 * (docs/spec/fitness-checks.md#variables, docs/spec/fitness-checks.md#automatic-checks)?
 *
 * The version is the driver's, from the header of `nvidia-smi`: what a container brings along needs a driver that can run it. Where the
 * header has no version that can be read, the check passes with a line in the log.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"
import * as NvidiaSmi from "./NvidiaSmi.ts"

/** What the check asks for. */
export interface Options extends NvidiaSmi.Options {
  /** Numbers and points, such as `11.8`. */
  readonly minimum: string
  /** What to change for another minimum, for the message: the name of a variable. Default: none. */
  readonly setting?: string
}

/** The check's name in reports. */
export const NAME = "cuda_version"

/** Fails where the driver's version is lower, where it has no CUDA at all, and where `nvidia-smi` fails. */
export const check = Effect.fnUntraced(function*(options: Options) {
  const { minimum, setting } = options
  const version = NvidiaSmi.cudaVersion(yield* NvidiaSmi.output(NAME, [], options))
  if (version === undefined) {
    return yield* Effect.logWarning("The CUDA version cannot be read from the output of nvidia-smi: it is not checked.")
  }
  const required = `${minimum} is required${settingSuffix(setting)}`
  if (version === "N/A") {
    return yield* new FitnessCheckFailed({
      check: NAME,
      message: `the GPU driver offers no CUDA and ${required}; a container needs NVIDIA_DRIVER_CAPABILITIES with "compute"`
    })
  }
  if (NvidiaSmi.compareVersions(version, minimum) >= 0) return
  return yield* new FitnessCheckFailed({
    check: NAME,
    message: `the GPU driver offers CUDA ${version} and ${required}; update the driver`
  })
})

/** Adds the check `cuda_version`. */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf(NAME, check(options))

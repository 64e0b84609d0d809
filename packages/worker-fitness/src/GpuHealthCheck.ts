/**
 * Checks that all GPUs respond and have no memory errors (docs/spec/fitness-checks.md#automatic-checks).
 *
 * It reads each GPU's name, memory, temperature and uncorrectable memory errors from `nvidia-smi`. It does not read the kernel's reports of
 * GPU faults (XID): they are in the host's log, which a container cannot read. Serious faults also show here, as a lost or unknown GPU.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed } from "./FitnessCheckFailed.ts"
import * as NvidiaSmi from "./NvidiaSmi.ts"

/** The check's name in reports. */
export const NAME = "gpu_health"

/** Fails when there is no GPU, when a GPU does not respond or has uncorrectable errors, and when `nvidia-smi` fails. */
export const check = Effect.fnUntraced(function*(options: NvidiaSmi.Options = {}) {
  const gpuErrors = NvidiaSmi.gpuErrors(yield* NvidiaSmi.output(NAME, NvidiaSmi.QUERY, options))
  if (gpuErrors.length > 0) return yield* new FitnessCheckFailed({ check: NAME, message: gpuErrors.join("; ") })
})

/**
 * Adds the check `gpu_health`.
 *
 * @public
 */
export const layer = (options: NvidiaSmi.Options = {}): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf(NAME, check(options))

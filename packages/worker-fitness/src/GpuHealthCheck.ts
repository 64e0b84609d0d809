/**
 * Do all GPUs answer, and is their memory sound (docs/spec/fitness-checks.md#automatic-checks)?
 *
 * It asks `nvidia-smi` for each GPU's name, memory, temperature and uncorrectable memory errors. The kernel's own reports of GPU faults (XID)
 * are not looked at: they are in the log of the host, which a container does not see. The faults that matter show here as a GPU that is
 * lost or unknown.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { FitnessCheckFailed } from "./FitnessCheckFailed.ts"
import * as NvidiaSmi from "./NvidiaSmi.ts"

/** The check's name in reports. */
export const NAME = "gpu_health"

/** Fails where there is no GPU, where one does not answer or has uncorrectable errors, and where `nvidia-smi` fails. */
export const check = Effect.fnUntraced(function*(options: NvidiaSmi.Options = {}) {
  const gpuErrors = NvidiaSmi.gpuErrors(yield* NvidiaSmi.output(NAME, NvidiaSmi.QUERY, options))
  if (gpuErrors.length > 0) return yield* new FitnessCheckFailed({ check: NAME, message: gpuErrors.join("; ") })
})

/** Adds the check `gpu_health`. */
export const layer = (options: NvidiaSmi.Options = {}): Layer.Layer<never, never, FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf(NAME, check(options))

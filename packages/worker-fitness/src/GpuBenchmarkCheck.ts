/**
 * Checks that every GPU computes correctly and fast enough (docs/spec/fitness-checks.md#automatic-checks).
 *
 * The workload is small: it fills and copies 32 MiB eight times and compares the result. The best of three rounds counts, so that a short
 * load by another process does not fail the check. A healthy GPU of any age needs a few milliseconds; a GPU that throttles or has a bad
 * link needs many times that. The workload multiplies no matrices: use `GpuTestCheck` to test your own kernel.
 *
 * The check passes when the probe is unavailable (see `CudaProbe`).
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { CudaProbe } from "./CudaProbe.ts"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"

/** Options for the check. */
export interface Options {
  /**
   * The time limit for the workload. Default: {@link DEFAULT_LIMIT}. Seconds. RunPod's SDK used 0.1 and now uses 2: a lower limit also
   * fails GPUs that are merely slow or in use by other processes.
   */
  readonly limit?: number
  /** The variable that sets the limit, for the message. Default: none. */
  readonly setting?: string
}

/** Generous, because a slow GPU is better than none. Seconds. */
const DEFAULT_LIMIT = 2

/** The check's name in reports. */
export const NAME = "gpu_benchmark"

/** Fails when a GPU cannot run the workload, returns wrong data, or takes longer than the limit. */
export const check = Effect.fnUntraced(function*({ limit = DEFAULT_LIMIT, setting }: Options = {}) {
  const { result } = yield* CudaProbe
  const found = yield* result
  if (found._tag === "Failed") return yield* new FitnessCheckFailed({ check: NAME, message: found.why })
  if (found._tag === "Unavailable") return
  for (const [index, { ms, name }] of found.devices.entries()) {
    if (ms <= limit * 1000) continue
    return yield* new FitnessCheckFailed({
      check: NAME,
      message: `GPU ${index} (${name}) took ${Number(ms.toPrecision(3))} ms for the benchmark; the limit is ${limit * 1000} ms${
        settingSuffix(setting)
      }`
    })
  }
})

/**
 * Adds the check `gpu_benchmark`.
 *
 * @public
 */
export const layer = (options: Options = {}): Layer.Layer<never, never, CudaProbe | FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf(NAME, check(options))

/**
 * Does every GPU work, and fast enough (docs/spec/fitness-checks.md#automatic-checks)?
 *
 * The work is small: 32 MiB are filled and copied eight times, and what arrives is compared. The best of three rounds counts, so that a
 * neighbour's burst is no fault. A GPU of any age needs a few milliseconds for it; one that throttles, or whose link has broken down, many
 * times that. It multiplies no matrices: for the speed of a kernel of your own there is `GpuTestCheck`.
 *
 * Where nothing can try it (see `CudaProbe`), the check passes.
 */
import * as FitnessChecks from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import { CudaProbe } from "./CudaProbe.ts"
import { FitnessCheckFailed, settingSuffix } from "./FitnessCheckFailed.ts"

/** What the check asks for. */
export interface Options {
  /**
   * How long the work may take. Default: {@link DEFAULT_LIMIT}. Seconds. The described SDK has had 0.1 and has 2: less finds GPUs that are
   * merely slow, and GPUs that others work on at the same time.
   */
  readonly limit?: number
  /** What to change for another limit, for the message: the name of a variable. Default: none. */
  readonly setting?: string
}

/** Generous, because a slow GPU is better than none. Seconds. */
export const DEFAULT_LIMIT = 2

/** The check's name in reports. */
export const NAME = "gpu_benchmark"

/** Fails where a GPU does not do the work, does it wrong, or takes longer. */
export const check = Effect.fnUntraced(function*({ limit = DEFAULT_LIMIT, setting }: Options = {}) {
  const { result } = yield* CudaProbe
  const found = yield* result
  if (found._tag === "Failed") return yield* new FitnessCheckFailed({ check: NAME, message: found.why })
  if (found._tag === "Unavailable") return
  for (const [index, { ms, name }] of found.devices.entries()) {
    if (ms <= limit * 1000) continue
    return yield* new FitnessCheckFailed({
      check: NAME,
      message: `GPU ${index} (${name}) took ${Math.round(ms)} ms for the benchmark, ${limit * 1000} ms are allowed${
        settingSuffix(setting)
      }`
    })
  }
})

/** Adds the check `gpu_benchmark`. */
export const layer = (options: Options = {}): Layer.Layer<never, never, CudaProbe | FitnessChecks.FitnessChecks> =>
  FitnessChecks.layerOf(NAME, check(options))

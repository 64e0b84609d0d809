/**
 * The group of GPU checks, the most informative first (docs/spec/fitness-checks.md#automatic-checks).
 *
 * ```
 *   gpu_health --> cuda_version --> cuda_init --> gpu_benchmark --> gpu_test
 *   nvidia-smi     nvidia-smi       \---- python3, one run ---/     the user's command, if set
 * ```
 *
 * The order matters for a lost GPU: the first check reports it clearly, while the third would hang until its time limit.
 */
import type { FitnessCheck } from "@stint/worker/FitnessChecks"
import { FitnessChecks } from "@stint/worker/FitnessChecks"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as CudaInitCheck from "./CudaInitCheck.ts"
import * as CudaProbe from "./CudaProbe.ts"
import * as CudaVersionCheck from "./CudaVersionCheck.ts"
import * as GpuBenchmarkCheck from "./GpuBenchmarkCheck.ts"
import * as GpuHealthCheck from "./GpuHealthCheck.ts"
import * as GpuTestCheck from "./GpuTestCheck.ts"

/** Options for the group. */
export interface Options {
  readonly version: CudaVersionCheck.Options
  /** Undefined when there is no python3: `cuda_init` and `gpu_benchmark` then pass. */
  readonly probe: CudaProbe.Options | undefined
  readonly benchmark: GpuBenchmarkCheck.Options
  /** Undefined: no `gpu_test`. */
  readonly test: GpuTestCheck.Options | undefined
}

/** The checks, in the order in which they run. */
export const checks = ({ benchmark, probe, test, version }: Options): Effect.Effect<ReadonlyArray<FitnessCheck>> =>
  Effect.gen(function*() {
    const cuda = yield* Effect.scoped(Layer.build(
      probe === undefined ? CudaProbe.layerUnavailable("there is no python3 in the PATH") : CudaProbe.layer(probe)
    ))
    return [
      { name: GpuHealthCheck.NAME, run: GpuHealthCheck.check(version) },
      { name: CudaVersionCheck.NAME, run: CudaVersionCheck.check(version) },
      { name: CudaInitCheck.NAME, run: Effect.provide(CudaInitCheck.check, cuda) },
      { name: GpuBenchmarkCheck.NAME, run: Effect.provide(GpuBenchmarkCheck.check(benchmark), cuda) },
      ...(test === undefined ? [] : [{ name: GpuTestCheck.NAME, run: GpuTestCheck.check(test) }])
    ]
  })

/**
 * Adds all GPU checks.
 *
 * @public
 */
export const layer = (options: Options): Layer.Layer<never, never, FitnessChecks> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const { add } = yield* FitnessChecks
    for (const check of yield* checks(options)) yield* add(check)
  }))

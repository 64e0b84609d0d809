/**
 * The automatic checks of the machine, as its variables want them
 * (docs/spec/fitness-checks.md#automatic-checks, docs/spec/fitness-checks.md#variables; see `FitnessConfig`).
 *
 * ```
 *   on a platform --> memory, disk, network --> nvidia-smi in the PATH? --> gpu_health, cuda_version, cuda_init, gpu_benchmark, gpu_test
 *        |                                           \--no: no GPU group
 *        +--SKIP_AUTO_SYSTEM_CHECKS: none of these
 * ```
 *
 * They are run by the worker before its first take, in this order, with those that a handler adds itself.
 */
import { FitnessChecks } from "@stint/worker/FitnessChecks"
import { WorkerConfig } from "@stint/worker/WorkerConfig"
import type { Platform, WorkerConfigError } from "@stint/worker/WorkerConfig"
import type { ConfigError } from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { urlToHttpOptions } from "node:url"
import * as DiskCheck from "./DiskCheck.ts"
import * as FitnessConfig from "./FitnessConfig.ts"
import * as GpuChecks from "./GpuChecks.ts"
import * as MemoryCheck from "./MemoryCheck.ts"
import * as NetworkCheck from "./NetworkCheck.ts"
import * as Programs from "./Programs.ts"

/** Host and port of where jobs come from. */
const addressOf = ({ take }: Platform) => {
  const url = new URL(take)
  const secure = url.protocol === "https:"
  return { host: String(urlToHttpOptions(url).hostname), port: url.port === "" ? (secure ? 443 : 80) : Number(url.port) }
}

/** The checks of the GPUs; none where there is no `nvidia-smi`, where they are hidden from this worker, or where the variables say so. */
const gpuChecks = Effect.fnUntraced(function*(settings: FitnessConfig.Settings) {
  const { benchmarkLimit, gpuHidden, gpuLimit, minimumCudaVersion, path, skipGpu, testCommand } = settings
  const nvidiaSmi = skipGpu || gpuHidden ? undefined : Programs.find("nvidia-smi", path)
  if (nvidiaSmi === undefined) return []
  const python = Programs.find("python3", path)
  const limit = gpuLimit.value
  return yield* GpuChecks.checks({
    version: { nvidiaSmi, limit, minimum: minimumCudaVersion.value, setting: minimumCudaVersion.name },
    probe: python === undefined ? undefined : { python, limit },
    benchmark: { limit: benchmarkLimit.value, setting: benchmarkLimit.name },
    test: testCommand === undefined ? undefined : { command: testCommand.value, limit, setting: testCommand.name }
  })
})

const make = Effect.gen(function*() {
  const settings = yield* FitnessConfig.settings
  const { add } = yield* FitnessChecks
  const { platform } = yield* WorkerConfig
  if (platform === undefined) return
  const { minimumDiskPercent, minimumMemoryGb, networkLimit, skipAll } = settings
  if (skipAll !== undefined) {
    return yield* Effect.logDebug(`No automatic fitness checks: ${skipAll} is set.`)
  }
  // What a test provides in place of the machine reaches the checks when they are run.
  const context = yield* Effect.context()
  const checks = [
    {
      name: "memory",
      run: MemoryCheck.check({ minimumGb: minimumMemoryGb.value, setting: minimumMemoryGb.name })
    },
    {
      name: "disk",
      run: DiskCheck.check({ minimumPercent: minimumDiskPercent.value, setting: minimumDiskPercent.name })
    },
    {
      name: "network",
      run: NetworkCheck.check({ ...addressOf(platform), limit: networkLimit.value, setting: networkLimit.name })
    },
    ...(yield* gpuChecks(settings))
  ]
  for (const { name, run } of checks) yield* add({ name, run: Effect.provideContext(run, context) })
})

/** Adds all of them. A variable with a value of no use stops the boot: the error names it, its value, and what it has to be. */
export const layer: Layer.Layer<never, WorkerConfigError | ConfigError, FitnessChecks | WorkerConfig> = Layer.effectDiscard(make)

/**
 * The automatic checks for the machine, configured by environment variables
 * (docs/spec/fitness-checks.md#automatic-checks, docs/spec/fitness-checks.md#variables; see `FitnessConfig`).
 *
 * ```
 *   on a platform --> memory, disk, network --> nvidia-smi in the PATH? --> gpu_health, cuda_version, cuda_init, gpu_benchmark, gpu_test
 *        |                                           \--no: no GPU group
 *        +--SKIP_AUTO_SYSTEM_CHECKS: none of these
 * ```
 *
 * The worker runs them before its first take, in this order, together with the checks that the user adds.
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

/** The host and port of the platform, from its URL for taking jobs. */
const addressOf = ({ take }: Platform) => {
  const url = new URL(take)
  const secure = url.protocol === "https:"
  return { host: String(urlToHttpOptions(url).hostname), port: url.port === "" ? (secure ? 443 : 80) : Number(url.port) }
}

/** The GPU checks. None when there is no `nvidia-smi`, when the GPUs are hidden from this worker, or when a variable skips them. */
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
  // The checks run later; this context passes on the services that a test provides instead of the real machine.
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

/** Adds all automatic checks. An invalid variable prevents the start, with an error that names it, its value and the expected format. */
export const layer: Layer.Layer<never, WorkerConfigError | ConfigError, FitnessChecks | WorkerConfig> = Layer.effectDiscard(make)
